//! The one definition of the command line: help, man pages and completions come from it.
use clap::{Parser, Subcommand};

/// Thread Evolution Kit: make the time-critical threads of ordinary programs answer at once.
#[derive(Parser)]
#[command(version)]
pub struct Cli {
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
}
