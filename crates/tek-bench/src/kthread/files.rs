// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on files that wait for a disk, beside real-time tasks of lower priority: the delay of
//! their answers, and the causes of the late ones.

use super::case::{Case, Task, MIB};
use super::experiments::Extent;
use super::late::{Sample, Waiting};
use super::session::{Measured, Session};
use super::stage::Run;
use super::summary::sum;
use super::variant::{Variant, CRITICAL};
use crate::json::Row;
use crate::stats;
use crate::table::table;
use crate::terminal::Terminal;
use std::collections::BTreeMap;

/// As bench/kthread/file_ops.c has them.
const OPERATIONS: [&str; 11] = [
    "fdatasync",
    "fsync",
    "o-sync",
    "o-direct",
    "rename",
    "unlink",
    "sqlite-wal",
    "sqlite-rollback",
    "read",
    "fault-read",
    "fault-write",
];
/// The same as the first one, while another task does so on the same disk.
const TWO: &str = "two-tasks";
/// The same while ordinary programs write to this disk: operation, bytes, period in us.
const BESIDE: &str = "beside-others";
const BESIDE_FILES: [(&str, u64, u64); 3] =
    [("fsync", 4 << 10, 5_000), ("unlink", 4 << 10, 7_000), ("fdatasync", 256 << 10, 11_000)];
/// An answer after more than this is late.
pub const LATE_MS: f64 = 20.0;
/// From then on the waits for an answer are recorded.
const NOTED_MS: u64 = 20;
/// The priority of the load.
const LOW: u64 = 20;
/// Waits that are named for each variant of a case.
const NAMED: usize = 6;
/// Functions of the kernel by which a wait is named, the innermost ones.
const FUNCTIONS: usize = 4;

/// The cases: all operations, or those that are named.
pub fn cases(extent: Extent, wanted: &[String]) -> anyhow::Result<Vec<Case>> {
    let all = || OPERATIONS.into_iter().chain([TWO, BESIDE]);
    for name in wanted {
        anyhow::ensure!(
            all().any(|it| it == name),
            "there is no operation `{name}`: there are {}",
            all().collect::<Vec<_>>().join(", ")
        );
    }
    let is_wanted = |name: &&str| wanted.is_empty() || wanted.iter().any(|it| it == name);
    Ok(all().filter(is_wanted).map(|name| case(name, extent)).collect())
}

fn case(name: &str, extent: Extent) -> Case {
    let operation = if name == TWO || name == BESIDE { OPERATIONS[0] } else { name };
    let task = |file: &str, late: bool| {
        let task = Task::new("file_ops").with("priority", CRITICAL as u64);
        let task = task.with("file-bytes", 16 * MIB).and("--name").and(file);
        let task = if late { task.with("late-ms", NOTED_MS) } else { task };
        task.and(operation).and("@")
    };
    let load = Task::new("hog").with("priority", LOW).with("period-us", 500_000);
    let load = load.with("busy-us", 450_000).and("--witness");
    Case {
        load: vec![load],
        beside: match name {
            TWO => vec![task("second", false)],
            BESIDE => BESIDE_FILES.map(other).into(),
            _ => Vec::new(),
        },
        side: name != OPERATIONS[0],
        ..Case::new(name, task("first", true), extent.seconds)
    }
}

/// An ordinary program.
fn other((operation, bytes, period_us): (&str, u64, u64)) -> Task {
    let task = Task::new("file_ops").with("bytes", bytes).with("period-us", period_us);
    task.and("--name").and(&format!("other-{operation}")).and(operation).and("@")
}

/// How many answers of a variant were late, and how many there were. Answers in windows in which
/// real-time threads were stopped are left out.
pub fn late(case: &Measured, variant: Variant) -> Option<(usize, usize)> {
    let runs = case.runs.get(&variant)?;
    let outside = runs.iter().flat_map(Run::responses_outside_ms);
    let (late, all) =
        outside.fold((0, 0), |(late, all), ms| (late + usize::from(ms > LATE_MS), all + 1));
    Some((late, all))
}

