// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek top`: the activity of the device's threads, live.
//!
//! [`sample`] samples, with the code of `tek ps`. [`state`] and [`keys`] have the choice of what is
//! shown and how keys change it, without a terminal. [`draw`] puts it on a screen; [`live`]
//! connects them with the terminal and the clock.
mod columns;
mod daemon;
mod details;
mod draw;
mod events;
mod header;
mod keys;
mod live;
mod once;
mod order;
pub mod sample;
mod screen;
mod state;
mod wrap;

use crate::message;
use crate::ps::{self, Sorting};
use crate::suggested::Suggested;
use order::Choice;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek top
  tek top --filter fridge --sort delay%     the threads that wait for a CPU
  tek top --kernel --tree
  tek top --once --json --interval 5s | jq '.threads[:5]'

KEYS:
  ? lists them; q or ^C ends it.

Counts are those since the last refresh; names, policies and priorities are those
of now. TEK's columns (role, region, group, zone, function) are known for threads of
programs under tek run, or linked with libtek.so, whose tables you may read, and
for every thread that tekd made Fast, lowered beneath the Fast ones, or placed in a
control group. A change of a sleeping thread that is not on the screen (name,
policy, priority) appears within ten refreshes. Any column of `tek ps --columns
help` can be sorted by. tek top stops no program; the column ZONE delays for some
microseconds a program that changes its memory map, as columns of stacks in tek ps
do. Without a terminal tek top works as with --once.

EXIT STATUS:
    0  done
    2  the command line was not understood
  125  TEK itself failed

ENVIRONMENT:
  NO_COLOR      not empty: no colours
  TEK_RUN_DIR   one more directory with tables of threads
  TEK_SOCKET    socket of tekd, where it is not at the usual place";

/// Arguments of `tek top`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Time between two refreshes, 0.1s to 60s
    #[arg(long, value_name = "INTERVAL", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Sort by a column: numbers from the greatest, texts from A, unless :asc or :desc says
    /// otherwise
    #[arg(long, value_name = "COLUMN[:asc|:desc]", default_value = "cpu%", value_parser = SORTING,
          hide_possible_values = true)]
    sort: Sorting,
    /// Show threads with this text in their program, name or role, in small or capital letters
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Show the kernel's threads too
    #[arg(long)]
    kernel: bool,
    /// Show processes with their threads below them, each below the one that created it
    #[arg(long)]
    tree: bool,
    /// Look twice, print what was done meanwhile, and end
    #[arg(long)]
    once: bool,
    /// Print JSON
    #[arg(long, requires = "once", conflicts_with = "tree")]
    json: bool,
}

/// Shows the table until the user quits.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { interval, sort, filter, kernel, tree, once, json } = args;
    let choice = Choice { sort, filter, tree, kernel, fast: false };
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if once || !is_terminal {
        if !once {
            message::print("there is no terminal to show it on, so this is as with --once");
        }
        once::run(&choice, interval, json)?;
    } else {
        live::run(choice, interval)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn interval(text: &str) -> Result<Duration, String> {
    let range = state::SHORTEST..=state::LONGEST;
    let time = ps::interval(text).ok().filter(|time| range.contains(time));
    time.ok_or_else(|| "write a time such as 2s, 0.5 or 200ms, from 0.1s to 60s".into())
}

const SORTING: Suggested<Sorting> = Suggested { parse: sorting, names: ps::column_names };

fn sorting(text: &str) -> Result<Sorting, String> {
    let sorting = ps::sorting(text)?;
    Ok(if text.contains(':') { sorting } else { columns::usual_order(sorting.column) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_between_a_tenth_of_a_second_and_a_minute() {
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(interval("60"), Ok(Duration::from_secs(60)));
        for bad in ["99ms", "61s", "x", "-1", ""] {
            assert!(interval(bad).unwrap_err().contains("from 0.1s to 60s"), "{bad}");
        }
    }

    #[test]
    fn numbers_are_sorted_from_the_greatest_unless_asked_otherwise() {
        let down = |text| sorting(text).map(|sorting| sorting.down);
        assert_eq!([down("cpu%"), down("name"), down("delay%:asc")], [true, false, false].map(Ok));
        assert!(down("colour").unwrap_err().contains("tek ps --columns help"));
    }
}
