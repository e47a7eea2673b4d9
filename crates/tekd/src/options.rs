// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.
use crate::domain::Part;
use clap::Parser;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  tekd                                serve the whole device
  tekd --check                        say what the configuration means
  tekd --restore                      undo what a killed tekd left
  tekd --domain cgroup:/app.slice     touch what is in that control group only
  tekd --domain pid:$$ --socket $PWD/s --state $PWD/state
                                      try it with what this shell starts;
                                      TEK_SOCKET=$PWD/s tells the programs

Who may have critical threads stands in /etc/tek/tekd.toml: tekd.toml(5).";

/// Lets programs have time-critical threads within what the configuration grants, watches them, and
/// gives everything back: at their end, at its own, and after its own death.
#[derive(Parser)]
#[command(name = "tekd", version, after_help = EXAMPLES)]
pub struct Options {
    /// Stay in the foreground, as it always does: whoever wants it elsewhere starts it there
    #[arg(long)]
    pub foreground: bool,

    /// Read the configuration from this file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Serve at this socket
    #[arg(long, value_name = "PATH", default_value = tek_abi::SOCKET_PATH)]
    pub socket: PathBuf,

    /// Keep the journal of what is changed in this directory
    #[arg(long, value_name = "DIR", default_value = "/run/tek/tekd.state")]
    pub state: PathBuf,

    /// Undo what a killed tekd left, and end
    #[arg(long, conflicts_with = "check")]
    pub restore: bool,

    /// Read the configuration, say what it means, and end
    #[arg(long)]
    pub check: bool,

    /// What may be changed: device (all but what is protected), cgroup:PATH, or pid:PID with what
    /// it started; can be given several times
    #[arg(long, value_name = "PART")]
    pub domain: Vec<Part>,
}
