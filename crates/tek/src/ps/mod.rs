// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek ps`: every thread of the device.
pub mod column;
pub mod filter;
mod pace;
pub mod render;
mod sample;
pub mod thread;
pub mod tree;
pub mod value;
pub mod view;
mod watch;

use crate::suggested::Suggested;
use anyhow::Context;
use clap::builder::PossibleValue;
use clap::ValueEnum;
use column::Column;
use console::Term;
use filter::Filter;
pub use pace::{cpu_time, interval, rest, Pace};
use sample::Series;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tek_abi::printable;
use thread::Thread;
use view::{Reading, View};
pub use watch::draw;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek ps --tracked
      The threads that TEK knows: those of programs under tek run, or linked
      with libtek.so, and what each is for.
  tek ps --program redis-server -o tid,name,function,policy,priority,cpu
      What the threads of a program run.
  tek ps --no-kernel --sort cpu:desc | head
      The busiest threads.
  tek ps --pid 4711 --tree -o name,tid,call-site
      The threads as a tree: each below its creator, with the place in the code.
  tek ps --uthreads -o program,tid,name,worker,worker-tid,state,waits,peak
      User-level threads (tek run --model), where each runs, what it waits for,
      and its stack.
  tek ps --program fridge -o name,cpu%,run-delay,switches --watch
      Their share of a CPU since the last refresh; how long they waited for a CPU,
      and how often they left one, since they began.
  tek ps --program fridge --sample 1s --count 60 --output fridge.csv
      A minute of their lives, a record each second.

COLUMNS:
{COLUMNS}
  Those with * are the default; with user-level threads also the worker and what
  each waits for. `-` stands for a value that a thread does not have, that is not
  measured, or that only TEK's table of its process has.

SERIES:
  --sample writes CSV, with --json JSON lines: a record for each thread at each
  time, with time_ns (since 1970), interval_ns (since the record before) and the
  columns. cpu, cpu%, run-delay and switches are those of the interval. The first
  records come one interval after the start; ^C ends the series cleanly. In CSV
  names stand as they are, unless it goes to a terminal.

tek ps never stops or slows a program, nor waits for one, a stopped one included. A
table with invalid contents is named on standard error, and its threads are shown
with the values of /proc.

EXIT STATUS:
    0  done
    1  nothing that --pid or --tid names is there, or it does not fit
    2  the command line was not understood
  125  TEK itself failed

ENVIRONMENT:
  TEK_RUN_DIR   one more directory with tables of threads";

/// Arguments of `tek ps`.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// What to show of each thread, in this order: a list, or `help`, which lists all columns
    #[arg(short = 'o', long, value_name = "COLUMN,...", value_delimiter = ',',
          value_parser = CHOSEN, hide_possible_values = true)]
    columns: Vec<Chosen>,
    /// Sort by a column, downwards with `:desc`
    #[arg(long, value_name = "COLUMN[:asc|:desc]", value_parser = SORTING,
          hide_possible_values = true)]
    sort: Option<Sorting>,
    /// Show processes with their threads below them, each below the one that created it
    #[arg(long)]
    tree: bool,
    /// Print JSON: of all columns, unless some are chosen
    #[arg(long, conflicts_with = "tree")]
    json: bool,
    /// Look again every 2s, or as often as is said; q or ^C ends it
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s",
          value_parser = interval, conflicts_with_all = ["json", "sample"])]
    watch: Option<Duration>,
    /// Record what each thread did in each interval, as CSV or, with --json, JSON lines
    #[arg(long, value_name = "INTERVAL", value_parser = interval, conflicts_with = "tree")]
    sample: Option<Duration>,
    /// End the series after so many intervals
    #[arg(long, value_name = "N", requires = "sample")]
    count: Option<u64>,
    /// Write the series to a file
    #[arg(long, value_name = "FILE", requires = "sample")]
    output: Option<PathBuf>,
    #[command(flatten)]
    filter: Filter,
}

/// Instead of a column.
const HELP: &str = "help";

/// The value of -o.
#[derive(Clone)]
enum Chosen {
    Column(Column),
    Help,
}

fn chosen(text: &str) -> Result<Chosen, String> {
    if text == HELP {
        return Ok(Chosen::Help);
    }
    Column::from_str(text, true).map(Chosen::Column).map_err(|_| {
        let names: Vec<_> = Column::value_variants().iter().map(|column| column.name()).collect();
        format!(
            "there is no column {text}; `tek ps --columns help` lists the columns: {}",
            names.join(", ")
        )
    })
}

/// Parses a value of --columns.
const CHOSEN: Suggested<Chosen> =
    Suggested { parse: chosen, names: || [column_names(), vec![HELP.into()]].concat() };

