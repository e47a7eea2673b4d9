// SPDX-License-Identifier: MIT OR Apache-2.0
//! Children of Fast threads that are away from their original cgroups. Such a child begins in its
//! creator's present cgroup, and belongs in its creator's original one.
//!
//! The kernel reports each birth ([`crate::exec_watch`]). The entry of a process stays until
//! [`Lineage::clear`], because an event may come after its thread is back. Pure.
use crate::exec_watch::Birth;
use std::collections::HashMap;
use tek_effect::Heirs;

/// The most children whose own children are tracked as well.
const MOST_BORN: usize = 65_536;

/// How children of a process return to their cgroups.
#[derive(Clone, Debug)]
pub enum Way {
    /// Out of the group of the Fast Region.
    OutOfFast,
    /// To the original cgroup of the thread.
    Original(Box<Heirs>),
}

impl Way {
    fn leads_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OutOfFast, Self::OutOfFast) => true,
            (Self::Original(heirs), Self::Original(theirs)) => heirs.lead_as(theirs),
            _ => false,
        }
    }
}

/// The process that a child descends from.
#[derive(Clone, Debug)]
pub struct Descent {
    /// The process with a thread that is away.
    pub process: i32,
    pub way: Way,
}

/// All children of threads that are away.
#[derive(Default)]
pub struct Lineage {
    /// Processes that have, or had, a thread that is away.
    away: HashMap<i32, Way>,
    /// Processes that began meanwhile, and the process in `away` that each descends from.
    born: HashMap<i32, i32>,
    /// Processes that were added lately.
    added: Vec<i32>,
    /// The time in which ended children of each process can have run.
    ended: HashMap<i32, Ended>,
}

/// Children that ended before their births were handled: nothing shows how long they ran.
#[derive(Default)]
struct Ended {
    /// All time until then is counted.
    until_ns: u64,
    /// CPU time of all CPUs that no child was charged for.
    left_ns: u64,
}

impl Lineage {
    pub fn is_empty(&self) -> bool {
        self.away.is_empty()
    }

    /// A thread of a process is away. An earlier way to the same cgroup stays, because it knows
    /// earlier children.
    pub fn add(&mut self, process: i32, way: Way) {
        if !self.away.get(&process).is_some_and(|known| known.leads_as(&way)) {
            self.away.insert(process, way);
            self.added.push(process);
        }
    }

    /// Whether a process has, or had, a thread that is away.
    pub fn has(&self, process: i32) -> bool {
        self.away.contains_key(&process)
    }

