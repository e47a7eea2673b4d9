// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grants: which processes may have critical threads on a device, how many, and on which terms.
//!
//! The first grant that fits a process decides about it. This module makes no system call: the
//! requester, its number of threads and the time are arguments.
use crate::grant_rate::Bucket;
use crate::grant_subject::{Group, Pattern, User};
use crate::{Budget, Priority};
use std::time::Duration;

/// The real-time priorities that are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealTime {
    /// Of the SCHED_TEK priority 19.
    pub low: u32,
    /// Of the SCHED_TEK priority -20.
    pub high: u32,
}

impl RealTime {
    /// The highest that can be granted: the two above it are for the watching threads.
    pub const HIGHEST: u32 = 97;

    /// The real-time priority for a SCHED_TEK priority, the same as in libtek.so.
    pub fn priority(self, priority: Priority) -> u32 {
        let steps = u32::try_from(19 - priority.nice()).unwrap_or(0);
        self.low + steps * (self.high - self.low) / 39
    }
}

/// One `[[grant]]`: the processes that it matches, and their terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Where it is written, or that it is the default.
    pub source: String,
    /// Users; none: any user.
    pub users: Vec<User>,
    /// Groups that the process is in; none: any.
    pub groups: Vec<Group>,
    /// Paths of programs; none: any.
    pub programs: Vec<Pattern>,
    /// Paths of control groups; none: any.
    pub cgroups: Vec<Pattern>,
    /// The terms of the grant.
    pub terms: Terms,
}

/// The terms that a grant gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Critical threads a process.
    pub threads: u32,
    /// Critical threads a user.
    pub user_threads: u32,
    /// The best SCHED_TEK priority.
    pub first: Priority,
    /// The last one.
    pub last: Priority,
    /// CPU time for each critical thread.
    pub budget: Budget,
    /// Switches a second, for each process.
    pub rate: u32,
    /// So many at once.
    pub burst: u32,
    /// The process may switch by itself.
    pub limit: bool,
    /// It may switch threads of other processes; `None`: only root may.
    pub other_users: Option<bool>,
}

impl Default for Terms {
    fn default() -> Self {
        let (first, last) = (-20, 19);
        Self {
            threads: 8,
            user_threads: 32,
            first: Priority::try_from(first).unwrap_or_default(),
            last: Priority::try_from(last).unwrap_or_default(),
            budget: Budget::Limit {
                cpu: Duration::from_millis(800),
                window: Duration::from_secs(1),
            },
            rate: 100,
            burst: 100,
            limit: false,
            other_users: None,
        }
    }
}

/// The process that makes the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// Effective user.
    pub uid: u32,
    /// Effective and supplementary groups.
    pub gids: Vec<u32>,
    /// Path of its program; `None` if it is not certain that there is that program.
    pub program: Option<String>,
    /// Paths of its control groups, one a hierarchy.
    pub cgroups: Vec<String>,
    /// Whether its user sits at the device.
    pub active: bool,
}

/// The present numbers of critical threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Critical threads of the process.
    pub process: u32,
    /// Critical threads of the user.
    pub user: u32,
}

/// Why a request is refused. Sentences that fit into a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No grant is for this process.
    #[error("no [[grant]] of tekd.toml is for this process of user {0}")]
    NoGrant(u32),
    /// Threads of other processes.
    #[error("tekd.toml does not let this user change threads of other users: others = true would")]
    OtherUsers,
    /// Out of the range.
    #[error("priority {asked} is not granted, {first} to {last} are")]
    Priority {
        /// The requested priority.
        asked: i32,
        /// The best that is granted.
        first: i32,
        /// The last that is granted.
        last: i32,
    },
    /// The process has as many as it may.
    #[error("a process may have {0} critical threads (threads in tekd.toml)")]
    ProcessThreads(u32),
    /// The user has its highest number of them.
    #[error("a user may have {0} critical threads (user_threads in tekd.toml)")]
    UserThreads(u32),
    /// Too often.
    #[error("more than {0} switches a second (rate in tekd.toml): try later")]
    Rate(u32),
}

impl Refusal {
    /// The errno(3) value for this refusal.
    pub fn errno(self) -> i32 {
        match self {
            Self::NoGrant(_) | Self::OtherUsers | Self::Priority { .. } => libc::EPERM,
            Self::ProcessThreads(_) | Self::UserThreads(_) => libc::EAGAIN,
            Self::Rate(_) => libc::EBUSY,
        }
    }
}

impl Grant {
    /// Whether it is for this process: of each kind that it names one must fit.
    pub fn is_for(&self, owner: &Requester) -> bool {
        let program = |pattern: &Pattern| {
            owner.program.as_deref().is_some_and(|program| pattern.is_path_of(program))
        };
        let cgroup = |pattern: &Pattern| owner.cgroups.iter().any(|cgroup| pattern.matches(cgroup));
        one_of(&self.users, |user| user.is(owner.uid, owner.active))
            && one_of(&self.groups, |group| group.is_among(&owner.gids))
            && one_of(&self.programs, program)
            && one_of(&self.cgroups, cgroup)
    }
}

/// Whether one fits, or there is none to fit.
fn one_of<T>(all: &[T], fits: impl FnMut(&T) -> bool) -> bool {
    all.is_empty() || all.iter().any(fits)
}

impl Terms {
    /// Whether a user may switch threads of other processes.
    pub fn may_change_other_users(&self, uid: u32) -> Result<(), Refusal> {
        match self.other_users.unwrap_or(uid == 0) {
            true => Ok(()),
            false => Err(Refusal::OtherUsers),
        }
    }

    /// Whether a priority is granted.
    pub fn may_have(&self, priority: Priority) -> Result<(), Refusal> {
        match (self.first..=self.last).contains(&priority) {
            true => Ok(()),
            false => Err(Refusal::Priority {
                asked: priority.nice(),
                first: self.first.nice(),
                last: self.last.nice(),
            }),
        }
    }

    /// Whether so many `more` threads may be critical, of a process and of a user that have
    /// `counts` of them already.
    pub fn may_add(&self, more: u32, counts: Counts) -> Result<(), Refusal> {
        if more > 0 && counts.process.saturating_add(more) > self.threads {
            return Err(Refusal::ProcessThreads(self.threads));
        }
        self.user_may_add(more, counts.user)
    }

    /// The same for the user alone, where the process of the threads does not matter.
    pub fn user_may_add(&self, more: u32, count: u32) -> Result<(), Refusal> {
        match more > 0 && count.saturating_add(more) > self.user_threads {
            true => Err(Refusal::UserThreads(self.user_threads)),
            false => Ok(()),
        }
    }

    /// Whether it is time for one more switch; it is then taken off the process's account.
    pub fn may_switch(&self, account: &mut Bucket, now_ns: u64) -> Result<(), Refusal> {
        match account.take(self.rate, self.burst, now_ns) {
            true => Ok(()),
            false => Err(Refusal::Rate(self.rate)),
        }
    }

    /// The same for a lift. Half of the burst is left for threads that are critical by themselves:
    /// a lock that is often held must not keep them out.
    pub fn may_lift(&self, account: &mut Bucket, now_ns: u64) -> Result<(), Refusal> {
        match account.take_leaving(self.burst / 2, self.rate, self.burst, now_ns) {
            true => Ok(()),
            false => Err(Refusal::Rate(self.rate)),
        }
    }
}

#[cfg(test)]
#[path = "grant_tests.rs"]
mod tests;
