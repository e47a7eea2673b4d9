// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduling calls that `renice` and `chrt` make.

use std::io;

/// The real-time priority of the `chrt -r` variant: the one TEK uses for priority 0.
pub const RR_PRIORITY: i32 = 29;

/// Does the same as `renice -n NICE -p TID`.
pub fn set_nice(tid: i32, nice: i32) -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as libc::id_t, nice) };
    check(result)
}

/// Does the same as `chrt -r -p RR_PRIORITY TID`.
pub fn set_round_robin(tid: i32) -> io::Result<()> {
    set_scheduler(tid, libc::SCHED_RR, RR_PRIORITY)
}

/// Does the same as `chrt -i -p 0 TID`.
pub fn set_idle(tid: i32) -> io::Result<()> {
    set_scheduler(tid, libc::SCHED_IDLE, 0)
}

fn set_scheduler(tid: i32, policy: i32, priority: i32) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` outlives the call, which only reads it.
    check(unsafe { libc::sched_setscheduler(tid, policy, &param) })
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
