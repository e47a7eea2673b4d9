// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client executes a program or changes its rights, or the configuration changes.
use super::load::Stopwatch;
use super::Server;
use crate::backends::Backends;
use crate::configuration::Loaded;
use crate::exec_watch::{ExecWatch, News};
use crate::log;
use crate::member::Reason;
use crate::own_priority::become_first;
use crate::peer::Still;
use crate::subordinate::Subordinates;
use crate::sys;
use std::collections::HashSet;
use tek_effect::Identity;
use tek_policy::{Configuration, RealTime};

/// The kernel reports each process that executes a program, so there may be many events at once.
const MOST_NEWS: usize = 4096;
/// The shortest interval of comparisons where the kernel reports no events. They run only with
/// other timed work.
const COMPARE_NS: u64 = 60_000_000;

impl Server {
    /// The kernel reports changes of this process from now on. `false`: it did so before.
    pub fn watch_changes_of(&mut self, process: Identity) -> bool {
        if self.watched_processes.contains(&process.tid) {
            return false;
        }
        // Processes without a connection and without Fast threads make room.
        let members: HashSet<i32> =
            self.region.members().map(|member| member.target.process.tid).collect();
        let peers = &self.peers;
        self.watched_processes.retain(|pid| members.contains(pid) || peers.contains_key(pid));
        self.watched_processes.insert(process.tid);
        self.choose_news();
        true
    }

    /// Selects the events that matter: of processes that tekd has changed, and of programs that are
    /// executed where they are to be placed.
    pub(super) fn choose_news(&mut self) {
        let all = self.has_newcomers() && self.newcomers.are_reported();
        let Some(watch) = &mut self.exec_watch else { return };
        let processes: Vec<i32> = self.watched_processes.iter().copied().collect();
        if let Err(error) = watch.watch_changes_of(&processes, all) {
            log::warning(&format!("news of too many processes arrive: {error}"));
        }
    }

    /// Handles all events that the kernel has reported, with their consequences, before a client's
    /// request.
    pub fn receive_all_news(&mut self) {
        if self.is_notified_of_rest() {
            if !self.receive_news_of(MOST_NEWS) {
                self.be_sure_of_nobody();
            }
            self.end_those_that_are_to();
        }
    }

    /// Whether events would report each change of a client's identity. The kernel reports none for
    /// supplementary groups, cgroups and parents that end.
    pub fn is_notified_of_rest(&self) -> bool {
        let listens = self.exec_watch.as_ref().is_some_and(ExecWatch::listens);
        listens
            && !self.configuration.names_groups()
            && !self.configuration.names_cgroups()
            && !self.domain.can_be_left()
    }

    /// Handles at most `most` events. `false`: there may be more.
    pub(super) fn receive_news_of(&mut self, most: usize) -> bool {
        for _ in 0..most {
            match self.exec_watch.as_mut().and_then(ExecWatch::next) {
                None => return true,
                Some(News::Executed(pid, at_ns)) => self.executed(pid, at_ns),
                Some(News::Became(pid)) => self.compare(pid),
                Some(News::Born(_)) => {}
                Some(News::Lost) => {
                    self.be_sure_of_nobody();
                    self.compare_all();
                    self.place_all_soon();
                }
            }
        }
        false
    }

    /// Each client is checked again before its next request is granted.
    pub(super) fn be_sure_of_nobody(&mut self) {
        self.peers.values_mut().for_each(|peer| peer.is_sure = false);
    }

    /// A process executed a program. Ends its grants, unless it got them after that.
    pub(super) fn executed(&mut self, pid: i32, at_ns: u64) {
        const WHY: &str = "it executed another program";
        self.backends.kthreads.executed(pid);
        let peer = self.peers.get(&pid).filter(|peer| peer.since_ns < at_ns);
        self.ending.extend(peer.map(|peer| (peer.process, WHY)));
        let rest = self.region.members().filter(|member| member.target.process.tid == pid);
        let rest = rest.filter(|member| member.asks().all(|ask| ask.since_ns < at_ns));
        self.ending.extend(rest.map(|member| (member.target.process, WHY)));
        tek_sort::by_key(&mut self.ending, |(process, _)| process.tid);
        self.ending.dedup();
        if self.has_newcomers() {
            self.newcomers.add(pid, sys::monotonic_ns());
        }
    }

    /// Events of executed programs were lost.
    fn place_all_soon(&mut self) {
        if self.has_newcomers() {
            self.newcomers.add_all(sys::monotonic_ns());
        }
    }

    /// Moves threads of large processes, within the bound.
    pub(super) fn go_on_placing(&mut self, now_ns: u64) {
        if self.load.chores.exhausted_until(now_ns).is_none() {
            let watch = Stopwatch::start();
            self.backends.placement.go_on(&mut self.backends.effect, now_ns);
            let then_ns = sys::monotonic_ns();
            self.load.chores.charge(watch.ns(then_ns), then_ns);
        }
    }

    /// A process that has executed a program may belong to another group.
    pub(super) fn place_new(&mut self, pid: i32) {
        let Self { backends, configuration, domain, not_placed, .. } = self;
        let Backends { placement, effect, .. } = backends;
        if let Err(error) = placement.place_new(effect, configuration, domain, pid) {
            // Under systemd each process of another unit fails here.
            not_placed.announce(|| format!("process {pid} is in no group: {error}"));
        }
    }

