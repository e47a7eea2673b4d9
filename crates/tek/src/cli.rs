// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one definition of the command line: help, man pages and completions come from it.
use clap::{Parser, Subcommand};

const AFTER_HELP: &str = "\
EXAMPLES:
  tek doctor                                what this machine can do
  tek run --critical 'ui*' -- ./appliance   run a program, its ui threads first

EXIT STATUS:
  Each command's --help lists its own. 2 means that the command line was not
  understood, 125 that TEK itself failed.";

/// Thread Evolution Kit: make the time-critical threads of ordinary programs answer at once
#[derive(Parser)]
#[command(name = "tek", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What tek can do.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program under TEK
    Run(crate::run::Args),
    /// Tell what this kernel and this user can do
    Doctor(crate::doctor::Args),
    /// Measure, as in the papers
    Bench(crate::bench::Args),
    /// Look into TEK's own files
    #[command(hide = true)]
    Debug(crate::debug::Args),
    /// Write man pages and shell completions
    #[command(hide = true)]
    Generate(crate::generate::Args),
}
