// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives threads their computed priorities, through a journal of its own.
use super::boost::{examine, identify, is_real_time, release, set, usual_priority, Failures};
use super::relations::Relations;
use super::safe_order::Superiors;
use super::system;
use crate::{log, sys};
use tek_effect::{Effect, Identity, Scheduling};
use tek_policy::kthread::{Changes, Class, Direction};

/// The maximum number of changes of threads of programs in a second. A thread that asks and waits
/// again and again causes two for each answer.
const LIFTS_A_SECOND: u32 = 20_000;

/// The part that changes threads.
pub struct Applier {
    pub effect: Effect,
    pub changes: Changes,
    /// Changes of threads of programs.
    lifts: Changes,
    /// Times from the event to the changed priority that the statistics do not include yet.
    pub reactions_ns: Vec<u64>,
    /// The same for threads of programs.
    pub lift_reactions_ns: Vec<u64>,
    /// The threads that are raised along with ksoftirqd.
    pub superiors: Superiors,
    failures: Failures,
    /// Fast threads have weights, and no real-time policy.
    is_fair: bool,
}

impl Applier {
    pub fn new(effect: Effect, changes_per_second: u32, is_fair: bool) -> Self {
        let changes = Changes::new(changes_per_second);
        let lifts = Changes::new(LIFTS_A_SECOND);
        let (superiors, failures) = (Superiors::default(), Failures::default());
        Self {
            effect,
            changes,
            lifts,
            reactions_ns: Vec::new(),
            lift_reactions_ns: Vec::new(),
            superiors,
            failures,
            is_fair,
        }
    }

    /// Gives each thread whose R(k) changed the priority that follows from it. `covered` receives
    /// the priorities of members that the present priority of a thread was computed from.
    pub fn settle(
        &mut self,
        relations: &mut Relations,
        mut covered: impl FnMut(i32, Option<u128>),
    ) {
        self.give_back_orphans(relations);
        let mut softirqs = false;
        let of_boosted = relations.all().filter_map(|served| served.boost.now);
        let of_boosted = of_boosted.fold(0, |bits, now| bits | 1u128 << now.get());
        for (thread, woken) in relations.take_changed() {
            let Some(served) = relations.served(thread) else { continue };
            let members = relations.priorities(thread);
            let is_softirq = served.class() == Class::Softirq;
            softirqs |= is_softirq;
            // A boosted dependant counts as its own dependants, which are included already.
            let bits = if members == 0 { 0 } else { members | of_boosted };
            if served.is_user() {
                self.settle_user_with(relations, thread, woken, bits, &mut covered);
                continue;
            }
            // The programs get the value first: a boosted thread may run at once and queue
            // something. They recognize works of a kworker without it, and there an early boost
            // matters more.
            let before = bits != 0 && !served.is_kworker();
            if before {
                covered(thread, Some(bits));
            }
            let is_there = is_softirq || self.settle_one(relations, thread, woken);
            if !before || !is_there {
                covered(thread, is_there.then_some(bits));
            }
        }
        if softirqs {
            let Self { effect, changes, superiors, failures, .. } = self;
            superiors.settle(effect, changes, failures, relations);
        }
    }

    /// `false`: the thread does not exist any more.
    fn settle_one(&mut self, relations: &mut Relations, thread: i32, woken: u64) -> bool {
        let wanted = relations.wanted(thread);
        let Some(served) = relations.served_mut(thread) else { return false };
        let before = served.boost.now;
        if before == wanted {
            return true;
        }
        if let Err(error) = examine(&mut served.boost, thread) {
            return self.failures.note(relations, thread, &error);
        }
        let usual = usual_priority(&served.boost);
        let direction = Direction::of(usual, before.or(usual), wanted.or(usual));
        let now = sys::monotonic_ns();
        if !self.changes.may_change(1, direction, now) {
            served.boost.held = Some("too many changes a second".to_owned());
            relations.put_off(thread);
            return true;
        }
        served.boost.held = None;
        let set = set(&mut self.effect, &mut served.boost, wanted);
        match set {
            Ok(()) => self.note(woken),
            Err(error) => return self.failures.note(relations, thread, &error),
        }
        true
    }

    /// Settles a thread of a program. Only a lifted thread has covered priorities: the BPF programs
    /// take a real-time thread without them for a critical task.
    fn settle_user_with(
        &mut self,
        relations: &mut Relations,
        thread: i32,
        woken: u64,
        bits: u128,
        covered: &mut impl FnMut(i32, Option<u128>),
    ) {
        if relations.wanted(thread).is_some() {
            covered(thread, Some(bits));
        }
        let is_there = self.settle_user(relations, thread, woken);
        let is_lifted = relations.served(thread).is_some_and(|it| it.boost.now.is_some());
        if !is_lifted {
            covered(thread, is_there.then_some(0));
        }
    }

