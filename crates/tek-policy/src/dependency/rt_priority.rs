// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real-time priorities of the kernel, 1 to 99.
use crate::{Priority, RealTime};
use std::fmt;

/// A priority of SCHED_FIFO or SCHED_RR: 1 (lowest) to 99 (highest), as in sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RtPriority(u8);

impl RtPriority {
    /// 1.
    pub const LOWEST: Self = Self(1);
    /// 99.
    pub const HIGHEST: Self = Self(99);

    /// `None` if the number is outside 1 to 99.
    pub fn new(priority: u32) -> Option<Self> {
        u8::try_from(priority).ok().filter(|priority| (1..=99).contains(priority)).map(Self)
    }

    /// 1 to 99.
    pub fn get(self) -> u8 {
        self.0
    }

    /// prio(r) of a Fast thread of the fair class: the priority that it would have under
    /// `backend = "rt"`. A kernel thread thus has the same priority with both backends.
    pub fn of_fast(range: RealTime, priority: Priority) -> Self {
        let priority = range.priority(priority).clamp(1, 99);
        u8::try_from(priority).map_or(Self::HIGHEST, Self)
    }
}

impl fmt::Display for RtPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_99_real_time_priorities() {
        let all: Vec<u8> = (0..=200).filter_map(RtPriority::new).map(RtPriority::get).collect();
        assert_eq!(all, (1..=99).collect::<Vec<u8>>());
        assert_eq!(
            (RtPriority::new(1), RtPriority::new(99)),
            (Some(RtPriority(1)), Some(RtPriority::HIGHEST))
        );
        assert_eq!(RtPriority::new(256 + 1), None);
    }

    #[test]
    fn a_fast_thread_of_the_fair_class_counts_as_it_would_under_rt() {
        let range = RealTime { low: 10, high: 49 };
        let of = |nice: i64| RtPriority::of_fast(range, Priority::try_from(nice).unwrap()).get();
        assert_eq!([-20, 0, 19].map(of), [49, 29, 10]);
    }
}
