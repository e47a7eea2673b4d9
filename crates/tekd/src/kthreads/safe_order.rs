// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raises ksoftirqd and similar threads only together with the threads that must precede them.
use super::boost::{examine, set, usual_priority, Failures};
use super::relations::Relations;
use super::served::Boost;
use super::system;
use crate::sys;
use std::collections::{HashMap, HashSet};
use tek_effect::Effect;
use tek_policy::kthread::{plan, plan_without_raises, Changes, Class, Demand, Ordered, Rank};

/// The minimum interval of searches for new threads without a change.
const CHECK_NS: u64 = 10_000_000_000;

/// The threads of RCU and irq_work. The relations hold the threads of ksoftirqd's class.
#[derive(Default)]
pub struct Superiors {
    known: HashMap<i32, (Rank, Boost)>,
    /// The threads of ksoftirqd's class at the last search. A later thread may have superiors that
    /// are new too.
    softirqs: HashSet<i32>,
    examined_ns: Option<u64>,
}

impl Superiors {
    /// Plans and sets the priorities of ksoftirqd's class and of its superiors.
    pub fn settle(
        &mut self,
        effect: &mut Effect,
        changes: &mut Changes,
        failures: &mut Failures,
        relations: &mut Relations,
    ) {
        let softirqs: Vec<i32> = (relations.all())
            .filter(|served| served.class() == Class::Softirq)
            .map(|served| served.thread.tid)
            .collect();
        if softirqs.iter().all(|tid| self.softirqs.contains(tid)) {
            self.examine_again();
        } else {
            self.examine(effect);
        }
        let ordered = self.ordered(relations, softirqs);
        let mut steps = plan(&ordered);
        let many = u32::try_from(steps.steps.len()).unwrap_or(u32::MAX);
        if !changes.may_change(many, steps.direction(), sys::monotonic_ns()) {
            steps = plan_without_raises(&ordered);
        }
        for step in steps.steps {
            let boost = match self.known.get_mut(&step.id) {
                Some((_, boost)) => Some(boost),
                None => relations.served_mut(step.id).map(|served| &mut served.boost),
            };
            let Some(boost) = boost else { continue };
            let wanted = step.then.filter(|_| step.then != step.usual);
            if let Err(error) = set(effect, boost, wanted) {
                // The next steps would overtake the thread that could not be raised.
                let failed = self.known.remove(&step.id);
                self.softirqs.clear(); // forces a new search before the next step
                if let Some(change) = failed.and_then(|(_, boost)| boost.change) {
                    let _ = effect.give_back(change);
                }
                failures.note(relations, step.id, &error);
                break;
            }
        }
        for (tid, held) in steps.held {
            if let Some(served) = relations.served_mut(tid) {
                served.boost.held = Some(held.to_string());
            }
        }
    }

    /// The threads of ksoftirqd's class and their superiors, with the priorities that they have.
    fn ordered(&self, relations: &mut Relations, softirqs: Vec<i32>) -> Vec<Ordered<i32>> {
        let mut ordered: Vec<Ordered<i32>> = Vec::new();
        for (tid, (rank, boost)) in &self.known {
            let usual = usual_priority(boost);
            let now = boost.now.or(usual);
            ordered.push(Ordered { id: *tid, rank: *rank, usual, now, demand: None });
        }
        for tid in softirqs {
            let (wanted, highest) = (relations.wanted(tid), relations.summary(tid));
            let Some(served) = relations.served_mut(tid) else { continue };
            if examine(&mut served.boost, tid).is_err() {
                continue;
            }
            let usual = usual_priority(&served.boost);
            let highest = highest.map(|summary| summary.highest);
            let demand =
                wanted.zip(highest).map(|(priority, highest)| Demand { priority, highest });
            let now = served.boost.now.or(usual);
            ordered.push(Ordered { id: tid, rank: Rank::Softirq, usual, now, demand });
        }
        ordered
    }

    /// Searches for threads of new and removed CPUs, if the last search is long ago.
    pub fn keep_up(&mut self, effect: &mut Effect) {
        let now = sys::monotonic_ns();
        if self.examined_ns.is_none_or(|examined_at| now - examined_at >= CHECK_NS) {
            self.examine(effect);
        }
    }

    /// Reads the own attributes of the known threads again.
    fn examine_again(&mut self) {
        self.known.retain(|tid, (_, boost)| examine(boost, *tid).is_ok());
    }

    /// Searches for the threads, unless one of them is boosted.
    fn examine(&mut self, effect: &mut Effect) {
        if self.known.values().any(|(_, boost)| boost.now.is_some()) {
            return;
        }
        self.examined_ns = Some(sys::monotonic_ns());
        self.softirqs.clear();
        for change in self.known.drain().filter_map(|(_, (_, boost))| boost.change) {
            let _ = effect.give_back(change);
        }
        for (tid, name) in system::kernel_threads() {
            let Some(rank) = Rank::of_name(&name) else { continue };
            let mut boost = Boost::default();
            if rank == Rank::Softirq {
                self.softirqs.insert(tid);
            } else if examine(&mut boost, tid).is_ok() {
                self.known.insert(tid, (rank, boost));
            }
        }
    }

    /// The threads that are raised at present.
    pub fn raised(&self) -> Vec<i32> {
        let raised = self.known.iter().filter(|(_, (_, boost))| boost.now.is_some());
        raised.map(|(tid, _)| *tid).collect()
    }
}
