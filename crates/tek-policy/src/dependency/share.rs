// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one waiter adds to the multiset R of the thread that it waits for.
//!
//! A critical task adds itself. A thread that waits and has waiters of its own adds all critical
//! tasks that wait for it, because they wait for its holder too.
use super::{RtPriority, Summary};

/// A chain has at most this many holders: a later one is not lifted.
pub const MOST_HOLDERS: u8 = 32;
/// One share counts at most this many tasks. Waits that branch and join again multiply tasks.
const MOST_TASKS: u64 = 1 << 20;

/// The critical tasks behind one waiter; [`Share::NONE`] has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub(super) count: u64,
    pub(super) sum: u64,
    /// 0: there is no task.
    pub(super) highest: u8,
    /// The number of holders between the farthest of these tasks and this waiter, with the waiter.
    pub(super) depth: u8,
}

impl Share {
    /// No task.
    pub const NONE: Self = Self { count: 0, sum: 0, highest: 0, depth: 0 };

    /// Whether it has no task.
    pub fn is_none(self) -> bool {
        self.count == 0
    }

    /// The highest priority of its tasks.
    pub fn highest(self) -> Option<RtPriority> {
        RtPriority::new(self.highest.into())
    }

    /// The tasks of both. Their number is bounded, and the mean stays.
    pub(super) fn with(self, other: Self) -> Self {
        let (count, sum) = (self.count + other.count, self.sum + other.sum);
        let (count, sum) = match count > MOST_TASKS {
            true => (MOST_TASKS, mean_times(sum, count, MOST_TASKS)),
            false => (count, sum),
        };
        let (highest, depth) = (self.highest.max(other.highest), self.depth.max(other.depth));
        Self { count, sum, highest, depth }
    }

    /// Whether these tasks do not count for the next holder, at the end of the longest chain.
    pub(super) fn is_at_end(self) -> bool {
        !self.is_none() && self.depth + 1 >= MOST_HOLDERS
    }

    /// The share that the next holder gets from these tasks; none at the end of the longest chain.
    pub(super) fn one_farther(self) -> Self {
        match self.is_none() || self.is_at_end() {
            true => Self::NONE,
            false => Self { depth: self.depth + 1, ..self },
        }
    }
}

fn mean_times(sum: u64, count: u64, times: u64) -> u64 {
    let scaled = u128::from(sum) * u128::from(times) / u128::from(count.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl From<RtPriority> for Share {
    fn from(priority: RtPriority) -> Self {
        let priority = priority.get();
        Self { count: 1, sum: priority.into(), highest: priority, depth: 0 }
    }
}

impl Share {
    /// The tasks of an R, the farthest of which is behind so many holders.
    pub(super) fn of(summary: Summary, depth: u8) -> Self {
        let Summary { count, sum, highest } = summary;
        let none = Self { depth, ..Self::NONE };
        none.with(Self { count, sum, highest: highest.get(), depth })
    }
}
