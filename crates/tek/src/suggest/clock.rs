// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a clock wakes a thread, by the waits that it asks the kernel for.
//!
//! If a clock wakes a thread, the thread sleeps for the same time again and again, or until times
//! that are multiples of one period apart. That stays so however late the thread runs, while the
//! number of its wake-ups falls with the load.
use tek_model::{End, Wait};

/// The least number of sleeps for a verdict.
const LEAST: usize = 6;
/// If a clock wakes a thread, so many in ten sleeps fit its period.
const FIT_OF_TEN: usize = 9;
/// The largest deviation from the period, as a share of it.
const MISS: f64 = 0.02;
/// Another waker wakes the thread too if there are clearly more wake-ups than periods.
const MORE: f64 = 1.1;
/// The ends of its sleeps are no period if there are far fewer wake-ups than periods.
const FEW: f64 = 0.4;
/// Further samples are dropped: the first ones are as good as later ones.
const MOST: usize = 1000;
/// The least period is the shortest time between two recorded sleeps, divided by this.
const MOST_BETWEEN: u64 = 256;
const SHORTEST_NS: u64 = 100_000;

/// The waker of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waker {
    /// There are too few samples, or the kernel does not report it.
    #[default]
    Unknown,
    /// A clock with this period, in ns.
    Clock(u64),
    /// A waker that is no clock.
    Events,
}

/// A sleep, as one sample shows it.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    wait: Wait,
    /// Wake-ups before it.
    wakeups: u64,
    /// The time of the sample, without the time that the thread waited for a CPU.
    free_ns: u64,
}

/// The sleeps of a thread.
#[derive(Clone, Debug, Default)]
pub struct Sleeps(Vec<Sleep>);

impl Sleeps {
    /// Adds the sleep of a sample. A sleep that an earlier sample showed counts once.
    pub fn add(&mut self, wait: Wait, wakeups: u64, free_ns: u64) {
        let known = self.0.last().is_some_and(|last| last.wakeups == wakeups);
        if !known && self.0.len() < MOST {
            self.0.push(Sleep { wait, wakeups, free_ns });
        }
    }

    /// The waker of the thread.
    pub fn waker(&self) -> Waker {
        if self.0.len() < LEAST {
            return Waker::Unknown;
        }
        let timed: Vec<_> = self.0.iter().filter(|it| it.wait.end != End::Never).copied().collect();
        if !most(timed.len(), self.0.len()) {
            return Waker::Events;
        }
        match same_time(&timed).or_else(|| multiple_of(&timed)) {
            Some(period_ns) if is_all(&timed, period_ns) => Waker::Clock(period_ns),
            _ => Waker::Events,
        }
    }
}

fn most(part: usize, whole: usize) -> bool {
    part * 10 >= whole * FIT_OF_TEN
}

/// The time for which nearly all sleep.
fn same_time(timed: &[Sleep]) -> Option<u64> {
    let after = |sleep: &Sleep| match sleep.wait.end {
        End::After(ns) => Some(ns),
        _ => None,
    };
    let mut times: Vec<_> = timed.iter().filter_map(after).collect();
    times.sort_unstable();
    let middle = *times.get(times.len() / 2)?;
    let fit = times.iter().filter(|&&ns| ns.abs_diff(middle) as f64 <= MISS * middle as f64);
    (middle >= SHORTEST_NS && most(fit.count(), timed.len())).then_some(middle)
}

/// The longest period of which nearly all times between the ends of sleeps are multiples.
fn multiple_of(timed: &[Sleep]) -> Option<u64> {
    let at = |sleep: &Sleep| match sleep.wait.end {
        End::At(ns) => Some(ns),
        _ => None,
    };
    let ends: Vec<_> = timed.iter().filter_map(at).collect();
    let between: Vec<_> = ends.windows(2).filter_map(|two| two[1].checked_sub(two[0])).collect();
    let shortest = between.iter().copied().filter(|&ns| ns >= SHORTEST_NS).min()?;
    let fits = |period: f64, ns: u64| {
        let periods = (ns as f64 / period).round();
        periods >= 1.0 && (ns as f64 - periods * period).abs() <= MISS * period
    };
    (1..=MOST_BETWEEN).map(|parts| shortest as f64 / parts as f64).find_map(|period| {
        let fit = between.iter().filter(|&&ns| fits(period, ns)).count();
        (period >= SHORTEST_NS as f64 && most(fit + 1, timed.len())).then_some(period as u64)
    })
}

