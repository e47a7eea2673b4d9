// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policy, real-time priority and nice of every thread of the machine, before and after a run.

use crate::system::{line, stat::Stat};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// How a thread is scheduled, as /proc says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduling {
    pub name: String,
    pub policy: u32,
    pub rt_priority: u32,
    pub nice: i32,
}

/// A thread that is scheduled differently than before.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    pub tid: u32,
    pub before: Scheduling,
    pub after: Scheduling,
}

/// Every thread of the machine: a tid alone can be reused, with its start time it names one thread.
pub struct Census(HashMap<(u32, u64), Scheduling>);

impl Census {
    /// Reads all threads. Those that end meanwhile are left out.
    pub fn take() -> Census {
        let mut threads = HashMap::new();
        for process in numbered_entries(Path::new("/proc")) {
            for task in numbered_entries(&process.join("task")) {
                let stat = line(task.join("stat")).unwrap_or_default();
                if let Some((identity, scheduling)) = parse_stat(&stat) {
                    threads.insert(identity, scheduling);
                }
            }
        }
        Census(threads)
    }

    /// The number of threads.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What differs in `later` for the threads that are in both.
    pub fn changes(&self, later: &Census) -> Vec<Change> {
        let mut changes: Vec<Change> = self
            .0
            .iter()
            .filter_map(|(identity, before)| {
                let after = later.0.get(identity)?;
                let same = (before.policy, before.rt_priority, before.nice)
                    == (after.policy, after.rt_priority, after.nice);
                (!same).then(|| Change {
                    tid: identity.0,
                    before: before.clone(),
                    after: after.clone(),
                })
            })
            .collect();
        changes.sort_by_key(|change| change.tid);
        changes
    }
}

fn numbered_entries(directory: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new(); // the process has ended
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        })
        .collect()
}

/// (tid, start time) and the scheduling from a line of /proc/PID/task/TID/stat.
fn parse_stat(line: &str) -> Option<((u32, u64), Scheduling)> {
    let stat = Stat::parse(line)?;
    Some((
        (stat.tid.parse().ok()?, stat.field(22)?.parse().ok()?),
        Scheduling {
            name: stat.name.to_owned(),
            policy: stat.field(41)?.parse().ok()?,
            rt_priority: stat.field(40)?.parse().ok()?,
            nice: stat.field(19)?.parse().ok()?,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(tid: u32, nice: i32, start: u64, rt_priority: u32, policy: u32) -> String {
        format!(
            "{tid} (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 20 {nice} 1 0 {start} 23 24 25 26 27 28 \
             29 30 31 32 33 34 35 36 37 38 0 {rt_priority} {policy} 42"
        )
    }

    fn census(stats: &[String]) -> Census {
        Census(stats.iter().map(|stat| parse_stat(stat).unwrap()).collect())
    }

    #[test]
    fn the_fields_are_those_of_proc_5() {
        let (identity, scheduling) = parse_stat(&stat(12, -3, 4567, 29, 2)).unwrap();
        assert_eq!(identity, (12, 4567));
        assert_eq!(scheduling.name, "a) b (c");
        assert_eq!((scheduling.policy, scheduling.rt_priority, scheduling.nice), (2, 29, -3));
    }

    #[test]
    fn a_line_that_is_cut_is_no_thread() {
        assert_eq!(parse_stat("12 (a) S 1 2"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_thread_left_at_another_nice_is_a_change() {
        let before = census(&[stat(1, 0, 100, 0, 0), stat(2, 0, 100, 0, 0)]);
        let after = census(&[stat(1, -20, 100, 0, 0), stat(2, 0, 100, 0, 0)]);
        let changes = before.changes(&after);
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].tid, changes[0].after.nice), (1, -20));
    }

    #[test]
    fn a_new_thread_with_an_old_tid_is_no_change() {
        let before = census(&[stat(1, 0, 100, 0, 0)]);
        let after = census(&[stat(1, 5, 200, 0, 0)]);
        assert!(before.changes(&after).is_empty());
    }

    #[test]
    fn this_thread_is_in_a_census() {
        assert!(Census::take().len() > 0);
    }
}
