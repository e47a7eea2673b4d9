// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon `tekd`: it alone decides for the whole device who may be time-critical.
mod canary;
mod configuration;
mod connection;
mod directories;
mod domain;
mod exec_watch;
mod guard;
mod history;
mod homes;
mod kthreads;
mod ledger;
mod lineage;
mod links;
mod listener;
mod log;
mod means;
mod member;
mod notify;
mod options;
mod others;
mod peer;
mod pi_mutex;
mod placement;
mod process;
mod programs;
mod region;
mod requests;
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
    match start::run(options::Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
