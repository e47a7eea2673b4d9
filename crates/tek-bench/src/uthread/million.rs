// SPDX-License-Identifier: MIT OR Apache-2.0
//! Very many live threads: the time and the memory of each while all wait.

use super::engine::{command, run_json, Cpus, Sched, Setting, Threads};
use crate::json::{NotRun, Row};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::ensure;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tek_command::system;

/// As many kernel threads as fit under the usual limit of process numbers.
const KERNEL_THREADS: u64 = 30_000;
/// The most memory of one thread, with room for the kernel's part: limits the number that is tried.
const BYTES_AT_MOST: u64 = 16_384;
/// The least quantum that there is: each thread runs for one.
const QUANTUM_US: u64 = 50;

/// The reason of their wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// TEK's own interface; each waits by its own call.
    Parked,
    /// Each was first interrupted by a tick.
    Preempted,
    /// A pthread program, preloaded: with thread-local storage of their own.
    Preloaded,
    /// The C library's, fewer of them.
    Glibc,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Parked, Kind::Preempted, Kind::Preloaded, Kind::Glibc];

    fn name(self) -> &'static str {
        match self {
            Kind::Parked => "TEK, parked",
            Kind::Preempted => "TEK, once preempted",
            Kind::Preloaded => "TEK preloaded, parked",
            Kind::Glibc => "glibc",
        }
    }
}

/// The output of the program; all of them for each thread.
#[derive(Clone, Serialize, Deserialize)]
pub struct Result {
    pub threads: u64,
    /// From the first creation until all wait.
    pub begin_ns: f64,
    /// From waking all until all are joined.
    pub end_ns: f64,
    /// Bytes that are in memory.
    pub bytes: f64,
    pub page_table_bytes: f64,
}

/// The measurement.
#[derive(Default, Serialize)]
pub struct Measured {
    pub results: Vec<(Kind, Result)>,
    pub wanted: u64,
}

impl Measured {
    /// KB (of 1,000 bytes) of a thread, if the wanted number was reached.
    pub fn kb(&self, kind: Kind) -> Option<f64> {
        let (_, result) = self.results.iter().find(|(it, _)| *it == kind)?;
        (result.threads >= self.wanted).then_some(result.bytes / 1000.0)
    }
}

/// Runs each once.
pub fn measure(wanted: u64, spinner: &ProgressBar) -> (Measured, Vec<NotRun>) {
    let (mut measured, mut not_run) =
        (Measured { wanted, ..Measured::default() }, Vec::<NotRun>::new());
    for kind in Kind::ALL {
        spinner.set_message(format!("{wanted} live threads: {}", kind.name()));
        match run(kind, wanted) {
            Ok(result) => measured.results.push((kind, result)),
            Err(error) => {
                let variant = format!("live threads, {}", kind.name());
                not_run.push(NotRun { variant, reason: format!("{error:#}") });
            }
        }
    }
    (measured, not_run)
}

fn run(kind: Kind, wanted: u64) -> anyhow::Result<Result> {
    let threads = if kind == Kind::Glibc { wanted.min(KERNEL_THREADS) } else { wanted };
    let (needed, free) = (threads * BYTES_AT_MOST, available_bytes());
    ensure!(needed <= free, "it may take {} MB of memory, {} are free", needed >> 20, free >> 20);
    let usual = Setting::one(Sched::Rr, 5000);
    let often = Setting::one(Sched::Rr, QUANTUM_US);
    let (program, how) = match kind {
        Kind::Parked => ("million-native", Threads::Custom(&usual)),
        Kind::Preempted => ("million-native", Threads::Custom(&often)),
        Kind::Preloaded => ("million", Threads::Preloaded(&usual)),
        Kind::Glibc => ("million", Threads::Own),
    };
    let mut command = command(program, how, Cpus::One)?;
    command.args(["--threads", &threads.to_string()]);
    command.args(["--preempt", if kind == Kind::Preempted { "1" } else { "0" }]);
    // Each of them runs for about a quantum, sometimes for two.
    let seconds = 60 + threads * QUANTUM_US * 3 / 1_000_000;
    let result: Result = run_json(command, Duration::from_secs(seconds))?;
    ensure!(
        result.threads == threads || kind == Kind::Glibc,
        "only {} threads could be created",
        result.threads
    );
    Ok(result)
}

fn available_bytes() -> u64 {
    let text = system::line("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib << 10)
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    if measured.results.is_empty() {
        return String::new();
    }
    let header =
        ["live threads", "threads", "begin, ns", "end, ns", "memory, bytes", "page tables, bytes"];
    let mut table = table(&header, terminal);
    for (kind, result) in &measured.results {
        table.add_row([
            kind.name().to_owned(),
            result.threads.to_string(),
            format!("{:.0}", result.begin_ns),
            format!("{:.0}", result.end_ns),
            format!("{:.0}", result.bytes),
            format!("{:.0}", result.page_table_bytes),
        ]);
    }
    format!(
        "{}\n(each for one thread: from its creation until all wait, from waking all until they \
         are joined; memory as it is resident)\n",
        table.trim_fmt()
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let rows = measured.results.iter().flat_map(|(kind, it)| {
        let case = format!("{} live threads", it.threads);
        let row = |metric, unit, value| Row::number(&case, kind.name(), metric, unit, value);
        [
            row("time until all wait, of each", "ns", it.begin_ns),
            row("time until all are joined, of each", "ns", it.end_ns),
            row("memory of a thread", "bytes", it.bytes),
            row("page tables of a thread", "bytes", it.page_table_bytes),
        ]
    });
    rows.collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Of as many as wanted: bytes parked, and once preempted.
    pub fn measured(parked: f64, preempted: f64) -> Measured {
        let result = |bytes| Result {
            threads: 1_000_000,
            begin_ns: 1.0,
            end_ns: 1.0,
            bytes,
            page_table_bytes: 128.0,
        };
        Measured {
            results: vec![(Kind::Parked, result(parked)), (Kind::Preempted, result(preempted))],
            wanted: 1_000_000,
        }
    }

    #[test]
    fn fewer_threads_than_wanted_do_not_count() {
        let mut it = measured(4200.0, 8300.0);
        assert_eq!(it.kb(Kind::Parked), Some(4.2));
        it.results[0].1.threads = 999_999;
        assert_eq!(it.kb(Kind::Parked), None);
        assert_eq!(rows(&it).len(), 8);
    }
}
