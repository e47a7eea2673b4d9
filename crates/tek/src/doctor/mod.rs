// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek doctor`: the abilities of this kernel and this user, and the cures for missing ones.
mod check;
mod checks;
mod interrupts;
mod kernel_threads;
mod libraries;
mod render;
mod throttling;
mod trial;
mod uthread;

use check::Check;
use serde::Serialize;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek doctor
  tek doctor --json | jq '.backends[] | select(.usable == false)'

Each `no` is followed by its cure. Run it as the user, and from the place
(shell, service, container), from which your program is started: privileges and
control groups belong to the process.

EXIT STATUS:
    0  time-critical threads can be had: the backend rt can be used
    1  they cannot, but perhaps through tekd: `tek status`
  125  TEK itself failed
    2  an option was not understood";

/// Arguments of `tek doctor`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Whether this kernel and this user allow a way to put threads first.
#[derive(Debug, Serialize)]
pub struct Backend {
    /// `rt`, `fair` or `scx`.
    pub name: &'static str,
    /// Whether they do.
    pub usable: bool,
    /// Its base, or what it lacks.
    pub why: String,
    /// The cure if it is not usable.
    pub cure: Option<String>,
}

/// All findings: a stable format, to which fields may be added.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    schema: u32,
    kernel: String,
    checks: Vec<Check>,
    backends: Vec<Backend>,
}

/// Runs the checks, and prints the results.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let diagnosis = diagnose();
    if args.json {
        use std::io::Write;
        writeln!(std::io::stdout(), "{}", crate::json::pretty(&diagnosis)?)?;
    } else {
        render::print(&diagnosis, &mut anstream::stdout())?;
    }
    let rt = diagnosis.backends.iter().any(|backend| backend.name == "rt" && backend.usable);
    Ok(if rt { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn diagnose() -> Diagnosis {
    let trial = trial::run();
    Diagnosis {
        schema: 1,
        kernel: checks::kernel(),
        backends: vec![checks::rt_backend(&trial), checks::fair_backend(), checks::scx_backend()],
        checks: checks::all(&trial),
    }
}
