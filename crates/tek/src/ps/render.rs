// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads as a table for people.
use super::column::Column;
use console::{measure_text_width, pad_str, truncate_str, Alignment};

/// The lines of a table, its heads first; as wide as they need to be.
pub fn table(columns: &[Column], rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let heads = columns.iter().map(|column| column.name().to_uppercase()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| measure_text_width(&row[at])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).zip(columns).map(|((cell, &width), column)| {
            let side = if column.is_number() { Alignment::Right } else { Alignment::Left };
            pad_str(cell, width, side, None)
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A line cut to the width of a terminal.
pub fn cut(line: &str, width: Option<usize>) -> String {
    width.map_or_else(|| line.to_owned(), |width| truncate_str(line, width, "…").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_names_to_the_left() {
        let row = |tid: &str, name: &str| vec![tid.to_owned(), name.to_owned()];
        let rows = [row("7", "gaz é"), row("1234", "ui")];
        let lines = table(&[Column::Tid, Column::Name], rows.into_iter());
        assert_eq!(lines, [" TID  NAME", "   7  gaz é", "1234  ui"]);
    }

    #[test]
    fn a_line_is_cut_only_where_there_is_a_terminal() {
        assert_eq!(cut("a long line", Some(6)), "a lon…");
        assert_eq!(cut("a long line", None), "a long line");
    }
}