    /// `false`: the thread does not exist any more.
    fn settle_user(&mut self, relations: &mut Relations, thread: i32, woken: u64) -> bool {
        let (budget, now) = (relations.inherit().budget, sys::monotonic_ns());
        let Some(served) = relations.served_mut(thread) else { return false };
        served.lifted.changes(budget, now);
        let before = served.boost.now;
        if before.is_none() {
            served.boost.is_fair = self.is_fair;
            // Attributes of an earlier lift may have come back.
            if let Ok(identity) = identify(&mut served.boost, thread) {
                self.effect.settle(identity);
            }
            if let Err(error) = examine(&mut served.boost, thread) {
                return self.failures.note(relations, thread, &error);
            }
            served.lifted.is_real_time = is_real_time(&served.boost);
            // Before the lift: after it the thread may execute a program at once.
            if !served.lifted.has_program() {
                served.lifted.has_executed(thread);
            }
        }
        let wanted = relations.wanted(thread);
        if before == wanted {
            return true;
        }
        let direction = Direction::of(None, before, wanted);
        let is_allowed = self.lifts.may_change(1, direction, now);
        let Some(served) = relations.served_mut(thread) else { return false };
        if !is_allowed {
            served.boost.held = Some("too many changes a second".to_owned());
            relations.put_off(thread);
            return true;
        }
        served.boost.held = None;
        let since = served.boost.since_ns;
        let set = set(&mut self.effect, &mut served.boost, wanted);
        let after = served.boost.now;
        match (before, after) {
            (None, Some(_)) => {
                served.lifted.begin(thread);
                relations.counts_mut().lifts += 1;
            }
            (Some(_), None) => {
                served.lifted.end(budget, now);
                relations.counts_mut().lifted_ns += now.saturating_sub(since);
            }
            _ => {}
        }
        match set {
            Ok(()) if woken > 0 && before.is_none() => {
                self.lift_reactions_ns.push(sys::monotonic_ns().saturating_sub(woken));
            }
            Ok(()) => {}
            Err(error) => return self.failures.note(relations, thread, &error),
        }
        true
    }

    /// Charges the CPU time of lifted threads. A thread that has used its own is lifted no more for
    /// a while. Nor is a thread whose process has executed another program.
    pub fn charge_lifted(&mut self, relations: &mut Relations, now: u64) {
        let budget = relations.inherit().budget;
        let users =
            relations.all().filter(|it| it.is_user() && relations.is_awaited(it.thread.tid));
        let threads: Vec<i32> = users.map(|served| served.thread.tid).collect();
        for thread in threads {
            let Some(served) = relations.served_mut(thread) else { continue };
            if served.boost.now.is_some() {
                served.lifted.charge(budget, now);
                if served.lifted.has_executed(thread) {
                    relations.end_waits_for(thread);
                    continue;
                }
            }
            if served.lifted.changes(budget, now) {
                let is_suspended = served.lifted.is_suspended();
                relations.counts_mut().exhausted += u64::from(is_suspended);
                relations.put_off(thread);
            }
        }
    }

    /// Restores the values of a thread at once, because another part of tekd is about to change it.
    pub fn release(&mut self, relations: &mut Relations, thread: i32) {
        let (budget, now) = (relations.inherit().budget, sys::monotonic_ns());
        let Some(served) = relations.served_mut(thread) else { return };
        let was_lifted = served.boost.now.is_some();
        let since = served.boost.since_ns;
        if let Err(error) = release(&mut self.effect, &mut served.boost) {
            self.failures.note(relations, thread, &error);
        } else if was_lifted {
            served.lifted.end(budget, now);
        }
        if was_lifted {
            relations.counts_mut().lifted_ns += now.saturating_sub(since);
        }
    }

    /// Restores the values of threads that have ended, or that had no waiter for a long time.
    pub fn give_back_orphans(&mut self, relations: &mut Relations) {
        for change in relations.take_orphans() {
            let _ = self.effect.give_back(change);
        }
    }

    /// On PREEMPT_RT threads of irq_work wake the reader of events, and would wait behind each
    /// real-time task. They have the priority of the reacting threads for as long as these
    /// follow kernel threads.
    pub fn raise_messengers(&mut self, priority: u32) {
        for (tid, name) in
            system::kernel_threads().filter(|(_, name)| name.starts_with("irq_work/"))
        {
            let raised = Scheduling::of(tid).and_then(|usual| match usual.priority < priority {
                true => {
                    let wanted = Scheduling { policy: libc::SCHED_FIFO as u32, priority, ..usual };
                    self.effect.set_scheduling(Identity::of(tid)?, wanted).map(drop)
                }
                false => Ok(()),
            });
            if let Err(error) = raised {
                log::warning(&format!("{name} can delay events of kernel threads: {error}"));
            }
        }
    }

    fn note(&mut self, woken: u64) {
        if woken > 0 {
            self.reactions_ns.push(sys::monotonic_ns().saturating_sub(woken));
        }
    }
}
