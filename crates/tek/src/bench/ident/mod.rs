// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench ident` (tek-2020, IV-C): what it costs to know what every thread is.

mod births;
mod calls;
mod memory;
mod ps;
mod snapshot;
mod verdict;

use super::host::Host;
use super::json::{self, Document};
use super::output;
use super::terminal::Terminal;
use anyhow::Context;
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `tek bench ident`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench ident                          about half a minute
  tek bench ident --quick                  a few seconds
  tek bench ident --json result.json       the numbers for other programs
  tek bench ident --assert                 exit status 1 if a bar is missed

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and TEK was measured too
  seldom or fell short, 2 if the command line was not understood, 125 if it failed.")]
pub struct Args {
    /// Threads of the process whose threads are looked at
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u16).range(2..=30000))]
    threads: u16,
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// Also write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with status 1, and say why, unless every bar is met, in at least 11 rounds
    #[arg(long)]
    assert: bool,
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
const QUICK: Plan = Plan { calls: 51, snapshots: 11, births: 5, unpinned_births: 3 };

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
    let terminal = Terminal::of_stdout();
    let host = Host::read();
    // A reader such as `head` that has seen enough makes a write fail, not panic.
    let mut out = std::io::stdout().lock();
    output::begin(&host, &mut out)?;

    let measured = measure(args.threads, if args.quick { &QUICK } else { &FULL })?;
    let judged = verdict::judge(&measured);
    let sections = vec![
        calls::report(&measured.calls, terminal),
        snapshot::report(&measured.snapshot, terminal),
        ps::report(&measured.ps),
        births::report(&measured.births, &measured.unpinned_births, terminal),
        memory::report(&measured.memory),
        super::verdict::report(&judged, terminal),
    ];
    output::print(sections, &host, &mut out)?;

    if let Some(path) = &args.json {
        let mut rows = calls::rows(&measured.calls);
        rows.extend(snapshot::rows(&measured.snapshot));
        rows.extend(ps::rows(&measured.ps));
        rows.extend(births::rows("create and join", &measured.births));
        rows.extend(births::rows("create and join, unpinned", &measured.unpinned_births));
        rows.extend(memory::rows(&measured.memory));
        rows.extend(super::verdict::rows(&judged));
        let document = Document {
            bench: "ident",
            host: &host,
            rows,
            not_run: &[],
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

fn measure(threads: u16, plan: &Plan) -> anyhow::Result<Measured> {
    // The tables of the programs that are measured, out of the way of all others.
    let directory = tempfile::tempdir().context("cannot make a directory for tables")?;
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));

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
