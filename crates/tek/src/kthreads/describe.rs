// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel threads, for people.
use super::find_out::{Report, Row};
use crate::status::kthreads::{Dependency, Member, Usual};
use crate::{units, words};
use comfy_table::{presets, CellAlignment, ContentArrangement, Table};
use tek_abi::printable;

/// Further waiters of a thread are counted, not named.
const MOST_NAMED: usize = 4;

const NUMBER: bool = true;
const TEXT: bool = false;

/// A column: its head, whether it has numbers, and its cells.
type Column = (&'static str, bool, fn(&Row) -> String);

const COLUMNS: [Column; 12] = [
    ("TID", NUMBER, |row| row.tid.to_string()),
    ("NAME", TEXT, |row| shown(&row.name)),
    ("CLASS", TEXT, |row| shown(&row.class)),
    ("WEIGHT", NUMBER, |row| decimal(row.weight)),
    ("MEAN", NUMBER, |row| decimal(row.mean)),
    ("MAX", NUMBER, |row| row.highest.map_or_else(none, |highest| highest.to_string())),
    ("NOW", TEXT, now),
    ("OWN", TEXT, |row| row.usual.map_or_else(none, level)),
    ("BOOSTS", NUMBER, |row| row.boosts.to_string()),
    (A_SECOND, NUMBER, |row| {
        decimal(row.boosts_per_second.map(|rate| (rate * 10.0).round() / 10.0))
    }),
    ("BOOSTED", NUMBER, |row| ms(row.boosted_ms)),
    ("WHO-WAITS", TEXT, waiters),
];

/// Known from the second sample on.
const A_SECOND: &str = "A-SECOND";
/// The columns if no thread follows.
const ALONE: [&str; 4] = ["TID", "NAME", "CLASS", "OWN"];

/// All of it, by lines.
pub fn lines(report: &Report, live: bool) -> Vec<String> {
    let mut lines = Vec::new();
    match &report.why_not {
        Some(why) => {
            lines.push(format!(
                "No kernel thread follows the tasks that wait for it: {}",
                shown(why)
            ));
            lines.extend(what_to_do(why));
        }
        None => lines.push(method(report)),
    }
    if !report.threads.is_empty() {
        lines.push(String::new());
        lines.extend(table(report, live));
    } else if report.following {
        lines.push("No critical task has waited for one yet (--all shows all there are).".into());
    } else {
        lines.push("What threads the kernel has, tek kthreads --all shows.".into());
    }
    if report.following {
        lines.push(String::new());
        lines.push(sums(report));
        lines.extend(report.dependencies.iter().filter_map(lacks));
    }
    lines
}

/// The cure if they do not follow.
pub fn what_to_do(why: &str) -> Option<String> {
    why.contains("no [kthreads]")
        .then(|| format!("To have them follow: {}", crate::daemon::add_table("[kthreads]")))
}

/// Programs may choose any name.
fn shown(text: &str) -> String {
    printable(text.as_bytes())
}

fn none() -> String {
    "-".into()
}

fn decimal(number: Option<f64>) -> String {
    number.map_or_else(none, |number| number.to_string())
}

fn ms(ms: u64) -> String {
    match ms {
        0 => none(),
        _ => units::time(ms.saturating_mul(1_000_000)),
    }
}

/// `fifo 12`, `nice -20`.
fn level(level: Usual) -> String {
    let Usual { policy, priority, nice } = level;
    match (words::policy(policy), priority) {
        (Some("other"), _) => format!("nice {nice}"),
        (Some(name), 0) => name.into(),
        (Some(name), priority) => format!("{name} {priority}"),
        (None, _) => format!("policy {policy}"),
    }
}

/// The priority that tekd gave it when it reported the waiters: /proc was read later.
fn now(row: &Row) -> String {
    match row.priority {
        Some(priority) => format!("fifo {priority}"),
        None => row.now.map_or_else(none, level),
    }
}

/// R(k): `player[812] x3, net[77]`.
fn waiters(row: &Row) -> String {
    let one = |member: &Member| {
        let times = if member.times > 1 { format!(" x{}", member.times) } else { String::new() };
        format!("{}[{}]{times}", shown(&member.name), member.tid)
    };
    let mut all: Vec<String> = row.members.iter().take(MOST_NAMED).map(one).collect();
    match row.members.len().saturating_sub(MOST_NAMED) {
        0 => {}
        more => all.push(format!("{more} more")),
    }
    let mut text = if all.is_empty() { none() } else { all.join(", ") };
    if row.raised_along {
        text = "raised to come before another".into();
    }
    match &row.held {
        Some(held) if !row.members.is_empty() => format!("{text} (held: {})", shown(held)),
        _ => text,
    }
}

fn method(report: &Report) -> String {
    let how = match report.method.as_deref() {
        Some("plain") => "have the highest priority of the tasks that wait for them",
        _ => "have the mean priority of the tasks that wait for them, times a weight",
    };
    let linger = report.linger_ms.unwrap_or_default();
    format!("Threads of the kernel {how}, and {linger} ms longer.")
}

fn table(report: &Report, live: bool) -> Vec<String> {
    let is_shown = |(head, ..): &&Column| match report.following {
        true => live || *head != A_SECOND,
        false => ALONE.contains(head),
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_shown).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|(head, ..)| *head));
    for (at, (_, is_number, _)) in columns.iter().enumerate() {
        if let (true, Some(column)) = (*is_number, table.column_mut(at)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let cells = |row: &Row| columns.iter().map(|(.., cell)| cell(row)).collect::<Vec<_>>();
    table.add_rows(report.threads.iter().map(cells));
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn sums(report: &Report) -> String {
    let counts = report.counts.unwrap_or_default();
    let reaction = report.reaction_ns.unwrap_or_default();
    let reacted = match reaction.n {
        0 => "Reaction not measured yet".to_owned(),
        _ => {
            format!("Reaction p50 {}, p99 {}", units::time(reaction.p50), units::time(reaction.p99))
        }
    };
    let dropped = match counts.dropped {
        0 => String::new(),
        dropped => format!(" ({dropped} more were too many a second)"),
    };
    let pauses = match counts.storage_pauses {
        0 => String::new(),
        1 => " Events of storage used too much CPU time, and were left out once.".to_owned(),
        n => format!(" Events of storage used too much CPU time, and were left out {n} times."),
    };
    let (changes, events, lost) = (counts.changes, counts.events, counts.lost);
    format!("{reacted}; {changes} changes{dropped}, {events} events, {lost} lost.{pauses}")
}

/// The dependencies that are not known here, or only in part.
fn lacks(dependency: &Dependency) -> Option<String> {
    let (name, why) = (shown(&dependency.name), shown(&dependency.why));
    match (dependency.on, why.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("{name}: {why}")),
        (false, _) => Some(format!("{name}: off: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::find_out::tests::{alone, by_daemon};
    use super::*;

    fn words_of<'a>(lines: &'a [String], with: &str) -> Vec<&'a str> {
        let line = lines.iter().find(|line| line.contains(with));
        line.unwrap_or_else(|| panic!("no {with} in {lines:#?}")).split_whitespace().collect()
    }

    #[test]
    fn a_thread_that_follows_is_shown_with_its_waiters_and_how_it_was_computed() {
        let lines = lines(&by_daemon(false), false);
        assert!(lines[0].contains("mean priority of the tasks") && lines[0].contains("20 ms"));
        assert_eq!(
            words_of(&lines, "kworker/0:1").join(" "),
            "45 kworker/0:1 writeback 0.8 15 15 fifo 12 nice 0 7 4.20s player[812] x2, \
             net\\u{1b}[2J[77]"
        );
        assert!(words_of(&lines, "kswapd0")
            .join(" ")
            .ends_with("(held: too many changes a second)"));
        assert!(words_of(&lines, "rcu")
            .join(" ")
            .ends_with("fifo 40 fifo 40 0 - raised to come before another"));
        assert!(lines.iter().all(|line| !line.contains('\u{1b}') && !line.contains(A_SECOND)));
    }

    #[test]
    fn beneath_stand_the_reaction_the_counts_and_what_this_kernel_lacks() {
        let lines = lines(&by_daemon(false), true);
        let last = &lines[lines.len() - 3..];
        assert_eq!(
            last,
            [
                "Reaction p50 12us, p99 48us; 14 changes (2 more were too many a second), 4000 \
                 events, 0 lost. Events of storage used too much CPU time, and were left out once.",
                "page cache: off: this kernel has not the tracepoint x",
                "reclaim: kcompactd is not followed: no y",
            ]
        );
        assert!(lines.iter().any(|line| line.contains(A_SECOND)));
    }

    #[test]
    fn if_none_follows_the_reason_stands_first_and_all_there_are_can_be_seen() {
        let why = "tekd.toml has no [kthreads]";
        let few = lines(&alone(false, why), false);
        assert_eq!(few.len(), 3, "{few:?}");
        assert!(few[0].ends_with(why) && few[1].contains(r#"echo "[kthreads]" >>"#), "{few:?}");
        let all = lines(&alone(true, "tekd does not run"), false);
        assert!(all[0].ends_with("tekd does not run"));
        assert_eq!(words_of(&all, "CLASS"), ALONE);
        assert_eq!(words_of(&all, "irq/24"), ["90", "irq/24-eth0", "irq", "fifo", "50"]);
    }
}
