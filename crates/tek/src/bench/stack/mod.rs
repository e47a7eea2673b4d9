// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench stack` (tek-2020, IV-B and V-D): what stacks take, what of them is used, and how
//! many threads fit, with the C library's stacks and with those that TEK fits.

mod beside;
mod births;
mod churn;
mod fit;
mod lab;
mod live;
mod locked;
mod spread;
mod steady;
mod verdict;

use super::host::Host;
use super::json::{self, Document, NotRun};
use super::output;
use super::terminal::Terminal;
use fit::Place;
use indicatif::ProgressBar;
use lab::Lab;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `tek bench stack`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench stack                          some minutes
  tek bench stack --quick                  half a minute
  tek bench stack --days 15 --hour-ms 60000
                                           threads that come and go, for six hours of real time
  tek bench stack --json result.json       the numbers for other programs
  tek bench stack --assert                 exit status 1 if a bar is missed

What is learnt goes to a temporary directory, never to the profiles of this machine.

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and TEK was measured too
  seldom or fell short, 2 if the command line was not understood, 125 if it failed.")]
pub struct Args {
    /// Simulated days in which threads come and go
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..=60))]
    days: u16,
    /// Real time of an hour of them, in ms
    #[arg(long, default_value_t = 1, value_name = "MS",
          value_parser = clap::value_parser!(u32).range(0..=3_600_000))]
    hour_ms: u32,
    /// Fewer runs and rounds
    #[arg(long)]
    quick: bool,
    /// Also write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with status 1, and say why, unless every bar is met, in as many runs as it asks for
    #[arg(long)]
    assert: bool,
}

/// How often each is measured.
struct Plan {
    /// Runs in which use varies, tight and auto.
    tight: usize,
    auto: usize,
    /// Creations that are tried where room is short.
    creations: u32,
    /// Processes of each variant that create threads.
    births: usize,
}

const FULL: Plan = Plan { tight: 50, auto: 200, creations: 20_000, births: 31 };
const QUICK: Plan = Plan { tight: 5, auto: 5, creations: 10_000, births: 5 };

/// Everything that was measured; what is empty or `None` could not be.
#[derive(Default, serde::Serialize)]
pub struct Measured {
    spread: Vec<spread::Run>,
    steady: Vec<steady::Measured>,
    churn: Vec<churn::Run>,
    fit: Vec<fit::Run>,
    live: Option<live::Measured>,
    births: Option<births::Measured>,
    beside: Vec<beside::Run>,
    locked: locked::Measured,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let terminal = Terminal::of_stdout();
    let host = Host::read();
    // A reader such as `head` that has seen enough makes a write fail, not panic.
    let mut out = std::io::stdout().lock();
    output::begin(&host, &mut out)?;

    let (measured, not_run) = measure(args)?;
    let judged = verdict::judge(&measured);
    let sections = vec![
        spread::report(&measured.spread, terminal),
        steady::report(&measured.steady, terminal),
        churn::report(&measured.churn, terminal),
        fit::report(&measured.fit, terminal),
        measured.live.as_ref().map_or_else(String::new, live::report),
        measured.births.as_ref().map_or_else(String::new, |it| births::report(it, terminal)),
        beside::report(&measured.beside, terminal),
        locked::report(&measured.locked),
        super::verdict::report(&judged, terminal),
        json::without_numbers(&not_run, &[]),
    ];
    output::print(sections, &host, &mut out)?;

