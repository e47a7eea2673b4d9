// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek exporter`: the reports of tekd and the tables of programs, for Prometheus.
//!
//! [`examine`] asks tekd and reads the tables. [`tekd`], [`kthreads`] and [`programs`] make metrics
//! of them and [`page`] text, all four without I/O. [`server`] has the clients, each of which is a
//! [`client`] with one [`request`].
//!
//! It is a process of its own: a daemon that runs as root at a real-time priority must neither
//! serve HTTP nor read tables that programs write.
mod client;
mod examine;
mod host;
mod kthreads;
mod lifts;
mod page;
mod programs;
mod request;
mod server;
mod tekd;

use crate::message;
use anyhow::Context;
use examine::Looker;
use host::Hosts;
use server::Ends;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek exporter
  curl http://127.0.0.1:9835/metrics
  tek exporter --once
  tek exporter --once > tek.prom.new && mv tek.prom.new /var/lib/node_exporter/tek.prom

METRICS:
  tek_tekd_*, tek_fast_*, tek_responsiveness_*, tek_lowered_threads
             the state of the daemon, as in `tek status`
  tek_group_*, tek_groups_*, tek_floor_ratio
             its control groups, if it has any
  tek_kthread_*, tek_kthreads_*
             kernel threads, if they follow the tasks that wait for them
  tek_inherit_on, tek_lift*
             threads that are lifted while time-critical threads wait for them
  tek_program_*, tek_tracked_threads
             programs under tek run, or linked with libtek.so; tek_program_lifts_total
             and tek_program_inversions_total count since the exporter began, or the
             program if that is longer ago
  tek_exporter_*
             the exporter itself
  Each metric has a HELP line. The number of series is bounded: --programs gives
  the number of programs with a series of their own, all others share
  program=\"other\". A program keeps its series until the exporter ends.

The exporter needs no privilege, but it reads only tables of programs that its
user may read: the user's own, or all as root or with CAP_DAC_READ_SEARCH. tekd
gives it the same data as any user, and none of processes that /proc hides
(hidepid). If tekd does not run, that is no error: tek_tekd_up is 0. The exporter
reads the device on request, at most once a second. It has neither encryption nor
a password: listen on loopback, behind a server that has both. A request by
another name than an address, localhost, the name of this device or one given with
--host is refused, so that web pages cannot read the metrics through a browser.
SIGTERM and SIGINT end it.

EXIT STATUS:
    0  it was ended, or --once has printed
    2  an option was not understood
  125  TEK itself failed: the address is taken, say

ENVIRONMENT:
  TEK_RUN_DIR   one more directory with tables of threads
  TEK_SOCKET    socket of tekd, where it is not at the usual place";

/// Arguments of `tek exporter`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Address and port to listen at; port 0: any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9835")]
    listen: SocketAddr,
    /// One more name that requests may ask for in their Host header, besides addresses, localhost
    /// and the name of this device; can be given several times
    #[arg(long, value_name = "NAME", conflicts_with = "once")]
    host: Vec<String>,
    /// Print the metrics to standard output and end
    #[arg(long, conflicts_with = "listen")]
    once: bool,
    /// Number of programs with a series of their own, 0 to 1000
    #[arg(long, value_name = "N", default_value_t = 32,
          value_parser = clap::value_parser!(u16).range(..=1000))]
    programs: u16,
}

/// Serves until it is ended.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { listen, host, once, programs } = args;
    let most_programs = usize::from(programs);
    if once {
        let page = Looker::new(most_programs)?.page();
        std::io::stdout().lock().write_all(page.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let listener = TcpListener::bind(listen).with_context(|| {
        format!("cannot listen at {listen}: name another address with --listen ADDRESS:PORT")
    })?;
    let at = listener.local_addr()?;
    if !at.ip().is_loopback() {
        message::print(&format!(
            "whoever can reach {at} can read which programs run here: there is no password and no \
             encryption; --listen 127.0.0.1:{} is for this device alone",
            at.port()
        ));
    }
    let ends = Ends::new()?;
    let looker = Looker::new(most_programs)?;
    message::print(&format!("metrics are at http://{at}/metrics"));
    server::serve(listener, Hosts::new(&host), &ends, looker)?;
    Ok(ExitCode::SUCCESS)
}
