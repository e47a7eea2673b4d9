// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of single calls, in a process of many threads: the program `calls`.

use crate::bench::json::Row;
use crate::bench::programs;
use crate::bench::stats::{median, summarize};
use crate::bench::table::table;
use crate::bench::terminal::Terminal;
use anyhow::{bail, Context};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What the program measured.
#[derive(Default, Serialize, Deserialize)]
pub struct Measured {
    pub threads: usize,
    pub calls: Vec<Call>,
}

/// One call: its time in ns, in each batch.
#[derive(Serialize, Deserialize)]
pub struct Call {
    pub name: String,
    pub ns: Vec<f64>,
}

impl Measured {
    /// The median of a call's times in ns; `None` if the program does not know the call.
    pub fn median_ns(&self, name: &str) -> Option<f64> {
        median(&self.calls.iter().find(|call| call.name == name)?.ns)
    }
}

/// The program after it has measured: its threads sleep, so that others can look at them.
/// It is killed when this is dropped.
pub struct Crowd {
    child: Child,
    measured: Measured,
    table: PathBuf,
}

impl Crowd {
    /// Starts it and waits until it has measured.
    pub fn start(tables: &Path, threads: u16, rounds: usize) -> anyhow::Result<Crowd> {
        let program = programs::find("ident", "calls")?;
        let mut child = Command::new(&program)
            .args([rounds.to_string(), threads.to_string()])
            .env("TEK_RUN_DIR", tables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let output = child.stdout.take().context("no output")?;
        let table = tables.join(format!("{}.table", child.id()));
        let mut crowd = Crowd { child, measured: Measured::default(), table };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.is_empty() {
            bail!("{} ended early: {}", program.display(), crowd.child.wait()?);
        }
        crowd.measured =
            serde_json::from_str(&line).context("calls printed something else than JSON")?;
        Ok(crowd)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.measured.threads
    }

    /// Its thread table.
    pub fn table(&self) -> &Path {
        &self.table
    }

    /// Lets it end.
    pub fn end(mut self) -> anyhow::Result<Measured> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the program calls failed at its end: {status}");
        }
        Ok(std::mem::take(&mut self.measured))
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // Both fail harmlessly when it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    let mut table = table(&["time of a call, ns", "median", "least", "p99"], terminal);
    for call in &measured.calls {
        let Some(summary) = summarize(&call.ns) else {
            continue;
        };
        table.add_row([
            call.name.clone(),
            format!("{:.2}", summary.p50),
            format!("{:.2}", summary.min),
            format!("{:.2}", summary.p99),
        ]);
    }
    format!(
        "{}\n(of one of {} threads on one CPU; what the empty loop takes is in all of them)\n",
        table.trim_fmt(),
        measured.threads
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let calls = measured.calls.iter();
    calls
        .filter_map(|call| {
            let summary = summarize(&call.ns)?;
            Some(Row::distribution("call", &call.name, "time of a call", "ns", &summary))
        })
        .collect()
}
