// SPDX-License-Identifier: MIT OR Apache-2.0
//! The status of tekd, for people.
use super::answer::{Client, Fast, Lowered, Overrun, Refusal, Status};
use super::kthreads::Reported as Kthreads;
use super::lifts::Reported as Lifts;
use crate::units;
use comfy_table::{presets, CellAlignment, ContentArrangement, Table};
use nix::unistd::{Uid, User};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use tek_abi::printable;

/// Prints all of it.
pub fn print(
    out: &mut impl Write,
    status: &Status,
    roles: &HashMap<u32, String>,
) -> io::Result<()> {
    let domain: Vec<String> = status.domain.iter().map(|one| shown(one)).collect();
    writeln!(
        out,
        "tekd {} [{}], since {}",
        shown(&status.version),
        status.pid,
        shown(&status.since)
    )?;
    writeln!(out, "domain  {}", domain.join(", "))?;
    writeln!(out, "mode    {}", shown(&status.mode))?;
    if let Some(backend) = &status.backend {
        let why = status.backend_why.as_deref().map(|why| format!(": {}", shown(why)));
        writeln!(out, "backend {}{}", shown(backend), why.unwrap_or_default())?;
    }
    match (&status.groups, &status.groups_why) {
        (Some(groups), _) => {
            writeln!(out, "groups  {} (tek groups shows more)", shown(&groups.place))?;
        }
        (None, Some(why)) => writeln!(out, "groups  none: {}", shown(why))?,
        (None, None) => {}
    }
    if let Some(kthreads) = &status.kthreads {
        writeln!(out, "kernel  {}", of_kernel(kthreads))?;
    }
    if let Some(lifts) = &status.inherit {
        writeln!(out, "inherit {}", of_lifts(lifts))?;
    }
    if let Some(canary) = &status.canary {
        writeln!(
            out,
            "canary  ordinary threads may wait {}; it has sent all threads back {}",
            ms(canary.limit_ms),
            times(canary.demoted)
        )?;
    }
    section(out, "Time-critical threads", "none", fast(&status.fast, roles))?;
    if !status.lowered.is_empty() {
        let title = "Real-time threads that wait for them";
        section(out, title, "none", lowered(&status.lowered))?;
    }
    section(out, "Granted, by process", "nothing", clients(&status.clients))?;
    section(out, "Granted, by user", "nothing", users(&status.clients))?;
    section(out, "Lately refused", "nobody", refused(&status.refused))?;
    section(out, "Lately sent back, over budget", "nobody", overran(&status.overran))
}

/// Whether kernel threads follow the priorities of their waiters.
fn of_kernel(kthreads: &Kthreads) -> String {
    let lacking = kthreads.dependencies.iter().filter(|dependency| !dependency.on).count();
    let but = match lacking {
        0 => String::new(),
        some => format!(", {some} of {} dependencies off", kthreads.dependencies.len()),
    };
    match (kthreads.on, &kthreads.why) {
        (true, _) => {
            let count = kthreads.boosted();
            let follow = if count == 1 { "thread follows" } else { "threads follow" };
            format!("{count} {follow} tasks that wait now{but} (tek kthreads shows more)")
        }
        (false, Some(why)) => format!("its threads follow no task: {}", shown(why)),
        (false, None) => "its threads follow no task".into(),
    }
}

/// Whether threads are lifted while time-critical threads wait for them.
fn of_lifts(lifts: &Lifts) -> String {
    let counts = &lifts.counts;
    match (lifts.on, lifts.waiting, &lifts.why) {
        (true, ..) => {
            let count = lifts.lifted();
            let lifted = if count == 1 { "thread is lifted" } else { "threads are lifted" };
            format!(
                "{count} {lifted} for waiters now; so far {} for {}, refused {}",
                times(counts.lifts),
                units::time(counts.lifted_ns),
                times(counts.refused())
            )
        }
        (false, true, _) => "threads will be lifted for time-critical waiters".into(),
        (false, false, Some(why)) => format!("no thread is lifted for waiters: {}", shown(why)),
        (false, false, None) => "no thread is lifted for waiters".into(),
    }
}

/// tekd passes on text from programs, which may be anything.
fn shown(text: &str) -> String {
    printable(text.as_bytes())
}

fn ms(ms: u64) -> String {
    match ms {
        0 => "0ms".into(),
        _ => units::time(ms.saturating_mul(1_000_000)),
    }
}

