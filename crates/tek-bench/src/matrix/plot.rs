// SPDX-License-Identifier: MIT OR Apache-2.0
//! One row of the matrix as a bar chart.

use super::column::Column;
use super::rounds::Plan;
use super::row::Row;
use super::summary::Summaries;
use crate::host::Host;
use crate::svg::{bar_chart, Bar, Chart};

/// The columns of a chart. Alone-again and tek-no-inherit explain others and are left out.
const SHOWN: [(Column, &str); 10] = [
    (Column::Conventional, "stock Linux"),
    (Column::Nice, "nice -20"),
    (Column::Chrt, "chrt -r"),
    (Column::Rtkit, "rtkit, asked in source"),
    (Column::Weights, "cgroup weights"),
    (Column::PiMutex, "chrt -r, PI mutex in source"),
    (Column::Tek, "TEK without tekd"),
    (Column::Tekd, "TEK, program unchanged"),
    (Column::TekdFair, "TEK by weights, unchanged"),
    (Column::Alone, "alone on the device"),
];

/// The SVG document of the first row: a bar for the mean of each column, a line to its p99.
pub fn svg(plan: &Plan, summaries: &Summaries, host: &Host) -> String {
    let row = plan.rows.first().copied().unwrap_or(Row::Hogs);
    let bars: Vec<Bar> = SHOWN
        .iter()
        .filter_map(|(column, label)| {
            let response = &summaries.get(&(row, *column))?.response_ms;
            Some(Bar {
                label: (*label).to_owned(),
                value: response.mean,
                greatest: response.p99,
                text: format!("{:.1} ms", response.mean),
                marked: [Column::Tek, Column::Tekd, Column::TekdFair].contains(column),
            })
        })
        .collect();
    let caption = format!(
        "Bar: mean, line: 99th percentile. {} CPU-bound processes.\n{}",
        plan.hogs,
        host.caption()
    );
    let title = format!("Answer time of a touch that waits: {}", row.waits_for());
    bar_chart(&Chart { title: &title, caption: &caption, bars: &bars })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::matrix::fixture::{plan, session};
    use crate::matrix::summary::summarize;

    #[test]
    fn each_measured_column_of_the_first_row_has_a_bar() {
        let svg = svg(&plan(), &summarize(&session()), &host());
        assert_eq!(svg.matches("<rect class=\"bar").count(), 3);
        assert_eq!(svg.matches("bar tek").count(), 1);
        assert!(svg.contains("a mutex that a background thread holds again and again"), "{svg}");
        assert!(!svg.contains("nice -20"));
    }
}
