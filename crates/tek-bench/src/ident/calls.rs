// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of single calls, in a process of many threads: the program `calls`.

use crate::json::Row;
use crate::programs;
use crate::stats::{median, summarize};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::{bail, Context};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The measurement of the program.
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

/// The loop around each call, measured as a call that does nothing.
pub const LOOP: &str = "empty loop";
/// The measure of the machine.
pub const EMPTY_CALL: &str = "call that only returns";

impl Measured {
    /// The time of a call in ns, less that of the loop around it: the median of the rounds'
    /// differences. `None` if the program does not know the call.
    pub fn call_ns(&self, name: &str) -> Option<f64> {
        let (call, empty) = (self.times(name)?, self.times(LOOP)?);
        let differences: Vec<f64> = call.iter().zip(empty).map(|(ns, empty)| ns - empty).collect();
        median(&differences)
    }

    /// The time of a call as a multiple of that of a call that only returns.
    pub fn by_empty_call(&self, name: &str) -> Option<f64> {
        let empty = self.call_ns(EMPTY_CALL).filter(|ns| *ns > 0.0)?;
        Some(self.call_ns(name)? / empty)
    }

    fn times(&self, name: &str) -> Option<&[f64]> {
        Some(&self.calls.iter().find(|call| call.name == name)?.ns)
    }
}

/// The program after it has measured: its threads sleep, so that other programs can sample them. It
/// is killed when this is dropped.
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
        // Both fail harmlessly once it has ended and is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    let mut table =
        table(&["time of a call, ns", "median", "less the loop", "least", "p99"], terminal);
    for call in &measured.calls {
        let (Some(summary), Some(alone)) = (summarize(&call.ns), measured.call_ns(&call.name))
        else {
            continue;
        };
        table.add_row([
            call.name.clone(),
            format!("{:.2}", summary.p50),
            format!("{alone:.2}"),
            format!("{:.2}", summary.min),
            format!("{:.2}", summary.p99),
        ]);
    }
    format!(
        "{}\n(made by one of {} threads, on one CPU; the bars are for the time less that of the \
         loop,\nby that of a call that only returns)\n",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_of_the_same_round_is_taken_off() {
        let call = |name: &str, ns: [f64; 3]| Call { name: name.to_owned(), ns: ns.into() };
        let measured = Measured {
            threads: 2,
            calls: vec![call(LOOP, [0.5, 0.25, 0.5]), call("gettid", [2.5, 2.0, 9.0])],
        };
        assert_eq!(measured.call_ns("gettid"), Some(2.0));
        assert_eq!(measured.call_ns(LOOP), Some(0.0));
        assert_eq!(measured.call_ns("unknown"), None);
    }

    #[test]
    fn without_an_empty_call_no_call_is_compared() {
        let call = |name: &str, ns| Call { name: name.to_owned(), ns: vec![ns] };
        let mut measured = Measured {
            threads: 2,
            calls: vec![call(LOOP, 0.5), call("gettid", 4.5), call(EMPTY_CALL, 2.5)],
        };
        assert_eq!(measured.by_empty_call("gettid"), Some(2.0));
        measured.calls[2].ns = vec![0.5];
        assert_eq!(measured.by_empty_call("gettid"), None);
    }
}
