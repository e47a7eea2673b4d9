// SPDX-License-Identifier: MIT OR Apache-2.0
//! Children inherit from their parents what tekd gave those for a while: a raised limit, and the
//! group that a Fast thread is in. They lose it as soon as the kernel tells of their birth.
use super::Server;
use crate::exec_watch::{Birth, ExecWatch};
use crate::lineage::Way;
use crate::log;
use crate::process;
use crate::sys;
use tek_effect::{is_sibling_born_of, Change, Error, Identity};

/// Children of processes with a raised limit are looked through when there are more.
const MANY_BORN: usize = 1024;

impl Server {
    /// The kernel told of a birth.
    pub(super) fn born(&mut self, birth: Birth) {
        if birth.thread == birth.process {
            self.disinherit(birth.parent, birth.process);
        }
        let Birth { process, parent, .. } = birth;
        let is_sibling_of = |made_by| is_sibling_born_of(process, made_by, parent);
        let Some(descent) = self.region.lineage.note(birth, is_sibling_of) else { return };
        let home =
            Identity::of(birth.thread).and_then(|child| self.means.bring_home(&descent, child));
        match home {
            Ok(false) => return,
            Ok(true) | Err(Error::Gone { .. }) => {}
            Err(error) => {
                self.not_placed.tell(|| format!("a child stays in its parent's group: {error}"));
            }
        }
        if matches!(descent.way, Way::OutOfFast) {
            // It had its parent's weight until now. Of one that has ended it is not known how long
            // it ran.
            let since_ns = sys::monotonic_ns().saturating_sub(birth.at_ns);
            let ran_ns = process::ran_ns(birth.thread).unwrap_or(since_ns);
            self.region.charge(descent.process, birth.parent_thread, ran_ns.min(since_ns));
        }
    }

    /// A child has inherited the limit that was raised for its parent, and is to have what that
    /// had.
    fn disinherit(&mut self, parent: i32, child: i32) {
        let of_peer = self.peers.get(&parent).and_then(|peer| peer.limit);
        let of_line = of_peer.or_else(|| self.born.get(&parent).copied());
        let Some(change) = of_line.or_else(|| self.limit_of_sibling(parent, child)) else { return };
        let done = Identity::of_process(child)
            .and_then(|child| self.means.effect.disinherit_limit(change, child));
        match done {
            // One that has ended may have had children.
            Ok(()) | Err(Error::Gone { .. }) => {
                if self.born.len() >= MANY_BORN {
                    self.born.retain(|&pid, _| Identity::of_process(pid).is_ok());
                }
                self.born.insert(child, change);
            }
            Err(Error::NotInForce { .. }) => {}
            Err(error) => log::warning(&format!("a child keeps a raised limit: {error}")),
        }
    }

    /// The raised limit of the process that made a child of its parent.
    fn limit_of_sibling(&self, parent: i32, child: i32) -> Option<Change> {
        let mut raised = self.peers.values().filter(|peer| peer.limit.is_some());
        let made = raised.find(|peer| is_sibling_born_of(child, peer.process.tid, parent));
        made.and_then(|peer| peer.limit)
    }

    /// Births matter while the limit of some process is raised, or a thread is away from its group.
    pub fn watch_births(&mut self, soon: bool) {
        let raised = soon || self.peers.values().any(|peer| peer.limit.is_some());
        if !raised {
            self.born.clear();
        }
        let is_away = !self.region.lineage.is_empty();
        let Some(watch) = &mut self.exec_watch else { return };
        let heard = watch.hears_forks();
        if let Err(error) = watch.hear_forks(raised || is_away) {
            log::warning(&format!("births are not heard of: {error}"));
        }
        if is_away && !heard {
            // Of births before that the kernel has not told.
            self.bring_all_home();
        }
    }

    /// A thread may be away from its group since a moment ago.
    pub(super) fn follow_lineage(&mut self) {
        let hears = self.exec_watch.as_ref().is_some_and(ExecWatch::hears_forks);
        if !hears && !self.region.lineage.is_empty() {
            self.watch_births(false);
        }
    }

    /// No thread is Fast any more.
    pub(super) fn end_lineage(&mut self) {
        if self.exec_watch.is_none() {
            self.bring_all_home();
        }
        self.region.lineage.clear();
        self.watch_births(false);
    }

    /// Children may have been born that tekd has not heard of.
    pub(super) fn births_were_lost(&mut self) {
        let raised = self.peers.values().filter_map(|peer| peer.limit);
        raised.for_each(|change| self.means.effect.disinherit_limit_of_all(change));
        self.bring_all_home();
    }

    /// All children of threads that are away from their groups, whose parents are there.
    pub(super) fn bring_all_home(&mut self) {
        let mut out_of_fast = false;
        for way in self.region.lineage.ways() {
            match way {
                Way::Home(heirs) => self.means.effect.take_all_heirs(heirs),
                Way::OutOfFast => out_of_fast = true,
            }
        }
        if out_of_fast {
            self.means.tidy(&self.configuration, &self.domain);
        }
    }

    /// Why limits are not raised, once.
    pub fn tell_of_limits(&mut self, why: &str) {
        if !std::mem::replace(&mut self.told_of_limits, true) {
            log::warning(&format!("tekd goes on making each switch itself: {why}"));
        }
    }
}
