// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench device` (cpu-mediator-2019, 3.1; tek-2020, IV-A and V-C): touch events answered by
//! one program while other programs of other users use every CPU. And the cost of tekd, and the
//! share that it reserves.

mod faults;
#[cfg(test)]
mod fixture;
mod floor;
mod load;
mod quantities;
mod rest;
mod rounds;
mod setup;
mod summary;
mod switches;

use super::appliance;
use super::daemon::{Backend, Daemon, Settings};
use super::ground::{Copied, Ground};
use super::json::{without_numbers, NotRun, Row};
use super::output::{spinner, JudgeOptions, Output, Results};
use super::verdict::{judge, Verdicts};
use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use setup::{Setup, SESSIONS, TWENTY, TWO_HUNDRED};
use std::process::ExitCode;
use switches::{Beside, Way};
use tek_command::values::kind::name_of;

/// Arguments of `tek bench device`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench device                         everything, some 10 minutes
  tek bench device --quick                 less than a minute
  tek bench device --parts faults --seed 7 other kills
  tek bench device --json result.json      the numbers for other programs
  tek bench device --assert                exit status 1 if a bar is missed

A tekd is started for it, which touches what the benchmark started and nothing else.
For some seconds time-critical threads take all but some 5% of each CPU: not on a device in use.

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and TEK was measured too
  seldom or fell short, 2 if the command line was not understood, 125 if it failed.")]
pub struct Args {
    /// Rounds of touch events; in each every variant runs once [default: 9, or 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Kills of tekd, its clients and both [default: 1000, or 30 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    faults: Option<u32>,
    /// Of the kills: when, and which program
    #[arg(long, default_value_t = 6)]
    seed: u64,
    /// What to measure, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    parts: Vec<Part>,
    #[command(flatten)]
    judge: JudgeOptions,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Part {
    /// Touch events beside the load
    Response,
    /// What is left to others beside critical threads that never wait
    Floor,
    /// How long it takes to become critical and normal again
    Switches,
    /// What tekd uses while no thread is critical
    Rest,
    /// Kills at any moment, and whether everything is as before
    Faults,
}

/// Programs of the benchmark, with the names under which they are started. Rules of tekd name them.
const PROGRAMS: [Copied; 9] = [
    ("response", "appliance", "appliance"),
    ("response", "appliance-tek", "appliance-tek"),
    ("device", "load", "media"),
    ("device", "load", "network"),
    ("device", "load", "updater"),
    ("device", "load", "indexer"),
    ("device", "switches", "switches"),
    ("device", "spinners", "spinners"),
    ("device", "switcher", "switcher"),
];

/// How much is measured.
struct Plan {
    rounds: usize,
    events: usize,
    /// The events of a run where they take long, by the number of hogs.
    slow_events: fn(usize) -> usize,
    loads: &'static [setup::Load],
    floor_s: u64,
    switches: usize,
    rest_s: u64,
    kills: usize,
}

const FULL: Plan = Plan {
    rounds: 9,
    events: 25,
    slow_events: |hogs| if hogs > 20 { 3 } else { 12 },
    loads: &[TWENTY, TWO_HUNDRED, SESSIONS],
    floor_s: 12,
    switches: 500,
    rest_s: 10,
    kills: 1000,
};
const QUICK: Plan = Plan {
    rounds: 1,
    events: 3,
    slow_events: |_| 1,
    loads: &[TWENTY, TWO_HUNDRED],
    floor_s: 2,
    switches: 30,
    rest_s: 1,
    kills: 30,
};

/// All measurements; a part that is empty or `None` could not be measured.
#[derive(Default, Serialize)]
struct Measured {
    #[serde(serialize_with = "by_name")]
    response: Option<rounds::Session>,
    floor: Vec<floor::Measured>,
    switches: Vec<switches::Measured>,
    rest: Option<rest::Measured>,
    faults: Option<faults::Measured>,
}

fn by_name<S: Serializer>(session: &Option<rounds::Session>, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    for (setup, runs) in session.iter().flat_map(|session| &session.runs) {
        map.serialize_entry(&setup.name(), runs)?;
    }
    map.end()
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let output = Output::begin("", &args.judge.options)?;
    let mut parts = args.parts.clone();
    if parts.is_empty() {
        parts = Part::value_variants().to_vec();
    }
    parts.sort();
    parts.dedup();

    let (measured, not_run) = measure(args, &parts)?;
    let terminal = output.terminal;
    let judged = judge("device", parts.iter().map(|&part| name_of(part)), &measured.quantities());
    let session = measured.response.as_ref();
    let summaries = session.map(summary::summarize).unwrap_or_default();
    let failed = session.map_or(&[][..], |session| &session.failed);
    let sections = vec![
        summary::report(&summaries, terminal),
        floor::report(&measured.floor, terminal),
        switches::report(&measured.switches, terminal),
        measured.rest.as_ref().map_or_else(String::new, rest::report),
        measured.faults.as_ref().map_or_else(String::new, faults::report),
        judged.report(terminal),
        without_numbers(&not_run, failed),
        output.caution(),
        summary::headline(&summaries),
    ];
    let results = Results {
        bench: "device",
        rows: rows(&measured, &summaries, &judged),
        not_run: &not_run,
        failed,
        raw: &measured,
    };
    output.end(sections, results)?;
    Ok(args.judge.exit_code(&judged, Vec::new()))
}

fn rows(measured: &Measured, summaries: &summary::Summaries, judged: &Verdicts) -> Vec<Row> {
    let mut rows = summary::rows(summaries);
    rows.extend(floor::rows(&measured.floor));
    rows.extend(switches::rows(&measured.switches));
    rows.extend(measured.rest.iter().flat_map(rest::rows));
    rows.extend(measured.faults.iter().flat_map(faults::rows));
    rows.extend(judged.rows());
    rows
}

/// Runs the parts, one after the other. A part that fails is named with its reason, and the next
/// part runs.
fn measure(args: &Args, parts: &[Part]) -> anyhow::Result<(Measured, Vec<NotRun>)> {
    let ground = Ground::prepare(&PROGRAMS, None)?;
    let plan = if args.judge.quick { &QUICK } else { &FULL };
    let iterations_per_ms = appliance::calibrate(&ground.path("appliance"))?;
    let mut lab = Lab { ground, iterations_per_ms, spinner: spinner(), not_run: Vec::new() };
    let mut measured = Measured::default();
    for part in parts {
        match part {
            Part::Response => {
                let rounds = args.rounds.map_or(plan.rounds, usize::from);
                measured.response = Some(lab.response(plan, rounds));
            }
            Part::Floor => measured.floor = lab.floor(plan.floor_s),
            Part::Switches => measured.switches = lab.switches(plan.switches),
            Part::Rest => {
                measured.rest =
                    lab.one("tekd at rest", |lab| rest::measure(&lab.ground, plan.rest_s));
            }
            Part::Faults => {
                let kills = args.faults.map_or(plan.kills, |kills| kills as usize);
                measured.faults = lab.faults(kills, args.seed);
            }
        }
    }
    lab.spinner.finish_and_clear();
    let mut not_run = lab.not_run;
    not_run.extend(measured.response.iter().flat_map(|session| session.not_run.clone()));
    Ok((measured, not_run))
}

/// The ground of the measurements, and the parts that could not be measured.
struct Lab {
    ground: Ground,
    iterations_per_ms: u64,
    spinner: ProgressBar,
    not_run: Vec<NotRun>,
}

impl Lab {
    fn one<T>(&mut self, name: &str, measure: impl FnOnce(&Lab) -> anyhow::Result<T>) -> Option<T> {
        self.spinner.set_message(name.to_owned());
        match measure(self) {
            Ok(measured) => Some(measured),
            Err(error) => {
                let reason = format!("{error:#}");
                self.not_run.push(NotRun { variant: name.to_owned(), reason });
                None
            }
        }
    }

