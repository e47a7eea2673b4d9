// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `tek`: its definition, for man pages and completions, and what it does.

// Without the feature some functions of other modules have no caller.
#![cfg_attr(not(feature = "top"), allow(dead_code))]

mod asker;
mod cli;
mod critical;
mod debug;
mod doctor;
mod explain;
mod exporter;
mod find;
mod groups;
mod kthreads;
mod misuse;
mod profile;
mod ps;
mod run;
mod stack;
mod stack_use;
mod start;
mod status;
mod suggest;
#[cfg(feature = "top")]
mod top;
mod trace;
mod units;
mod words;

use clap::FromArgMatches;
use cli::{Cli, Command};
use std::process::ExitCode;
use tek_command::companion::Companion;
use tek_command::{daemon, json, message, suggested, system};

pub use cli::definition;

/// Does what the command line says. [`tek_command::entry::run`] reports its error.
pub fn tek() -> anyhow::Result<ExitCode> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some((companion, words)) = Companion::of(&words) {
        return Err(start::instead(companion, words));
    }
    let cli = Cli::from_arg_matches(&definition().get_matches()).unwrap_or_else(|e| e.exit());
    let result = match cli.command {
        Command::Run(args) => run::run(args),
        Command::Ps(args) => ps::run(args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Status(args) => status::run(args),
        Command::Exporter(args) => exporter::run(args),
        Command::Critical(args) => critical::run(args),
        Command::Groups(args) => groups::run(args),
        Command::Kthreads(args) => kthreads::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Suggest(args) => suggest::run(args),
        Command::Stack(args) => stack::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Debug(args) => debug::run(args),
    };
    result.inspect_err(|error| {
        if let Some(misuse) = error.downcast_ref() {
            cli::refuse(misuse);
        }
    })
}
