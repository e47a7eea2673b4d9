// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries and sets the scheduling policy of a thread.
use crate::rule::{Rule, Scheduling};
use crate::{sys, Error};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

impl Scheduling {
    /// The present scheduling of the thread with this id; 0 is the calling thread.
    pub fn of(tid: i32) -> Result<Self, Error> {
        let failed = |source| Error::thread(tid, "ask for the policy of", source);
        let rule = sys::rule(tid).map_err(failed)?;
        let nice = sys::nice(tid).map_err(failed)?;
        let Rule { policy, priority, reset_on_fork } = rule;
        Ok(Self { policy, nice, priority, reset_on_fork })
    }
}

/// Whether this process has taken the flag away from a thread. That needs a privilege that only the
/// kernel can check: root in a user namespace does not have it.
static TAKES_FLAGS: AtomicBool = AtomicBool::new(false);

/// Sets a rule in place of another. The flag comes first and goes last: the kernel copies a thread
/// that forks without a lock and in no certain order, and could find the policy real-time and the
/// flag not there yet, or gone already. The child would then be real-time without a record of it.
/// (This can still happen if a fork stalls for as long as the thread is real-time.)
///
/// Where the flag might have to stay when the policy is refused, both come at once.
pub(crate) fn set_rule(tid: i32, from: Rule, to: Rule) -> io::Result<()> {
    match (from.reset_on_fork, to.reset_on_fork) {
        (false, true) if TAKES_FLAGS.load(Ordering::Relaxed) => {
            sys::set_rule(tid, from.halfway())?;
            sys::set_rule(tid, to).inspect_err(|_| drop(sys::set_rule(tid, from)))
        }
        (true, false) => {
            sys::set_rule(tid, to.halfway())?;
            sys::set_rule(tid, to)?;
            TAKES_FLAGS.store(true, Ordering::Relaxed);
            Ok(())
        }
        _ => sys::set_rule(tid, to),
    }
}
