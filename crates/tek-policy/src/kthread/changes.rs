// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits the number of changed priorities in a second.
use crate::dependency::RtPriority;
use crate::Bucket;

/// Whether a change leads away from the usual priority of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It leads away: it may be dropped, and the thread keeps its priority.
    Away,
    /// It undoes a boost or a part of a boost: it is never dropped.
    Back,
}

impl Direction {
    /// The direction of a change. `None` is no real-time priority; `usual` is the kernel's
    /// priority.
    pub fn of(
        usual: Option<RtPriority>,
        now: Option<RtPriority>,
        then: Option<RtPriority>,
    ) -> Self {
        let is_between = usual.min(now) <= then && then <= usual.max(now);
        match is_between {
            true => Self::Back,
            false => Self::Away,
        }
    }
}

/// The account of changes of the priorities of kernel threads.
///
/// A change that undoes a boost is always made, but it counts, so later changes wait longer. The
/// debt is at most the number of one second. Each second thus has at most the allowed number and a
/// tenth more, beside changes that undo.
#[derive(Clone, Debug)]
pub struct Changes {
    rate: u32,
    bucket: Bucket,
    made: u64,
    dropped: u64,
}

impl Changes {
    /// Allows `rate` changes a second, and a tenth of them at once.
    pub fn new(rate: u32) -> Self {
        Self { rate, bucket: Bucket::new(), made: 0, dropped: 0 }
    }

    /// Whether `changes` priorities that belong together may be changed: all or none. They then
    /// count as made, else as dropped. `now_ns` is of any monotonic clock.
    pub fn may_change(&mut self, changes: u32, direction: Direction, now_ns: u64) -> bool {
        let burst = (self.rate / 10).max(1);
        let is_allowed = match direction {
            Direction::Away => self.bucket.take_many(changes, self.rate, burst, now_ns),
            Direction::Back => {
                self.bucket.owe(changes, self.rate, burst, now_ns);
                true
            }
        };
        match is_allowed {
            true => self.made += u64::from(changes),
            false => self.dropped += u64::from(changes),
        }
        is_allowed
    }

    /// Sets another rate, after tekd.toml was read again.
    pub fn set_rate(&mut self, rate: u32) {
        self.rate = rate;
    }

    /// The number of changes that were made.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// The number of changes that were dropped because there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level(level: u32) -> Option<RtPriority> {
        RtPriority::new(level)
    }

    #[test]
    fn a_boost_leads_away_and_its_end_back() {
        let of = |usual, now, then| Direction::of(level(usual), level(now), level(then));
        assert_eq!(of(0, 0, 40), Direction::Away);
        assert_eq!(of(0, 40, 20), Direction::Back);
        assert_eq!(of(0, 40, 0), Direction::Back);
        // An interrupt thread has 50 by default.
        assert_eq!(of(50, 50, 40), Direction::Away);
        assert_eq!(of(50, 40, 45), Direction::Back);
        assert_eq!(of(50, 40, 60), Direction::Away);
        assert_eq!(of(50, 60, 40), Direction::Away);
    }

    #[test]
    fn what_is_too_much_is_dropped_and_counted_but_never_what_undoes() {
        let mut changes = Changes::new(10);
        assert!(changes.may_change(1, Direction::Away, 0));
        assert!(!changes.may_change(3, Direction::Away, 0));
        assert!(changes.may_change(1, Direction::Back, 0));
        assert_eq!((changes.made(), changes.dropped()), (2, 3));
        // The change that undid counts: two tenths of a second must pass.
        assert!(!changes.may_change(1, Direction::Away, 199_999_999));
        assert!(changes.may_change(1, Direction::Away, 200_000_000));
    }

    #[test]
    fn several_that_belong_together_are_made_even_if_no_more_can_be_saved() {
        let mut changes = Changes::new(1);
        assert!(changes.may_change(5, Direction::Away, 0));
        assert!(!changes.may_change(1, Direction::Away, 4_999_999_999));
        assert!(changes.may_change(1, Direction::Away, 5_000_000_000));
    }

    #[test]
    fn the_debt_is_a_second_at_most() {
        let mut changes = Changes::new(100);
        assert!((0..10_000).all(|_| changes.may_change(1, Direction::Back, 0)));
        assert!(!changes.may_change(1, Direction::Away, 900_000_000));
        assert!(changes.may_change(1, Direction::Away, 1_100_000_000));
    }

    proptest! {
        #[test]
        fn never_more_than_the_rate_and_a_tenth(
            rate in 1u32..2000, waits in prop::collection::vec(0u64..5_000_000, 1..500),
        ) {
            let (mut changes, mut now) = (Changes::new(rate), 0);
            for wait in waits {
                now += wait;
                changes.may_change(1, Direction::Away, now);
                let most = u64::from((rate / 10).max(1)) + now / (1_000_000_000 / u64::from(rate));
                prop_assert!(changes.made() <= most);
            }
        }

        #[test]
        fn steps_back_end_at_the_default(usual in 0u32..100, now in 0u32..100, then in 0u32..100) {
            let [usual, now, then] = [usual, now, then].map(level);
            prop_assert_eq!(Direction::of(usual, now, usual), Direction::Back);
            let distance = |from: Option<RtPriority>| {
                let of = |it: Option<RtPriority>| it.map_or(0, |it| i32::from(it.get()));
                (of(from) - of(usual)).abs()
            };
            if Direction::of(usual, now, then) == Direction::Back {
                prop_assert!(distance(then) <= distance(now));
            }
        }
    }
}
