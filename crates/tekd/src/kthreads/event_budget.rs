// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds the CPU time that events of storage, of locks and of answers may cost the reacting
//! threads.
//!
//! These events are the most frequent ones. On a slow device they could use all CPU time, at a
//! priority above tekd's main thread. When the reacting threads have used their share of a CPU, the
//! reactor detaches the programs that send these events for some seconds.

use crate::share::Share;

/// The reacting threads may use one part in this many of a CPU, for storage.
const PARTS_FOR_STORAGE: u64 = 4;
/// The same for locks and answers: each event is one that a critical task waits for.
const PARTS_FOR_WAITS: u64 = 2;
/// The CPU time that the threads may use at once.
const BURST_NS: u64 = 250_000_000;
/// The minimum time for which the programs stay detached.
const PAUSE_FOR_STORAGE_NS: u64 = 10_000_000_000;
const PAUSE_FOR_WAITS_NS: u64 = 1_000_000_000;

/// The account of the reacting threads. The caller passes the time.
#[derive(Debug)]
pub struct EventBudget {
    share: Share,
    pause_ns: u64,
    paused_until_ns: Option<u64>,
    pauses: u64,
}

impl EventBudget {
    /// The account for events of storage.
    pub const fn for_storage() -> Self {
        Self::with(PARTS_FOR_STORAGE, PAUSE_FOR_STORAGE_NS)
    }

    /// The account for events of locks and answers.
    pub const fn for_waits() -> Self {
        Self::with(PARTS_FOR_WAITS, PAUSE_FOR_WAITS_NS)
    }

    const fn with(parts: u64, pause_ns: u64) -> Self {
        let share = Share::new(parts, BURST_NS);
        Self { share, pause_ns, paused_until_ns: None, pauses: 0 }
    }

    /// Charges CPU time that ended at `now`. `true`: this begins a pause.
    pub fn spend(&mut self, cpu_ns: u64, now: u64) -> bool {
        self.share.charge(cpu_ns, now);
        let Some(until) = self.share.exhausted_until(now).filter(|_| !self.is_paused(now)) else {
            return false;
        };
        self.paused_until_ns = Some(until.max(now + self.pause_ns));
        self.pauses += 1;
        true
    }

    pub fn is_paused(&self, now: u64) -> bool {
        self.paused_until_ns.is_some_and(|until| now < until)
    }

    /// Time until the pause ends; `None`: there is no pause.
    pub fn remaining_ns(&self, now: u64) -> Option<u64> {
        self.paused_until_ns.and_then(|until| until.checked_sub(now)).filter(|left| *left > 0)
    }

    /// Pauses so far.
    pub fn pauses(&self) -> u64 {
        self.pauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_thread_that_uses_all_of_a_cpu_begins_one_pause_of_ten_seconds() {
        let mut budget = EventBudget::for_storage();
        let start = 5000 * MS;
        assert!(!budget.spend(250 * MS, start));
        assert!(!budget.is_paused(start));
        assert!(budget.spend(100 * MS, start + 100 * MS));
        assert!(!budget.spend(100 * MS, start + 200 * MS), "the pause has begun already");
        assert_eq!(budget.remaining_ns(start + 100 * MS), Some(10_000 * MS));
        assert!(budget.is_paused(start + 10_099 * MS));
        assert!(!budget.is_paused(start + 10_100 * MS));
        assert_eq!((budget.remaining_ns(start + 10_100 * MS), budget.pauses()), (None, 1));
    }

    #[test]
    fn less_than_a_quarter_of_a_cpu_begins_no_pause() {
        let mut budget = EventBudget::for_storage();
        for n in 0..1000 {
            assert!(!budget.spend(24 * MS, 5000 * MS + n * 100 * MS), "{n}");
        }
        assert_eq!(budget.pauses(), 0);
    }

    #[test]
    fn a_load_that_goes_on_begins_a_pause_again() {
        let mut budget = EventBudget::for_storage();
        let pauses = (0..300).filter(|n| budget.spend(50 * MS, 5000 * MS + n * 100 * MS)).count();
        assert!((2..=3).contains(&pauses), "{pauses}");
        assert_eq!(budget.pauses(), pauses as u64);
    }
}
