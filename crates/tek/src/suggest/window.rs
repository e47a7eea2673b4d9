// SPDX-License-Identifier: MIT OR Apache-2.0
//! The activity of a thread, second by second, from samples of the kernel's counters.
//!
//! tek-2020 V-A speaks of "a short time period": a thread that answers twenty touches in two
//! seconds and then sleeps for an hour is time-critical all the same. So each second is recorded by
//! itself; of seconds in which it only slept, only the total is recorded.

/// The short time period, in ns.
const WINDOW_NS: u64 = 1_000_000_000;

/// The kernel's counters of a thread at one moment; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// CLOCK_BOOTTIME.
    pub at_ns: u64,
    /// Voluntary context switches: it waited for something, and so is woken once.
    pub wakeups: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time ready to run and without a CPU.
    pub delay_ns: u64,
    /// Samples at which it slept, waiting for an event.
    pub sleeping: u64,
    /// Samples at which it waited for storage (state D).
    pub storage: u64,
    /// The bytes that it read from storage, and wrote for it.
    pub storage_bytes: u64,
}

/// A second in which the thread ran, or a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Its length.
    pub time_ns: u64,
    /// How often the thread was woken.
    pub wakeups: u64,
    /// CPU time that it used.
    pub cpu_ns: u64,
    /// Time that it waited for a CPU.
    pub delay_ns: u64,
    /// As of the counters.
    pub sleeping: u64,
    /// As of the counters.
    pub storage: u64,
    /// As of the counters.
    pub storage_bytes: u64,
    /// CPU time of a burst: from one wake-up to the next, earlier windows included. The burst may
    /// not have ended yet.
    pub burst_ns: u64,
}

/// The windows of one thread, as they come.
#[derive(Clone, Debug)]
pub struct Track {
    from: Counters,
    last: Counters,
    /// CPU time since the last window with a wake-up.
    unended_ns: u64,
    windows: Vec<Window>,
    asleep_ns: u64,
}

impl Track {
    /// Begins with a first sample: of a thread that was there before, or at its beginning, when all
    /// counters are 0.
    pub fn new(first: Counters) -> Self {
        Self { from: first, last: first, unended_ns: 0, windows: Vec::new(), asleep_ns: 0 }
    }

    /// Takes a later sample.
    pub fn add(&mut self, now: Counters) {
        self.last = now;
        if now.at_ns.saturating_sub(self.from.at_ns) >= WINDOW_NS {
            self.close();
        }
    }

    /// The last sample.
    pub fn last(&self) -> &Counters {
        &self.last
    }

    /// The windows in which the thread ran, and the time in which it only slept.
    pub fn finish(mut self) -> (Vec<Window>, u64) {
        self.close();
        (self.windows, self.asleep_ns)
    }

    fn close(&mut self) {
        let (from, to) = (std::mem::replace(&mut self.from, self.last), self.last);
        let time_ns = to.at_ns.saturating_sub(from.at_ns);
        let wakeups = to.wakeups.saturating_sub(from.wakeups);
        let cpu_ns = to.cpu_ns.saturating_sub(from.cpu_ns);
        if time_ns == 0 {
            return;
        }
        if cpu_ns == 0 && wakeups == 0 {
            self.asleep_ns += time_ns;
            return;
        }
        let burst_ns = (self.unended_ns + cpu_ns) / wakeups.max(1);
        self.unended_ns = if wakeups == 0 { self.unended_ns + cpu_ns } else { 0 };
        let delay_ns = to.delay_ns.saturating_sub(from.delay_ns);
        let (sleeping, storage) = (to.sleeping - from.sleeping, to.storage - from.storage);
        self.windows.push(Window {
            time_ns,
            wakeups,
            cpu_ns,
            delay_ns,
            sleeping,
            storage,
            storage_bytes: to.storage_bytes.saturating_sub(from.storage_bytes),
            burst_ns,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64, wakeups: u64, cpu_ms: u64) -> Counters {
        Counters { at_ns: ms * MS, wakeups, cpu_ns: cpu_ms * MS, ..Counters::default() }
    }

    fn windows(samples: &[Counters]) -> (Vec<Window>, u64) {
        let mut track = Track::new(samples[0]);
        samples[1..].iter().for_each(|examine| track.add(*examine));
        track.finish()
    }

    #[test]
    fn what_was_before_the_first_sample_does_not_count() {
        let (windows, asleep) = windows(&[at(5000, 900, 70), at(6000, 910, 90)]);
        assert_eq!(asleep, 0);
        assert_eq!((windows[0].wakeups, windows[0].cpu_ns, windows.len()), (10, 20 * MS, 1));
        assert_eq!(windows[0].burst_ns, 2 * MS);
    }

    #[test]
    fn a_thread_that_sleeps_has_no_window() {
        let (windows, asleep) = windows(&[at(0, 1, 1), at(1000, 1, 1), at(2500, 1, 1)]);
        assert_eq!((windows.len(), asleep), (0, 2500 * MS));
    }

    #[test]
    fn a_thread_that_is_never_woken_has_one_burst_that_grows() {
        let (windows, _) = windows(&[at(0, 0, 0), at(1000, 0, 50), at(2000, 0, 100)]);
        assert_eq!(windows.iter().map(|w| w.burst_ns / MS).collect::<Vec<_>>(), [50, 100]);
    }

    #[test]
    fn a_thread_that_ended_soon_has_a_short_window() {
        let (windows, _) = windows(&[at(0, 0, 0), at(100, 2, 1), at(200, 4, 2)]);
        assert_eq!((windows.len(), windows[0].time_ns, windows[0].wakeups), (1, 200 * MS, 4));
    }
}
