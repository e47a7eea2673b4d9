// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real-time threads of the domain that are not critical. Under backend rt they are Lazy like all
//! others: while anybody is Fast they wait beneath the Fast Region, and afterwards they have again
//! what they had.
//!
//! The kernel tells nobody which threads are real-time, so they are looked for: at the start, and
//! while the device is in responsiveness mode now and then, in slices. Who becomes Fast does not wait
//! for that; those who are known are lowered at once.
use crate::log;
use crate::process;
use crate::sys;
use std::collections::{HashMap, HashSet};
use tek_effect::{Change, Effect, Error, Identity, Scheduling};
use tek_policy::RealTime;

const OTHER: u32 = libc::SCHED_OTHER as u32;
const FIFO: u32 = libc::SCHED_FIFO as u32;
const RR: u32 = libc::SCHED_RR as u32;

/// The looks at all threads begin so often, or seldomer so that they take a part of so many of a CPU.
const EVERY_NS: u64 = 1_000_000_000;
const SHARE: u64 = 200;
/// A slice of one takes so long, and then others may run.
const SLICE_NS: u64 = 300_000;
const PAUSE_NS: u64 = 5_000_000;

/// Whom it is about, and whom not.
pub trait Scope {
    /// Whether the threads of a process may be touched.
    fn holds(&self, pid: i32) -> bool;
    /// Whether a thread is critical, so that it is not another's.
    fn is_critical(&self, thread: Identity) -> bool;
    /// Whether a process makes its threads critical by itself.
    fn switches_itself(&self, pid: i32) -> bool;
}

/// A thread that was lowered.
pub struct Lowered {
    pub process: Identity,
    pub had: Scheduling,
    pub has: Scheduling,
    change: Change,
}

/// All of them.
#[derive(Default)]
pub struct Others {
    /// Real-time threads, and their processes.
    known: HashMap<Identity, Identity>,
    lowered: HashMap<Identity, Lowered>,
    /// Those that were critical until just now, and their processes.
    back: Vec<(Identity, Identity)>,
    /// Somebody is Fast.
    active: bool,
    look: Look,
}

/// A look at all threads.
#[derive(Default)]
struct Look {
    /// Processes that are still to be looked at.
    left: Vec<i32>,
    found: HashMap<Identity, Identity>,
    spent_ns: u64,
    next_ns: u64,
    /// When the last one began.
    began_ns: Option<u64>,
}

impl Others {
    /// Looks at all threads at once.
    pub fn look_at_all(&mut self, now_ns: u64, range: RealTime, scope: &impl Scope) {
        self.look.begin(now_ns);
        while let Some(pid) = self.look.left.pop() {
            self.look.at(pid, range, scope);
        }
        self.known = std::mem::take(&mut self.look.found);
    }

    /// Somebody is Fast: those who are known are lowered.
    pub fn enter(&mut self, effect: &mut Effect, range: RealTime, scope: &impl Scope, now_ns: u64) {
        let back = std::mem::take(&mut self.back);
        let was_active = std::mem::replace(&mut self.active, true);
        let known = (!was_active).then(|| self.known.clone());
        for (thread, process) in known.into_iter().flatten().chain(back) {
            self.lower(effect, range, scope, thread, process);
        }
        if was_active {
            return;
        }
        if self.look.began_ns.is_none_or(|began| began + EVERY_NS <= now_ns) {
            self.look.next_ns = now_ns;
        }
    }

    /// Nobody is: all have again what they had.
    pub fn leave(&mut self, effect: &mut Effect) {
        self.active = false;
        self.back.clear();
        self.look.left.clear();
        for (thread, lowered) in self.lowered.drain() {
            give_back(effect, thread, &lowered);
        }
    }

    /// One of them becomes critical, or it is asked for what it has: it has again what it had.
    pub fn raise(&mut self, effect: &mut Effect, thread: Identity) {
        if let Some(lowered) = self.lowered.remove(&thread) {
            give_back(effect, thread, &lowered);
        }
    }

    /// One that had a real-time policy by itself is critical no more.
    pub fn note_back(&mut self, thread: Identity, process: Identity) {
        self.back.push((thread, process));
    }

    /// When there is something to look at.
    pub fn next_ns(&self) -> Option<u64> {
        self.active.then_some(self.look.next_ns)
    }

