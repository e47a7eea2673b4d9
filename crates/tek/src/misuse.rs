// SPDX-License-Identifier: MIT OR Apache-2.0
//! A problem with the options of a command that clap does not find.

/// The error with which a command's `run` reports it. tek then prints the usage of the command and
/// ends with the exit status of clap's own errors.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct Misuse {
    /// The command.
    pub command: &'static str,
    /// The problem.
    pub problem: String,
}

impl Misuse {
    /// Of this command.
    pub fn of(command: &'static str, problem: impl Into<String>) -> Self {
        Self { command, problem: problem.into() }
    }
}
