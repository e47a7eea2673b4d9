// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a process may be killed: before and after each system call that changes something.
//!
//! The tests kill at every one of them; otherwise this is nothing.

/// One of those places.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn here() {}

#[cfg(test)]
pub(crate) use counted::{here, kill_at};

#[cfg(test)]
mod counted {
    use nix::sys::signal::{raise, Signal};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// How many places are left until the last; 0: it goes on for ever.
    static LEFT: AtomicU64 = AtomicU64::new(0);

    pub(crate) fn here() {
        let was = LEFT.load(Ordering::Relaxed);
        if was == 1 {
            let _ = raise(Signal::SIGKILL);
        }
        LEFT.store(was.saturating_sub(1), Ordering::Relaxed);
    }

    /// From now on, the place at which this process is killed, counted from 1.
    pub(crate) fn kill_at(place: u64) {
        LEFT.store(place, Ordering::Relaxed);
    }
}
