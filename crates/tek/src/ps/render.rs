// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads as a table for people.
use super::column::Column;
use comfy_table::{presets, CellAlignment, ContentArrangement, Table};

/// The lines of a table, its heads first; as wide as they need to be.
pub fn table(columns: &[Column], rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|column| column.name().to_uppercase()));
    for (drawn, column) in table.column_iter_mut().zip(columns) {
        if column.is_number() {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.add_rows(rows);
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// A line cut to what a terminal has room for.
pub fn cut(line: &str, width: Option<usize>) -> String {
    width.map_or_else(|| line.to_owned(), |width| console::truncate_str(line, width, "…").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_names_to_the_left() {
        let row = |tid: &str, name: &str| vec![tid.to_owned(), name.to_owned()];
        let rows = [row("7", "gas"), row("1234", "ui")];
        let lines = table(&[Column::Tid, Column::Name], rows.into_iter());
        assert_eq!(lines, ["  TID  NAME", "    7  gas", " 1234  ui"]);
    }

    #[test]
    fn a_line_is_cut_only_where_there_is_a_terminal() {
        assert_eq!(cut("a long line", Some(6)), "a lon…");
        assert_eq!(cut("a long line", None), "a long line");
    }
}
