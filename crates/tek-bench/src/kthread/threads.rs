// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU time of kernel threads, and their waits for a CPU: whether one was starved.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tek_model::{processes, Process};

/// The classes that are reported by name; other kernel threads are not of interest here.
const CLASSES: [&str; 8] =
    ["irq/", "jbd2", "kcompactd", "ksoftirqd", "kswapd", "kthreadd", "ktimers", "kworker"];

/// In ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Had {
    pub cpu_ns: u64,
    /// Ready to run, but not running.
    pub waited_ns: u64,
}

/// All kernel threads at a moment.
pub struct Sample(BTreeMap<(u32, u64), (String, Had)>);

/// Their times between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Between {
    /// By class.
    pub classes: BTreeMap<&'static str, Had>,
    /// The wait of the kernel thread that waited most.
    pub longest_waited_ns: u64,
    /// Workers that the kernel created.
    pub new_kworkers: usize,
}

impl Sample {
    pub fn now() -> Sample {
        let threads = processes().unwrap_or_default().into_iter().filter_map(|pid| {
            let process = Process::open(pid).ok()?;
            let stat = process.stat(pid).filter(|stat| stat.kernel)?;
            let had = process.schedstat(pid)?;
            let had = Had { cpu_ns: had.cpu_ns, waited_ns: had.run_delay_ns };
            Some(((pid, stat.start_ns), (stat.name, had)))
        });
        Sample(threads.collect())
    }

    /// Their ids.
    pub fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.keys().map(|(tid, _)| *tid)
    }

    /// The changes since an earlier sample.
    pub fn since(&self, earlier: &Sample) -> Between {
        let mut between = Between::default();
        for (identity, (name, had)) in &self.0 {
            let Some(class) = CLASSES.into_iter().find(|class| name.starts_with(class)) else {
                continue;
            };
            let before = earlier.0.get(identity).map_or_else(Had::default, |(_, had)| *had);
            let waited_ns = had.waited_ns.saturating_sub(before.waited_ns);
            let sum = between.classes.entry(class).or_default();
            sum.cpu_ns += had.cpu_ns.saturating_sub(before.cpu_ns);
            sum.waited_ns += waited_ns;
            between.longest_waited_ns = between.longest_waited_ns.max(waited_ns);
            let is_new = class == "kworker" && !earlier.0.contains_key(identity);
            between.new_kworkers += usize::from(is_new);
        }
        between
    }
}

impl Between {
    /// The classes that waited longest, for people.
    pub fn starved(&self) -> String {
        let mut waited: Vec<_> =
            self.classes.iter().filter(|(_, had)| had.waited_ns > 50_000_000).collect();
        waited.sort_by_key(|(_, had)| std::cmp::Reverse(had.waited_ns));
        let reported = waited.iter().take(3);
        let reported: BTreeSet<String> = reported
            .map(|(class, had)| format!("{class} {} ms", had.waited_ns / 1_000_000))
            .collect();
        reported.into_iter().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examine(threads: &[(u32, &str, u64, u64)]) -> Sample {
        let thread = |&(tid, name, cpu_ns, waited_ns): &(u32, &str, u64, u64)| {
            ((tid, 1), (name.to_owned(), Had { cpu_ns, waited_ns }))
        };
        Sample(threads.iter().map(thread).collect())
    }

    #[test]
    fn a_worker_that_came_meanwhile_is_new_and_one_with_another_name_is_not() {
        let before = examine(&[(5, "kworker/0:1-events", 10, 100)]);
        let after = examine(&[
            (5, "kworker/0:1-writeback", 15, 90_000_100),
            (9, "kworker/u8:3", 7, 0),
            (11, "rcu_preempt", 1, 1),
        ]);
        let between = after.since(&before);
        assert_eq!(between.new_kworkers, 1);
        assert_eq!(between.classes["kworker"], Had { cpu_ns: 12, waited_ns: 90_000_000 });
        assert_eq!(between.longest_waited_ns, 90_000_000);
        assert_eq!(between.starved(), "kworker 90 ms");
    }
}