    if let Some(path) = &args.json {
        let mut rows = spread::rows(&measured.spread);
        rows.extend(steady::rows(&measured.steady));
        rows.extend(churn::rows(&measured.churn));
        rows.extend(fit::rows(&measured.fit));
        rows.extend(measured.live.iter().flat_map(live::rows));
        rows.extend(measured.births.iter().flat_map(births::rows));
        rows.extend(beside::rows(&measured.beside));
        rows.extend(locked::rows(&measured.locked));
        rows.extend(super::verdict::rows(&judged));
        let document = Document {
            bench: "stack",
            host: &host,
            rows,
            not_run: &not_run,
            failed: &[],
            raw: &measured,
        };
        json::write(path, &document)?;
    }
    if !args.assert {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(output::asserted(&verdict::failures(&judged, &measured)))
}

/// The parts, one after the other. One that fails is named with its reason, and the others run.
fn measure(args: &Args) -> anyhow::Result<(Measured, Vec<NotRun>)> {
    let plan = if args.quick { &QUICK } else { &FULL };
    let lab = Lab::open()?;
    let mut session = Session::start();
    let mut measured = Measured::default();

    let part = "273 threads at once";
    measured.spread = session.all(part, "conventional", || spread::conventional(&lab));
    let profiles = lab.profiles("spread")?;
    let tek = session.all(part, "TEK", || spread::under_tek(&lab, &profiles));
    measured.spread.extend(tek);

    for (series, runs) in [(steady::TIGHT, plan.tight), (steady::AUTO, plan.auto)] {
        let part = format!("273 threads that use ±{}%", series.percent);
        let spinner = session.spinner.clone();
        let progress = |run| spinner.set_message(format!("{part}, {run} of {runs}"));
        let done =
            session.one(&part, series.mode, || steady::measure(&lab, series, runs, progress));
        measured.steady.extend(done);
    }

    let churn = churn::Plan { days: args.days, hour_ms: args.hour_ms };
    let part = "threads that come and go";
    measured.churn = session.all(part, "conventional", || churn::conventional(&lab, churn));
    let profiles = lab.profiles("churn")?;
    let tek = session.all(part, "TEK", || churn::under_tek(&lab, churn, &profiles));
    measured.churn.extend(tek);

    for place in Place::ALL {
        let creations = plan.creations;
        let conventional = || fit::conventional(&lab, place, creations);
        measured.fit.extend(session.all(place.name(), "conventional", conventional));
        let tek = || fit::under_tek(&lab, place, creations);
        measured.fit.extend(session.one(place.name(), "TEK", tek));
    }

    measured.live = session.one("measuring a running thread", "TEK", || live::measure(&lab));
    let spinner = session.spinner.clone();
    let rounds = plan.births;
    let part = "creating and joining a thread";
    let progress = |round| spinner.set_message(format!("{part}, {round} of {rounds}"));
    measured.births = session.one(part, "TEK", || births::measure(&lab, rounds, progress));

    let part = "measuring every thread";
    let beside = [
        session.one(part, "glibc", || beside::conventional(&lab)),
        session.one(part, "TEK", || beside::under_tek(&lab)),
        session.one(part, "stackusage", || beside::under_stackusage(&lab)),
    ];
    measured.beside = beside.into_iter().flatten().collect();

    let part = "300 threads and mlockall";
    measured.locked.conventional = session.one(part, "conventional", || locked::conventional(&lab));
    measured.locked.fitted = session.one(part, "TEK", || locked::under_tek(&lab));
    session.spinner.finish_and_clear();
    Ok((measured, session.not_run))
}

/// Shows what is being measured, and keeps what could not be.
struct Session {
    spinner: ProgressBar,
    not_run: Vec<NotRun>,
}

impl Session {
    fn start() -> Session {
        let spinner = ProgressBar::new_spinner();
        spinner.enable_steady_tick(Duration::from_millis(200));
        Session { spinner, not_run: Vec::new() }
    }

    fn one<T>(
        &mut self,
        part: &str,
        variant: &str,
        measure: impl FnOnce() -> anyhow::Result<T>,
    ) -> Option<T> {
        let name = format!("{part}, {variant}");
        self.spinner.set_message(name.clone());
        match measure() {
            Ok(measured) => Some(measured),
            Err(error) => {
                self.not_run.push(NotRun { variant: name, reason: format!("{error:#}") });
                None
            }
        }
    }

    fn all<T>(
        &mut self,
        part: &str,
        variant: &str,
        measure: impl FnOnce() -> anyhow::Result<Vec<T>>,
    ) -> Vec<T> {
        self.one(part, variant, measure).unwrap_or_default()
    }
}
