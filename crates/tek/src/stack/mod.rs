// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek stack`: the use of threads' stacks, and advice on it.
mod advice;
mod budget;
mod compiled;
mod list;
mod merge;
mod report;
mod source;

use std::process::ExitCode;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek run --stack auto -- ./fridge            learn what its threads use, and fit their stacks
  tek stack report fridge                     what was measured: each kind, its use, the advice
  tek stack advice --c fridge                 calls of pthread_attr_setstacksize for the source
  tek stack budget --threads 500 --limit 3G   do so many fit? what is in the way?
  tek stack static build/                     a second opinion, from gcc -fcallgraph-info=su

tek-stack-profile(5) describes what is kept, and where.";

/// Arguments of `tek stack`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What `tek stack` can do: each in a module of its own, which has its arguments and `run`.
#[derive(clap::Subcommand)]
enum Command {
    /// Show what stack each kind of thread has, uses and needs
    Report(report::Args),
    /// Tell whether so many threads fit, and what is in the way
    ///
    /// Counts what the threads need of addresses, locked memory, mappings, ids and memory, and
    /// compares it with the limits of this shell, or of a process.
    Budget(budget::Args),
    /// Tell what to write into a program's source
    Advice(advice::Args),
    /// Merge profiles of many devices
    Merge(merge::Args),
    /// List the programs that have a profile
    List(list::List),
    /// Delete the profile of a program
    Forget(list::Forget),
    /// Tell what stack functions need at most, from gcc's -fstack-usage
    ///
    /// Adds up the frames on the deepest path below a function, from the files that gcc writes
    /// with -fstack-usage and -fcallgraph-info=su, and names the gaps in these files.
    Static(compiled::Args),
}

/// Does it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Report(args) => report::run(args),
        Command::Budget(args) => budget::run(args),
        Command::Advice(args) => advice::run(args),
        Command::Merge(args) => merge::run(args),
        Command::List(args) => list::list(args),
        Command::Forget(args) => list::forget(args),
        Command::Static(args) => compiled::run(args),
    }
}
