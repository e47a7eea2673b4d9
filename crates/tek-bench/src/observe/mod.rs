// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench observe` (tek-2020, III-A): the delays of two critical threads beside CPU-bound
//! threads, conventional and under TEK; and the CPU shares of four threads with nice values 1 to 4.

mod delays;
mod shares;

use super::json::without_numbers;
use super::output::{spinner, Options, Output, Results};
use delays::Plan;
use std::process::ExitCode;

/// Arguments of `tek bench observe`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench observe                        about a minute
  tek bench observe --seconds 40           a longer look
  tek bench observe --json result.json     the numbers for other programs

EXIT STATUS:
  0 if it ran, 2 if the command line was not understood, 125 if it failed.")]
pub struct Args {
    /// Rounds; in each the threads are watched once conventional and once under TEK
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Watch the critical threads this long, with CPU-bound threads in the middle half
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=600))]
    seconds: u16,
    /// CPU-bound threads in each of the four groups
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=50))]
    hogs: u16,
    /// Measure the CPU shares this long
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=60))]
    share_seconds: u16,
    #[command(flatten)]
    options: Options,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let output = Output::begin("", &args.options)?;
    let spinner = spinner();
    spinner.set_message("watching two critical threads, conventional and under TEK");
    let plan = Plan { rounds: args.rounds, seconds: args.seconds, hogs: args.hogs };
    let session = delays::measure(&plan)?;
    spinner.set_message("measuring the CPU shares of four threads");
    let measured = shares::measure(args.share_seconds)?;
    spinner.finish_and_clear();

    let sections = vec![
        delays::report(&session, args.seconds, output.terminal),
        without_numbers(&session.not_run, &session.failed),
        shares::report(&measured, output.terminal),
    ];
    let mut rows = delays::rows(&session);
    rows.extend(shares::rows(&measured));
    let raw = serde_json::json!({
        "conventional": session.conventional,
        "tek-name": session.tek,
        "shares": measured.shares,
    });
    let (not_run, failed) = (&session.not_run, &session.failed);
    output.end(sections, Results { bench: "observe", rows, not_run, failed, raw })?;
    Ok(ExitCode::SUCCESS)
}