/// The p99 outside these windows, of all rounds.
fn p99_outside(case: &Measured, variant: Variant) -> Option<f64> {
    let runs = case.runs.get(&variant)?;
    stats::p99(&runs.iter().flat_map(Run::responses_outside_ms).collect::<Vec<_>>())
}

/// The ratio of a variant's p99 to that of alone.
pub fn p99_ratio(case: &Measured, variant: Variant) -> Option<f64> {
    Some(p99_outside(case, variant)? / p99_outside(case, Variant::Alone)?)
}

/// For people.
pub fn report(session: &Session, terminal: Terminal) -> String {
    let header =
        ["files, response in ms", "", "p50", "p90", "p99", "max", "> 20 ms", "n", "in windows"];
    let mut table = table(&header, terminal);
    let mut notes = String::new();
    for case in session.cases.iter().filter(|case| !case.runs.is_empty()) {
        for (&variant, runs) in &case.runs {
            let outside: Vec<f64> = runs.iter().flat_map(Run::responses_outside_ms).collect();
            let all: usize = runs.iter().map(|run| run.periods.len()).sum();
            let at = |quantile| {
                let ms = stats::quantile(&outside, quantile);
                ms.map_or("-".to_owned(), |ms| format!("{ms:.2}"))
            };
            let late = outside.iter().filter(|ms| **ms > LATE_MS).count();
            let mut row = vec![case.name.clone(), variant.name().to_owned()];
            row.extend([at(0.5), at(0.9), at(0.99), at(1.0), late.to_string()]);
            row.extend([outside.len().to_string(), (all - outside.len()).to_string()]);
            table.add_row(row);
            notes += &note(case, variant, runs);
        }
    }
    let legend =
        "in windows: answers that were not there yet while real-time threads were stopped; \
                  they are in no other column\n";
    format!("{}\n{legend}{notes}", table.trim_fmt())
}

/// The causes of the late answers, the most frequent first.
fn note(case: &Measured, variant: Variant, runs: &[Run]) -> String {
    let mut waits: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    for run in runs {
        for (ms, examine) in late_answers(run) {
            let wait = waits.entry(wait(examine)).or_default();
            wait.0 += 1;
            wait.1 = wait.1.max(ms);
        }
    }
    let mut waits: Vec<_> = waits.into_iter().collect();
    waits.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let lines = waits.into_iter().take(NAMED).map(|(wait, (count, ms))| {
        format!("  {}, {}: {count} late, at most {ms:.1} ms: {wait}\n", case.name, variant.name())
    });
    lines.collect()
}

/// Each late answer outside of windows, and its last sample.
fn late_answers(run: &Run) -> Vec<(f64, &Sample)> {
    let is_outside =
        |begin: u64, end: u64| !run.stopped.iter().any(|&(_, from, to)| begin < to && from < end);
    let late = run
        .periods
        .iter()
        .filter(|(begin, took)| *took as f64 / 1e6 > LATE_MS && is_outside(*begin, begin + took));
    late.filter_map(|(begin, took)| {
        let examine = run.late.iter().rfind(|examine| examine.due_ns == *begin)?;
        Some((*took as f64 / 1e6, examine))
    })
    .collect()
}

/// The functions in which the task slept. And the threads that were ready meanwhile without a CPU,
/// or slept in the kernel for a third thread.
fn wait(examine: &Sample) -> String {
    let within = |it: &Waiting| {
        let functions: Vec<&str> = it.stack.iter().take(FUNCTIONS).map(String::as_str).collect();
        functions.join(" < ")
    };
    let Some((task, remaining)) = examine.threads.split_first() else { return String::new() };
    let mut remaining: Vec<String> = remaining
        .iter()
        .map(|it| {
            let name =
                it.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':' || c == '/');
            let state = if it.state == 'R' { "ready" } else { "asleep" };
            format!("{name} {state} at {} in {}", it.priority, within(it))
        })
        .collect();
    remaining.sort();
    remaining.dedup();
    format!("{}; {}", within(task), remaining.join(", "))
}

