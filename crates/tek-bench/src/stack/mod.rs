// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench stack` (tek-2020, IV-B and V-D): the size of stacks, their use, and the number of
//! threads that fit, with the C library's stacks and with those that TEK fits.

mod beside;
mod births;
mod churn;
mod fit;
mod lab;
mod live;
mod locked;
mod quantities;
mod spread;
mod steady;

use super::json::{without_numbers, NotRun};
use super::output::{spinner, JudgeOptions, Output, Results};
use super::verdict::judge;
use fit::Place;
use indicatif::ProgressBar;
use lab::Lab;
use std::process::ExitCode;

/// Arguments of `tek bench stack`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench stack                          some minutes
  tek bench stack --quick                  half a minute
  tek bench stack --figures                the two of the paper, a minute on an emulated board
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
    /// Only what the paper's figures 11 and 12 show: what 273 threads allocate and use, and how
    /// many of 2,000 can be created where a process has 3 GiB of addresses
    #[arg(long, conflicts_with_all = ["days", "hour_ms"])]
    figures: bool,
    #[command(flatten)]
    judge: JudgeOptions,
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
const QUICK: Plan = Plan { tight: 3, auto: 3, creations: fit::PAPER_CREATIONS, births: 3 };

/// All measurements; a part that is empty or `None` could not be measured.
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
    let output = Output::begin("", &args.judge.options)?;
    let (measured, not_run) = measure(args)?;
    let parts = if args.figures { &["figures"][..] } else { &quantities::PARTS };
    let judged = judge("stack", parts, &measured.quantities());
    let terminal = output.terminal;
    let sections = vec![
        spread::report(&measured.spread, terminal),
        steady::report(&measured.steady, terminal),
        churn::report(&measured.churn, terminal),
        fit::report(&measured.fit, terminal),
        measured.live.as_ref().map_or_else(String::new, live::report),
        measured.births.as_ref().map_or_else(String::new, |it| births::report(it, terminal)),
        beside::report(&measured.beside, terminal),
        locked::report(&measured.locked),
        judged.report(terminal),
        without_numbers(&not_run, &[]),
        output.caution(),
    ];
    let mut rows = spread::rows(&measured.spread);
    rows.extend(steady::rows(&measured.steady));
    rows.extend(churn::rows(&measured.churn));
    rows.extend(fit::rows(&measured.fit));
    rows.extend(measured.live.iter().flat_map(live::rows));
    rows.extend(measured.births.iter().flat_map(births::rows));
    rows.extend(beside::rows(&measured.beside));
    rows.extend(locked::rows(&measured.locked));
    rows.extend(judged.rows());
    let results = Results { bench: "stack", rows, not_run: &not_run, failed: &[], raw: &measured };
    output.end(sections, results)?;
    Ok(args.judge.exit_code(&judged, Vec::new()))
}

/// Runs the parts, one after the other. A part that fails is named with its reason, and the next
/// part runs.
fn measure(args: &Args) -> anyhow::Result<(Measured, Vec<NotRun>)> {
    let lab = Lab::open()?;
    let mut session = Session::start();
    let mut measured = Measured::default();
    if args.figures {
        measure_at_once(&lab, &mut session, &mut measured)?;
        measure_fit(&lab, &mut session, &mut measured, &[Place::ThreeGib], fit::PAPER_CREATIONS);
    } else {
        let plan = if args.judge.quick { &QUICK } else { &FULL };
        measure_at_once(&lab, &mut session, &mut measured)?;
        measure_steady(&lab, &mut session, &mut measured, plan);
        let churn = churn::Plan { days: args.days, hour_ms: args.hour_ms };
        measure_churn(&lab, &mut session, &mut measured, churn)?;
        measure_fit(&lab, &mut session, &mut measured, &Place::ALL, plan.creations);
        measure_costs(&lab, &mut session, &mut measured, plan);
    }
    session.spinner.finish_and_clear();
    Ok((measured, session.not_run))
}

fn measure_at_once(
    lab: &Lab,
    session: &mut Session,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let part = "273 threads at once";
    measured.spread = session.all(part, "conventional", || spread::conventional(lab));
    let profiles = lab.profiles("spread")?;
    let tek = session.all(part, "TEK", || spread::under_tek(lab, &profiles));
    measured.spread.extend(tek);
    Ok(())
}

fn measure_steady(lab: &Lab, session: &mut Session, measured: &mut Measured, plan: &Plan) {
    for (series, runs) in [(steady::TIGHT, plan.tight), (steady::AUTO, plan.auto)] {
        let part = format!("273 threads that use ±{}%", series.percent);
        let spinner = session.spinner.clone();
        let progress = |run| spinner.set_message(format!("{part}, {run} of {runs}"));
        let done = session.one(&part, series.mode, || steady::measure(lab, series, runs, progress));
        measured.steady.extend(done);
    }
}

fn measure_churn(
    lab: &Lab,
    session: &mut Session,
    measured: &mut Measured,
    plan: churn::Plan,
) -> anyhow::Result<()> {
    let part = "threads that come and go";
    measured.churn = session.all(part, "conventional", || churn::conventional(lab, plan));
    let profiles = lab.profiles("churn")?;
    let tek = session.all(part, "TEK", || churn::under_tek(lab, plan, &profiles));
    measured.churn.extend(tek);
    Ok(())
}

fn measure_fit(
    lab: &Lab,
    session: &mut Session,
    measured: &mut Measured,
    places: &[Place],
    creations: u32,
) {
    for &place in places {
        let conventional = || fit::conventional(lab, place, creations);
        measured.fit.extend(session.all(place.name(), "conventional", conventional));
        let tek = || fit::under_tek(lab, place, creations);
        measured.fit.extend(session.one(place.name(), "TEK", tek));
    }
}

fn measure_costs(lab: &Lab, session: &mut Session, measured: &mut Measured, plan: &Plan) {
    measured.live = session.one("measuring a running thread", "TEK", || live::measure(lab));
    let spinner = session.spinner.clone();
    let rounds = plan.births;
    let part = "creating and joining a thread";
    let progress = |round| spinner.set_message(format!("{part}, {round} of {rounds}"));
    measured.births = session.one(part, "TEK", || births::measure(lab, rounds, progress));

    let part = "measuring every thread";
    let beside = [
        session.one(part, "glibc", || beside::conventional(lab)),
        session.one(part, "TEK", || beside::under_tek(lab)),
        session.one(part, "stackusage", || beside::under_stackusage(lab)),
    ];
    measured.beside = beside.into_iter().flatten().collect();

    let part = "300 threads and mlockall";
    measured.locked.conventional = session.one(part, "conventional", || locked::conventional(lab));
    measured.locked.fitted = session.one(part, "TEK", || locked::under_tek(lab));
}

/// Shows the current measurement, and collects those that failed.
struct Session {
    spinner: ProgressBar,
    not_run: Vec<NotRun>,
}

impl Session {
    fn start() -> Session {
        Session { spinner: spinner(), not_run: Vec::new() }
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
