// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether learnt stacks hold: many runs of the spread. In each, every kind uses more or less than
//! in the run that was learnt from. All get the stacks learnt from that one run.

use super::lab::{Ended, Lab, Limits, Tek};
use super::spread::Threads;
use crate::json::Row;
use crate::programs;
use crate::stats::summarize;
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::ensure;
use serde::Serialize;

/// A series: how stacks are fitted and how much use varies.
#[derive(Clone, Copy, Serialize)]
pub struct Series {
    pub mode: &'static str,
    pub percent: u8,
    /// Whether the run that is learnt from varies too: else it is the published spread.
    pub learnt_varies: bool,
}

pub const TIGHT: Series = Series { mode: "tight", percent: 3, learnt_varies: true };
pub const AUTO: Series = Series { mode: "auto", percent: 20, learnt_varies: false };

/// The result.
#[derive(Serialize)]
pub struct Measured {
    pub series: Series,
    pub runs: usize,
    /// Allocated by used, for the runs that held.
    pub ratios: Vec<f64>,
    /// The messages of the runs that overflowed.
    pub overflows: Vec<String>,
}

impl Measured {
    /// The greatest ratio of all runs.
    pub fn worst_ratio(&self) -> Option<f64> {
        Some(summarize(&self.ratios)?.max)
    }

    fn name(&self) -> String {
        format!("{}, ±{}%", self.series.mode, self.series.percent)
    }
}

/// Runs a series; `progress` is called after each run.
pub fn measure(
    lab: &Lab,
    series: Series,
    runs: usize,
    progress: impl Fn(usize),
) -> anyhow::Result<Measured> {
    let program = programs::find("stack", "spread")?;
    let start = |mode, profiles: &std::path::Path, percent: u8, seed: usize| {
        let mut command = lab.command(&program, Tek::Stack(mode, profiles), Limits::default());
        command.arg(format!("--vary={percent}")).arg(format!("--seed={seed}"));
        lab.run_risky::<Threads>(&mut command)
    };
    let learnt = lab.profiles(&format!("learnt-{}", series.mode))?;
    let percent = if series.learnt_varies { series.percent } else { 0 };
    start("report", &learnt, percent, 0)?;
    ensure!(lab.has_profile(&learnt), "tek run --stack report left no profile");

    let mut measured = Measured { series, runs, ratios: Vec::new(), overflows: Vec::new() };
    for run in 1..=runs {
        let profiles = lab.copy_of(&learnt, "steady")?;
        match start(series.mode, &profiles, series.percent, run)? {
            Ended::Well(threads) => measured.ratios.push(threads.ratio()),
            Ended::Overflowed(printed) => measured.overflows.push(printed),
        }
        progress(run);
    }
    Ok(measured)
}

/// For people.
pub fn report(all: &[Measured], terminal: Terminal) -> String {
    if all.is_empty() {
        return String::new();
    }
    let header = ["use varies from run to run", "runs", "overflows", "ratio, median", "greatest"];
    let mut table = table(&header, terminal);
    for measured in all {
        let ratio = summarize(&measured.ratios);
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.3}"));
        table.add_row([
            measured.name(),
            measured.runs.to_string(),
            measured.overflows.len().to_string(),
            number(ratio.map(|ratio| ratio.p50)),
            number(ratio.map(|ratio| ratio.max)),
        ]);
    }
    let printed: String = all
        .iter()
        .flat_map(|measured| measured.overflows.first())
        .map(|printed| format!("overflow: {printed}\n"))
        .collect();
    format!("{}\n(each run with what one run taught)\n{printed}", table.trim_fmt())
}

/// The rows of the JSON document.
pub fn rows(all: &[Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    for measured in all {
        let case = "use varies from run to run";
        let overflows = measured.overflows.len() as f64;
        rows.push(Row::number(case, measured.name(), "runs with an overflow", "", overflows));
        if let Some(ratio) = summarize(&measured.ratios) {
            let metric = "allocated by used";
            rows.push(Row::distribution(case, measured.name(), metric, "times", &ratio));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_run_counts_and_not_the_mean() {
        let ratios = vec![1.11, 1.14, 1.10];
        let measured = Measured { series: TIGHT, runs: 3, ratios, overflows: Vec::new() };
        assert_eq!(measured.worst_ratio(), Some(1.14));
        assert_eq!(measured.name(), "tight, ±3%");
    }

    #[test]
    fn where_every_run_overflowed_there_is_no_ratio() {
        let overflows = vec!["thread 1".to_owned(); 2];
        let measured = Measured { series: AUTO, runs: 2, ratios: Vec::new(), overflows };
        assert_eq!(measured.worst_ratio(), None);
        assert_eq!(rows(&[measured]).len(), 1);
    }
}
