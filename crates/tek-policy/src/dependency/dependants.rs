// SPDX-License-Identifier: MIT OR Apache-2.0
//! R(k): the critical tasks that depend on a thread at present.
//!
//! A multiset: a task is in it once for each inode that it made dirty, each piece of work and each
//! request. A waiter may stand for several tasks, which wait for it ([`Share`]).
//! Each event updates number, sum and highest priority, as in section V.1 of the paper.
//! An event therefore costs the same for any number of dependants. The paper searches the highest
//! priority; here each of the 99 priorities has a counter, and a bit that is set while it is used.
use super::{RtPriority, Share, Summary, MOST_HOLDERS};
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::hash::Hash;

/// A task that depends on a thread, or a waiter that stands for such tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependant<Id> {
    /// The id of the task.
    pub waiter: Id,
    /// Its present priority: one, however often the task is in R(k). The highest of several tasks.
    pub priority: RtPriority,
    /// How often it is in R(k), at least 1.
    pub times: u64,
}

/// R(k).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependants<Id: Eq + Hash> {
    members: HashMap<Id, (Share, u64)>,
    count: u64,
    sum: u64,
    /// The number of relations for each highest priority.
    counts: [u64; 100],
    /// Bit n: at least one waiter has the highest priority n.
    bits: u128,
    /// The number of relations for each depth of a share.
    depths: [u64; MOST_HOLDERS as usize],
}

impl<Id: Copy + Eq + Hash> Default for Dependants<Id> {
    fn default() -> Self {
        Self {
            members: HashMap::new(),
            count: 0,
            sum: 0,
            counts: [0; 100],
            bits: 0,
            depths: [0; MOST_HOLDERS as usize],
        }
    }
}

impl<Id: Copy + Eq + Hash> Dependants<Id> {
    /// Adds the waiter once more. A new share, usually a priority, also applies to the times that
    /// the waiter is already in R(k).
    pub fn add(&mut self, waiter: Id, share: impl Into<Share>) {
        let share = share.into();
        self.change(waiter, share);
        let (_, times) = self.members.entry(waiter).or_insert((share, 0));
        *times += 1;
        self.count_in(share, 1);
    }

    /// Removes the task once; false: it was not in R(k).
    pub fn remove(&mut self, waiter: Id) -> bool {
        let Entry::Occupied(mut member) = self.members.entry(waiter) else { return false };
        let (share, times) = *member.get();
        match times {
            1 => drop(member.remove()),
            _ => member.get_mut().1 = times - 1,
        }
        self.count_out(share, 1);
        true
    }

    /// Removes the task wholly; returns how often it was in R(k).
    pub fn remove_all_of(&mut self, waiter: Id) -> u64 {
        let Some((share, times)) = self.members.remove(&waiter) else { return 0 };
        self.count_out(share, times);
        times
    }

    /// Sets the share of a waiter; false: it had that share already, or is not in R(k).
    pub fn change(&mut self, waiter: Id, share: impl Into<Share>) -> bool {
        let share = share.into();
        let Some(member) = self.members.get_mut(&waiter) else { return false };
        let (old, times) = *member;
        if old == share {
            return false;
        }
        member.0 = share;
        self.count_out(old, times);
        self.count_in(share, times);
        true
    }

    /// Removes all dependants.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether no task depends on the thread.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether R(k) has no waiter, not even one without a task.
    pub fn has_no_waiter(&self) -> bool {
        self.members.is_empty()
    }

    /// The number of waiters, each once.
    pub fn waiters(&self) -> usize {
        self.members.len()
    }

    /// How often a waiter is in R(k).
    pub fn times_of(&self, waiter: Id) -> u64 {
        self.members.get(&waiter).map_or(0, |(_, times)| *times)
    }

    /// The input of the equations; `None`: R(k) is empty.
    pub fn summary(&self) -> Option<Summary> {
        let highest = RtPriority::new(127 - self.bits.leading_zeros().min(127))?;
        Some(Summary { count: self.count, sum: self.sum, highest })
    }

    /// All tasks of R(k), as the share that its thread has of them.
    pub(super) fn share(&self) -> Share {
        let depth = self.depths.iter().rposition(|times| *times > 0);
        let depth = depth.and_then(|depth| u8::try_from(depth).ok()).unwrap_or(0);
        self.summary().map_or(Share::NONE, |summary| Share::of(summary, depth))
    }

    /// The set of priorities of the members: bit n is priority n.
    pub fn priorities(&self) -> u128 {
        self.bits
    }

