// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loan that a change is to a thread: all that the thread could not have set by itself.
//!
//! A thread without rights of its own may lower a real-time policy that it was given, and may leave
//! it for SCHED_OTHER. Its policy then still comes from the change, and ends with it. Pure, but for
//! [`Right::of`].
use crate::identity::read_all;
use crate::rule::{Rule, Scheduling, DEADLINE, FIFO, IDLE, RR};
use crate::{sys, Error, Limits, Resource};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use tek_procfs::path;

const CAP_SYS_NICE: u32 = 23;
pub(crate) const CAP_SYS_RESOURCE: u32 = 24;
const HIGHEST_PRIORITY: u32 = 99;
const LOWEST_NICE: i32 = -20;

/// The right of a thread to set its policy by itself, without the change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Right {
    /// Its highest real-time priority; 0: none.
    pub(crate) priority: u32,
    /// Its lowest nice value besides those that are higher than the present one.
    pub(crate) nice: i32,
}

/// None at all, as nearly all threads have.
impl Default for Right {
    fn default() -> Self {
        Self { priority: 0, nice: 20 }
    }
}

impl Right {
    const ALL: Self = Self { priority: HIGHEST_PRIORITY, nice: LOWEST_NICE };

    /// Of a thread as it is now: by CAP_SYS_NICE, else by the hard limits, up to which it may raise
    /// its soft ones.
    pub(crate) fn of(tid: i32) -> Result<Self, Error> {
        match has_privilege(tid, CAP_SYS_NICE)? {
            true => Ok(Self::ALL),
            false => Self::by_limits(tid),
        }
    }

    /// By prlimit(2), which takes a tenth of the time of a file, or where that is refused, as for
    /// another user's process without CAP_SYS_RESOURCE, by /proc.
    fn by_limits(tid: i32) -> Result<Self, Error> {
        let hard = |resource| Limits::of(tid, resource).map(|limits| limits.hard);
        match (hard(Resource::Rtprio), hard(Resource::Nice)) {
            (Ok(priority), Ok(nice)) => Ok(Self::by_numbers(priority, nice)),
            _ => Ok(Self::by_text(&read_all(tid, "limits")?)),
        }
    }

    fn by_numbers(priority: u64, nice: u64) -> Self {
        let number = |limit: u64, most: u32| u32::try_from(limit).unwrap_or(most).min(most);
        Self {
            priority: number(priority, HIGHEST_PRIORITY),
            nice: 20 - i32::try_from(number(nice, 40)).unwrap_or(0),
        }
    }

    /// By the text of /proc/PID/limits.
    fn by_text(text: &str) -> Self {
        let hard = |name| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            match line.and_then(|line| line.split_ascii_whitespace().nth(1)) {
                Some("unlimited") => u64::MAX,
                number => number.and_then(|number| number.parse().ok()).unwrap_or(0),
            }
        };
        Self::by_numbers(hard("Max realtime priority"), hard("Max nice priority"))
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a thread may use a capability outside of user namespaces of its own.
pub(crate) fn has_privilege(tid: i32, capability: u32) -> Result<bool, Error> {
    let failed = |source| Error::thread(tid, "ask for the capabilities of", source);
    // A permitted capability may be made effective at any time.
    let permitted = sys::permitted_capabilities(tid).map_err(failed)?;
    Ok(permitted >> capability & 1 == 1 && is_in_own_user_namespace(tid))
}

/// In another one each thread can have all capabilities, which are none for the scheduler.
fn is_in_own_user_namespace(tid: i32) -> bool {
    static OWN: OnceLock<Option<PathBuf>> = OnceLock::new();
    let own = OWN.get_or_init(|| fs::read_link("/proc/self/ns/user").ok());
    own.is_some() && path(tid, "ns/user").and_then(fs::read_link).ok() == *own
}

/// A change as far as it lends something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loan<'a> {
    pub(crate) was: Scheduling,
    /// The values that were set.
    pub(crate) ours: &'a [Scheduling],
    pub(crate) right: Right,
}

