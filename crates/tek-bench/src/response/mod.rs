// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench response` (tek-2020, V-B and V-C; cpu-mediator-2019, 4.1): touch events
//! answered by an ordinary pthread program while its other threads use every CPU.

#[cfg(test)]
mod fixture;
mod plot;
mod quantities;
pub mod report;
mod rounds;
mod summary;
mod variant;

use super::census::Census;
use super::json::{self, without_numbers, Row};
use super::output::{JudgeOptions, Output, Results};
use super::{appliance, programs};
use clap::ValueEnum;
use rounds::Plan;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use variant::{Programs, Variant};

/// Arguments of `tek bench response`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench response                       all variants, about 5 minutes
  tek bench response --quick               the main ones, about half a minute
  tek bench response --quick --brief       their responses only, as `make demo` shows them
  tek bench response --json result.json    the numbers for other programs
  tek bench response --svg result.svg      a plot of the responses
  tek bench response --assert              exit status 1 if a bar is missed

Often enough, for --assert, are 9 rounds and 200 events of every selected variant of TEK.

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and a variant of TEK was not
  measured, was measured too seldom or fell short, 2 if the command line was not understood,
  125 if it failed, 130 or 143 if SIGINT or SIGTERM ended it early: what it measured until then is
  reported.")]
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
    /// Leave out what is not about responses: context switches, costs and bars
    #[arg(long)]
    brief: bool,
    /// Also draw the responses as a bar chart, as an SVG document
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    judge: JudgeOptions,
}

const QUICK: [Variant; 5] =
    [Variant::Alone, Variant::AloneAgain, Variant::Conventional, Variant::Nice, Variant::TekName];

/// Groups of CPU-bound threads in the appliance.
const GROUPS: usize = 4;

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let programs = Programs {
        tek: programs::tek()?,
        appliance: programs::find("response", "appliance")?,
        appliance_tek: programs::find("response", "appliance-tek").ok(),
    };
    let hogs = usize::from(args.hogs) * GROUPS;
    let title = format!(
        "touch -> ui -> render: 20 ms of CPU work an event, beside {hogs} CPU-bound threads\n"
    );
    let svg = args.svg.as_deref().map(json::File::open).transpose()?;
    let output = Output::begin(&title, &args.judge.options)?;
    let plan = plan(args, &programs)?;

    let before = Census::take();
    let session = rounds::measure(&plan, &programs)?;
    let changes = before.changes(&Census::take());

    let summaries = summary::summarize(&session);
    let judged = quantities::judged(&summaries);
    let mut sections = vec![report::responses(&summaries, output.terminal)];
    if !args.brief {
        sections.push(report::switches(&summaries, output.terminal));
        sections.push(report::verdicts(&judged, &summaries, output.terminal));
    }
    sections.extend([
        report::machine(before.len(), &changes)
            + &without_numbers(&session.not_run, &session.failed),
        output.caution(),
        report::headline(&summaries, hogs, output.terminal),
    ]);
    let mut rows = summary::rows(&summaries);
    rows.extend(judged.rows());
    let changed = changes.len() as f64;
    rows.push(Row::number("machine", "all", "threads left changed", "1", changed));
    let runs: BTreeMap<&str, _> =
        session.runs.iter().map(|(variant, runs)| (variant.name(), runs)).collect();
    let results = Results {
        bench: "response",
        rows,
        not_run: &session.not_run,
        failed: &session.failed,
        raw: runs,
    };
    if let Some(file) = svg {
        file.write_text(&plot::svg(&summaries, hogs, &output.host))?;
    }
    output.end(sections, results)?;
    let beside = quantities::failures(&plan.variants, &summaries, changes.len());
    Ok(args.judge.exit_code(&judged, beside))
}

fn plan(args: &Args, programs: &Programs) -> anyhow::Result<Plan> {
    let mut variants = match (args.variants.is_empty(), args.judge.quick) {
        (false, _) => args.variants.clone(),
        (true, true) => QUICK.to_vec(),
        (true, false) => Variant::value_variants().to_vec(),
    };
    variants.sort();
    variants.dedup();
    let or_default = |value: Option<u16>, quick, full| match value {
        Some(value) => usize::from(value),
        None if args.judge.quick => quick,
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
