// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real-time priority of tekd's own threads.
use crate::{log, sys};

/// Gives tekd a priority above all of its clients.
pub fn become_first(priority: u32) {
    if let Err(error) = sys::become_first(priority) {
        log::warning(&format!(
            "tekd is not SCHED_FIFO {priority} ({error}), so critical threads can hold it up: \
             it needs CAP_SYS_NICE, and a cpu cgroup with real-time runtime"
        ));
    }
}
