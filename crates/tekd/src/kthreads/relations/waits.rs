// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of programs for which critical tasks wait: owners of locks, and servers.
//!
//! The caller has checked whether the waiter may lift the thread (rights.rs). Here a process has a
//! highest number of threads that are lifted for it, and a wait for an answer has a highest time.
use super::{Relations, Thing};
use crate::kthreads::served::{Served, Why};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use tek_bpf::{Evidence, Member, Thread};
use tek_policy::dependency::{
    Because, Dependants, InheritSettings, LiftEquation, Refused, RtPriority, MOST_EDGES,
};
use tek_policy::Terms;

/// The kinds of waits for threads of programs.
const KINDS: [Because; 2] = [Because::Lock, Because::Answer];

/// A guess that was wrong is not tried again for this many times the longest wait.
const DOUBT: u64 = 20;
/// With more such guesses, all are forgotten.
const MOST_DOUBTED: usize = 1024;

/// A wait of a task that has a longest time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    Answer(i32),
    GuessedOwner(i32),
}

impl Wait {
    fn of(thing: Thing, guessed: &HashMap<i32, u64>) -> Option<Self> {
        match thing {
            Thing::Answers(waiter) => Some(Self::Answer(waiter)),
            Thing::Lock(waiter) if guessed.contains_key(&waiter) => {
                Some(Self::GuessedOwner(waiter))
            }
            _ => None,
        }
    }

    fn thing(self) -> Thing {
        match self {
            Self::Answer(waiter) => Thing::Answers(waiter),
            Self::GuessedOwner(waiter) => Thing::Lock(waiter),
        }
    }
}

/// Numbers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lifts that began.
    pub lifts: u64,
    /// The time of all lifts that have ended.
    pub lifted_ns: u64,
    /// Waits for threads that the waiter may not lift.
    pub not_allowed: u64,
    /// Waits for more threads than may be lifted for a process.
    pub too_many: u64,
    /// Answers that took longer than [`InheritSettings::max_wait`].
    pub too_long: u64,
    /// Lifts that ended because the thread had used its CPU time.
    pub exhausted: u64,
}

/// All data about such waits that the graph does not have.
pub struct Waits {
    settings: InheritSettings,
    /// Threads that tekd has made Fast, with their processes: they have the priority that they
    /// asked for.
    fast: HashMap<i32, i32>,
    /// The highest number of threads that are lifted for a process with Fast threads.
    quotas: HashMap<i32, u32>,
    /// Threads that are waited for, each with the process of the first waiter.
    awaited: HashMap<i32, i32>,
    /// When waits for answers, and for guessed owners of locks, end: time, thing and holder. Some
    /// of them have ended.
    ends: BinaryHeap<Reverse<(u64, Wait, i32)>>,
    /// The lock of each task that waits for a guessed owner.
    guessed: HashMap<i32, u64>,
    /// Tasks and locks whose guessed owner did not release the lock in time. Until this time it is
    /// not lifted for them again.
    doubted: HashMap<(i32, u64), u64>,
    counts: Counts,
}

