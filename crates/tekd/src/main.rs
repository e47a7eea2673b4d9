// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon `tekd`: it alone grants time-critical threads on the whole device.
mod backend;
mod backends;
mod backlog;
mod canary;
mod configuration;
mod connection;
mod directories;
mod domain;
mod exec_watch;
mod guard;
mod history;
mod kthreads;
mod ledger;
mod lift_chains;
mod lineage;
mod links;
mod listener;
mod log;
mod member;
mod noncritical;
mod notify;
mod options;
mod originals;
mod own_priority;
mod peer;
mod placement;
mod process;
mod programs;
mod region;
mod requester;
mod requests;
mod restored;
mod server;
mod share;
mod siblings;
mod start;
mod status;
mod subordinate;
mod sys;
mod table_files;
mod viewer;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let ended = start::run(options::Options::parse());
    if let Err(error) = &ended {
        log::error(&format!("{error:#}"));
    }
    log::flush();
    if ended.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
