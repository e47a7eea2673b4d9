// SPDX-License-Identifier: MIT OR Apache-2.0
//! An account of CPU time: a user, or a kind of work, may use one part in N of a CPU. Pure.

/// The account.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// N.
    parts: u64,
    /// The CPU time that may be used at once. A pause ends when half of it is available again. A
    /// query before that allows more as soon as any of it is available.
    burst_ns: u64,
    /// When all use will be compensated.
    even_at_ns: u64,
}

impl Share {
    /// A full account.
    pub const fn new(parts: u64, burst_ns: u64) -> Self {
        Self { parts, burst_ns, even_at_ns: 0 }
    }

    /// Charges CPU time.
    pub fn charge(&mut self, ns: u64, now_ns: u64) {
        self.even_at_ns = self.even_at_ns.max(now_ns).saturating_add(ns.saturating_mul(self.parts));
    }

    /// The end of the pause; `None`: CPU time may be used now.
    pub fn exhausted_until(&self, now_ns: u64) -> Option<u64> {
        let burst_ns = self.burst_ns * self.parts;
        (self.even_at_ns > now_ns + burst_ns).then(|| self.even_at_ns - burst_ns / 2)
    }

    /// Whether it equals a new account.
    pub fn is_even(&self, now_ns: u64) -> bool {
        self.even_at_ns <= now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_tenth_of_a_cpu_is_never_too_much_and_more_is() {
        let (mut little, mut much, mut paused) =
            (Share::new(10, 50 * MS), Share::new(10, 50 * MS), 0);
        for n in 1..1000 {
            little.charge(90_000, n * MS);
            assert_eq!(little.exhausted_until(n * MS), None);
            match much.exhausted_until(n * MS) {
                None => much.charge(MS, n * MS),
                Some(_) => paused += 1,
            }
        }
        assert!((800..900).contains(&paused), "{paused}");
    }

    #[test]
    fn much_at_once_is_made_up_for_until_half_of_the_burst_is_there() {
        let mut share = Share::new(10, 50 * MS);
        share.charge(200 * MS, MS);
        assert_eq!(share.exhausted_until(2 * MS), Some((1 + 2000 - 250) * MS));
        assert!(share.exhausted_until(1400 * MS).is_some());
        assert_eq!(share.exhausted_until(1600 * MS), None);
    }
}
