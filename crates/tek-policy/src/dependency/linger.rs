// SPDX-License-Identifier: MIT OR Apache-2.0
//! A task stays in R(k) for the linger time after its wait ends.
//!
//! Otherwise a task that writes 16 bytes each 250 µs would change priorities 8,000 times a second.
//! A relation that ends stays in R(k) for the linger time.
//! The next relation of the same task replaces the relation of that task that ended last.
//! The count of a task in R(k) is thus its highest count within the last linger time.
//!
//! An event costs the same for any number of relations. Each task has at most one alarm, which is
//! set again when it expires and not at each event.
//! Memory is bounded by the highest number of relations at one time.
use super::{Dependants, Share};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;

/// R(k) with the tasks that linger.
#[derive(Clone, Debug)]
pub struct Lingering<Id: Copy + Eq + Hash + Ord> {
    linger_ns: u64,
    members: Dependants<Id>,
    tasks: HashMap<Id, Task>,
    /// The times to check tasks: for each at the latest when its first relation has lingered.
    alarms: BinaryHeap<Reverse<(u64, Id)>>,
}

#[derive(Clone, Debug, Default)]
struct Task {
    /// Relations that have not ended.
    active: u64,
    /// The times when the ended relations leave R(k), in their order.
    leaves_at: VecDeque<u64>,
    /// Whether the task has an alarm.
    is_watched: bool,
}

impl<Id: Copy + Eq + Hash + Ord> Lingering<Id> {
    /// An empty R(k). With 0 ns no task lingers.
    pub fn new(linger_ns: u64) -> Self {
        Self {
            linger_ns,
            members: Dependants::default(),
            tasks: HashMap::new(),
            alarms: BinaryHeap::new(),
        }
    }

    /// R(k), with the tasks that linger.
    pub fn dependants(&self) -> &Dependants<Id> {
        &self.members
    }

    /// A relation of the task begins. Returns whether R(k) changed.
    pub fn begin(&mut self, waiter: Id, share: impl Into<Share>) -> bool {
        let share = share.into();
        let task = self.tasks.entry(waiter).or_default();
        task.active += 1;
        match task.leaves_at.pop_back() {
            Some(_) => self.members.change(waiter, share),
            None => {
                self.members.add(waiter, share);
                true
            }
        }
    }

    /// A relation of the task ends, and lingers from now on. No effect if the task has none.
    /// Returns whether R(k) changed. `now_ns` is of any monotonic clock.
    pub fn end(&mut self, waiter: Id, now_ns: u64) -> bool {
        let Some(task) = self.tasks.get_mut(&waiter).filter(|task| task.active > 0) else {
            return false;
        };
        if self.linger_ns == 0 {
            return self.end_now(waiter);
        }
        task.active -= 1;
        let leaves_at = now_ns.saturating_add(self.linger_ns);
        task.leaves_at.push_back(leaves_at);
        if !task.is_watched {
            task.is_watched = true;
            self.alarms.push(Reverse((leaves_at, waiter)));
        }
        false
    }

    /// A relation of the task ends, and does not linger. Returns whether R(k) changed.
    pub fn end_now(&mut self, waiter: Id) -> bool {
        let Some(task) = self.tasks.get_mut(&waiter).filter(|task| task.active > 0) else {
            return false;
        };
        task.active -= 1;
        self.members.remove(waiter);
        self.forget_if_idle(waiter);
        true
    }

    /// All relations of all tasks end, and linger. The caller uses it when it may have missed ends
    /// of relations. It begins the relations that still exist again.
    pub fn end_all(&mut self, now_ns: u64) -> bool {
        let going: Vec<(Id, u64)> =
            self.tasks.iter().map(|(waiter, task)| (*waiter, task.active)).collect();
        let mut changed = false;
        for (waiter, times) in going {
            changed |= (0..times).fold(false, |changed, _| self.end(waiter, now_ns) || changed);
        }
        changed
    }

    /// The task has another priority, or stands for other tasks. Returns whether R(k) changed.
    pub fn change(&mut self, waiter: Id, share: impl Into<Share>) -> bool {
        self.members.change(waiter, share)
    }

    /// Whether nothing is stored: there is neither a relation nor an alarm.
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.alarms.is_empty() && self.members.has_no_waiter()
    }

    /// The task leaves R(k) at once: it has exited, or is no longer critical. Returns whether R(k)
    /// changed.
    pub fn remove_all_of(&mut self, waiter: Id) -> bool {
        if let Some(task) = self.tasks.get_mut(&waiter) {
            task.active = 0;
            task.leaves_at.clear();
            self.forget_if_idle(waiter);
        }
        self.members.remove_all_of(waiter) > 0
    }

    /// Ends all lingering: a worker of the pool begins work that no lingering task depends on.
    /// Returns whether R(k) changed.
    pub fn drop_now(&mut self) -> bool {
        let mut changed = false;
        for (waiter, task) in &mut self.tasks {
            for _ in task.leaves_at.drain(..) {
                changed |= self.members.remove(*waiter);
            }
            task.is_watched = false;
        }
        self.alarms.clear();
        self.tasks.retain(|_, task| task.active > 0);
        changed
    }

    /// Empties R(k): the kernel thread has ended. Returns whether R(k) changed.
    pub fn clear(&mut self) -> bool {
        let changed = !self.members.is_empty();
        *self = Self::new(self.linger_ns);
        changed
    }

    /// Removes the relations whose linger time is over. Returns whether R(k) changed.
    pub fn expire(&mut self, now_ns: u64) -> bool {
        let mut changed = false;
        while let Some(Reverse((at, waiter))) = self.alarms.peek().copied() {
            if at > now_ns {
                break;
            }
            self.alarms.pop();
            let Some(task) = self.tasks.get_mut(&waiter) else { continue };
            while task.leaves_at.front().is_some_and(|at| *at <= now_ns) {
                task.leaves_at.pop_front();
                changed |= self.members.remove(waiter);
            }
            task.is_watched = !task.leaves_at.is_empty();
            match task.leaves_at.front() {
                Some(at) => self.alarms.push(Reverse((*at, waiter))),
                None => self.forget_if_idle(waiter),
            }
        }
        changed
    }

    /// The time of the next call of [`Lingering::expire`]; `None`: no task lingers. Once in a
    /// linger time for each task, the call may remove no relation.
    pub fn next_ns(&self) -> Option<u64> {
        self.alarms.peek().map(|Reverse((at, _))| *at)
    }

    /// Forgets a task without relations. A task with an alarm stays, because it would get a second
    /// alarm if it began a relation again.
    fn forget_if_idle(&mut self, waiter: Id) {
        let is_idle =
            |task: &Task| task.active == 0 && task.leaves_at.is_empty() && !task.is_watched;
        if self.tasks.get(&waiter).is_some_and(is_idle) {
            self.tasks.remove(&waiter);
        }
    }
}

#[cfg(test)]
#[path = "linger_tests.rs"]
mod tests;
