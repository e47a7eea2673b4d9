// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups, for people.
use super::find_out::{Fast, Report, Row};
use super::set::no_groups;
use comfy_table::{presets, CellAlignment, ContentArrangement, Table};
use std::io::{self, Write};
use tek_abi::printable;

const HEADS: [&str; 6] = ["GROUP", "WEIGHT", "SHARE", "THREADS", "PROCESSES", "DIRECTORY"];
/// Without tekd they have neither weights nor directories.
const HEADS_OF_TABLES: [&str; 3] = ["GROUP", "THREADS", "PROCESSES"];

/// Prints all of it.
pub fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if let Some(place) = &report.place {
        writeln!(out, "Groups of {}", shown(place))?;
    }
    if let Some(why) = &report.why_not {
        writeln!(out, "No groups share the CPUs: {}", shown(why))?;
        if why.starts_with("tekd makes no groups") {
            writeln!(out, "To have them: {}", no_groups())?;
        }
        writeln!(out, "What programs under TEK say of their threads:")?;
    }
    writeln!(out)?;
    for line in table(report).lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)?;
    fast(out, &report.fast)?;
    if let (Some(floor), Some("fair")) = (report.floor_percent, report.backend.as_deref()) {
        writeln!(out, "While there are such, all groups together keep {floor}% of each CPU.")?;
    }
    match report.left {
        0 => Ok(()),
        1 => writeln!(out, "One thread could not be moved and is where it was."),
        left => writeln!(out, "{left} threads could not be moved and are where they were."),
    }
}

/// Programs may choose any name.
fn shown(text: &str) -> String {
    printable(text.as_bytes())
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    match report.in_force {
        true => table.set_header(HEADS).add_rows(report.groups.iter().map(row)),
        false => {
            table.set_header(HEADS_OF_TABLES).add_rows(report.groups.iter().map(row_of_tables))
        }
    };
    let numbers = 1..if report.in_force { 5 } else { 3 };
    for at in numbers {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(row: &Row) -> Vec<String> {
    let reported =
        |number: Option<u64>| number.map_or_else(|| "-".into(), |number| number.to_string());
    vec![
        shown(&row.name),
        reported(row.weight),
        row.share_percent.map_or_else(|| "-".into(), |share| format!("{share:.0}%")),
        row.threads.to_string(),
        reported(row.processes),
        row.path.as_deref().map_or_else(|| "-".into(), shown),
    ]
}

fn row_of_tables(row: &Row) -> Vec<String> {
    vec![shown(&row.name), row.threads.to_string(), row.processes.unwrap_or_default().to_string()]
}

fn fast(out: &mut impl Write, threads: &[Fast]) -> io::Result<()> {
    if threads.is_empty() {
        return writeln!(out, "No thread is time-critical.");
    }
    let reported = |one: &Fast| {
        let group = one.group.as_ref().map(|group| format!(", {group}")).unwrap_or_default();
        let (name, program) = (shown(&one.name), shown(&one.program));
        format!("{name} [{}] of {program} [{}]{group}", one.tid, one.pid)
    };
    writeln!(out, "Time-critical, before all groups:")?;
    threads.iter().try_for_each(|one| writeln!(out, "  {}", reported(one)))
}

#[cfg(test)]
mod tests {
    use super::super::find_out::tests::by_daemon;
    use super::*;

    fn reported(report: &Report) -> String {
        let mut out = Vec::new();
        print(&mut out, report).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_groups_are_a_table_and_the_threads_before_them_stand_below() {
        let text = reported(&by_daemon());
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(text.lines().next(), Some("Groups of cgroup version 2, /sys/fs/cgroup/tek"));
        assert_eq!(words[3], ["urgent", "400", "71%", "3", "-", "/sys/fs/cgroup/tek/lazy/urgent"]);
        for part in
            ["door [817] of fridge [815]", "keep 5% of each CPU", "One thread could not be moved"]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn without_groups_the_way_to_get_them_is_shown() {
        let report = Report {
            why_not: Some("tekd makes no groups: tekd.toml has no [groups]".into()),
            groups: vec![Row { name: "normal".into(), threads: 4, ..Row::default() }],
            ..Report::default()
        };
        let text = reported(&report);
        assert!(
            text.contains("To have them: ") && text.contains(r#"echo "[groups]" >>"#),
            "{text}"
        );
        assert!(text.contains("No thread is time-critical.") && !text.contains("WEIGHT"), "{text}");
    }
}
