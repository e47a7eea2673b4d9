// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns, and the choice of those that fit the terminal.
use crate::ps::column::Column;
use crate::ps::Sorting;

/// The default columns, the most important first: a narrow terminal shows the beginning of the
/// list.
pub const USUAL: [Column; 18] = [
    Column::Tid,
    Column::Name,
    Column::CpuPercent,
    Column::DelayPercent,
    Column::Voluntary,
    Column::Involuntary,
    Column::Region,
    Column::Program,
    Column::Policy,
    Column::Priority,
    Column::Group,
    Column::Zone,
    Column::Role,
    Column::Function,
    Column::Worker,
    Column::Waits,
    Column::Pid,
    Column::State,
];

/// So many columns are always shown.
pub const FIXED: usize = 2;

/// A shorter part of a text is useless.
const LEAST_TEXT: u16 = 6;

/// Numbers from the greatest, texts from A.
pub fn usual_order(column: Column) -> Sorting {
    Sorting { column, down: column.is_number() }
}

/// The usual columns, and the sorted one if it is not among them.
pub fn with(sort: Column) -> Vec<Column> {
    let mut columns = USUAL.to_vec();
    if !columns.contains(&sort) {
        columns.insert(FIXED, sort);
    }
    columns
}

fn width(column: Column, tree: bool) -> u16 {
    match column {
        Column::Tid | Column::Pid => 7,
        Column::Name if tree => 24,
        Column::Name | Column::Role => 16,
        Column::CpuPercent | Column::Voluntary | Column::State => 5,
        Column::DelayPercent | Column::Zone | Column::Policy => 6,
        Column::Region | Column::Involuntary | Column::Worker => 7,
        Column::Priority => 8,
        Column::Waits => 9,
        Column::Group => 10,
        Column::Function | Column::CallSite => 40,
        _ => 12,
    }
}

/// The columns that fit a line of so many cells, with one cell between two columns: each with its
/// width. Of those that are not always shown, `first` are skipped, but never the sorted one.
pub fn fitting(
    columns: &[Column],
    first: usize,
    sort: Column,
    tree: bool,
    room: u16,
) -> Vec<(Column, u16)> {
    let (fixed, remaining) = columns.split_at(FIXED.min(columns.len()));
    let remaining = &remaining[first.min(remaining.len())..];
    let wanted: Vec<Column> = fixed.iter().chain(remaining).copied().collect();
    let shown = as_many_as_fit(&wanted, tree, room);
    if shown.iter().any(|&(column, _)| column == sort) {
        return shown;
    }
    let remaining = remaining.iter().filter(|&&column| column != sort);
    let wanted: Vec<Column> = fixed.iter().chain([&sort]).chain(remaining).copied().collect();
    as_many_as_fit(&wanted, tree, room)
}

fn as_many_as_fit(columns: &[Column], tree: bool, room: u16) -> Vec<(Column, u16)> {
    let mut left = room;
    let mut shown = Vec::new();
    for &column in columns {
        let width = width(column, tree);
        if width > left {
            // The beginning of a text is useful, that of a number is wrong.
            if !column.is_number() && left >= LEAST_TEXT {
                shown.push((column, left));
            }
            break;
        }
        shown.push((column, width));
        left = left.saturating_sub(width + 1);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(first: usize, sort: Column, room: u16) -> Vec<String> {
        let shown = fitting(&USUAL, first, sort, false, room);
        let used: u16 = shown.iter().map(|(_, width)| width + 1).sum();
        assert!(used <= room + 1, "{shown:?}");
        shown.into_iter().map(|(column, _)| column.name()).collect()
    }

    #[test]
    fn a_narrow_terminal_shows_what_matters_most() {
        assert_eq!(names(0, Column::CpuPercent, 40), ["tid", "name", "cpu%", "delay%"]);
        let usual = names(0, Column::CpuPercent, 80);
        assert_eq!(usual[4..], ["vol/s", "invol/s", "region", "program", "policy"]);
        assert_eq!(names(0, Column::Tid, 200).len(), USUAL.len());
    }

    #[test]
    fn the_column_that_is_sorted_by_is_always_seen() {
        assert_eq!(names(0, Column::Zone, 40), ["tid", "name", "zone", "cpu%"]);
        assert_eq!(names(9, Column::CpuPercent, 40), ["tid", "name", "cpu%", "zone"]);
    }

    #[test]
    fn columns_can_be_passed_over_and_no_width_is_too_small() {
        assert_eq!(names(2, Column::Tid, 60)[..4], ["tid", "name", "vol/s", "invol/s"]);
        for room in 0..200 {
            for first in 0..20 {
                names(first, Column::Function, room);
            }
        }
    }
}