impl Waits {
    pub fn new(settings: InheritSettings) -> Self {
        Self {
            settings,
            fast: HashMap::new(),
            quotas: HashMap::new(),
            awaited: HashMap::new(),
            ends: BinaryHeap::new(),
            guessed: HashMap::new(),
            doubted: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// A task has ended.
    pub fn forget_waiter(&mut self, tid: i32) {
        self.guessed.remove(&tid);
        self.doubted.retain(|(waiter, _), _| *waiter != tid);
    }

    fn quota_of(&self, process: i32) -> usize {
        let quota = self.quotas.get(&process).copied().unwrap_or_else(|| Terms::default().threads);
        usize::try_from(quota).unwrap_or(usize::MAX)
    }
}

impl Relations {
    /// `[inherit]` of tekd.toml.
    pub fn inherit(&self) -> &InheritSettings {
        &self.waits.settings
    }

    /// Applies another `[inherit]`.
    pub fn change_inherit(&mut self, settings: InheritSettings) {
        self.waits.settings = settings;
        self.put_off_all();
    }

    pub fn counts(&self) -> &Counts {
        &self.waits.counts
    }

    /// Waits of all kinds, also those for kernel threads, beyond the bounds of the graph.
    pub fn refused(&self) -> Refused {
        self.graph.refused()
    }

    pub fn counts_mut(&mut self) -> &mut Counts {
        &mut self.waits.counts
    }

    /// tekd makes a thread Fast: it is lifted for no waiter. `quota`: how many threads may be
    /// lifted for its process.
    pub fn add_fast(&mut self, thread: i32, process: i32, quota: u32) {
        self.waits.fast.insert(thread, process);
        self.waits.quotas.insert(process, quota);
        self.put_off(thread);
    }

    /// The thread is Fast no more.
    pub fn remove_fast(&mut self, thread: i32) {
        let Some(process) = self.waits.fast.remove(&thread) else { return };
        if !self.waits.fast.values().any(|its| *its == process) {
            self.waits.quotas.remove(&process);
        }
        self.put_off(thread);
    }

    /// Whether tekd has made a thread Fast.
    pub fn has_fast(&self) -> bool {
        !self.waits.fast.is_empty()
    }

    pub(super) fn await_lock(
        &mut self,
        member: Member,
        lock: u64,
        holder: Thread,
        evidence: Evidence,
        woken: u64,
    ) {
        let thing = Thing::Lock(member.tid);
        self.waits.guessed.remove(&member.tid);
        let is_guessed = evidence == Evidence::Guessed;
        let doubted = self.waits.doubted.get(&(member.tid, lock));
        if is_guessed && doubted.is_some_and(|until| *until > self.at) {
            return self.end_now(thing);
        }
        // A task sleeps for one lock. Another thread may have got the lock meanwhile.
        self.leave_to(thing, holder.tid);
        if self.begin_wait(thing, holder, member, Why::Lock(lock), woken) && is_guessed {
            self.waits.guessed.insert(member.tid, lock);
            self.note_end(Wait::GuessedOwner(member.tid), holder.tid);
        }
    }

    /// A task waits for no lock any more.
    pub fn end_lock(&mut self, waiter: i32) {
        self.waits.guessed.remove(&waiter);
        self.end_now(Thing::Lock(waiter));
    }

    pub(super) fn await_answer(&mut self, member: Member, server: Thread, woken: u64) {
        let thing = Thing::Answers(member.tid);
        let is_known = self.graph.edges_of(thing).iter().any(|edge| edge.holder == server.tid);
        if self.begin_wait(thing, server, member, Why::Answer, woken) && !is_known {
            self.note_end(Wait::Answer(member.tid), server.tid);
        }
    }

    fn note_end(&mut self, wait: Wait, holder: i32) {
        if self.waits.ends.len() > 4 * MOST_EDGES {
            self.forget_ends();
        }
        let end = self.at.saturating_add(self.waits.settings.max_wait_ns());
        self.waits.ends.push(Reverse((end, wait, holder)));
    }

    pub(super) fn end_answer(&mut self, waiter: i32, server: i32) {
        self.graph.end_those(Thing::Answers(waiter), |edge| edge.holder == server);
        self.note_all(0);
    }

    /// The task waits for a thread that it may not lift.
    pub fn refuse(&mut self, member: Member, is_lock: bool) {
        self.waits.counts.not_allowed += 1;
        if is_lock {
            self.end_lock(member.tid);
        }
    }

    fn begin_wait(
        &mut self,
        thing: Thing,
        thread: Thread,
        member: Member,
        why: Why,
        woken: u64,
    ) -> bool {
        if !self.admits(thread.tid, member.process) {
            self.waits.counts.too_many += 1;
            return false;
        }
        self.waits.awaited.entry(thread.tid).or_insert(member.process);
        let own = RtPriority::new(member.priority.into()).filter(|_| !member.via);
        self.begin_edge(thing, thread, member.tid, why, own, woken);
        // The programs must learn that this wait needs no wake-up.
        self.put_off(thread.tid);
        true
    }

    /// Whether one more thread may be lifted for a process.
    fn admits(&mut self, thread: i32, process: i32) -> bool {
        if self.is_awaited(thread) {
            return true;
        }
        let awaited = std::mem::take(&mut self.waits.awaited).into_iter();
        let awaited = awaited.filter(|(thread, _)| self.is_awaited(*thread)).collect();
        self.waits.awaited = awaited;
        let its = self.waits.awaited.values().filter(|its| **its == process).count();
        its < self.waits.quota_of(process)
    }

    /// Whether a task waits for a lock or an answer of a thread.
    pub fn is_awaited(&self, thread: i32) -> bool {
        let sets = KINDS.into_iter().filter_map(|it| self.graph.dependants(thread, it));
        sets.map(Dependants::waiters).sum::<usize>() > 0
    }

    pub(super) fn wanted_for_waits(&self, served: &Served) -> Option<RtPriority> {
        let thread = served.thread.tid;
        if self.waits.fast.contains_key(&thread) || !served.lifted.may_be_lifted() {
            return None;
        }
        let settings = &self.waits.settings;
        let of = |equation: LiftEquation, because| {
            equation.priority(self.graph.summary(thread, because))
        };
        let owner = of(LiftEquation::OWNER, Because::Lock);
        let server = of(LiftEquation::SERVER, Because::Answer);
        owner.filter(|_| settings.locks).max(server.filter(|_| settings.answers))
    }

    /// Ends the waits for answers and guessed owners that have taken too long.
    pub(super) fn end_long_waits(&mut self, now: u64) {
        let longest = self.waits.settings.max_wait_ns();
        while let Some(Reverse((_, wait, holder))) =
            self.waits.ends.peek().copied().filter(|Reverse((at, ..))| *at <= now)
        {
            self.waits.ends.pop();
            let edges = self.graph.edges_of(wait.thing());
            let is_over = |since: u64| since.saturating_add(longest) <= now;
            if !edges.iter().any(|edge| edge.holder == holder && is_over(edge.since_ns)) {
                continue;
            }
            match wait {
                Wait::Answer(waiter) => self.end_answer(waiter, holder),
                Wait::GuessedOwner(waiter) => {
                    let Some(lock) = self.waits.guessed.get(&waiter).copied() else { continue };
                    self.doubt(waiter, lock, now.saturating_add(DOUBT.saturating_mul(longest)));
                    self.end_lock(waiter);
                }
            }
            self.waits.counts.too_long += 1;
        }
    }

    fn doubt(&mut self, waiter: i32, lock: u64, until: u64) {
        if self.waits.doubted.len() >= MOST_DOUBTED {
            self.waits.doubted.clear();
        }
        self.waits.doubted.insert((waiter, lock), until);
    }

    /// When the next wait with a longest time ends.
    pub fn next_end_ns(&self) -> Option<u64> {
        self.waits.ends.peek().map(|Reverse((at, ..))| *at)
    }

    /// The number of ends that are stored.
    #[cfg(test)]
    pub fn remembered_ends(&self) -> usize {
        self.waits.ends.len()
    }

    /// Removes the ends of waits that have ended already.
    fn forget_ends(&mut self) {
        let longest = self.waits.settings.max_wait_ns();
        let Waits { guessed, ends, .. } = &mut self.waits;
        let of = |thing: &Thing| Wait::of(*thing, guessed);
        let waits = self.graph.edges().filter_map(|(thing, edge)| Some((of(thing)?, edge)));
        *ends = waits
            .map(|(wait, edge)| Reverse((edge.since_ns.saturating_add(longest), wait, edge.holder)))
            .collect();
    }

    /// All waits for locks and answers end, because their ends are not reported any more.
    pub fn end_all_waits(&mut self) {
        self.graph.end_all_where(|edge| KINDS.contains(&edge.because));
        self.waits.ends.clear();
        self.waits.guessed.clear();
        self.note_all(0);
    }

    /// No task waits for a thread of a process any more.
    pub fn end_waits_for_process(&mut self, process: i32) {
        let its = self.served.values().filter(|it| it.lifted.process() == Some(process));
        let threads: Vec<i32> = its.map(|it| it.thread.tid).collect();
        threads.into_iter().for_each(|thread| self.end_waits_for(thread));
    }

    /// No task waits for a thread of a program any more: it executes another program.
    pub fn end_waits_for(&mut self, thread: i32) {
        self.graph.end_all_where(|it| it.holder == thread && KINDS.contains(&it.because));
        self.note_all(0);
    }

    /// Each wait for a lock or an answer: waiter, holder, kind and begin.
    pub fn all_waits(&self) -> Vec<(i32, i32, Because, u64)> {
        let edges = self.graph.edges().filter(|(_, edge)| KINDS.contains(&edge.because));
        edges.map(|(_, it)| (it.waiter, it.holder, it.because, it.since_ns)).collect()
    }

    /// Threads that wait for each other in a circle.
    pub fn circles(&self) -> Vec<Vec<i32>> {
        self.graph.circles()
    }
}
