//! The command `tek`.
mod bench;
mod cli;
mod doctor;
mod run;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let result = match cli.command {
        cli::Command::Run(args) => run::run(args),
        cli::Command::Doctor(args) => doctor::run(args),
        cli::Command::Bench(args) => bench::run(args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tek: {error:#}");
            ExitCode::from(125)
        }
    }
}
