// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only reliable check whether a thread may be real-time is to make one real-time.
use crate::system::privilege;
use nix::sys::resource::rlim_t;
use std::io;

/// Real-time priorities that SCHED_TEK uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Priority of nice 19.
    pub low: i32,
    /// Priority of nice -20.
    pub high: i32,
}

/// Without `--rt-range` and a limit.
pub const DEFAULT: Range = Range { low: 10, high: 49 };

/// The kernel's answers to requests for SCHED_RR.
#[derive(Debug)]
pub struct Trial {
    /// The range that libtek.so uses here.
    pub range: Range,
    /// At its lowest priority.
    pub low: Result<(), io::Error>,
    /// At its highest.
    pub high: Result<(), io::Error>,
}

/// The range to which libtek.so falls back. The highest priority that RLIMIT_RTPRIO grants is for
/// its guard thread, SCHED_TEK uses those below.
fn range_within(limit: rlim_t) -> Range {
    match i32::try_from(limit) {
        Ok(limit) if (1..=DEFAULT.high).contains(&limit) => {
            let high = (limit - 1).max(1);
            Range { low: DEFAULT.low.min(high), high }
        }
        _ => DEFAULT,
    }
}

/// Requests SCHED_RR in a thread of its own, which reverts at once and ends.
pub fn run() -> Trial {
    let range = if privilege::has_capability(privilege::SYS_NICE) {
        DEFAULT
    } else {
        range_within(privilege::rtprio_limit())
    };
    std::thread::scope(|scope| {
        let pair = || Trial { range, low: request(range.low), high: request(range.high) };
        let failed = || Trial { range, low: Err(io::Error::last_os_error()), high: Ok(()) };
        std::thread::Builder::new()
            .name("tek-doctor".into())
            .spawn_scoped(scope, pair)
            .ok()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_else(failed)
    })
}

/// Makes the calling thread SCHED_RR, and then restores its policy.
fn request(priority: i32) -> Result<(), io::Error> {
    // SAFETY: pid 0 is the calling thread; both structs are valid for the calls.
    unsafe {
        let old_policy = libc::sched_getscheduler(0);
        let mut old: libc::sched_param = std::mem::zeroed();
        libc::sched_getparam(0, &mut old);
        let new = libc::sched_param { sched_priority: priority };
        if libc::sched_setscheduler(0, libc::SCHED_RR, &new) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::sched_setscheduler(0, old_policy, &old);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trial_leaves_the_thread_as_it_was() {
        // SAFETY: asks about the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let before = policy();
        let _ = request(DEFAULT.low);
        assert_eq!(policy(), before);
    }

    #[test]
    fn a_limit_narrows_the_range_as_the_library_does() {
        let range = |limit| {
            let Range { low, high } = range_within(limit);
            (low, high)
        };
        assert_eq!([range(1), range(2), range(9)], [(1, 1), (1, 1), (8, 8)]);
        assert_eq!([range(11), range(30), range(49)], [(10, 10), (10, 29), (10, 48)]);
        assert_eq!([range(0), range(50), range(u64::MAX)], [(10, 49); 3]);
    }
}
