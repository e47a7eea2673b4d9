// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek kthreads`: the kernel threads that follow the priorities of their waiters.
//!
//! [`reported`] is the report of tekd, [`find_out`] adds the contents of /proc, [`describe`]
//! formats the lines, and [`live`] repeats the query.
pub mod describe;
pub mod find_out;
mod live;

use crate::ps::interval;
use clap::builder::PossibleValuesParser;
use find_out::Choice;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tek_policy::kthread::Class;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek kthreads
  tek kthreads --watch                      live, with boosts a second; q ends it
  tek kthreads --all --class irq,softirq    how the kernel schedules these
  tek kthreads --json | jq '.threads[] | {name, priority, members}'
  tek explain 45                            why one of them is where it is

COLUMNS:
  WEIGHT, MEAN  the priority is the mean of the waiting tasks times the weight,
  MAX           and at most the highest of them
  NOW, OWN      how it is scheduled now, and how it is by itself
  BOOSTS        how often it got the priority of waiting tasks; A-SECOND: of late
  BOOSTED       for how long, in all
  WHO-WAITS     the critical tasks that wait for it now: x3 for three files, works
                or requests

Kernel threads follow if /etc/tek/tekd.toml has a table [kthreads] and tekd may load
BPF programs: tekd(8), tekd.toml(5). `tek doctor` says whether this kernel has what
that needs. Without tekd, --all shows all kernel threads, by class.

EXIT STATUS:
    0  the threads were shown, or why none follows
  125  TEK itself failed
    2  an option was not understood";

/// Arguments of `tek kthreads`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Also show those that no critical task has waited for
    #[arg(long)]
    all: bool,

    /// Show those of these classes only (list: irq,kswapd)
    #[arg(long, value_name = "CLASS", value_delimiter = ',', value_parser = classes())]
    class: Vec<String>,

    /// Look again every 1s, or as often as is said; q or ^C ends it
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "1s",
          value_parser = interval, conflicts_with = "json")]
    watch: Option<Duration>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn classes() -> PossibleValuesParser {
    let names = Class::NAMED.into_iter().chain([Class::Untouchable, Class::Unknown]);
    PossibleValuesParser::new(names.map(Class::name))
}

/// Prints the report, once or live.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let choice = Choice { all: args.all, classes: args.class };
    if let Some(interval) = args.watch {
        return live::run(&choice, interval).map(|()| ExitCode::SUCCESS);
    }
    let report = find_out::report(&choice)?;
    let mut out = anstream::stdout();
    match args.json {
        true => writeln!(out, "{}", crate::json::pretty(&report)?)?,
        false => writeln!(out, "{}", describe::lines(&report, false).join("\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}