/// The rows of the JSON document.
pub fn rows(session: &Session) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in &session.cases {
        for &variant in case.runs.keys() {
            let name = format!("files: {}", case.name);
            let (Some(it), Some((late, all))) = (sum(case, variant), late(case, variant)) else {
                continue;
            };
            let row = Row::distribution(&name, variant.name(), "response", "ms", &it.response_ms);
            rows.push(row);
            let numbers = [
                ("response, p99 outside windows", "ms", p99_outside(case, variant)),
                ("p99 outside windows / alone", "ratio", p99_ratio(case, variant)),
                ("response, max outside windows", "ms", it.outside_max_ms),
                ("answers over 20 ms outside windows", "answers", Some(late as f64)),
                ("answers outside windows", "answers", Some(all as f64)),
            ];
            rows.extend(numbers.into_iter().filter_map(|(metric, unit, value)| {
                Some(Row::number(&name, variant.name(), metric, unit, value?))
            }));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(name: &str, state: char, stack: &[&str]) -> Waiting {
        let stack = stack.iter().map(|it| (*it).to_owned()).collect();
        Waiting { tid: 7, name: name.to_owned(), state, policy: 0, priority: 0, cpu: 0, stack }
    }

    fn run() -> Run {
        let threads = vec![
            waiting("file_ops", 'D', &["jbd2_log_wait_commit", "ext4_sync_file"]),
            waiting("kworker/u8:3", 'R', &["ext4_end_io_rsv_work"]),
        ];
        let examine = Sample { due_ns: 100, after_ns: 20_000_000, threads };
        let periods = vec![(0, 1_000_000), (100, 40_000_000), (50_000_000, 90_000_000)];
        let stopped = vec![(0, 60_000_000, 90_000_000)];
        Run { periods, stopped, late: vec![examine], ..Run::default() }
    }

    #[test]
    fn an_answer_is_late_after_20_ms_unless_real_time_threads_were_stopped_meanwhile() {
        let runs = [(Variant::Tek, vec![run()]), (Variant::Alone, vec![run(), run()])];
        let case = Measured { name: "fsync".to_owned(), judged: true, runs: runs.into() };
        assert_eq!(late(&case, Variant::Tek), Some((1, 2)));
        assert_eq!(late(&case, Variant::Alone), Some((2, 4)));
        assert_eq!(late(&case, Variant::Plain), None);
        assert_eq!(p99_ratio(&case, Variant::Tek), Some(1.0));
    }

    #[test]
    fn a_late_answer_is_reported_with_what_it_waited_for() {
        let runs = [(Variant::Tek, vec![run()])];
        let case = Measured { name: "fsync".to_owned(), judged: true, runs: runs.into() };
        let session = Session { part: "files", cases: vec![case], ..Session::default() };
        let text = report(&session, Terminal { width: 100, unicode: false });
        let wait =
            "1 late, at most 40.0 ms: jbd2_log_wait_commit < ext4_sync_file; kworker/u8:3 ready \
                    at 0 in ext4_end_io_rsv_work";
        assert!(text.contains(&wait.replace("u8:3", "u")), "{text}");
        assert!(rows(&session)
            .iter()
            .any(|row| row.metric == "answers over 20 ms outside windows"));
    }

    #[test]
    fn operations_can_be_chosen_and_one_that_does_not_exist_is_refused() {
        let extent = Extent { seconds: 1.0, varied: true };
        let all = cases(extent, &[]).unwrap();
        assert_eq!(all.len(), OPERATIONS.len() + 2);
        assert!(
            all.last().unwrap().beside.len() == BESIDE_FILES.len() && !all[0].side && all[1].side
        );
        assert_eq!(cases(extent, &["fsync".to_owned()]).unwrap()[0].name, "fsync");
        assert!(cases(extent, &["sink".to_owned()]).is_err());
    }
}