    /// The members in no order, without those that stand for no task.
    pub fn iter(&self) -> impl Iterator<Item = Dependant<Id>> + '_ {
        let member = |(waiter, (share, times)): (&Id, &(Share, u64))| {
            let priority = share.highest()?;
            Some(Dependant { waiter: *waiter, priority, times: *times })
        };
        self.members.iter().filter_map(member)
    }

    /// The members in the order of reports: the highest priority first.
    pub fn in_order(&self) -> Vec<Dependant<Id>>
    where
        Id: Ord,
    {
        let mut members: Vec<_> = self.iter().collect();
        members.sort_unstable_by(|a, b| b.priority.cmp(&a.priority).then(a.waiter.cmp(&b.waiter)));
        members
    }

    fn count_in(&mut self, share: Share, times: u64) {
        if share.is_none() {
            return;
        }
        self.count += times * share.count;
        self.sum += times * share.sum;
        self.counts[usize::from(share.highest)] += times;
        self.bits |= 1 << share.highest;
        self.depths[usize::from(share.depth)] += times;
    }

    fn count_out(&mut self, share: Share, times: u64) {
        if share.is_none() {
            return;
        }
        self.count -= times * share.count;
        self.sum -= times * share.sum;
        self.depths[usize::from(share.depth)] -= times;
        let left = &mut self.counts[usize::from(share.highest)];
        *left -= times;
        if *left == 0 {
            self.bits &= !(1 << share.highest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn priority(priority: u32) -> RtPriority {
        RtPriority::new(priority).unwrap()
    }

    #[test]
    fn a_task_is_in_it_once_for_each_file_that_it_wrote() {
        let mut all = Dependants::default();
        all.add('a', priority(40));
        all.add('a', priority(40));
        all.add('b', priority(10));
        let summary = Summary { count: 3, sum: 90, highest: priority(40) };
        assert_eq!((all.summary(), all.times_of('a')), (Some(summary), 2));
        assert_eq!(summary.mean_thousandths(), 30_000);
        assert!(all.remove('a') && all.remove('a') && !all.remove('a'));
        assert_eq!(all.summary(), Some(Summary { count: 1, sum: 10, highest: priority(10) }));
        assert_eq!(all.remove_all_of('b'), 1);
        assert_eq!((all.summary(), all.is_empty(), all.priorities()), (None, true, 0));
    }

    #[test]
    fn a_task_has_one_priority_however_often_it_is_in_it() {
        let mut all = Dependants::default();
        all.add(1, priority(40));
        all.add(1, priority(99));
        all.add(2, priority(50));
        assert!(all.change(1, priority(1)) && !all.change(1, priority(1)));
        assert!(!all.change(3, priority(1)));
        let member = |waiter, of, times| Dependant { waiter, priority: priority(of), times };
        assert_eq!(all.in_order(), [member(2, 50, 1), member(1, 1, 2)]);
        assert_eq!(all.priorities(), 1 << 50 | 1 << 1);
    }

    #[test]
    fn the_mean_is_rounded_to_the_nearest_thousandth() {
        let mean = |count, sum| Summary { count, sum, highest: priority(1) }.mean_thousandths();
        assert_eq!((mean(3, 100), mean(3, 200), mean(1, 99)), (33_333, 66_667, 99_000));
    }

    #[derive(Clone, Debug)]
    enum Event {
        Add(u8, u32),
        Remove(u8),
        RemoveAll(u8),
        Change(u8, u32),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            5 => (0u8..6, 1u32..=99).prop_map(|(waiter, of)| Event::Add(waiter, of)),
            4 => (0u8..6).prop_map(Event::Remove),
            1 => (0u8..6).prop_map(Event::RemoveAll),
            1 => (0u8..6, 1u32..=99).prop_map(|(waiter, of)| Event::Change(waiter, of)),
        ]
    }

    proptest! {
        #[test]
        fn the_updated_summary_equals_a_new_count(
            events in prop::collection::vec(event(), 0..200),
        ) {
            let mut all = Dependants::default();
            let mut counted: Vec<(u8, u32)> = Vec::new();
            for event in events {
                match event {
                    Event::Add(waiter, of) => {
                        all.add(waiter, priority(of));
                        counted.iter_mut().filter(|it| it.0 == waiter).for_each(|it| it.1 = of);
                        counted.push((waiter, of));
                    }
                    Event::Remove(waiter) => {
                        let at = counted.iter().position(|it| it.0 == waiter);
                        prop_assert_eq!(all.remove(waiter), at.is_some());
                        at.map(|at| counted.remove(at));
                    }
                    Event::RemoveAll(waiter) => {
                        let before = counted.len();
                        counted.retain(|it| it.0 != waiter);
                        let gone = u64::try_from(before - counted.len()).unwrap();
                        prop_assert_eq!(all.remove_all_of(waiter), gone);
                    }
                    Event::Change(waiter, of) => {
                        all.change(waiter, priority(of));
                        counted.iter_mut().filter(|it| it.0 == waiter).for_each(|it| it.1 = of);
                    }
                }
                let wanted = counted.iter().map(|it| it.1).max().map(|highest| Summary {
                    count: u64::try_from(counted.len()).unwrap(),
                    sum: counted.iter().map(|it| u64::from(it.1)).sum(),
                    highest: priority(highest),
                });
                prop_assert_eq!(all.summary(), wanted);
                let priorities = counted.iter().fold(0, |bits, it| bits | 1 << it.1);
                prop_assert_eq!(all.priorities(), priorities);
                prop_assert_eq!(all.iter().map(|it| it.times).sum::<u64>(), all.count);
            }
        }

        #[test]
        fn the_order_in_which_they_come_does_not_matter(
            priorities in prop::collection::vec(1u32..=99, 9),
            (members, other) in prop::collection::vec(0usize..9, 0..40)
                .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        ) {
            let of = |members: Vec<usize>| {
                let mut all = Dependants::default();
                for waiter in members {
                    all.add(waiter, priority(priorities[waiter]));
                }
                all
            };
            prop_assert_eq!(of(members), of(other));
        }
    }
}
