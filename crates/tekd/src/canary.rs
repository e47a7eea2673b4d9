// SPDX-License-Identifier: MIT OR Apache-2.0
//! The canary: an ordinary thread of tekd. While it runs in time, so do other ordinary threads.
use crate::sys;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

/// It runs this many times within the limit.
const ROUNDS: u32 = 4;
const STACK_BYTES: usize = 64 * 1024;

struct Shared {
    awake: AtomicBool,
    ran_at_ns: AtomicU64,
    limit_ns: AtomicU64,
}

/// The handle of the canary. The thread ends with the process.
pub struct Canary {
    shared: Arc<Shared>,
    thread: Thread,
}

impl Canary {
    /// Makes the thread, asleep, with the policy of the caller: that should be an ordinary thread.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            awake: AtomicBool::new(false),
            ran_at_ns: AtomicU64::new(0),
            limit_ns: AtomicU64::new(0),
        });
        let its = Arc::clone(&shared);
        let builder = thread::Builder::new().name("tekd-canary".to_owned());
        let canary = builder.stack_size(STACK_BYTES).spawn(move || live(&its))?;
        Ok(Self { shared, thread: canary.thread().clone() })
    }

    /// Starts it. From now on it is late when it did not run for longer than `limit`; 0: it stays
    /// asleep.
    pub fn wake(&self, limit: Duration) {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        if limit_ns == 0 || self.shared.awake.load(Ordering::Relaxed) {
            return;
        }
        self.shared.limit_ns.store(limit_ns, Ordering::Relaxed);
        self.forgive(sys::monotonic_ns());
        self.shared.awake.store(true, Ordering::Release);
        // Takes no lock that the canary could hold while it does not run.
        self.thread.unpark();
    }

    /// It may sleep again.
    pub fn rest(&self) {
        self.shared.awake.store(false, Ordering::Release);
    }

    /// The time for which it did not run, if that exceeds the limit.
    pub fn is_late(&self, now_ns: u64) -> Option<Duration> {
        if !self.shared.awake.load(Ordering::Acquire) {
            return None;
        }
        let late = now_ns.saturating_sub(self.shared.ran_at_ns.load(Ordering::Relaxed));
        let limit = self.shared.limit_ns.load(Ordering::Relaxed);
        (late > limit).then(|| Duration::from_nanos(late))
    }

    /// The thread that polls it is itself late by `late_ns`. If that is long, a signal or a
    /// debugger stopped both, so it does not show that other threads are starved.
    pub fn excuse(&self, now_ns: u64, late_ns: u64) {
        if late_ns > self.shared.limit_ns.load(Ordering::Relaxed) / u64::from(ROUNDS) {
            self.forgive(now_ns);
        }
    }

    /// After an alarm: restarts the limit.
    pub fn forgive(&self, now_ns: u64) {
        self.shared.ran_at_ns.store(now_ns, Ordering::Relaxed);
    }
}

fn live(shared: &Shared) {
    loop {
        if shared.awake.load(Ordering::Acquire) {
            shared.ran_at_ns.store(sys::monotonic_ns(), Ordering::Relaxed);
            let limit = Duration::from_nanos(shared.limit_ns.load(Ordering::Relaxed));
            thread::park_timeout(limit / ROUNDS);
        } else {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_late_only_while_it_is_awake_and_does_not_run() {
        let canary = Canary::start().unwrap();
        let later = || sys::monotonic_ns() + 10_000_000_000;
        assert_eq!(canary.is_late(later()), None);
        canary.wake(Duration::ZERO);
        assert_eq!(canary.is_late(later()), None);
        canary.wake(Duration::from_secs(1));
        assert_eq!(canary.is_late(sys::monotonic_ns()), None);
        assert!(canary.is_late(later()).is_some_and(|late| late > Duration::from_secs(9)));
        canary.rest();
        assert_eq!(canary.is_late(later()), None);
    }

    #[test]
    fn while_it_is_awake_it_runs() {
        let canary = Canary::start().unwrap();
        canary.wake(Duration::from_millis(40));
        let before = canary.shared.ran_at_ns.load(Ordering::Relaxed);
        let ran = || canary.shared.ran_at_ns.load(Ordering::Relaxed) > before + 20_000_000;
        let ran = (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            ran()
        });
        assert!(ran);
    }
}
