// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench response` (tek-2020, V-B and V-C; cpu-mediator-2019, 4.1): touch events
//! answered by an ordinary pthread program while its other threads use every CPU.

mod assertion;
#[cfg(test)]
mod fixture;
pub mod report;
mod rounds;
mod summary;
mod variant;
mod verdict;

use super::census::Census;
use super::host::Host;
use super::json::{self, Document, Row};
use super::terminal::Terminal;
use super::{appliance, programs, table};
use clap::ValueEnum;
use rounds::{Plan, Session};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use variant::{Programs, Variant};

/// Arguments of `tek bench response`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench response                       all variants, about 5 minutes
  tek bench response --quick               the main ones, about half a minute
  tek bench response --json result.json    the numbers for other programs
  tek bench response --assert              exit status 1 if a bar is missed

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and a variant of TEK
  was not measured, was measured too seldom or fell short, 2 if the command line was not understood, 125 if it failed.")]
pub struct Args {
    /// Rounds; in each every variant runs once [default: 9, or 3 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Touch events in each run [default: 25, or 12 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    events: Option<u16>,
    /// CPU-bound threads in each of the four groups
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=50))]
    hogs: u16,
    /// Variants to compare, separated by commas [default: all, or the main ones with --quick]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    variants: Vec<Variant>,
    /// Fewer rounds, events and variants
    #[arg(long)]
    quick: bool,
    /// Also write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with status 1, and say why, unless every selected variant of TEK was measured in
    /// at least 9 rounds and 200 events and meets every bar
    #[arg(long)]
    assert: bool,
}

const QUICK: [Variant; 5] =
    [Variant::Alone, Variant::AloneAgain, Variant::Conventional, Variant::Nice, Variant::TekName];

/// Groups of CPU-bound threads in the appliance.
const GROUPS: usize = 4;

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let programs = Programs {
        tek: programs::own_executable()?,
        appliance: programs::find("response", "appliance")?,
        appliance_tek: programs::find("response", "appliance-tek").ok(),
    };
    let terminal = Terminal::of_stdout();
    let host = Host::read();
    let plan = plan(args, &programs)?;
    let hogs = plan.hogs * GROUPS;
    // A reader such as `head` that has seen enough makes a write fail, not panic.
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "touch -> ui -> render: 20 ms of CPU work an event, beside {hogs} CPU-bound threads\n{}",
        host.describe()
    )?;
    if let Some(warning) = host.warning() {
        eprintln!("tek: warning: {warning}");
    }

    let before = Census::take();
    let session = rounds::measure(&plan, &programs)?;
    let changes = before.changes(&Census::take());

    let summaries = summary::summarize(&session);
    let judged = verdict::judge(&summaries);
    let text = [
        report::responses(&summaries, terminal),
        report::switches(&summaries, terminal),
        report::verdicts(&judged, &summaries, terminal),
        report::machine(before.len(), &changes)
            + &json::without_numbers(&session.not_run, &session.failed),
        host.warning().map_or_else(String::new, |text| format!("caution: {text}\n")),
        report::headline(&summaries, hogs),
    ]
    .into_iter()
    .filter(|section| !section.is_empty())
    .collect::<Vec<_>>()
    .join("\n");
    write!(out, "\n{}", table::coloured(&text))?;

    if let Some(path) = &args.json {
        let mut rows = summary::rows(&summaries);
        rows.extend(verdict::rows(&judged));
        let changed = changes.len() as f64;
        rows.push(Row::number("machine", "all", "threads left changed", "1", changed));
        write_json(path, &host, rows, &session)?;
    }
    if !args.assert {
        return Ok(ExitCode::SUCCESS);
    }
    let failures = assertion::failures(&plan.variants, &summaries, &judged, changes.len());
    for failure in &failures {
        eprintln!("tek: --assert: {failure}");
    }
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

fn plan(args: &Args, programs: &Programs) -> anyhow::Result<Plan> {
    let mut variants = match (args.variants.is_empty(), args.quick) {
        (false, _) => args.variants.clone(),
        (true, true) => QUICK.to_vec(),
        (true, false) => Variant::value_variants().to_vec(),
    };
    variants.sort();
    variants.dedup();
    let or_default = |value: Option<u16>, quick, full| match value {
        Some(value) => usize::from(value),
        None if args.quick => quick,
        None => full,
    };
    Ok(Plan {
        rounds: or_default(args.rounds, 3, 9),
        events: or_default(args.events, 12, 25),
        hogs: usize::from(args.hogs),
        iterations_per_ms: appliance::calibrate(&programs.appliance)?,
        variants,
    })
}

fn write_json(path: &Path, host: &Host, rows: Vec<Row>, session: &Session) -> anyhow::Result<()> {
    let runs: serde_json::Map<String, serde_json::Value> = session
        .runs
        .iter()
        .map(|(variant, runs)| Ok((variant.name().to_owned(), serde_json::to_value(runs)?)))
        .collect::<serde_json::Result<_>>()?;
    json::write(
        path,
        &Document {
            bench: "response",
            host,
            rows,
            not_run: &session.not_run,
            failed: &session.failed,
            raw: runs,
        },
    )
}
