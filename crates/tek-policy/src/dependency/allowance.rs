// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU time that a lifted thread may use in a window.
//!
//! A lifted thread precedes all ordinary threads, so a thread that holds a lock or a request for
//! ever must not use a whole CPU. When it has used its CPU time, its lift ends until the next
//! window.
use crate::Budget;

/// The account of one thread. The caller passes the time of any monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    window_begin_ns: u64,
    used_ns: u64,
}

impl Allowance {
    /// Charges CPU time that the thread used while it was lifted, until now.
    pub fn charge(&mut self, cpu_ns: u64, budget: Budget, now_ns: u64) {
        self.begin_window(budget, now_ns);
        self.used_ns = self.used_ns.saturating_add(cpu_ns);
    }

    /// The time from which on the thread may be lifted again; `None`: it may be lifted now.
    pub fn exhausted_until(&self, budget: Budget, now_ns: u64) -> Option<u64> {
        let Budget::Limit { cpu, window } = budget else { return None };
        let (cpu_ns, window_ns) = (in_ns(cpu), in_ns(window));
        let end = self.window_begin_ns.saturating_add(window_ns);
        (self.used_ns >= cpu_ns && now_ns < end).then_some(end)
    }

    fn begin_window(&mut self, budget: Budget, now_ns: u64) {
        let Budget::Limit { window, .. } = budget else { return };
        if now_ns >= self.window_begin_ns.saturating_add(in_ns(window)) {
            *self = Self { window_begin_ns: now_ns, used_ns: 0 };
        }
    }
}

fn in_ns(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn budget(cpu_ms: u64, window_ms: u64) -> Budget {
        Budget::limit(Duration::from_millis(cpu_ms), Duration::from_millis(window_ms)).unwrap()
    }

    #[test]
    fn a_thread_that_has_used_its_time_is_lifted_again_in_the_next_window() {
        let (mut account, of) = (Allowance::default(), budget(30, 100));
        account.charge(20 * MS, of, 1000 * MS);
        assert_eq!(account.exhausted_until(of, 1020 * MS), None);
        account.charge(10 * MS, of, 1040 * MS);
        assert_eq!(account.exhausted_until(of, 1040 * MS), Some(1100 * MS));
        assert_eq!(account.exhausted_until(of, 1100 * MS), None);
        account.charge(MS, of, 1100 * MS);
        assert_eq!(account.exhausted_until(of, 1101 * MS), None);
    }

    #[test]
    fn without_a_budget_there_is_no_end() {
        let mut account = Allowance::default();
        account.charge(u64::MAX, Budget::Off, 1);
        account.charge(u64::MAX, Budget::Off, 2);
        assert_eq!(account.exhausted_until(Budget::Off, 2), None);
    }

    proptest! {
        #[test]
        fn a_thread_that_runs_while_it_may_uses_no_more_than_its_part(
            cpu in 1u64..=100, tick in 1u64..=10,
        ) {
            let (mut account, of) = (Allowance::default(), budget(cpu, 100));
            let mut used = 0;
            let mut now = 1000;
            while now < 3000 {
                if account.exhausted_until(of, now * MS).is_none() {
                    used += tick;
                    now += tick;
                    account.charge(tick * MS, of, now * MS);
                } else {
                    now += 1;
                }
            }
            // Each check is late by a tick at most.
            prop_assert!(used <= 21 * (cpu + 2 * tick), "{} of {}", used, cpu);
        }
    }
}
