// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench uthread` (uthreads, 5): user-level threads beside the kernel's and other libraries'.

mod cell;
mod engine;
mod fairness;
mod micro;
mod million;
mod preemption;
mod programs;
mod quantities;
mod scale;
mod tables;

use super::json::{without_numbers, NotRun, Row};
use super::output::{spinner, JudgeOptions, Output, Results};
use super::verdict::{judge, Verdicts};
use clap::ValueEnum;
use programs::Extent;
use serde::Serialize;
use std::process::ExitCode;
use tek_command::values::kind::name_of;

/// Arguments of `tek bench uthread`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench uthread                              about ten minutes
  tek bench uthread --quick                      some seconds, to see whether it runs
  tek bench uthread --parts programs --full      all of the paper's tables; a quarter of an hour
  tek bench uthread --parts micro --rounds 3     what single calls cost
  tek bench uthread --parts scale                what more workers, and smaller locks, gain
  tek bench uthread --json result.json           the numbers for other programs
  tek bench uthread --assert                     exit status 1 if a bar is missed

The paper's programs are plain pthread programs; user-level threads come to them by preloading
libtek-uthread.so. What is on one worker runs on one CPU, and so does what it is compared with.
A million live threads need 16 GB of memory that is free.

Often enough, for --assert, are 9 rounds, and a million threads, as without --quick.

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and TEK was measured too
  seldom or fell short, 2 if the command line was not understood, 125 if it failed.")]
pub struct Args {
    /// What to measure, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    parts: Vec<Part>,
    /// Every program with 5, 10, 100 threads, every quantum and every scheduler
    #[arg(long)]
    full: bool,
    /// Rounds; in each every variant runs once [default: 9 of what is judged and 3 of the rest,
    /// or 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// How many live threads there are at once [default: 1000000, or 20000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    live: Option<u64>,
    #[command(flatten)]
    judge: JudgeOptions,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Part {
    /// The paper's seven programs
    Programs,
    /// Switch, yield, create and join, mutex, condition variable; what preemption costs
    Micro,
    /// Very many live threads
    Million,
    /// Shares, wake-ups, turnaround, priorities
    Fairness,
    /// Yields and hand-overs with more and more workers, under each kind of lock
    Scale,
}

/// How much is measured.
struct Plan {
    judged_rounds: usize,
    rounds: usize,
    little: bool,
    /// Processes of each library, and batches of each call in each.
    calls: usize,
    batches: usize,
    preemption: usize,
    fairness: usize,
    fairness_ms: u64,
    live: u64,
    scale: usize,
    scale_times: u64,
}

const FULL: Plan = Plan {
    judged_rounds: 9,
    rounds: 3,
    little: false,
    calls: 9,
    batches: 31,
    preemption: 21,
    fairness: 3,
    fairness_ms: 2000,
    live: 1_000_000,
    scale: 3,
    scale_times: 300_000,
};
const QUICK: Plan = Plan {
    judged_rounds: 1,
    rounds: 1,
    little: true,
    calls: 1,
    batches: 5,
    preemption: 1,
    fairness: 1,
    fairness_ms: 100,
    live: 20_000,
    scale: 1,
    scale_times: 1000,
};

impl Plan {
    fn of(args: &Args) -> Plan {
        let mut plan = if args.judge.quick { QUICK } else { FULL };
        if let Some(rounds) = args.rounds.map(usize::from) {
            let all = [&mut plan.judged_rounds, &mut plan.rounds, &mut plan.calls];
            all.into_iter().for_each(|it| *it = rounds);
            (plan.preemption, plan.fairness, plan.scale) = (rounds, rounds, rounds);
        }
        plan.live = args.live.unwrap_or(plan.live);
        plan
    }
}

/// All measurements; `None`: it was not requested.
#[derive(Default, Serialize)]
struct Measured {
    programs: Option<programs::Measured>,
    micro: Option<micro::Measured>,
    preemption: Option<preemption::Measured>,
    million: Option<million::Measured>,
    fairness: Option<fairness::Measured>,
    scale: Option<scale::Measured>,
    /// The failures of the programs.
    #[serde(skip)]
    failed: Vec<NotRun>,
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

    let (measured, not_run) = measure(args, &parts, output.host.cpus)?;
    let terminal = output.terminal;
    let judged = judge("uthread", parts.iter().map(|&part| name_of(part)), &measured.quantities());
    let mut sections = Vec::new();
    sections.extend(measured.programs.iter().flat_map(|it| tables::report(it, terminal)));
    sections.extend(measured.micro.iter().map(|it| micro::report(it, terminal)));
    sections.extend(measured.preemption.iter().map(|it| preemption::report(it, terminal)));
    sections.extend(measured.million.iter().map(|it| million::report(it, terminal)));
    sections.extend(measured.fairness.iter().map(|it| fairness::report(it, terminal)));
    sections.extend(measured.scale.iter().flat_map(|it| scale::report(it, terminal)));
    sections.extend([
        judged.report(terminal),
        without_numbers(&not_run, &measured.failed),
        output.caution(),
    ]);
    let results = Results {
        bench: "uthread",
        rows: rows(&measured, &judged),
        not_run: &not_run,
        failed: &measured.failed,
        raw: &measured,
    };
    output.end(sections, results)?;
    Ok(args.judge.exit_code(&judged, Vec::new()))
}

fn rows(measured: &Measured, judged: &Verdicts) -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(measured.programs.iter().flat_map(programs::rows));
    rows.extend(measured.micro.iter().flat_map(micro::rows));
    rows.extend(measured.preemption.iter().flat_map(preemption::rows));
    rows.extend(measured.million.iter().flat_map(million::rows));
    rows.extend(measured.fairness.iter().flat_map(fairness::rows));
    rows.extend(measured.scale.iter().flat_map(scale::rows));
    rows.extend(judged.rows());
    rows
}

/// Runs the parts, one after the other. A part that fails is named with its reason, and the next
/// part runs.
fn measure(args: &Args, parts: &[Part], cpus: usize) -> anyhow::Result<(Measured, Vec<NotRun>)> {
    let plan = Plan::of(args);
    let (mut measured, mut not_run) = (Measured::default(), Vec::new());
    let spinner = spinner();
    for part in parts {
        match part {
            Part::Programs => {
                let extent = Extent {
                    judged_rounds: plan.judged_rounds,
                    rounds: plan.rounds,
                    full: args.full,
                    little: plan.little,
                };
                let (it, failed) = spinner.suspend(|| programs::measure(&extent, cpus))?;
                measured.programs = Some(it);
                measured.failed = failed;
            }
            Part::Micro => {
                let (it, missing) = micro::measure(plan.calls, plan.batches, &spinner);
                measured.micro = Some(it);
                not_run.extend(missing);
                let (it, missing) = preemption::measure(plan.preemption, &spinner);
                measured.preemption = Some(it);
                not_run.extend(missing);
            }
            Part::Million => {
                let (it, missing) = million::measure(plan.live, &spinner);
                measured.million = Some(it);
                not_run.extend(missing);
            }
            Part::Fairness => {
                let (it, missing) = fairness::measure(plan.fairness, plan.fairness_ms, &spinner);
                measured.fairness = Some(it);
                not_run.extend(missing);
            }
            Part::Scale => {
                let extent = scale::Extent { rounds: plan.scale, times: plan.scale_times, cpus };
                let (it, missing) = scale::measure(&extent, &spinner);
                measured.scale = Some(it);
                not_run.extend(missing);
            }
        }
    }
    spinner.finish_and_clear();
    Ok((measured, not_run))
}
