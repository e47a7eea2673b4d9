// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policy, real-time priority and nice of every thread of the machine, before and after a run.

use std::collections::HashMap;
use tek_model::{processes, Process, Stat};

/// How a thread is scheduled, from /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduling {
    pub name: String,
    pub policy: u32,
    pub rt_priority: u32,
    pub nice: i32,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
}

/// A thread that is scheduled differently than before.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    pub tid: u32,
    pub before: Scheduling,
    pub after: Scheduling,
}

/// Every thread of the machine. A tid can be reused; with its start time it identifies one thread.
pub struct Census(HashMap<(u32, u64), Scheduling>);

impl Census {
    /// Reads all threads. Threads that end meanwhile are left out.
    pub fn take() -> Census {
        let processes = processes().unwrap_or_default().into_iter();
        let threads = processes.filter_map(|pid| Process::open(pid).ok()?.threads().ok());
        Census(threads.flatten().map(entry).collect())
    }

    /// The number of threads.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The differences in `later` for the threads that are in both.
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

/// (tid, start time) and the scheduling of a thread.
fn entry(stat: Stat) -> ((u32, u64), Scheduling) {
    let Stat { tid, start_ns, name, policy, rt_priority, nice, kernel, .. } = stat;
    ((tid, start_ns), Scheduling { name, policy, rt_priority, nice: nice.into(), kernel })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(threads: &[(u32, i32, u64)]) -> Census {
        let thread = |&(tid, nice, start)| {
            let name = "a".to_owned();
            ((tid, start), Scheduling { name, policy: 0, rt_priority: 0, nice, kernel: false })
        };
        Census(threads.iter().map(thread).collect())
    }

    #[test]
    fn a_thread_left_at_another_nice_is_a_change() {
        let before = census(&[(1, 0, 100), (2, 0, 100)]);
        let after = census(&[(1, -20, 100), (2, 0, 100)]);
        let changes = before.changes(&after);
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].tid, changes[0].after.nice), (1, -20));
    }

    #[test]
    fn a_new_thread_with_an_old_tid_is_no_change() {
        let before = census(&[(1, 0, 100)]);
        let after = census(&[(1, 5, 200)]);
        assert!(before.changes(&after).is_empty());
    }

    #[test]
    fn this_thread_is_in_a_census() {
        assert!(Census::take().len() > 0);
    }
}
