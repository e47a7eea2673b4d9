// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of day.
use nix::sys::time::TimeSpec;
use nix::time::{clock_gettime, clock_settime, ClockId};
use std::time::Duration;

/// Largest difference that is no deliberate change.
const SLACK: Duration = Duration::from_millis(50);

/// The offset of the time of day from the time since boot, which cannot be set.
pub(super) struct Clock {
    offset: i128,
}

impl Clock {
    pub(super) fn take() -> Self {
        Self { offset: now(ClockId::CLOCK_REALTIME) - now(ClockId::CLOCK_BOOTTIME) }
    }

    /// Restores the time of day if it was set.
    pub(super) fn restore(&self) -> Vec<String> {
        let off = Self::take().offset.abs_diff(self.offset);
        if off <= SLACK.as_nanos() {
            return Vec::new();
        }
        let right = now(ClockId::CLOCK_BOOTTIME) + self.offset;
        let right = Duration::from_nanos(u64::try_from(right).unwrap_or(0));
        match clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from_duration(right)) {
            Ok(()) => Vec::new(),
            Err(error) => vec![format!("the clock cannot be set: {}", error.desc())],
        }
    }
}

/// The clock's time in ns.
fn now(clock: ClockId) -> i128 {
    clock_gettime(clock).map_or(0, |time| Duration::from(time).as_nanos() as i128)
}
