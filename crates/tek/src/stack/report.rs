// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek stack report`.
use std::process::ExitCode;

/// Arguments of `tek stack report`.
#[derive(clap::Args)]
pub struct Args {}

/// Prints it.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("tek stack report is not there yet")
}
