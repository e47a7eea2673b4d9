// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often something may happen.

/// A token bucket. It is full at first, and holds no more than a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// When it will be full again, in ns.
    full_at_ns: u64,
}

impl Bucket {
    /// A full one.
    pub const fn new() -> Self {
        Self { full_at_ns: 0 }
    }

    /// Takes one token, of `burst` that fit and `rate` that come in a second; false: there is none.
    /// A rate or burst of 0 counts as 1. `now_ns` is any clock that does not go back.
    pub fn take(&mut self, rate: u32, burst: u32, now_ns: u64) -> bool {
        self.take_many(1, rate, burst, now_ns)
    }

    /// The same, if `rest` more tokens remain for callers of [`Bucket::take`].
    pub fn take_leaving(&mut self, rest: u32, rate: u32, burst: u32, now_ns: u64) -> bool {
        let mut left = *self;
        if !left.take_many(rest.saturating_add(1), rate, burst, now_ns) {
            return false;
        }
        self.take(rate, burst, now_ns)
    }

    /// Takes several tokens, all or none. A request above the bucket's size needs a full bucket;
    /// the rest becomes debt.
    pub fn take_many(&mut self, tokens: u32, rate: u32, burst: u32, now_ns: u64) -> bool {
        let interval = interval_ns(rate);
        let missing = self.full_at_ns.saturating_sub(now_ns);
        let burst = burst.max(1);
        if missing > interval * u64::from(burst - tokens.min(burst)) {
            return false;
        }
        self.full_at_ns = now_ns.saturating_add(missing + interval * u64::from(tokens));
        true
    }

    /// Takes tokens even if the bucket has too few: later callers wait for them, but never for more
    /// than one second's worth.
    pub fn owe(&mut self, tokens: u32, rate: u32, burst: u32, now_ns: u64) {
        let interval = interval_ns(rate);
        let missing = self.full_at_ns.saturating_sub(now_ns);
        let most = (interval * u64::from(burst.max(1)) + 1_000_000_000).max(missing);
        let due = (missing + interval * u64::from(tokens)).min(most);
        self.full_at_ns = now_ns.saturating_add(due);
    }

    /// How long it takes until it is full.
    pub fn missing_ns(&self, now_ns: u64) -> u64 {
        self.full_at_ns.saturating_sub(now_ns)
    }

    /// Whether it is as a new one, so that it need not be kept.
    pub fn is_full(&self, now_ns: u64) -> bool {
        self.full_at_ns <= now_ns
    }
}

/// How long it takes until a token comes.
fn interval_ns(rate: u32) -> u64 {
    1_000_000_000 / u64::from(rate.clamp(1, 1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_is_given_at_once_and_then_one_an_interval() {
        let mut bucket = Bucket::default();
        assert!((0..5).all(|_| bucket.take(10, 5, 0)));
        assert!(!bucket.take(10, 5, 0));
        assert!(!bucket.take(10, 5, 99_999_999));
        assert!(bucket.take(10, 5, 100_000_000));
        assert!(!bucket.take(10, 5, 100_000_000));
        assert!(!bucket.is_full(500_000_000));
        assert!(bucket.is_full(600_000_000));
    }

    #[test]
    fn a_rest_is_left_for_other_callers() {
        let mut bucket = Bucket::default();
        assert!((0..3).all(|_| bucket.take_leaving(2, 10, 5, 0)));
        assert!(!bucket.take_leaving(2, 10, 5, 0));
        assert!(bucket.take(10, 5, 0) && bucket.take(10, 5, 0) && !bucket.take(10, 5, 0));
        let mut single = Bucket::default();
        assert!(single.take_leaving(0, 10, 1, 0) && !single.take_leaving(0, 10, 1, 0));
    }

    proptest! {
        #[test]
        fn never_more_than_the_burst_and_what_came_meanwhile(
            rate in 1u32..1000,
            burst in 1u32..100,
            waits in prop::collection::vec(0u64..50_000_000, 1..300),
        ) {
            let mut bucket = Bucket::default();
            let (mut now, mut taken) = (0, 0u64);
            for wait in waits {
                now += wait;
                taken += u64::from(bucket.take(rate, burst, now));
                // An interval is rounded down, by less than a nanosecond.
                let most = u64::from(burst) + now / (1_000_000_000 / u64::from(rate));
                prop_assert!(taken <= most);
            }
        }

        #[test]
        fn a_thread_that_keeps_to_the_rate_is_never_refused(
            rate in 1u32..1000,
            burst in 1u32..100,
        ) {
            let mut bucket = Bucket::default();
            let interval = 1_000_000_000u64.div_ceil(u64::from(rate));
            prop_assert!((0..500).all(|n| bucket.take(rate, burst, n * interval)));
        }
    }
}
