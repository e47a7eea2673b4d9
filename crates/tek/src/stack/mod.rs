// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek stack`: what the stacks of threads were like, and what to do about them.
mod report;

use std::process::ExitCode;

/// Arguments of `tek stack`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What `tek stack` can do: each in a module of its own, which has its arguments and `run`.
#[derive(clap::Subcommand)]
enum Command {
    /// Show what stack each kind of thread has, uses and needs
    Report(report::Args),
}

/// Does it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Report(args) => report::run(args),
    }
}