fn times(count: u64) -> String {
    match count {
        0 => "never".into(),
        1 => "once".into(),
        _ => format!("{count} times"),
    }
}

fn user(uid: u32) -> String {
    let found = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    found.map_or_else(|| uid.to_string(), |user| shown(&user.name))
}

fn section(out: &mut impl Write, title: &str, empty: &str, table: Rows) -> io::Result<()> {
    let bold = anstyle::Style::new().bold();
    writeln!(out, "\n{bold}{title}{bold:#}")?;
    if table.rows.is_empty() {
        return writeln!(out, "{empty}");
    }
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    grid.set_header(table.heads.iter().map(|(head, _)| *head));
    for (column, (_, is_number)) in grid.column_iter_mut().zip(&table.heads) {
        if *is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid.add_rows(table.rows);
    for line in grid.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Heads, and whether their columns have numbers, which are right-aligned.
struct Rows {
    heads: Vec<(&'static str, bool)>,
    rows: Vec<Vec<String>>,
}

const NUMBER: bool = true;
const TEXT: bool = false;

fn fast(threads: &[Fast], roles: &HashMap<u32, String>) -> Rows {
    let row = |one: &Fast| {
        let role = roles.get(&one.tid).map_or_else(|| "-".into(), |role| shown(role));
        let asked_by =
            if one.asked_by == one.pid { "itself".into() } else { one.asked_by.to_string() };
        vec![
            one.pid.to_string(),
            one.tid.to_string(),
            shown(&one.program),
            shown(&one.name),
            role,
            user(one.uid),
            one.priority.to_string(),
            // tekd gave it none: it is Fast by its control group, or by its own priority.
            if one.rt_priority == 0 { "-".into() } else { one.rt_priority.to_string() },
            ms(one.since_ms),
            one.until_ms.map_or_else(|| "-".into(), ms),
            asked_by,
            shown(&one.why),
        ]
    };
    Rows {
        heads: vec![
            ("PID", NUMBER),
            ("TID", NUMBER),
            ("PROGRAM", TEXT),
            ("NAME", TEXT),
            ("ROLE", TEXT),
            ("USER", TEXT),
            ("PRIORITY", NUMBER),
            ("RT", NUMBER),
            ("FOR", NUMBER),
            ("LEFT", NUMBER),
            ("ASKED-BY", NUMBER),
            ("WHY", TEXT),
        ],
        rows: threads.iter().map(row).collect(),
    }
}

fn lowered(threads: &[Lowered]) -> Rows {
    let row = |one: &Lowered| {
        vec![
            one.pid.to_string(),
            one.tid.to_string(),
            shown(&one.program),
            shown(&one.name),
            format!("{} {}", shown(&one.policy), one.priority),
            one.lowered_to.to_string(),
        ]
    };
    Rows {
        heads: vec![
            ("PID", NUMBER),
            ("TID", NUMBER),
            ("PROGRAM", TEXT),
            ("NAME", TEXT),
            ("OWN", TEXT),
            ("NOW", NUMBER),
        ],
        rows: threads.iter().map(row).collect(),
    }
}

fn clients(clients: &[Client]) -> Rows {
    let row = |one: &Client| {
        vec![
            one.pid.to_string(),
            shown(&one.program),
            user(one.uid),
            shown(&one.grant),
            one.fast.to_string(),
            one.quota.to_string(),
        ]
    };
    Rows {
        heads: vec![
            ("PID", NUMBER),
            ("PROGRAM", TEXT),
            ("USER", TEXT),
            ("GRANT", TEXT),
            ("FAST", NUMBER),
            ("OF", NUMBER),
        ],
        rows: clients.iter().map(row).collect(),
    }
}

fn users(clients: &[Client]) -> Rows {
    let mut sums = BTreeMap::<u32, (usize, u64)>::new();
    for client in clients {
        let (processes, fast) = sums.entry(client.uid).or_default();
        *processes += 1;
        *fast = fast.saturating_add(client.fast);
    }
    let row = |(uid, (processes, fast)): (u32, (usize, u64))| {
        vec![user(uid), processes.to_string(), fast.to_string()]
    };
    Rows {
        heads: vec![("USER", TEXT), ("PROCESSES", NUMBER), ("FAST", NUMBER)],
        rows: sums.into_iter().map(row).collect(),
    }
}

fn refused(refusals: &[Refusal]) -> Rows {
    let row = |one: &Refusal| {
        vec![
            ms(one.ago_ms),
            one.pid.to_string(),
            shown(&one.program),
            user(one.uid),
            shown(&one.why),
        ]
    };
    Rows {
        heads: vec![
            ("AGO", NUMBER),
            ("PID", NUMBER),
            ("PROGRAM", TEXT),
            ("USER", TEXT),
            ("WHY", TEXT),
        ],
        rows: refusals.iter().map(row).collect(),
    }
}

fn overran(overruns: &[Overrun]) -> Rows {
    let row = |one: &Overrun| {
        vec![
            ms(one.ago_ms),
            one.pid.to_string(),
            one.tid.to_string(),
            ms(one.used_ms),
            ms(one.window_ms),
            ms(one.banned_ms),
        ]
    };
    let heads = ["AGO", "PID", "TID", "USED", "WINDOW", "OUT-FOR"];
    Rows {
        heads: heads.map(|head| (head, NUMBER)).to_vec(),
        rows: overruns.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::tests::at_work;
    use super::*;

    fn reported(status: &Status) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        let roles = HashMap::from([(816, "gas \u{1b}detection".to_owned())]);
        print(&mut out, status, &roles).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn a_daemon_at_work_is_described_with_everything_in_it() {
        let text = reported(&Status::deserialize_from(&at_work()).unwrap());
        let line = |with: &str| {
            let found = text.lines().find(|line| line.contains(with));
            words(found.unwrap_or_else(|| panic!("no {with} in {text}")))
        };
        assert!(text.starts_with("tekd 0.1.0 [7], since 2026-11-22T09:30:00Z\n"), "{text}");
        assert_eq!(line("domain"), ["domain", "cgroup:/appliance,", "pid:815"]);
        assert_eq!(
            line("816"),
            [
                "815",
                "816",
                "fridge",
                "gas\\u{1b}[2J",
                "gas",
                "\\u{1b}detection",
                "root",
                "-3",
                "32",
                "1:05",
                "-",
                "itself",
                "[[grant]]",
                "2"
            ]
        );
        assert_eq!(line("backend"), ["backend", "rt"]);
        assert!(text.contains("groups  none: tekd.toml has no [groups]"), "{text}");
        let kernel = "kernel  its threads follow no task: tekd.toml has no [kthreads]\n";
        assert!(text.contains(kernel), "{text}");
        assert_eq!(line("flush"), ["940", "941", "logger", "flush", "SCHED_FIFO", "60", "9"]);
        assert_eq!(line("door")[8..11], ["12ms", "4.99s", "900"]);
        assert_eq!(line("limit"), ["920", "player", "54321", "limit", "0", "4"]);
        assert_eq!(line("miner")[..4], ["2.50s", "930", "miner", "54321"]);
        assert_eq!(line("818"), ["400ms", "815", "818", "812ms", "1.00s", "2.00s"]);
        assert!(text.contains("sent all threads back never"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn the_number_of_the_kernels_threads_that_follow_is_shown() {
        let mut answered = at_work();
        answered["kthreads"] = crate::status::kthreads::tests::at_work();
        let text = reported(&Status::deserialize_from(&answered).unwrap());
        let wanted = "kernel  1 thread follows tasks that wait now, 1 of 3 \
                      dependencies off (tek kthreads shows more)\n";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn the_number_of_threads_that_are_lifted_for_their_waiters_is_shown() {
        let mut answered = at_work();
        answered["inherit"] = crate::status::lifts::tests::at_work();
        let text = reported(&Status::deserialize_from(&answered).unwrap());
        let wanted =
            "inherit 2 threads are lifted for waiters now; so far 7 times for 2.50s, refused 9 times\n";
        assert!(text.contains(wanted), "{text}");
        answered["inherit"] = serde_json::json!({"on": false, "why": "no CAP_BPF"});
        let text = reported(&Status::deserialize_from(&answered).unwrap());
        assert!(text.contains("inherit no thread is lifted for waiters: no CAP_BPF\n"), "{text}");
    }

    #[test]
    fn a_daemon_at_rest_is_described_as_such() {
        let mut answered = at_work();
        for list in ["fast", "clients", "refused", "overran"] {
            answered[list] = serde_json::json!([]);
        }
        let text = reported(&Status::deserialize_from(&answered).unwrap());
        for part in ["threads\nnone", "by process\nnothing", "refused\nnobody", "budget\nnobody"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
