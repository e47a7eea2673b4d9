// SPDX-License-Identifier: MIT OR Apache-2.0
//! Children inherit from their parents the temporary changes of tekd: a raised limit, and the group
//! of Fast threads. They lose these as soon as the kernel reports their birth.
//!
//! Any process can make children by the thousand, so births are read in slices, and their time is
//! bounded. Beyond that bound tekd stops listening for a while, and then scans for children. It
//! reads those that the kernel has reported by then without a pause: nothing shows when a child has
//! ended.
use super::{Server, BIRTHS};
use crate::backlog::{Backlog, CHUNK};
use crate::exec_watch::{Birth, ExecWatch, News};
use crate::lineage::Way;
use crate::log;
use crate::process;
use crate::siblings::Makers;
use crate::sys;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use std::collections::{HashSet, VecDeque};
use tek_effect::{Change, Error, Identity, Limits, Resource};

/// Children of processes with a raised limit are checked for their end when there are more.
const MANY_BORN: usize = 1024;
/// The shortest interval between batches of events.
const BATCH_NS: u64 = 2_000_000;
/// The length of a slice of a batch; then a request may be served.
const SLICE_NS: u64 = 300_000;
/// The same before a limit is restored, which the rest of the news delays no longer.
const LAST_SLICE_NS: u64 = 2_000_000;

/// The state of listening to births.
#[derive(Default)]
pub struct Births {
    watch: Option<ExecWatch>,
    is_wanted: bool,
    /// Earlier births do not matter.
    since_ns: u64,
    backlog: Backlog,
    /// When the next slice may be read; `None`: as soon as there are news.
    next_ns: Option<u64>,
    last_ns: u64,
    /// It does not listen until then, so births are lost.
    paused_until_ns: Option<u64>,
    /// The end of the last Fast thread: the lineage ends when all births until then are handled.
    end_ns: Option<u64>,
    /// Scans for children that the kernel did not report, one at a time, and when the next is due.
    samples: VecDeque<Sample>,
    examine_ns: Option<u64>,
}

/// The children of one scan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sample {
    /// The children of this process, whose limit is raised.
    Limit(i32),
    /// The children of threads of this process that are away from their control group.
    Original(i32),
    /// All children that must leave the group of the Fast Region.
    OutOfFast,
}

impl Births {
    /// It does not listen yet. Without a socket for the kernel's events it never does.
    pub fn new(watch: Option<ExecWatch>) -> Self {
        Self { watch, ..Self::default() }
    }

    /// The socket for epoll.
    pub fn watch(&self) -> Option<&ExecWatch> {
        self.watch.as_ref()
    }

    /// When the next slice or scan is due.
    pub fn next_ns(&self) -> Option<u64> {
        let next = [self.next_ns, self.paused_until_ns, self.examine_ns];
        let next = next.into_iter().flatten().min();
        next.filter(|_| self.is_wanted)
    }

    /// Whether all births will be known, if necessary by a scan.
    pub fn are_received(&self) -> bool {
        self.is_wanted && self.watch.is_some()
    }

    fn listen(&mut self, listen: bool) {
        let failed = self.watch.as_mut().and_then(|watch| watch.listen(listen).err());
        if let Some(error) = failed {
            log::warning(&format!("births are not heard of: {error}"));
            self.watch = None;
        }
    }

    /// A thread may become Fast: the lineage goes on.
    pub fn go_on(&mut self) {
        self.end_ns = None;
    }

    fn receive(&mut self) -> Vec<News> {
        let watch = &mut self.watch;
        std::iter::from_fn(|| watch.as_mut()?.next()).take(CHUNK).collect()
    }
}

/// Whether the children of this parent and of a maker begin in the same group.
fn begins_there(way: Option<&Way>, parent: i32) -> bool {
    matches!(way, Some(Way::Original(heirs)) if heirs.begin_with(parent))
}

/// Whether a child has the limit that it would inherit from its parent.
fn has_limit_of(parent: i32, child: i32) -> bool {
    let of = |pid| Limits::of(pid, Resource::Rtprio).ok();
    of(parent).is_some_and(|limits| of(child) == Some(limits))
}

/// Queues the scans that are not queued yet: a queued one finds all births before it.
fn queue(samples: &mut VecDeque<Sample>, more: impl IntoIterator<Item = Sample>) {
    let mut queued: HashSet<Sample> = samples.iter().copied().collect();
    samples.extend(more.into_iter().filter(|examine| queued.insert(*examine)));
}

impl Server {
    /// Some births can be read.
    pub(super) fn receive_births(&mut self) {
        let are_all_read = self.read_births(SLICE_NS);
        let now = sys::monotonic_ns();
        let exhausted = self.load.births.exhausted_until(now);
        let births = &mut self.births;
        if exhausted.is_some() {
            births.listen(false);
            births.paused_until_ns = exhausted;
        }
        let is_often = now < births.last_ns + BATCH_NS;
        births.last_ns = now;
        births.next_ns = match are_all_read {
            false => Some(now),
            true => births.paused_until_ns.or(is_often.then_some(now + BATCH_NS)),
        };
        if births.next_ns.is_none() {
            self.wait_for_births();
        }
        if self.births.end_ns.is_some_and(|end| self.births.backlog.is_past(end)) {
            self.clear_lineage();
        }
    }

