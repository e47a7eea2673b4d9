// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek groups`: the groups that share the CPUs, and their members.
mod describe;
mod find_out;
pub mod name;
pub mod set;

use clap::Subcommand;
use std::io::Write;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek groups
  tek groups --json | jq '.groups[] | {name, threads}'
  tek groups set fridge background          all threads of the process fridge
  tek groups set 815 normal                 and back again
  tek groups set --thread 816 service       this thread only
  tek run --group background -- ./backup    a program, from its beginning

SHARE is what a group gets of the CPUs while every group wants all of them; a group
that wants less leaves the rest to the others. Time-critical threads run before all.

Groups are made by tekd if /etc/tek/tekd.toml has a table [groups], or where it may
not make threads real-time: tekd.toml(5). A process is placed until it ends or tekd
stops; what it starts meanwhile begins in its group.

EXIT STATUS:
    0  the groups were shown, or tekd placed the process
    1  there is no such process or more than one, or tekd refused or does not run
  125  TEK itself failed
    2  an option was not understood";

/// Arguments of `tek groups`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Put a running process, or a thread, into a group
    ///
    /// Whether you may do this to the process is in the configuration of tekd: `others`.
    #[command(after_help = set::AFTER_HELP)]
    Set(set::Args),
}

/// Shows them, or moves a process or thread.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(Command::Set(args)) = args.command {
        return set::run(&args);
    }
    let report = find_out::report()?;
    let mut out = anstream::stdout();
    if args.json {
        writeln!(out, "{}", crate::json::pretty(&report)?)?;
    } else {
        describe::print(&mut out, &report)?;
    }
    Ok(ExitCode::SUCCESS)
}
