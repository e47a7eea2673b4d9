// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench matrix`: how long a critical thread takes to answer when it waits for other threads,
//! beside CPU-bound processes.

mod cell;
mod column;
#[cfg(test)]
mod fixture;
mod heat;
mod html;
mod other_hogs;
mod plot;
mod programs;
mod quantities;
mod report;
mod rounds;
mod row;
mod stage;
mod summary;
mod weights;

use super::appliance;
use super::json;
use super::output::{JudgeOptions, Output, Results};
use clap::ValueEnum;
use column::Column;
use programs::Programs;
use rounds::Plan;
use row::Row;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `tek bench matrix`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench matrix                         all cells, about an hour
  tek bench matrix --quick                 the same with fewer and shorter rounds
  tek bench matrix --rows mutex,chain --columns alone,conventional,tek
  tek bench matrix --html result.html      a page with the distribution of each cell
  tek bench matrix --svg result.svg        a plot of the first row
  tek bench matrix --json result.json      the numbers for other programs
  tek bench matrix --assert                exit status 1 if a bar is missed

Often enough, for --assert, are 9 rounds and 200 events of every cell.

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and a row was not measured under
  TEK, was measured too seldom or fell short, 2 if the command line was not understood, 125 if it
  failed, 130 or 143 if SIGINT or SIGTERM ended it early: what it measured until then is
  reported.")]
pub struct Args {
    /// What the thread waits for, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    rows: Vec<Row>,
    /// How it is scheduled, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    columns: Vec<Column>,
    /// Rounds; in each every cell is measured once [default: 9, or 3 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Events in each run [default: 25, or 10 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    events: Option<u16>,
    /// CPU-bound processes; the row many-hogs has ten times as many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    hogs: u16,
    /// Also write a page with the matrix and the distribution of each cell
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write a plot of the first row
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    judge: JudgeOptions,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let programs = Programs::prepare(&selected(&args.columns))?;
    let title = format!(
        "touch: 2 ms of CPU work an event and what it waits for, beside {} CPU-bound processes\n",
        args.hogs
    );
    let page = args.html.as_deref().map(json::File::open).transpose()?;
    let plot = args.svg.as_deref().map(json::File::open).transpose()?;
    let output = Output::begin(&title, &args.judge.options)?;
    let plan = plan(args, &programs)?;
    let session = rounds::measure(&plan, &programs)?;
    let summaries = summary::summarize(&session);
    let judged = quantities::judged(&plan.rows, &plan.columns, &summaries);
    if let Some(file) = page {
        file.write_text(&html::page(&plan, &session, &summaries, &output.host))?;
    }
    if let Some(file) = plot {
        file.write_text(&plot::svg(&plan, &summaries, &output.host))?;
    }
    let mut sections = report::tables(&plan, &summaries, output.terminal);
    sections.extend([
        report::empty_cells(&session),
        judged.report(output.terminal),
        report::noise(&summaries),
        output.caution(),
    ]);
    let mut rows = summary::rows(&summaries);
    rows.extend(judged.rows());
    let runs: BTreeMap<String, _> =
        session.runs.iter().map(|(cell, runs)| (cell::name(*cell), runs)).collect();
    let results = Results {
        bench: "matrix",
        rows,
        not_run: &session.not_run,
        failed: &session.failed,
        raw: runs,
    };
    output.end(sections, results)?;
    Ok(args.judge.exit_code(&judged, quantities::failures(&plan.columns)))
}

fn plan(args: &Args, programs: &Programs) -> anyhow::Result<Plan> {
    let or_default = |value: Option<u16>, quick, full| match value {
        Some(value) => usize::from(value),
        None if args.judge.quick => quick,
        None => full,
    };
    Ok(Plan {
        rounds: or_default(args.rounds, 3, 9),
        events: or_default(args.events, 10, 25),
        hogs: usize::from(args.hogs),
        iterations_per_ms: appliance::calibrate(&programs.dependencies)?,
        rows: selected(&args.rows),
        columns: selected(&args.columns),
    })
}

/// What the command line selects, each once and in the order of the matrix.
fn selected<T: ValueEnum + Ord>(given: &[T]) -> Vec<T> {
    let mut all = if given.is_empty() { T::value_variants().to_vec() } else { given.to_vec() };
    all.sort();
    all.dedup();
    all
}
