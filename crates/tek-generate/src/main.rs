// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes man pages and shell completions of `tek` with all its commands. tools/build runs it; it
//! is not installed.
mod completions;
mod man;

use anyhow::Context;
use clap::{Command, Parser};
use std::fs;
use std::path::{Path, PathBuf};

/// Write man pages or shell completions of tek
#[derive(Parser)]
enum What {
    /// Write one man page for each command
    Man {
        /// Directory for the pages
        directory: PathBuf,
    },
    /// Write completions for bash, zsh and fish
    Completions {
        /// Directory for the files
        directory: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match What::parse() {
        What::Man { directory } => man::write(definition(), &directory),
        What::Completions { directory } => completions::write(&definition(), &directory),
    }
}

/// The command line of tek, with those of the commands that are programs of their own.
fn definition() -> Command {
    let companions = [tek_bench::definition(), tek_lab::definition()];
    companions.into_iter().fold(tek::definition(), |tek, companion| {
        tek.mut_subcommand(companion.get_name(), |_| companion.clone())
    })
}

fn create(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use tek_command::companion;

    #[test]
    fn the_command_line_is_well_formed() {
        super::definition().debug_assert();
    }

    #[test]
    fn each_command_that_tek_starts_is_defined_by_its_program() {
        for it in companion::ALL {
            let definition = super::definition();
            let command = definition.find_subcommand(it.command).unwrap();
            assert!(command.has_subcommands(), "{}", it.program);
        }
    }
}
