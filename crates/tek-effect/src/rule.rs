// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduling of a thread as values: policy, priority, flag and nice value.
//!
//! The nice value is a separate part. The kernel keeps it while a thread is real-time, any process
//! with the right may set it meanwhile, and it is in force again afterwards.
use crate::Error;
use serde::{Deserialize, Serialize};

pub(crate) const NORMAL: u32 = libc::SCHED_OTHER as u32;
pub(crate) const FIFO: u32 = libc::SCHED_FIFO as u32;
pub(crate) const RR: u32 = libc::SCHED_RR as u32;
const BATCH: u32 = libc::SCHED_BATCH as u32;
pub(crate) const IDLE: u32 = libc::SCHED_IDLE as u32;
pub(crate) const DEADLINE: u32 = libc::SCHED_DEADLINE as u32;
const EXT: u32 = 7;

/// The scheduling that sched_getattr(2) returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduling {
    /// SCHED_* without flags.
    pub policy: u32,
    /// -20 to 19. Read: what the thread has or, while it is real-time, will have. Set: by
    /// SCHED_OTHER, SCHED_BATCH and SCHED_EXT only.
    pub nice: i32,
    /// 1 to 99 under SCHED_FIFO and SCHED_RR, else 0.
    pub priority: u32,
    /// Whether its children begin without a real-time policy and a negative nice value.
    pub reset_on_fork: bool,
}

/// All of it but the nice value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) policy: u32,
    pub(crate) priority: u32,
    pub(crate) reset_on_fork: bool,
}

impl Rule {
    /// Between a rule with the flag and this one.
    pub(crate) fn halfway(self) -> Self {
        Self { reset_on_fork: true, ..self }
    }
}

impl Scheduling {
    pub(crate) fn rule(self) -> Rule {
        let Self { policy, priority, reset_on_fork, .. } = self;
        Rule { policy, priority, reset_on_fork }
    }

    fn sets_nice(self) -> bool {
        matches!(self.policy, NORMAL | BATCH | EXT)
    }

    /// This, with the nice value that the thread gets: `retained` under policies that do not set
    /// one.
    pub(crate) fn keeping(self, retained: i32) -> Self {
        Self { nice: if self.sets_nice() { self.nice } else { retained }, ..self }
    }

    /// Whether a thread can have it.
    pub(crate) fn is_possible(self) -> bool {
        let priorities = if matches!(self.policy, FIFO | RR) { 1..=99 } else { 0..=0 };
        matches!(self.policy, NORMAL | FIFO | RR | BATCH | IDLE | EXT)
            && priorities.contains(&self.priority)
            && (-20..=19).contains(&self.nice)
    }

    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_possible() {
            return Ok(());
        }
        let what = format!(
            "policy {} with priority {} and nice {} cannot be set",
            self.policy, self.priority, self.nice
        );
        Err(Error::invalid(
            what,
            "use SCHED_OTHER, _BATCH or _IDLE with priority 0, SCHED_FIFO or _RR with 1 to 99, \
             and nice -20 to 19",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Scheduling =
        Scheduling { policy: NORMAL, nice: 0, priority: 0, reset_on_fork: false };

    #[test]
    fn what_no_thread_can_have_is_refused() {
        for wrong in [
            Scheduling { policy: DEADLINE, ..USUAL },
            Scheduling { policy: 4, ..USUAL },
            Scheduling { policy: RR, ..USUAL },
            Scheduling { policy: RR, priority: 100, ..USUAL },
            Scheduling { priority: 1, ..USUAL },
            Scheduling { nice: 20, ..USUAL },
            Scheduling { nice: -21, ..USUAL },
        ] {
            assert!(wrong.check().unwrap_err().to_string().contains("cannot be set"), "{wrong:?}");
        }
        assert!(USUAL.check().is_ok());
    }

    #[test]
    fn a_real_time_policy_keeps_the_nice_value_that_was_set_before() {
        let rr = Scheduling { policy: RR, priority: 5, nice: -3, ..USUAL };
        assert_eq!(rr.keeping(7).nice, 7);
        assert_eq!(Scheduling { nice: -3, ..USUAL }.keeping(7).nice, -3);
    }
}
