// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the measurements of the cells to the reported numbers.

use super::cell::Cell;
use super::column::Column;
use super::rounds::{Measured, Session};
use crate::json::Row as JsonRow;
use crate::stats::{self, median_of_ratios, Summary};
use std::collections::BTreeMap;

/// One cell, all rounds.
pub struct CellSummary {
    /// All responses, in ms.
    pub response_ms: Summary,
    /// Each of them.
    pub all_ms: Vec<f64>,
    /// Of each round, in ms.
    pub round_p99_ms: Vec<f64>,
    pub round_mean_ms: Vec<f64>,
    /// By those of `alone` in the same round, median.
    pub p99_ratio: Option<f64>,
    pub mean_ratio: Option<f64>,
    /// Steps of the background threads a second, or of the hogs in a row without such threads;
    /// `None` without both.
    pub work_per_s: Option<f64>,
    /// The same by that of `conventional`.
    pub work_ratio: Option<f64>,
}

/// The summaries of all cells that were measured.
pub type Summaries = BTreeMap<Cell, CellSummary>;

/// Summarizes a session.
pub fn summarize(session: &Session) -> Summaries {
    let mut summaries: Summaries = session
        .runs
        .iter()
        .filter_map(|(cell, runs)| Some((*cell, of_cell(*cell, runs)?)))
        .collect();
    let cells: Vec<Cell> = summaries.keys().copied().collect();
    for (row, column) in cells {
        let of = |other| summaries.get(&(row, other));
        let Some(this) = of(column) else { continue };
        let alone = of(Column::Alone);
        let p99 = alone.and_then(|it| median_of_ratios(&this.round_p99_ms, &it.round_p99_ms));
        let mean = alone.and_then(|it| median_of_ratios(&this.round_mean_ms, &it.round_mean_ms));
        let work = of(Column::Conventional)
            .and_then(|it| it.work_per_s.filter(|work| *work > 0.0))
            .and_then(|work| Some(this.work_per_s? / work));
        if let Some(this) = summaries.get_mut(&(row, column)) {
            (this.p99_ratio, this.mean_ratio, this.work_ratio) = (p99, mean, work);
        }
    }
    summaries
}

fn of_cell((row, column): Cell, runs: &[Measured]) -> Option<CellSummary> {
    let per_round: Vec<Vec<f64>> = runs
        .iter()
        .map(|run| run.responses_ns.iter().map(|ns| *ns as f64 / 1e6).collect())
        .collect();
    let all_ms = per_round.concat();
    let seconds = runs.iter().map(|run| run.phase_ns).sum::<u64>() as f64 / 1e9;
    let count = |run: &Measured| if row.has_background() { run.background } else { run.hogs };
    let work = (row.has_background() || column.has_hogs())
        .then(|| runs.iter().map(count).sum::<u64>() as f64);
    Some(CellSummary {
        response_ms: stats::summarize(&all_ms)?,
        round_p99_ms: per_round.iter().filter_map(|ms| stats::p99(ms)).collect(),
        round_mean_ms: per_round.iter().filter_map(|ms| Some(stats::summarize(ms)?.mean)).collect(),
        all_ms,
        p99_ratio: None,
        mean_ratio: None,
        work_per_s: work.map(|work| work / seconds),
        work_ratio: None,
    })
}

/// The rows of the JSON document.
pub fn rows(summaries: &Summaries) -> Vec<JsonRow> {
    let mut rows = Vec::new();
    for ((row, column), cell) in summaries {
        let (row, column) = (row.name(), column.name());
        rows.push(JsonRow::distribution(row, column, "response", "ms", &cell.response_ms));
        let numbers = [
            ("p99 of a round / alone", "1", cell.p99_ratio),
            ("mean of a round / alone", "1", cell.mean_ratio),
            ("background work", "1/s", cell.work_per_s),
            ("background work / conventional", "1", cell.work_ratio),
        ];
        rows.extend(numbers.into_iter().filter_map(|(metric, unit, value)| {
            Some(JsonRow::number(row, column, metric, unit, value?))
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::fixture::{measured, session};
    use crate::matrix::row::Row;

    #[test]
    fn ratios_are_medians_of_those_of_each_round() {
        let summaries = summarize(&session());
        let of = |column| &summaries[&(Row::Mutex, column)];
        assert_eq!(of(Column::Alone).p99_ratio, Some(1.0));
        assert_eq!(of(Column::Tek).p99_ratio, Some((1.0 + 1.25) / 2.0));
        assert_eq!(of(Column::Conventional).p99_ratio, Some(15.0));
        assert_eq!(of(Column::Conventional).mean_ratio, Some((10.0 + 50.0 / 3.0) / 2.0));
        assert_eq!(of(Column::Tek).work_ratio, Some(0.8));
    }

    #[test]
    fn without_alone_there_is_no_ratio() {
        let mut session = session();
        session.runs.remove(&(Row::Mutex, Column::Alone));
        let summaries = summarize(&session);
        assert!(summaries.values().all(|cell| cell.p99_ratio.is_none()));
        assert_eq!(summaries[&(Row::Mutex, Column::Tek)].work_ratio, Some(0.8));
    }

    #[test]
    fn in_a_row_without_background_threads_the_hogs_are_the_background_work() {
        let mut run = measured(&[2], 0);
        run.hogs = 7;
        let work = |cell| of_cell(cell, std::slice::from_ref(&run)).unwrap().work_per_s;
        assert_eq!(work((Row::Fsync, Column::Tek)), Some(7.0));
        assert_eq!(work((Row::Fsync, Column::Alone)), None);
        assert_eq!(work((Row::Mutex, Column::Tek)), Some(0.0));
    }
}