    /// A slice of a look, if one is due. Whom it finds is lowered.
    pub fn look(&mut self, effect: &mut Effect, now_ns: u64, range: RealTime, scope: &impl Scope) {
        if !self.active || self.look.next_ns > now_ns {
            return;
        }
        if self.look.left.is_empty() {
            self.look.begin(now_ns);
        }
        let spent_ns = || sys::monotonic_ns().saturating_sub(now_ns);
        while spent_ns() < SLICE_NS {
            let Some(pid) = self.look.left.pop() else { break };
            self.look.at(pid, range, scope);
        }
        let new: Vec<(Identity, Identity)> = self
            .look
            .found
            .iter()
            .filter(|(thread, _)| !self.lowered.contains_key(thread))
            .map(|(&thread, &process)| (thread, process))
            .collect();
        for (thread, process) in new {
            self.known.insert(thread, process);
            self.lower(effect, range, scope, thread, process);
        }
        self.look.spent_ns += spent_ns();
        if self.look.left.is_empty() {
            self.known = std::mem::take(&mut self.look.found);
            self.known.extend(self.lowered.iter().map(|(&thread, its)| (thread, its.process)));
            self.look.next_ns = now_ns + EVERY_NS.max(self.look.spent_ns * SHARE);
        } else {
            self.look.next_ns = now_ns + PAUSE_NS;
        }
    }

    /// Those who wait.
    pub fn lowered(&self) -> impl Iterator<Item = (Identity, &Lowered)> {
        self.lowered.iter().map(|(&thread, lowered)| (thread, lowered))
    }

    /// One of them.
    pub fn lowered_one(&self, thread: Identity) -> Option<&Lowered> {
        self.lowered.get(&thread)
    }

    fn lower(
        &mut self,
        effect: &mut Effect,
        range: RealTime,
        scope: &impl Scope,
        thread: Identity,
        process: Identity,
    ) {
        if scope.is_critical(thread) || self.lowered.contains_key(&thread) {
            return;
        }
        let Ok(had) = Scheduling::of(thread.tid) else { return };
        if !is_lowered_from(had, range) || is_marked(had, range) {
            return; // its policy is another one by now
        }
        // Where the Fast Region begins at the lowest real-time priority, there is none beneath it.
        let has = match range.low {
            1 => Scheduling { policy: OTHER, priority: 0, ..had },
            low => Scheduling { priority: low - 1, ..had },
        };
        match effect.set_scheduling_of_line(thread, has) {
            Ok(change) => {
                self.lowered.insert(thread, Lowered { process, had, has, change });
            }
            Err(Error::Gone { .. }) => {}
            Err(error) => log::warning(&format!("a real-time thread is not lowered: {error}")),
        }
    }
}

impl Look {
    fn begin(&mut self, now_ns: u64) {
        self.left = process::all();
        self.found.clear();
        self.spent_ns = 0;
        self.began_ns = Some(now_ns);
    }

    /// Finds real-time threads of a process. It is asked who it is only if it has any: nearly none
    /// has.
    fn at(&mut self, pid: i32, range: RealTime, scope: &impl Scope) {
        let mut found = HashSet::new();
        for tid in process::threads(pid).unwrap_or_default() {
            if sys::is_real_time(tid) {
                found.insert(tid);
            }
        }
        if found.is_empty() || !scope.holds(pid) || scope.switches_itself(pid) {
            return;
        }
        let Ok(process) = Identity::of_process(pid) else { return };
        for tid in found {
            let Ok(had) = Scheduling::of(tid) else { continue };
            if is_lowered_from(had, range) && !is_marked(had, range) {
                self.found.extend(Identity::of(tid).ok().map(|thread| (thread, process)));
            }
        }
    }
}

/// Whether it would come before some Fast thread, or beside it.
fn is_lowered_from(had: Scheduling, range: RealTime) -> bool {
    [FIFO, RR].contains(&had.policy) && had.priority >= range.low
}

/// Whether it has what libtek in a process with rights of its own, or rtkit, gives to critical
/// threads: they do not ask tekd. The guard of such a process is one above.
fn is_marked(had: Scheduling, range: RealTime) -> bool {
    had.reset_on_fork && (range.low..=range.high + 1).contains(&had.priority)
}

fn give_back(effect: &mut Effect, thread: Identity, lowered: &Lowered) {
    match effect.give_back(lowered.change) {
        Ok(_) | Err(Error::Executing { .. }) => {}
        Err(error) => {
            let tid = thread.tid;
            log::warning(&format!("thread {tid} could not be given back its priority: {error}"));
        }
    }
}
