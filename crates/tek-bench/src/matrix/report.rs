// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matrix on the terminal.

use super::cell::Cell;
use super::column::Column;
use super::heat;
use super::rounds::{Plan, Session};
use super::row::Row;
use super::summary::{CellSummary, Summaries};
use crate::table::table;
use crate::terminal::Terminal;
use std::collections::BTreeMap;

/// The tables: p99, mean, and what the background threads achieved.
pub fn tables(plan: &Plan, summaries: &Summaries, terminal: Terminal) -> Vec<String> {
    let drawn = |title, cell: &dyn Fn(Cell, &CellSummary) -> Option<String>| {
        matrix(title, plan, summaries, terminal, cell)
    };
    vec![
        drawn("p99", &|(_, column), it| match column {
            Column::Alone => Some(format!("{:.1} ms", it.response_ms.p99)),
            _ => it.p99_ratio.map(heat::marked),
        }),
        drawn("mean", &|(_, column), it| match column {
            Column::Alone => Some(format!("{:.1} ms", it.response_ms.mean)),
            _ => it.mean_ratio.map(heat::marked),
        }),
        drawn("background work", &|_, it| it.work_ratio.map(heat::ratio)),
        "p99, mean: of each round by that of alone in the same round, median; alone in ms\n\
         background work: a second, by conventional; of hogs where a row has no background thread\n\
         rtkit and pi-mutex need a change of the program\n"
            .to_owned(),
    ]
}

fn matrix(
    title: &str,
    plan: &Plan,
    summaries: &Summaries,
    terminal: Terminal,
    text: &dyn Fn(Cell, &CellSummary) -> Option<String>,
) -> String {
    let mut header = vec![title];
    header.extend(plan.columns.iter().map(|column| column.name()));
    let mut table = table(&header, terminal);
    for row in &plan.rows {
        let cells = plan.columns.iter().map(|column| {
            let cell = (*row, *column);
            summaries.get(&cell).and_then(|it| text(cell, it)).unwrap_or_default()
        });
        table.add_row([row.name().to_owned()].into_iter().chain(cells));
    }
    heat::coloured(&format!("{}\n", table.trim_fmt()))
}

/// The empty cells: a line for each column and reason.
pub fn empty_cells(session: &Session) -> String {
    let mut rows: BTreeMap<(Column, &str), Vec<Row>> = BTreeMap::new();
    for ((row, column), reason) in &session.empty {
        rows.entry((*column, reason)).or_default().push(*row);
    }
    let line = |((column, reason), rows): ((Column, &str), Vec<Row>)| {
        let rows: Vec<_> = rows.into_iter().map(Row::name).collect();
        format!("empty: {} of {}: {reason}\n", column.name(), rows.join(", "))
    };
    rows.into_iter().map(line).collect()
}

/// The noise of the ratios.
pub fn noise(summaries: &Summaries) -> String {
    let again = summaries.iter().filter(|((_, column), _)| *column == Column::AloneAgain);
    let ratios = again.filter_map(|(_, cell)| cell.p99_ratio);
    let (least, most) = ratios.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), ratio| {
        (least.min(ratio), most.max(ratio))
    });
    match most > 0.0 {
        true => format!("noise: alone-again is alone, and its p99 is {least:.2} to {most:.2}\n"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::fixture::{plan, session};
    use crate::matrix::summary::summarize;

    const TERMINAL: Terminal = Terminal { width: 120, unicode: false };

    #[test]
    fn each_table_has_a_line_for_each_row() {
        let tables = tables(&plan(), &summarize(&session()), TERMINAL);
        let line = |table: &str| table.lines().nth(2).unwrap().to_owned();
        let words = |table: &str| -> Vec<String> {
            line(table).split_ascii_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(words(&tables[0]), ["mutex", "4.0", "ms", "15.0", "1.12"]);
        assert_eq!(words(&tables[2]), ["mutex", "2.00", "1.00", "0.80"]);
    }

    #[test]
    fn marks_take_no_room() {
        let tables = tables(&plan(), &summarize(&session()), TERMINAL);
        let lines: Vec<_> = tables[0].lines().map(|line| line.trim_end().len()).collect();
        assert_eq!(lines[0], lines[2], "{}", tables[0]);
    }

    #[test]
    fn an_empty_cell_is_named_with_its_reason() {
        assert_eq!(empty_cells(&session()), "empty: nice of mutex: no <privilege>\n");
    }
}