    fn response(&mut self, plan: &Plan, rounds: usize) -> rounds::Session {
        let &Plan { events, slow_events, loads, .. } = plan;
        let (setups, iterations_per_ms) = (Setup::all(loads), self.iterations_per_ms);
        let plan = rounds::Plan { rounds, events, slow_events, setups, iterations_per_ms };
        rounds::measure(&plan, &self.ground)
    }

    fn floor(&mut self, seconds: u64) -> Vec<floor::Measured> {
        let measure = |backend: Backend| {
            self.one(&format!("floor, {}", backend.name()), |lab| {
                floor::measure(&lab.ground, backend, seconds, lab.iterations_per_ms)
            })
        };
        [Backend::Rt, Backend::Fair].into_iter().filter_map(measure).collect()
    }

    fn switches(&mut self, count: usize) -> Vec<switches::Measured> {
        let beside = [
            Beside::Nothing,
            Beside::Hogs(20),
            Beside::Idle(20),
            Beside::Idle(200),
            Beside::Idle(2000),
        ];
        let strict = |backend| beside.map(|beside| (Way::Strict(backend), beside));
        let limit = [(Way::Limit, Beside::Nothing), (Way::Limit, Beside::Hogs(20))];
        let all = [Backend::Rt, Backend::Fair].into_iter().flat_map(strict).chain(limit);
        let measure = |(way, beside): (Way, Beside)| {
            self.one(&format!("switches, {}", way.reported(beside)), |lab| {
                switches::measure(&lab.ground, way, beside, count, lab.iterations_per_ms)
            })
        };
        all.filter_map(measure).collect()
    }

    /// Under all settings that work here.
    fn faults(&mut self, kills: usize, seed: u64) -> Option<faults::Measured> {
        let work = |(name, settings): &(&'static str, Settings)| {
            let name = format!("faults, {name}");
            self.one(&name, |lab| Daemon::start(&lab.ground, *settings)?.stop()).is_some()
        };
        let settings: Vec<_> = faults::settings().into_iter().filter(work).collect();
        if settings.is_empty() {
            return None;
        }
        self.one("faults", |lab| faults::measure(&lab.ground, kills, seed, &settings, &lab.spinner))
    }
}
