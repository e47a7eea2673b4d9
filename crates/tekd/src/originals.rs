// SPDX-License-Identifier: MIT OR Apache-2.0
//! The original cgroups of processes that tekd moved. Grants, places and the domain refer to these:
//! the moves of tekd do not change the rights of a process.
use crate::process::{self, Status};
use std::collections::HashMap;
use tek_effect::Identity;

/// A longer chain of parents is cut.
const MOST_PARENTS: usize = 64;

/// The original cgroups. They are recorded even if no grant needs them: the next configuration may.
#[derive(Default)]
pub struct Originals {
    /// The group above all of TEK's groups, as in /proc/PID/cgroup.
    top: Option<String>,
    originals: HashMap<Identity, Vec<String>>,
    /// Threads that were moved to a cgroup with real-time runtime, by their ids.
    away: HashMap<i32, Identity>,
}

impl Originals {
    /// Sets the group; tekd moved all processes in it or beneath it.
    pub fn set_top(&mut self, top: String) {
        self.top = Some(top);
    }

    /// Records the present cgroups of a process, unless tekd has moved it.
    pub fn remember(&mut self, process: Identity) {
        let now = process::cgroups(process.tid);
        if !self.is_moved(process.tid, &now) {
            self.originals.insert(process, now);
        }
    }

    /// A thread is moved to a cgroup with real-time runtime.
    pub fn sent_away(&mut self, thread: Identity) {
        self.away.insert(thread.tid, thread);
    }

    /// The thread was moved back.
    pub fn is_back(&mut self, thread: Identity) {
        if self.away.get(&thread.tid) == Some(&thread) {
            self.away.remove(&thread.tid);
        }
        if self.top.is_none() {
            self.originals.remove(&thread); // without groups it is in its original cgroup again
        }
    }

    /// The original cgroups of a process, one a hierarchy. A child that began in TEK's groups has
    /// those of the process that made it.
    pub fn cgroups(&self, pid: i32) -> Vec<String> {
        let now = process::cgroups(pid);
        if !self.is_moved(pid, &now) {
            return now;
        }
        let parent = |pid: &i32| Status::of(*pid).ok()?.parent().filter(|&parent| parent > 1);
        let original = |pid: i32| self.originals.get(&Identity::of_process(pid).ok()?);
        let mut line = std::iter::successors(Some(pid), parent).take(MOST_PARENTS);
        line.find_map(original).cloned().unwrap_or(now)
    }

    /// Removes the records of ended processes.
    pub fn forget_ended(&mut self) {
        self.originals.retain(|process, _| process.check_process().is_ok());
    }

    fn is_moved(&self, pid: i32, now: &[String]) -> bool {
        // The id can belong to another process by now.
        let is_away = || self.away.get(&pid).is_some_and(|first| first.check_process().is_ok());
        let Some(top) = &self.top else { return is_away() };
        let is_within = |path: &String| {
            path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        is_away() || now.iter().any(is_within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Identity {
        Identity::of_process(std::process::id() as i32).unwrap()
    }

    #[test]
    fn a_process_that_was_not_moved_is_where_it_is() {
        let mut originals = Originals::default();
        originals.set_top("/there/is/no/such/group".to_owned());
        originals.remember(own());
        assert_eq!(originals.cgroups(own().tid), process::cgroups(own().tid));
    }

    #[test]
    fn a_process_that_was_moved_counts_as_being_where_it_was() {
        let mut originals = Originals::default();
        let now = process::cgroups(own().tid);
        originals.originals.insert(own(), vec!["/before".to_owned()]);
        assert_eq!(originals.cgroups(own().tid), now);
        originals.sent_away(own());
        assert_eq!(originals.cgroups(own().tid), ["/before"]);
        originals.remember(own()); // away, so its present cgroup is not recorded
        assert_eq!(originals.cgroups(own().tid), ["/before"]);
        originals.set_top(now.first().cloned().unwrap_or_default());
        originals.is_back(own());
        assert_eq!(originals.cgroups(own().tid), ["/before"]);
    }

    #[test]
    fn without_groups_nothing_is_stored_of_a_thread_that_is_back() {
        let mut originals = Originals::default();
        originals.remember(own());
        originals.sent_away(own());
        originals.is_back(own());
        assert!(originals.originals.is_empty() && originals.away.is_empty());
    }

    #[test]
    fn a_child_counts_as_its_parent() {
        let mut originals = Originals::default();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        originals.originals.insert(own(), vec!["/before".to_owned()]);
        originals.set_top(process::cgroups(own().tid).first().cloned().unwrap_or_default());
        assert_eq!(originals.cgroups(child.id() as i32), ["/before"]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_with_the_id_of_a_thread_that_was_away_is_in_its_present_cgroups() {
        let mut originals = Originals::default();
        originals.originals.insert(own(), vec!["/before".to_owned()]);
        let earlier = Identity { start_ticks: own().start_ticks - 1, ..own() };
        originals.sent_away(earlier);
        assert_eq!(originals.cgroups(own().tid), process::cgroups(own().tid));
        originals.sent_away(own());
        originals.is_back(earlier);
        assert_eq!(originals.cgroups(own().tid), ["/before"]);
    }
}
