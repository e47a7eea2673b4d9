// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot of every thread of a process: from its table, and from /proc without one.

use super::calls::Crowd;
use crate::json::Row;
use crate::stats::{median, median_of_ratios, summarize};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::{ensure, Context};
use serde::Serialize;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::time::Instant;
use tek_model::Table;

/// Times in µs, one entry a round.
#[derive(Default, Serialize)]
pub struct Measured {
    pub threads: usize,
    /// The table opened, read and closed.
    pub table_us: Vec<f64>,
    /// Read again while it stays open, as `--watch` does.
    pub open_table_us: Vec<f64>,
    /// /proc/PID/task/*/stat, read and not even parsed.
    pub proc_us: Vec<f64>,
}

impl Measured {
    /// How long reading /proc usually takes, in ms.
    pub fn proc_ms(&self) -> Option<f64> {
        Some(median(&self.proc_us)? / 1e3)
    }

    /// How much longer /proc takes than a table that is opened anew.
    pub fn ratio(&self) -> Option<f64> {
        median_of_ratios(&self.proc_us, &self.table_us)
    }
}

/// Takes the snapshots in alternation.
pub fn measure(crowd: &Crowd, rounds: usize) -> anyhow::Result<Measured> {
    let mut measured = Measured { threads: crowd.threads(), ..Measured::default() };
    let mut open = Table::open(crowd.table()).context("the program calls has no table")?;
    let tasks = Path::new("/proc").join(crowd.pid().to_string()).join("task");
    // Once before it counts: the memory is touched for the first time.
    for round in 0..=rounds {
        let anew = timed(|| read_table(&mut Table::open(crowd.table())?), crowd.threads())?;
        let again = timed(|| read_table(&mut open), crowd.threads())?;
        let proc = timed(|| read_proc(&tasks), crowd.threads())?;
        if round > 0 {
            measured.table_us.push(anew);
            measured.open_table_us.push(again);
            measured.proc_us.push(proc);
        }
    }
    Ok(measured)
}

/// How long it takes, in µs, to read so many threads.
fn timed(mut read: impl FnMut() -> anyhow::Result<usize>, threads: usize) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let found = read()?;
    let elapsed = begin.elapsed();
    ensure!(found == threads, "{found} threads were found instead of {threads}");
    Ok(elapsed.as_secs_f64() * 1e6)
}

fn read_table(table: &mut Table) -> anyhow::Result<usize> {
    Ok(black_box(table.snapshot()?).threads.len())
}

/// The least work of a reader of /proc.
fn read_proc(tasks: &Path) -> anyhow::Result<usize> {
    let mut line = [0; 1024];
    let mut threads = 0;
    for task in fs::read_dir(tasks)? {
        let length = File::open(task?.path().join("stat"))?.read(&mut line)?;
        threads += usize::from(black_box(&line[..length]).len() > 1);
    }
    Ok(threads)
}

fn ways(measured: &Measured) -> [(&'static str, &[f64]); 3] {
    [
        ("thread table, opened anew", &measured.table_us),
        ("thread table, kept open", &measured.open_table_us),
        ("/proc/PID/task/*/stat, not parsed", &measured.proc_us),
    ]
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    let header = format!("snapshot of {} threads, µs", measured.threads);
    let mut table = table(&[&header, "median", "least", "max"], terminal);
    for (way, times) in ways(measured) {
        if let Some(summary) = summarize(times) {
            table.add_row([
                way.to_owned(),
                format!("{:.0}", summary.p50),
                format!("{:.0}", summary.min),
                format!("{:.0}", summary.max),
            ]);
        }
    }
    format!("{}\n", table.trim_fmt())
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let case = format!("{} threads", measured.threads);
    ways(measured)
        .into_iter()
        .filter_map(|(way, times)| {
            Some(Row::distribution(&case, way, "snapshot", "us", &summarize(times)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_proc_by_the_table_that_is_opened_anew() {
        let measured = Measured {
            table_us: vec![100.0, 200.0, 100.0],
            open_table_us: vec![1.0; 3],
            proc_us: vec![2000.0, 2000.0, 2200.0],
            threads: 3,
        };
        assert_eq!(measured.ratio(), Some(20.0));
    }

    #[test]
    fn a_thread_too_few_is_an_error() {
        assert!(timed(|| Ok(2), 3).is_err());
    }
}
