// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one sure way to learn whether a thread may be real-time is to make one so.
use std::io;

/// The default range of SCHED_TEK's real-time priorities.
pub const LOW: i32 = 10;
/// Its upper end.
pub const HIGH: i32 = 49;

/// What the kernel said to a request for SCHED_RR.
#[derive(Debug)]
pub struct Trial {
    /// At the lowest priority that TEK uses by default.
    pub low: Result<(), io::Error>,
    /// At the highest.
    pub high: Result<(), io::Error>,
}

/// Asks for SCHED_RR in a thread of its own, which goes back at once and ends.
pub fn run() -> Trial {
    std::thread::scope(|scope| {
        let both = || Trial { low: request(LOW), high: request(HIGH) };
        let failed = || Trial { low: Err(io::Error::last_os_error()), high: Ok(()) };
        std::thread::Builder::new()
            .name("tek-doctor".into())
            .spawn_scoped(scope, both)
            .ok()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_else(failed)
    })
}

/// Makes the calling thread SCHED_RR and what it was before again.
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
        let _ = request(LOW);
        assert_eq!(policy(), before);
    }
}
