// SPDX-License-Identifier: MIT OR Apache-2.0
//! One Fast thread: who asked for it, what it has, and the system calls that give and take it.
use crate::guard::Account;
use std::fs::File;
use std::os::unix::fs::FileExt;
use tek_effect::{Change, Effect, Error, Identity, Scheduling, Undone};
use tek_policy::{Budget, Priority};

const FIFO: u32 = libc::SCHED_FIFO as u32;
const RR: u32 = libc::SCHED_RR as u32;
const DEADLINE: u32 = libc::SCHED_DEADLINE as u32;

/// One request that is in force.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Of SCHED_TEK.
    pub priority: Priority,
    /// CLOCK_MONOTONIC; 0: no end.
    pub until_ns: u64,
    /// What the grant allows.
    pub budget: Budget,
    /// The process that asked, its user, and its name.
    pub pid: i32,
    pub uid: u32,
    pub name: String,
    /// Where the grant is written.
    pub grant: String,
    /// CLOCK_MONOTONIC.
    pub since_ns: u64,
}

/// Who asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its own process.
    Own,
    /// Another one.
    Others,
}

/// A thread, and the process and user that it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub thread: Identity,
    pub process: Identity,
}

/// A Fast thread.
pub struct Member {
    pub target: Target,
    pub own: Option<Ask>,
    pub others: Option<Ask>,
    /// In force; 0: the thread has more by itself, or somebody else took ours away.
    pub rt_priority: u32,
    pub account: Account,
    pub next_look_ns: u64,
    /// What it had.
    pub base: Scheduling,
    change: Option<Change>,
    clock: File,
}

impl Member {
    /// Of a thread that is not Fast; nothing is changed yet.
    pub fn new(target: Target, account: Account) -> Result<Self, Error> {
        let tid = target.thread.tid;
        let base = Scheduling::of(tid)?;
        let clock =
            File::open(format!("/proc/{tid}/schedstat")).map_err(|_| Error::Gone { tid })?;
        if !target.thread.is_there() {
            return Err(Error::Gone { tid });
        }
        let (own, others, change) = (None, None, None);
        Ok(Self {
            target,
            own,
            others,
            rt_priority: 0,
            account,
            next_look_ns: 0,
            base,
            change,
            clock,
        })
    }

    /// CPU time that the thread has used in its life; `None`: it ended.
    pub fn cpu_ns(&self) -> Option<u64> {
        let mut buffer = [0; 128];
        let length = self.clock.read_at(&mut buffer, 0).ok()?;
        let text = std::str::from_utf8(&buffer[..length]).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    }

    /// The requests in force.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.own.iter().chain(&self.others)
    }

    /// The one that decides: the best priority.
    pub fn best(&self) -> Option<&Ask> {
        self.asks().min_by_key(|ask| ask.priority)
    }

    /// A place for a request.
    pub fn slot(&mut self, reason: Reason) -> &mut Option<Ask> {
        match reason {
            Reason::Own => &mut self.own,
            Reason::Others => &mut self.others,
        }
    }

    /// Gives the thread a real-time priority, or another one. One that has as much by itself keeps
    /// that, and so does one to which somebody else has given something since.
    pub fn set(&mut self, effect: &mut Effect, priority: u32) -> Result<(), Error> {
        let base = self.base;
        if base.policy == DEADLINE
            || ([FIFO, RR].contains(&base.policy) && base.priority >= priority)
        {
            self.rt_priority = 0;
            return self.give_back(effect).map(|_| ());
        }
        let wanted = Scheduling { policy: RR, nice: base.nice, priority, reset_on_fork: true };
        let result = match self.change {
            Some(_) if self.rt_priority == priority => Ok(()),
            Some(change) => effect.set_again(change, wanted),
            None => effect
                .set_scheduling(self.target.thread, wanted)
                .map(|change| self.change = Some(change)),
        };
        match result {
            Ok(()) => self.rt_priority = priority,
            Err(Error::Changed { .. }) => self.rt_priority = 0,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Gives back what it had.
    pub fn give_back(&mut self, effect: &mut Effect) -> Result<Option<Undone>, Error> {
        self.rt_priority = 0;
        self.change.take().map(|change| effect.give_back(change)).transpose()
    }
}
