// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of the tables of `tek run --report`.
use comfy_table::{presets, CellAlignment, ContentArrangement, Table as Grid};
use std::ops::Range;
use std::time::Duration;

/// An empty grid with these heads; the numbers are in some of its columns.
pub fn grid_of(heads: [&str; 8], numbers: Range<usize>) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    grid.set_header(heads);
    for column in grid.column_iter_mut().skip(numbers.start).take(numbers.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    grid
}

/// A time, with three significant digits.
pub fn time(ns: u64) -> String {
    format!("{:.3?}", Duration::from_nanos(ns))
}
