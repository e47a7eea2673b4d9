// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bars, and whether they were met: our numbers beside the paper's.

use super::json::Row;
use super::table::table;
use super::terminal::Terminal;

/// A bar and its value, which is `None` where nothing was measured.
pub struct Verdict {
    pub what: &'static str,
    pub paper: &'static str,
    pub must: Must,
    pub unit: &'static str,
    pub value: Option<f64>,
}

/// The bar.
#[derive(Clone, Copy)]
pub enum Must {
    BeAtMost(f64),
    BeAtLeast(f64),
}

impl Verdict {
    /// Whether the bar was met.
    pub fn met(&self) -> bool {
        self.value.is_some_and(|value| match self.must {
            Must::BeAtMost(limit) => value <= limit,
            Must::BeAtLeast(limit) => value >= limit,
        })
    }

    fn must(&self) -> String {
        match self.must {
            Must::BeAtMost(limit) => format!("<= {limit} {}", self.unit),
            Must::BeAtLeast(limit) => format!(">= {limit} {}", self.unit),
        }
    }

    fn measured(&self) -> String {
        let Some(value) = self.value else {
            return "not measured".to_owned();
        };
        let digits = match value.abs() {
            0.0 => 0,
            ..10.0 => 2,
            10.0..100.0 => 1,
            _ => 0,
        };
        format!("{value:.digits$} {}", self.unit)
    }
}

/// For people.
pub fn report(verdicts: &[Verdict], terminal: Terminal) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let mut table = table(&["TEK beside the paper", "paper", "must be", "measured"], terminal);
    for verdict in verdicts {
        let result = match verdict.value {
            None => "",
            Some(_) if verdict.met() => " PASS",
            Some(_) => " short",
        };
        table.add_row([
            verdict.what.to_owned(),
            verdict.paper.to_owned(),
            verdict.must(),
            format!("{}{result}", verdict.measured()),
        ]);
    }
    format!("{}\n", table.trim_fmt())
}

/// The rows of the JSON document.
pub fn rows(verdicts: &[Verdict]) -> Vec<Row> {
    let row = |it: &Verdict| Some(Row::number("must show", "tek", it.what, it.unit, it.value?));
    verdicts.iter().filter_map(row).collect()
}

/// The bars that were missed, a reason each.
pub fn missed(verdicts: &[Verdict]) -> Vec<String> {
    let missed = verdicts.iter().filter(|verdict| !verdict.met());
    missed.map(|it| format!("{} is {}, must be {}", it.what, it.measured(), it.must())).collect()
}