    /// Reads births for so long, on their account. `false`: there may be more.
    fn read_births(&mut self, slice_ns: u64) -> bool {
        let before = sys::cpu_ns();
        let end_ns = sys::monotonic_ns() + slice_ns;
        let mut backlog = std::mem::take(&mut self.births.backlog);
        let receive = |server: &mut Self| {
            let news = server.births.receive();
            server.siblings.keep_up();
            news
        };
        let mut are_lost = false;
        let handle = |server: &mut Self, news| match news {
            News::Born(birth) if birth.at_ns >= server.births.since_ns => server.born(birth),
            News::Lost => are_lost = true,
            News::Born(_) | News::Executed(..) | News::Became(_) => {}
        };
        let are_all_read = backlog.slice(self, receive, handle, || sys::monotonic_ns() >= end_ns);
        self.births.backlog = backlog;
        if are_all_read {
            self.siblings.all_news_were_read();
        }
        let now = sys::monotonic_ns();
        self.load.births.charge(sys::cpu_ns().saturating_sub(before), now);
        if are_lost {
            self.births_were_lost(now);
        }
        are_all_read
    }

    /// Reads births before a raised limit is restored. Its process may have ended, with unread
    /// events of its last children.
    pub(super) fn read_births_of(&mut self, limit: Change, uid: u32) {
        let are_all_read = self.births.paused_until_ns.is_none() && self.read_births(LAST_SLICE_NS);
        if !are_all_read || !self.births.samples.is_empty() {
            self.backends.effect.disinherit_limit_of_all(limit, uid);
        }
    }

