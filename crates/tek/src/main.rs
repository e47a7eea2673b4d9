// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `tek`.
use std::process::ExitCode;

fn main() -> ExitCode {
    tek_command::entry::run(tek::tek)
}
