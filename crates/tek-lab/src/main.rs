// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program of `tek lab`, and process 1 of its guests.
use std::process::ExitCode;

fn main() -> ExitCode {
    tek_command::entry::run(tek_lab::lab)
}