    /// Does the work that is due by the clock.
    pub(super) fn poll_births(&mut self, now_ns: u64) {
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now_ns);
        if !self.births.is_wanted {
            return;
        }
        if is_due(self.births.examine_ns) {
            self.find_children();
        }
        if is_due(self.births.paused_until_ns) {
            self.births.paused_until_ns = None;
            self.births.listen(true);
            self.births_were_lost(now_ns);
        }
        if is_due(self.births.next_ns) {
            self.receive_births();
        }
    }

    /// Does one scan, on the account of births.
    fn find_children(&mut self) {
        let before = sys::cpu_ns();
        match self.births.samples.pop_front() {
            Some(Sample::Limit(pid)) => {
                let limit = self.peers.get(&pid).and_then(|peer| Some((peer.limit?, peer)));
                if let Some((limit, peer)) = limit {
                    self.backends.effect.disinherit_limit_of_all(limit, peer.connected_uid());
                }
            }
            Some(Sample::Original(process)) => {
                if let Some(Way::Original(heirs)) = self.region.lineage.way_of(process) {
                    self.backends.effect.take_all_heirs(heirs);
                }
            }
            Some(Sample::OutOfFast) => self.backends.tidy(&self.configuration, &self.domain),
            None => {}
        }
        let now = sys::monotonic_ns();
        self.load.births.charge(sys::cpu_ns().saturating_sub(before), now);
        let then = self.load.births.exhausted_until(now).unwrap_or(now + BATCH_NS);
        self.births.examine_ns = (!self.births.samples.is_empty()).then_some(then);
    }

    fn wait_for_births(&mut self) {
        let Some(watch) = self.births.watch() else { return };
        let mut event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT, BIRTHS);
        if let Err(error) = self.epoll.modify(watch.fd(), &mut event) {
            log::warning(&format!("births are not heard of: {error}"));
        }
    }

    /// Handles a birth that the kernel reported.
    fn born(&mut self, birth: Birth) {
        let Birth { process, parent, .. } = birth;
        let mut makers = Makers::default();
        if birth.thread == process {
            makers = self.siblings.makers_of(process, parent);
            self.disinherit(parent, process, &makers);
        }
        if !makers.are_known {
            let lineage = &self.region.lineage;
            makers.processes.retain(|&maker| !begins_there(lineage.way_of(maker), parent));
        }
        let Some(descent) = self.region.lineage.note(birth, &makers.processes) else { return };
        let original =
            Identity::of(birth.thread).and_then(|child| self.backends.return_one(&descent, child));
        match original {
            Ok(false) => return,
            // Its parent may have made it, so the possible maker is not charged.
            Err(Error::Gone { .. }) if makers.may_include(descent.process) => return,
            Ok(true) | Err(Error::Gone { .. }) => {}
            Err(error) => {
                self.not_placed
                    .announce(|| format!("a child stays in its parent's group: {error}"));
            }
        }
        if matches!(descent.way, Way::OutOfFast) {
            // The child had its parent's weight until now.
            let now_ns = sys::monotonic_ns();
            let ran_ns = match process::ran_ns(birth.thread) {
                Some(ran_ns) => ran_ns.min(now_ns.saturating_sub(birth.at_ns)),
                None => {
                    self.region.lineage.may_have_run(&descent, birth.at_ns, now_ns, sys::cpus())
                }
            };
            self.region.charge(descent.process, birth.parent_thread, ran_ns);
        }
    }

    /// A child has inherited the limit that was raised for its parent, or for the process that made
    /// it. It gets the limit from before that.
    fn disinherit(&mut self, parent: i32, child: i32, makers: &Makers) {
        let of_peer = |pid: &i32| self.peers.get(pid).and_then(|peer| peer.limit);
        let of_line = of_peer(&parent).or_else(|| self.born.get(&parent).copied());
        let of_maker = || {
            let is_of_maker = |_: &Change| makers.are_known || !has_limit_of(parent, child);
            makers.processes.iter().find_map(of_peer).filter(is_of_maker)
        };
        let Some(change) = of_line.or_else(of_maker) else {
            self.born.remove(&child); // the entry of an earlier process with its id
            return;
        };
        let done = Identity::of_process(child)
            .and_then(|child| self.backends.effect.disinherit_limit(change, child));
        match done {
            // An ended child may have had children.
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

    /// Children of this process inherit a change from now on, or soon.
    pub fn note_maker(&mut self, process: i32) {
        if self.births.watch().is_some() {
            self.siblings.add(process);
        }
    }

    /// Births matter while the limit of some process is raised, or a thread is away from its group.
    pub fn watch_births(&mut self, soon: bool) {
        let raised = soon || self.peers.values().any(|peer| peer.limit.is_some());
        if !raised {
            self.born.clear();
        }
        let is_away = !self.region.lineage.is_empty();
        let is_wanted = raised || is_away;
        if is_wanted == self.births.is_wanted {
            return;
        }
        // Unread births are those of an earlier time.
        let (watch, since_ns) = (self.births.watch.take(), sys::monotonic_ns());
        self.births = Births { is_wanted, since_ns, ..Births::new(watch) };
        self.births.listen(is_wanted);
        if !is_wanted {
            self.siblings.clear();
            return;
        }
        self.wait_for_births();
        if is_away {
            // The kernel did not report births before that.
            self.return_all();
        }
    }

    /// Runs after each step by which a thread may have left its group.
    pub(super) fn follow_lineage(&mut self) {
        let added = self.region.lineage.take_added();
        if !added.is_empty() {
            added.into_iter().for_each(|process| self.note_maker(process));
            self.watch_births(false);
        }
    }

    /// No thread is Fast any more. The lineage is needed until all births until now are handled: no
    /// scan finds each child whose parent has ended.
    pub(super) fn end_lineage(&mut self) {
        if self.region.lineage.is_empty() || !self.births.are_received() {
            self.clear_lineage();
            return;
        }
        self.births.end_ns = Some(sys::monotonic_ns());
        self.receive_births();
    }

    fn clear_lineage(&mut self) {
        let births = &mut self.births;
        births.end_ns = None;
        let are_found = births.samples.is_empty() && births.paused_until_ns.is_none();
        if !are_found || !births.are_received() {
            self.return_all();
        }
        self.region.lineage.clear();
        self.watch_births(false);
    }

    /// Births may have been lost: queues scans for their children.
    fn births_were_lost(&mut self, now_ns: u64) {
        let limits = self.peers.iter().filter(|(_, peer)| peer.limit.is_some());
        let limits = limits.map(|(pid, _)| Sample::Limit(*pid));
        let ways = self.region.lineage.ways().map(|(process, way)| match way {
            Way::Original(_) => Sample::Original(process),
            Way::OutOfFast => Sample::OutOfFast,
        });
        queue(&mut self.births.samples, limits.chain(ways));
        if !self.births.samples.is_empty() {
            let at_ns = self.load.births.exhausted_until(now_ns).unwrap_or(now_ns);
            self.births.examine_ns.get_or_insert(at_ns);
        }
    }

    /// Returns all children of threads that are away from their groups, except those that have
    /// executed a program and lost their parent.
    pub(super) fn return_all(&mut self) {
        let mut out_of_fast = false;
        for (_, way) in self.region.lineage.ways() {
            match way {
                Way::Original(heirs) => self.backends.effect.take_all_heirs(heirs),
                Way::OutOfFast => out_of_fast = true,
            }
        }
        if out_of_fast {
            self.backends.tidy(&self.configuration, &self.domain);
        }
    }

    /// Logs once why limits are not raised.
    pub fn describe_limits(&mut self, why: &str) {
        if !std::mem::replace(&mut self.limits_described, true) {
            log::warning(&format!("tekd goes on making each switch itself: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_that_waits_keeps_its_place_when_more_births_are_lost() {
        let all = [Sample::Limit(1), Sample::OutOfFast, Sample::Original(1), Sample::OutOfFast];
        let mut samples = VecDeque::new();
        queue(&mut samples, all);
        assert_eq!(samples, [Sample::Limit(1), Sample::OutOfFast, Sample::Original(1)]);
        samples.pop_front();
        queue(&mut samples, all);
        assert_eq!(samples, [Sample::OutOfFast, Sample::Original(1), Sample::Limit(1)]);
    }
}
