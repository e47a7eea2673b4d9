// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program of `tek bench`.
use std::process::ExitCode;

fn main() -> ExitCode {
    tek_command::entry::run(tek_bench::bench)
}
