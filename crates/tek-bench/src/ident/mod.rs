// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench ident` (tek-2020, IV-C): the cost of identifying every thread.

mod births;
mod calls;
mod memory;
mod ps;
mod quantities;
mod snapshot;

use super::output::{spinner, JudgeOptions, Output, Results};
use super::verdict::judge;
use anyhow::Context;
use std::process::ExitCode;

/// Arguments of `tek bench ident`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench ident                          about half a minute
  tek bench ident --quick                  a few seconds
  tek bench ident --json result.json       the numbers for other programs
  tek bench ident --assert                 exit status 1 if a bar is missed

Often enough, for --assert, are 11 rounds, as without --quick.

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and TEK was measured too
  seldom or fell short, 2 if the command line was not understood, 125 if it failed.")]
pub struct Args {
    /// Threads of the process whose threads are looked at
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u16).range(2..=30000))]
    threads: u16,
    #[command(flatten)]
    judge: JudgeOptions,
}

/// How often each is measured.
struct Plan {
    /// Batches of each call.
    calls: usize,
    snapshots: usize,
    /// Processes of each variant that create threads.
    births: usize,
    /// The same, free to use every CPU: for information.
    unpinned_births: usize,
}

const FULL: Plan = Plan { calls: 501, snapshots: 51, births: 31, unpinned_births: 11 };
const QUICK: Plan = Plan { calls: 21, snapshots: 5, births: 3, unpinned_births: 2 };

/// Everything that was measured.
#[derive(serde::Serialize)]
pub struct Measured {
    calls: calls::Measured,
    snapshot: snapshot::Measured,
    ps: ps::Measured,
    memory: memory::Measured,
    births: births::Measured,
    unpinned_births: births::Measured,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let output = Output::begin("", &args.judge.options)?;
    let measured = measure(args.threads, if args.judge.quick { &QUICK } else { &FULL })?;
    let judged = judge("ident", quantities::PARTS, &measured.quantities());
    let terminal = output.terminal;
    let sections = vec![
        calls::report(&measured.calls, terminal),
        snapshot::report(&measured.snapshot, terminal),
        ps::report(&measured.ps),
        births::report(&measured.births, &measured.unpinned_births, terminal),
        memory::report(&measured.memory),
        judged.report(terminal),
        output.caution(),
    ];
    let mut rows = calls::rows(&measured.calls);
    rows.extend(snapshot::rows(&measured.snapshot));
    rows.extend(ps::rows(&measured.ps));
    rows.extend(births::rows("create and join", &measured.births));
    rows.extend(births::rows("create and join, unpinned", &measured.unpinned_births));
    rows.extend(memory::rows(&measured.memory));
    rows.extend(judged.rows());
    let results = Results { bench: "ident", rows, not_run: &[], failed: &[], raw: &measured };
    output.end(sections, results)?;
    Ok(args.judge.exit_code(&judged, Vec::new()))
}

fn measure(threads: u16, plan: &Plan) -> anyhow::Result<Measured> {
    // The tables of the programs that are measured, apart from the tables of all other programs.
    let directory = tempfile::tempdir().context("cannot make a directory for tables")?;
    let spinner = spinner();

    spinner.set_message(format!("measuring calls in a process of {threads} threads"));
    let crowd = calls::Crowd::start(directory.path(), threads, plan.calls)?;
    spinner.set_message(format!("taking snapshots of its {threads} threads"));
    let snapshot = snapshot::measure(&crowd, plan.snapshots)?;
    let ps = ps::measure(&crowd)?;
    let memory = memory::measure(&crowd)?;
    let calls = crowd.end()?;

    spinner.set_message("creating threads with and without libtek.so");
    let births = births::measure(directory.path(), plan.births, true)?;
    let unpinned_births = births::measure(directory.path(), plan.unpinned_births, false)?;
    spinner.finish_and_clear();
    Ok(Measured { calls, snapshot, ps, memory, births, unpinned_births })
}
