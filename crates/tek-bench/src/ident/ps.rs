// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek ps` of a process of many threads, from its start to its end.

use super::calls::Crowd;
use crate::json::Row;
use crate::programs;
use crate::stats::{median, summarize};
use anyhow::{ensure, Context};
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Several, because the bar is for the median.
const ROUNDS: usize = 11;

/// Times in ms, one entry a round.
#[derive(Default, Serialize)]
pub struct Measured {
    pub threads: usize,
    pub ms: Vec<f64>,
}

impl Measured {
    /// How long it usually takes, in ms.
    pub fn usual_ms(&self) -> Option<f64> {
        median(&self.ms)
    }
}

/// Runs it.
pub fn measure(crowd: &Crowd) -> anyhow::Result<Measured> {
    let mut command = Command::new(programs::tek()?);
    command
        .args(["ps", "--pid", &crowd.pid().to_string()])
        .env("TEK_RUN_DIR", crowd.table().parent().unwrap_or(Path::new("/")))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut measured = Measured { threads: crowd.threads(), ..Measured::default() };
    // Once before it counts: the files are read for the first time.
    for round in 0..=ROUNDS {
        let begin = Instant::now();
        let status = command.status().context("cannot start tek ps")?;
        let elapsed = begin.elapsed();
        ensure!(status.success(), "tek ps failed: {status}");
        if round > 0 {
            measured.ms.push(elapsed.as_secs_f64() * 1e3);
        }
    }
    Ok(measured)
}

/// For people.
pub fn report(measured: &Measured) -> String {
    let Some(summary) = summarize(&measured.ms) else { return String::new() };
    format!(
        "tek ps of {} threads: median {:.0}, least {:.0}, max {:.0} ms\n",
        measured.threads, summary.p50, summary.min, summary.max
    )
}

/// The row of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let case = format!("{} threads", measured.threads);
    let row = |summary| Row::distribution(&case, "tek ps", "time of tek ps", "ms", &summary);
    summarize(&measured.ms).map(row).into_iter().collect()
}