/// Parses a value of --sort.
const SORTING: Suggested<Sorting> = Suggested { parse: sorting, names: column_names };

/// For shells, and for the message about a missing value.
pub fn column_names() -> Vec<PossibleValue> {
    Column::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect()
}

/// The value of --sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorting {
    /// By which column.
    pub column: Column,
    /// The greatest first.
    pub down: bool,
}

/// `COLUMN`, `COLUMN:asc` or `COLUMN:desc`.
pub fn sorting(text: &str) -> Result<Sorting, String> {
    let (name, down) = match text.rsplit_once(':') {
        None => (text, false),
        Some((name, "asc")) => (name, false),
        Some((name, "desc")) => (name, true),
        Some((name, _)) => return Err(format!("write {name}:asc or {name}:desc")),
    };
    match chosen(name)? {
        Chosen::Column(column) => Ok(Sorting { column, down }),
        Chosen::Help => Err("sort by a column: `tek ps --columns help` lists them".into()),
    }
}

/// Samples, and prints the result.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut columns = Vec::new();
    for chosen in &args.columns {
        match chosen {
            Chosen::Column(column) => columns.push(*column),
            Chosen::Help => return Ok(help().map(|()| ExitCode::SUCCESS)?),
        }
    }
    let is_usual = columns.is_empty();
    if is_usual {
        columns = match (args.json, args.sample) {
            (_, Some(_)) => sample::USUAL.to_vec(),
            (true, None) => Column::value_variants().to_vec(),
            (false, None) => column::USUAL.to_vec(),
        };
    }
    std::fs::metadata("/proc/self/stat")
        .context("/proc is not there, or hides this very process")?;
    let names_one = args.filter.names_one();
    let mut view = View::new(columns, args.sort, args.tree, args.filter);
    view.adds_what_they_have = is_usual;
    let found = match (args.sample, args.watch) {
        (Some(interval), _) => {
            let series = Series { interval, count: args.count, json: args.json };
            sample::run(&mut view, &series, args.output.as_deref())?
        }
        (None, Some(interval)) => watch::run(&mut view, interval)?,
        (None, None) => once(&mut view, args.json)?,
    };
    Ok(if names_one && !found { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The message for an empty table.
pub const NONE_FITS: &str = "no thread fits the options: tek ps without them shows all";

/// Prints once. True if a thread was found.
fn once(view: &mut View, as_json: bool) -> anyhow::Result<bool> {
    let Reading { threads, problems, .. } = view.examine()?;
    let found = !threads.is_empty();
    announce(&problems);
    let mut out = io::BufWriter::new(io::stdout().lock());
    if as_json {
        let threads: Vec<_> = threads.iter().map(|t| object(&view.columns, t)).collect();
        let all = json!({ "threads": threads, "problems": problems });
        writeln!(out, "{}", crate::json::pretty(&all)?)?;
    } else {
        let width = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        for line in view.lines(threads) {
            writeln!(out, "{}", render::cut(&line, width))?;
        }
    }
    out.flush()?;
    if !found && !as_json && problems.is_empty() {
        announce(&[NONE_FITS.to_owned()]);
    }
    Ok(found)
}

/// A thread as a JSON object.
pub fn object(columns: &[Column], thread: &Thread) -> serde_json::Map<String, serde_json::Value> {
    columns.iter().map(|c| (c.key().to_owned(), c.value(thread).json())).collect()
}

/// Reports on standard error what could not be read.
pub fn announce(problems: &[String]) {
    for problem in problems {
        eprintln!("tek: {}", printable(problem.as_bytes()));
    }
}

fn after_help() -> String {
    AFTER_HELP.replace("{COLUMNS}\n", &columns("  "))
}

/// The columns, a line on each.
fn columns(indent: &str) -> String {
    let line = |column: &Column| {
        let value = column.to_possible_value().expect("no column is hidden");
        let what = value.get_help().map(ToString::to_string).unwrap_or_default();
        let usual = if column::USUAL.contains(column) { "*" } else { " " };
        format!("{indent}{usual} {:<11} {what}\n", value.get_name())
    };
    Column::value_variants().iter().map(line).collect()
}

fn help() -> io::Result<()> {
    let columns = columns("");
    writeln!(io::stdout().lock(), "{columns}\nThose with * are shown unless you choose.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_column_with_its_meaning() {
        let help = after_help();
        for column in Column::value_variants() {
            let name = column.name();
            let mut lines = help.lines().map(|line| line.trim_start_matches([' ', '*']));
            assert!(lines.any(|line| line.split_once(' ').is_some_and(|(word, _)| word == name)));
        }
        assert!(!help.contains('{'), "{help}");
    }
}