/// Whether the clock explains all wake-ups, where something else could end the sleeps.
fn is_all(timed: &[Sleep], period_ns: u64) -> bool {
    let [first, .., last] = timed else { return true };
    let periods = last.free_ns.saturating_sub(first.free_ns) as f64 / period_ns as f64;
    let wakeups = last.wakeups.saturating_sub(first.wakeups) as f64;
    // Any two whole numbers have a common divisor: a clock that hardly ever wakes is none.
    !timed.iter().any(|sleep| sleep.wait.has_events)
        || (FEW * periods - 2.0..=MORE * periods + 2.0).contains(&wakeups)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The waker of a thread with a sample each 100 ms, where it sleeps so in its sleep number n.
    fn waker(has_events: bool, wakeups_per_sample: u64, end: impl Fn(u64) -> End) -> Waker {
        let mut sleeps = Sleeps::default();
        for examine in 0..30 {
            let wakeups = examine * wakeups_per_sample;
            sleeps.add(Wait { end: end(wakeups), has_events }, wakeups, examine * 100 * MS);
        }
        sleeps.waker()
    }

    /// From 0 to 1, as good as by chance.
    fn chance(number: u64) -> f64 {
        let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ (mixed >> 27)) >> 40) as f64 / (1u64 << 24) as f64
    }

    #[test]
    fn a_thread_that_sleeps_for_the_same_time_each_time_has_a_clock() {
        assert_eq!(waker(false, 2, |_| End::After(50 * MS)), Waker::Clock(50 * MS));
        let by_chance = |n| End::After((chance(n) * 80e6) as u64 + 20 * MS);
        assert_eq!(waker(false, 2, by_chance), Waker::Events);
    }

    #[test]
    fn a_thread_that_sleeps_until_multiples_of_a_period_has_a_clock_however_many_it_missed() {
        let missed = |n: u64| End::At(7 * MS + (n + n * n / 3 + 1) * 40 * MS);
        assert_eq!(waker(false, 1, missed), Waker::Clock(40 * MS));
        let by_chance = |n| End::At(n * 100 * MS + (chance(n) * 80e6) as u64);
        assert_eq!(waker(false, 1, by_chance), Waker::Events);
    }

    #[test]
    fn a_thread_that_waits_without_an_end_waits_for_events() {
        assert_eq!(waker(true, 1, |_| End::Never), Waker::Events);
        let mixed = |n| if n % 3 == 0 { End::Never } else { End::After(50 * MS) };
        assert_eq!(waker(true, 2, mixed), Waker::Events);
    }

    #[test]
    fn a_wait_for_events_that_has_a_timeout_is_a_clock_if_only_its_end_comes() {
        assert_eq!(waker(true, 1, |_| End::After(100 * MS)), Waker::Clock(100 * MS));
        assert_eq!(waker(true, 1, |_| End::After(1000 * MS)), Waker::Events);
        let whole_ms = |n| End::At((n * 100 + (chance(n) * 80.0) as u64) * MS);
        assert_eq!(waker(true, 1, whole_ms), Waker::Events);
    }

    #[test]
    fn of_few_sleeps_nothing_is_known() {
        let mut sleeps = Sleeps::default();
        assert_eq!(sleeps.waker(), Waker::Unknown);
        let wait = Wait { end: End::After(MS), has_events: false };
        (0..20).for_each(|examine| sleeps.add(wait, 5, examine));
        assert_eq!(sleeps.waker(), Waker::Unknown, "it is one sleep");
    }
}
