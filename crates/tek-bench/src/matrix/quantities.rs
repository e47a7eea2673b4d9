// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds.toml judges of `tek bench matrix`.

use super::column::Column;
use super::row::Row;
use super::summary::{CellSummary, Summaries};
use crate::verdict::{judge, Quantities, Verdicts};
use clap::ValueEnum;

/// The columns that are judged: with tekd if that was measured, as TEK is when it is installed.
const JUDGED: [Column; 2] = [Column::Tekd, Column::Tek];

/// Judges the rows that were to be measured under TEK.
pub fn judged(rows: &[Row], columns: &[Column], summaries: &Summaries) -> Verdicts {
    let is_measured = JUDGED.iter().any(|column| columns.contains(column));
    let parts = rows.iter().filter(|_| is_measured).map(|row| row.name());
    judge("matrix", parts.chain(["cells"]), &quantities(summaries))
}

/// By their names in bounds.toml.
fn quantities(summaries: &Summaries) -> Quantities {
    let least = |number: fn(&CellSummary) -> usize| {
        summaries.values().map(|cell| number(cell) as f64).reduce(f64::min)
    };
    let mut all = Quantities::from([
        ("rounds", least(|cell| cell.round_p99_ms.len())),
        ("events a cell", least(|cell| cell.response_ms.n)),
    ]);
    for row in Row::value_variants() {
        let cell = JUDGED.iter().find_map(|column| summaries.get(&(*row, *column)));
        all.extend(cell.map(|cell| (format!("{}: p99", row.name()), cell.p99_ratio)));
    }
    all
}

/// The reasons beside the bars why --assert fails.
pub fn failures(columns: &[Column]) -> Vec<String> {
    let is_measured = JUDGED.iter().any(|column| columns.contains(column));
    if is_measured && columns.contains(&Column::Alone) {
        return Vec::new();
    }
    vec!["TEK cannot be judged: measure the columns alone and tek or tekd".to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::fixture::session;
    use crate::matrix::summary::summarize;

    const COLUMNS: [Column; 2] = [Column::Alone, Column::Tek];

    fn failures_when(p99_ms: u64, times: usize) -> Vec<String> {
        let mut session = session();
        for runs in session.runs.values_mut() {
            *runs = vec![runs[0].clone(); 9];
            for run in runs {
                run.responses_ns = run.responses_ns.repeat(times);
            }
        }
        for run in session.runs.get_mut(&(Row::Mutex, Column::Tek)).unwrap() {
            run.responses_ns[0] = p99_ms * 1_000_000;
            run.responses_ns[1] = p99_ms * 1_000_000;
        }
        judged(&[Row::Mutex], &COLUMNS, &summarize(&session)).failures()
    }

    #[test]
    fn a_bar_is_met_or_named() {
        assert_eq!(failures_when(4, 12), [""; 0]);
        let failures = failures_when(8, 12);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].contains("mutex") && failures[0].contains("2.00 times"));
    }

    #[test]
    fn too_few_events_are_named() {
        assert!(failures_when(4, 1)[0].contains("200 events a cell"));
    }

    #[test]
    fn a_row_that_was_not_measured_does_not_pass() {
        let failures = judged(&[Row::Chain], &COLUMNS, &Summaries::new()).failures();
        assert!(failures[0].contains("not measured"), "{failures:?}");
        assert!(!super::failures(&[Column::Tek]).is_empty());
        assert!(super::failures(&COLUMNS).is_empty());
    }
}