impl Loan<'_> {
    /// Whether a thread with these rights would have to be watched for what it sets.
    pub(crate) fn is_real_time(&self) -> bool {
        self.highest() > self.right.priority
    }

    /// Whether a thread with the present rule could have come there from what was set, and not from
    /// what it had.
    pub(crate) fn is_lent(&self, present: Rule) -> bool {
        // A thread cannot take this flag away from itself: a privileged process did.
        let was_freed = !present.reset_on_fork && self.lends_flag();
        if self.right == Right::ALL || was_freed {
            return false;
        }
        match present.policy {
            FIFO | RR => {
                let is_lowered =
                    self.was.policy == present.policy && present.priority <= self.was.priority;
                let lent = self.right.priority + 1..=self.highest();
                lent.contains(&present.priority) && !is_lowered
            }
            DEADLINE | IDLE => false,
            _ => self.was.policy == IDLE && self.was.nice < self.right.nice,
        }
    }

    /// The rule that a thread has without the loan.
    pub(crate) fn rule_without(&self, present: Rule) -> Rule {
        if self.is_lent(present) {
            return self.was.rule();
        }
        let is_above_its_right = match present.policy {
            FIFO | RR => present.priority > self.right.priority,
            policy => policy == DEADLINE,
        };
        let keeps_flag = is_above_its_right || self.was.reset_on_fork || self.right == Right::ALL;
        match self.lends_flag() && !keeps_flag {
            true => Rule { reset_on_fork: false, ..present },
            false => present,
        }
    }

    /// The nice value that a thread has without the loan.
    pub(crate) fn nice_without(&self, present: i32) -> i32 {
        let lowest = self.ours.iter().map(|ours| ours.nice).min().unwrap_or(self.was.nice);
        let lent = lowest..self.was.nice.min(self.right.nice);
        match lent.contains(&present) {
            true => self.was.nice,
            false => present,
        }
    }

    fn highest(&self) -> u32 {
        self.ours.iter().map(|ours| ours.priority).max().unwrap_or(0)
    }

    fn lends_flag(&self) -> bool {
        self.ours.iter().all(|ours| ours.reset_on_fork)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: u32 = libc::SCHED_OTHER as u32;
    const BATCH: u32 = libc::SCHED_BATCH as u32;
    const USUAL: Scheduling =
        Scheduling { policy: OTHER, nice: 0, priority: 0, reset_on_fork: false };
    const GIVEN: Scheduling = Scheduling { policy: RR, priority: 49, reset_on_fork: true, ..USUAL };

    fn rule(policy: u32, priority: u32) -> Rule {
        Rule { policy, priority, reset_on_fork: true }
    }

    fn without(was: Scheduling, right: Right, present: Rule) -> Rule {
        Loan { was, ours: &[GIVEN], right }.rule_without(present)
    }

    #[test]
    fn a_real_time_policy_up_to_what_was_given_is_lent() {
        for (policy, priority) in [(RR, 49), (RR, 48), (RR, 1), (FIFO, 20)] {
            let own = without(USUAL, Right::default(), rule(policy, priority));
            assert_eq!(own, USUAL.rule(), "{policy} {priority}");
        }
    }

    #[test]
    fn what_the_thread_cannot_have_set_stays() {
        let free = Rule { reset_on_fork: false, ..rule(RR, 20) };
        for present in [rule(RR, 50), rule(FIFO, 99), rule(DEADLINE, 0), free] {
            assert_eq!(without(USUAL, Right::default(), present), present);
        }
    }

    #[test]
    fn what_the_thread_may_have_by_itself_stays() {
        let right = Right { priority: 20, ..Right::default() };
        for priority in [1, 20] {
            let own = Rule { reset_on_fork: false, ..rule(FIFO, priority) };
            assert_eq!(without(USUAL, right, rule(FIFO, priority)), own, "{priority}");
        }
        for priority in [21, 49] {
            assert_eq!(without(USUAL, right, rule(FIFO, priority)), USUAL.rule(), "{priority}");
        }
        let present = rule(RR, 49);
        assert_eq!(without(USUAL, Right::ALL, present), present);
    }

    #[test]
    fn a_thread_that_was_real_time_may_have_lowered_that() {
        let was = Scheduling { policy: RR, priority: 30, ..USUAL };
        assert_eq!(without(was, Right::default(), rule(RR, 30)), rule(RR, 30));
        for present in [rule(RR, 31), rule(FIFO, 30)] {
            assert_eq!(without(was, Right::default(), present), was.rule());
        }
    }

    #[test]
    fn an_ordinary_policy_is_the_threads_own_and_the_flag_is_not() {
        for policy in [OTHER, BATCH, IDLE] {
            let own = Rule { reset_on_fork: false, ..rule(policy, 0) };
            assert_eq!(without(USUAL, Right::default(), rule(policy, 0)), own);
            let was = Scheduling { reset_on_fork: true, ..USUAL };
            assert_eq!(without(was, Right::default(), rule(policy, 0)), rule(policy, 0));
        }
    }

    #[test]
    fn only_a_right_to_its_nice_value_lets_a_thread_leave_sched_idle() {
        let was = Scheduling { policy: IDLE, nice: 5, ..USUAL };
        let own = Rule { reset_on_fork: false, ..rule(BATCH, 0) };
        for (nice, expected) in [(20, was.rule()), (6, was.rule()), (5, own), (-20, own)] {
            let right = Right { nice, ..Right::default() };
            assert_eq!(without(was, right, rule(BATCH, 0)), expected, "{nice}");
        }
    }

    #[test]
    fn a_nice_value_between_what_was_set_and_what_was_is_lent() {
        let ours = [Scheduling { nice: -5, ..USUAL }];
        let own = |present, right: i32| {
            let right = Right { priority: 0, nice: right };
            Loan { was: USUAL, ours: &ours, right }.nice_without(present)
        };
        assert_eq!([-6, -5, -3, 0, 3].map(|present| own(present, 20)), [-6, 0, 0, 0, 3]);
        assert_eq!([-5, -4, -3].map(|present| own(present, -4)), [0, -4, -3]);
    }

    #[test]
    fn rights_are_read_from_limits_and_capabilities() {
        let text = "Max nice priority         25                   30                   \n\
                    Max realtime priority     0                    unlimited            \n";
        assert_eq!(Right::by_text(text), Right { priority: 99, nice: -10 });
        assert_eq!(Right::by_text(""), Right::default());
        let own = std::process::id() as i32;
        let text = read_all(own, "limits").unwrap();
        assert_eq!(Right::by_text(&text), Right::by_limits(own).unwrap());
        let status = read_all(own, "status").unwrap();
        let set = status.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap();
        let permitted = u64::from_str_radix(set.trim(), 16).unwrap();
        assert_eq!(sys::permitted_capabilities(own).unwrap(), permitted);
    }
}
