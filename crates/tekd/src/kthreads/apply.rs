// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives kernel threads their computed priorities, through a journal of its own.
use super::boost::{examine, set, usual_priority, Failures};
use super::relations::Relations;
use super::safe_order::Superiors;
use crate::sys;
use tek_effect::Effect;
use tek_policy::kthread::{Changes, Class, Direction};

/// The part that changes kernel threads.
pub struct Applier {
    pub effect: Effect,
    pub changes: Changes,
    /// Times from the event to the changed priority that the statistics do not include yet.
    pub reactions_ns: Vec<u64>,
    /// The threads that are raised along with ksoftirqd.
    pub superiors: Superiors,
    failures: Failures,
}

impl Applier {
    pub fn new(effect: Effect, changes_per_second: u32) -> Self {
        let changes = Changes::new(changes_per_second);
        let (superiors, failures) = (Superiors::default(), Failures::default());
        Self { effect, changes, reactions_ns: Vec::new(), superiors, failures }
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
            let members = served.dependants().priorities();
            let is_softirq = served.class() == Class::Softirq;
            softirqs |= is_softirq;
            // A boosted dependant counts as its own dependants, which are included already.
            let bits = if members == 0 { 0 } else { members | of_boosted };
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

    /// Restores the values of threads that have ended, or that had no waiter for a long time.
    pub fn give_back_orphans(&mut self, relations: &mut Relations) {
        for change in relations.take_orphans() {
            let _ = self.effect.give_back(change);
        }
    }

    fn note(&mut self, woken: u64) {
        if woken > 0 {
            self.reactions_ns.push(sys::monotonic_ns().saturating_sub(woken));
        }
    }
}
