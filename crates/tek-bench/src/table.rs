// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables as all benchmarks draw them.

use super::terminal::Terminal;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// A table with a line under its header; the first column to the left, numbers to the right.
pub fn table(header: &[&str], terminal: Terminal) -> Table {
    let mut table = Table::new();
    let rule = if terminal.unicode { '─' } else { '-' };
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill(rule)));
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Colours the verdicts in a text, if standard output is a terminal that shows colours.
pub fn coloured(text: &str) -> String {
    // After the layout: a table counts the width of its cells.
    text.replace(" PASS", &console::style(" PASS").green().to_string())
        .replace(" short", &console::style(" short").red().to_string())
}