    /// The processes that were added since the last call.
    pub fn take_added(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.added)
    }

    /// No thread is away any more, and all events were handled.
    pub fn clear(&mut self) {
        self.away.clear();
        self.born.clear();
        self.added.clear();
        self.ended.clear();
    }

    /// The most that an ended child can have run from its birth until now, on one of these CPUs.
    /// All CPUs together bound what several children of a process can have run.
    pub fn may_have_run(&mut self, of: &Descent, born_ns: u64, now_ns: u64, cpus: u64) -> u64 {
        let ended = self.ended.entry(of.process).or_default();
        if born_ns >= ended.until_ns {
            ended.left_ns = 0;
        }
        let more_ns = now_ns.saturating_sub(born_ns.max(ended.until_ns));
        ended.until_ns = ended.until_ns.max(now_ns);
        ended.left_ns = ended.left_ns.saturating_add(more_ns.saturating_mul(cpus));
        let ran_ns = now_ns.saturating_sub(born_ns).min(ended.left_ns);
        ended.left_ns -= ran_ns;
        ran_ns
    }

    /// The ways of all processes.
    pub fn ways(&self) -> impl Iterator<Item = (i32, &Way)> {
        self.away.iter().map(|(process, way)| (*process, way))
    }

    /// The way of one process.
    pub fn way_of(&self, process: i32) -> Option<&Way> {
        self.away.get(&process)
    }

    /// A thread or process was born. `makers` are processes that may have made it instead of its
    /// parent: clone(2) can make a sibling. `None`: it does not descend from a process with a
    /// thread that is away.
    pub fn note(&mut self, birth: Birth, makers: &[i32]) -> Option<Descent> {
        let is_thread = birth.thread != birth.process;
        if !is_thread {
            self.born.remove(&birth.process); // the entry of an earlier process with its id
        }
        let creator = if is_thread { birth.process } else { birth.parent };
        let of_line = match self.away.contains_key(&creator) {
            true => Some(creator),
            false => self.born.get(&creator).copied(),
        };
        let sibling = || makers.iter().copied().find(|maker| self.away.contains_key(maker));
        let process = of_line.or_else(|| (!is_thread).then(sibling).flatten())?;
        if !is_thread && self.born.len() < MOST_BORN {
            self.born.insert(birth.process, process);
        }
        let way = self.away.get(&process)?.clone();
        Some(Descent { process, way })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn born(lineage: &mut Lineage, parent: i32, thread: i32, process: i32) -> Option<i32> {
        let birth = Birth { parent_thread: parent, parent, thread, process, at_ns: 0 };
        let makers: &[i32] = if process == 40 { &[9, 10] } else { &[] };
        lineage.note(birth, makers).map(|descent| descent.process)
    }

    #[test]
    fn descendants_and_threads_and_siblings_are_of_the_line_and_other_processes_are_not() {
        let mut lineage = Lineage::default();
        lineage.add(10, Way::OutOfFast);
        lineage.add(10, Way::OutOfFast);
        assert_eq!((lineage.take_added(), lineage.take_added()), (vec![10], vec![]));
        assert_eq!(born(&mut lineage, 10, 20, 20), Some(10));
        assert_eq!(born(&mut lineage, 20, 30, 30), Some(10));
        // The kernel reports the process's parent as the parent of a new thread.
        assert_eq!(born(&mut lineage, 5, 11, 10), Some(10));
        assert_eq!(born(&mut lineage, 10, 31, 30), Some(10));
        assert_eq!(born(&mut lineage, 5, 40, 40), Some(10));
        assert_eq!(born(&mut lineage, 40, 41, 41), Some(10));
        assert_eq!(born(&mut lineage, 5, 50, 50), None);
        assert_eq!(born(&mut lineage, 5, 51, 50), None);
        // By now its id belongs to another process.
        assert_eq!(born(&mut lineage, 6, 20, 20), None);
        assert_eq!(born(&mut lineage, 20, 52, 52), None);
        lineage.clear();
        assert_eq!(born(&mut lineage, 10, 60, 60), None);
        assert!(lineage.is_empty());
    }

    #[test]
    fn children_that_have_ended_are_charged_for_no_more_than_all_cpus() {
        const MS: u64 = 1_000_000;
        let mut lineage = Lineage::default();
        let of = |process| Descent { process, way: Way::OutOfFast };
        // 200 children in 20 ms, whose births are handled later, in 4 ms.
        let ran = |n: u64| {
            lineage.may_have_run(&of(10), 100 * MS + n * MS / 10, (130 * 50 + n) * MS / 50, 2)
        };
        let all: u64 = (0..200).map(ran).sum();
        assert!((34 * MS..=2 * 34 * MS).contains(&all), "{all}");
        // Time in which no child was alive is no child's.
        assert_eq!(lineage.may_have_run(&of(10), 500 * MS, 501 * MS, 4), MS);
        assert_eq!(lineage.may_have_run(&of(10), 600 * MS, 630 * MS, 1), 30 * MS);
        assert_eq!(lineage.may_have_run(&of(10), 600 * MS, 630 * MS, 1), 0);
        assert_eq!(lineage.may_have_run(&of(11), 600 * MS, 630 * MS, 1), 30 * MS);
        lineage.clear();
        assert_eq!(lineage.may_have_run(&of(10), 600 * MS, 630 * MS, 1), 30 * MS);
    }
}
