// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek lab`: real kernels, booted in QEMU.
mod contents;
mod fetch;
mod list;
mod machine;
mod origin;
mod output;
mod run;
mod shell;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;
use tek_command::companion::LAB;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek lab list                              which machines can be booted, and what is in the cache
  tek lab run -- tek doctor                 what TEK can do on a PREEMPT_RT kernel
  tek lab run --kind v1 --cpus 4 -- ./my-program --its-option
  tek lab shell --kind rt                   look around by hand

docs/lab.md of the source tells what runs where, how to add a test and how to attach gdb.";

/// Arguments of `tek lab`.
#[derive(Parser)]
#[command(name = LAB.command, bin_name = LAB.words, about = LAB.about, long_about = LAB.long_about)]
#[command(after_help = AFTER_HELP)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What `tek lab` can do: each in a module of its own, which has its arguments and `run`.
#[derive(clap::Subcommand)]
enum Command {
    /// Boot a guest and run a command in it, or a list of jobs
    Run(Box<run::Args>),
    /// Boot a guest and open a shell in it
    Shell(Box<shell::Args>),
    /// List the kinds of machines, and the kernels in the cache
    List(list::Args),
    /// Get kernels and packages into the cache, or look for newer ones
    Fetch(fetch::Args),
    /// Run a guest, as its process 1
    #[command(hide = true)]
    Agent,
    /// Run a program of a guest at the host's terminal
    #[command(hide = true)]
    Terminal(shell::TerminalArgs),
}

/// The definition of its command line, for man pages and completions.
pub fn definition() -> clap::Command {
    Args::command()
}

/// Does what the command line says.
pub fn lab() -> anyhow::Result<ExitCode> {
    match Args::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Shell(args) => shell::run(&args),
        Command::List(args) => list::run(args),
        Command::Fetch(args) => fetch::run(args),
        Command::Agent => crate::agent::run(),
        Command::Terminal(args) => shell::terminal(args),
    }
}