    /// Whether a client still is the same program with the same rights.
    pub(super) fn compare(&mut self, pid: i32) {
        let Some(peer) = self.peers.get_mut(&pid).filter(|peer| peer.checked.is_some()) else {
            return;
        };
        match peer.check(&self.configuration, &self.domain, &self.backends.placement.originals) {
            Ok(Still::Itself) => {}
            Ok(Still::Another(why)) => self.ending.push((peer.process, why)),
            Err(_) => self.ending.push((peer.process, "it cannot be looked at any more")),
        }
    }

    /// A process is about to get a Fast thread. `true`: its changes are reported from now on, and
    /// were not before.
    pub fn note_program(&mut self, process: Identity, now_ns: u64) -> bool {
        let is_new = self.watch_changes_of(process);
        let has_one = self.region.members().any(|member| member.target.process == process);
        if self.exec_watch.is_none() && !has_one {
            self.programs.note(process, now_ns);
        }
        is_new
    }

    /// Finds clients that became another program, where the kernel reports no events.
    pub(super) fn poll_news(&mut self, now_ns: u64) {
        let present = self.region.members().map(|member| member.target.process).collect();
        for process in self.programs.executed(&present, now_ns) {
            self.executed(process.tid, now_ns);
        }
        if self.compare_at_ns <= now_ns {
            let began_cpu_ns = sys::cpu_ns();
            self.compare_all();
            self.compare_at_ns = now_ns + sys::period_ns(began_cpu_ns, COMPARE_NS);
        }
    }

    pub(super) fn compare_all(&mut self) {
        let pids: Vec<i32> = self.peers.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.compare(pid));
    }

    /// Puts another configuration into force.
    pub(super) fn set_configuration(&mut self, loaded: Loaded, subordinates: Subordinates) {
        log::info(&format!("configuration: {}", loaded.source));
        loaded.warnings.iter().for_each(|line| log::warning(line));
        let before = std::mem::replace(&mut self.configuration, loaded.configuration);
        self.source = loaded.source;
        self.subordinates = subordinates;
        self.load.name_again(self.configuration.named_users());
        self.decide_again();
        self.set_range(before.real_time);
        self.place_again(&before);
        if self.awake {
            self.canary.rest();
            self.wake_canary();
        }
    }

    pub(super) fn decide_again(&mut self) {
        let pids: Vec<i32> = self.peers.keys().copied().collect();
        for pid in pids {
            let Some(peer) = self.peers.get_mut(&pid) else { continue };
            peer.is_sure = false;
            // A new check alone would not notice that the process became another one.
            let still =
                peer.check(&self.configuration, &self.domain, &self.backends.placement.originals);
            if !matches!(still, Ok(Still::Itself)) {
                self.ending.push((peer.process, "it is another one by now"));
                continue;
            }
            peer.checked = None;
            let _ =
                peer.check(&self.configuration, &self.domain, &self.backends.placement.originals);
            if peer.grant().is_ok() {
                let uid = peer.connected_uid();
                self.note_grant(uid);
            }
        }
        for (tid, reason, why) in self.granted_no_more() {
            let left = self.region.left(tid, libc::EPERM, [0, 0], why);
            self.region.leave(&mut self.backends, tid, reason);
            let is_out = self.region.members().all(|member| member.target.thread.tid != tid);
            left.iter().filter(|_| is_out).for_each(|left| self.inform(left));
        }
    }

    /// Requests in force that the present grants would refuse.
    fn granted_no_more(&self) -> Vec<(i32, Reason, String)> {
        let mut out = Vec::new();
        for member in self.region.members() {
            let asks = [(Reason::Own, &member.own), (Reason::ByHand, &member.by_hand)];
            for (reason, ask) in asks {
                let Some(ask) = ask else { continue };
                let Some(peer) = self.peers.get(&ask.pid) else { continue };
                let granted = peer.grant().and_then(|grant| {
                    if reason == Reason::ByHand {
                        grant.terms.may_change_other_users(ask.uid)?;
                    }
                    Ok(ask.priorities().try_for_each(|it| grant.terms.may_have(it))?)
                });
                out.extend(granted.err().map(|no| (member.target.thread.tid, reason, no.why)));
            }
        }
        out
    }

    /// Applies the weights and places of the present configuration.
    fn place_again(&mut self, before: &Configuration) {
        let now = &self.configuration;
        let place = |of: &Configuration| {
            of.groups.as_ref().map(|groups| (groups.below.clone(), groups.name.clone()))
        };
        if now.backend != before.backend || place(now) != place(before) {
            log::warning(
                "another backend, and groups elsewhere, come into force when tekd is started anew",
            );
        }
        if before.kthreads.is_some() != now.kthreads.is_some() {
            log::warning("[kthreads] comes into force, and goes, when tekd is started anew");
        }
        self.backends.kthreads.reload(now);
        let Self { backends, configuration, domain, .. } = self;
        backends.placement.reload(&mut backends.effect, configuration, domain);
        self.listen_for_news(self.awake || self.needs_news());
    }

    /// Moves all members to the present priority range, and keeps tekd above it.
    fn set_range(&mut self, before: RealTime) {
        let now = self.configuration.real_time;
        if now == before {
            return;
        }
        become_first(before.high.max(now.high) + 2);
        self.backends.range = now;
        // Lowered below the new range later.
        self.backends.noncritical.leave(&mut self.backends.effect);
        self.region.settle_all(&mut self.backends);
        become_first(now.high + 2);
        self.backends.kthreads.set_attaching_priority(now.high + 1);
    }
}
