// SPDX-License-Identifier: MIT OR Apache-2.0
//! One Fast thread: the requests for it, and its values.
use crate::backends::{Backends, Given};
use crate::guard::{Account, Overrun};
use crate::ledger::Owner;
use crate::lineage::Way;
use crate::process;
use std::fs::File;
use tek_effect::{Error, Identity, Scheduling, Undone};
use tek_policy::{Budget, Counts, Priority};

/// One request that is in force.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Of SCHED_TEK.
    pub priority: Priority,
    /// CLOCK_MONOTONIC; 0: no end.
    pub until_ns: u64,
    /// The priority after that time; `None`: the request ends then.
    pub then: Option<Priority>,
    /// Only because a Fast thread of its process waits for it.
    pub is_lift: bool,
    /// The budget of the grant, and the budget that the request asks for.
    pub granted: Budget,
    pub budget: Budget,
    /// The most critical threads of the process and of the user.
    pub quota: Counts,
    /// The process that asked, the user that it is accounted to, and its name.
    pub pid: i32,
    pub uid: u32,
    pub name: String,
    /// When it connected, by CLOCK_MONOTONIC.
    pub connected_ns: u64,
    /// Where the grant is written.
    pub grant: String,
    /// CLOCK_MONOTONIC.
    pub since_ns: u64,
}

impl Ask {
    /// All priorities that it has at any time.
    pub fn priorities(&self) -> impl Iterator<Item = Priority> {
        [Some(self.priority), self.then].into_iter().flatten()
    }
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its own process.
    Own,
    /// Another process.
    ByHand,
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
    pub by_hand: Option<Ask>,
    pub owner: Owner,
    pub account: Account,
    pub next_check_ns: u64,
    /// Its own values.
    pub base: Scheduling,
    given: Given,
    clock: File,
    /// The time of the last reading of its clock, and the CPU time that was read.
    seen: (u64, u64),
}

impl Member {
    /// The member of a thread that is not Fast; the thread is not changed yet.
    pub fn new(target: Target, owner: Owner, account: Account) -> Result<Self, Error> {
        let tid = target.thread.tid;
        let base = Scheduling::of(tid)?;
        let clock = process::schedstat(tid).map_err(|_| Error::Gone { tid })?;
        if !target.thread.is_there() {
            return Err(Error::Gone { tid });
        }
        Ok(Self {
            target,
            own: None,
            by_hand: None,
            owner,
            account,
            next_check_ns: 0,
            base,
            given: Given::default(),
            clock,
            seen: (0, 0),
        })
    }

    /// It is Fast from now on.
    pub fn begin(&mut self, now_ns: u64) {
        self.seen = (now_ns, self.cpu_ns().unwrap_or(0));
        self.account.enter(now_ns, self.seen.1);
    }

    /// Polls the CPU time that it used.
    pub fn examine(&mut self, now_ns: u64) -> Option<Overrun> {
        self.seen = (now_ns, self.cpu_ns()?);
        self.account.examine(now_ns, self.seen.1)
    }

    /// It is no longer Fast. If its clock cannot be read, it counts as running since the last poll.
    pub fn end(&mut self, now_ns: u64) {
        let (seen_at_ns, seen_ns) = self.seen;
        let most = seen_ns + now_ns.saturating_sub(seen_at_ns);
        self.account.leave(self.cpu_ns().unwrap_or(most));
    }

    /// Whether the thread is worth the system call that checks that it still exists.
    pub fn may_have_ended(&self) -> bool {
        self.cpu_ns().is_none() || self.target.thread == self.target.process
    }

    /// CPU time that the thread has used in its life; `None`: it ended.
    pub fn cpu_ns(&self) -> Option<u64> {
        process::ran_ns_in(&self.clock)
    }

    /// The requests in force.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.own.iter().chain(&self.by_hand)
    }

    /// Whether it is Fast only because a Fast thread waits for it.
    pub fn is_lifted_only(&self) -> bool {
        self.by_hand.is_none() && self.own.as_ref().is_some_and(|own| own.is_lift)
    }

    /// The request with the best priority, which is in force.
    pub fn best(&self) -> Option<&Ask> {
        self.asks().min_by_key(|ask| ask.priority)
    }

    /// The slot of a request.
    pub fn slot(&mut self, reason: Reason) -> &mut Option<Ask> {
        match reason {
            Reason::Own => &mut self.own,
            Reason::ByHand => &mut self.by_hand,
        }
    }

    /// Makes the thread Fast, or gives it another priority: see [`Means::give`].
    pub fn set(&mut self, backends: &mut Backends, priority: Priority) -> Result<(), Error> {
        backends.give(self.target.thread, self.base, &mut self.given, priority)
    }

    /// How its children return to their groups, if it is away from its own group.
    pub fn way(&self, backends: &Backends) -> Option<Way> {
        backends.way_of(&self.given)
    }

    /// Restores its own values.
    pub fn give_back(&mut self, backends: &mut Backends) -> Result<Option<Undone>, Error> {
        backends.take_back(self.target.thread, &mut self.given)
    }

    /// The real-time priority in force; 0: the thread has a higher one of its own, the backend is
    /// fair, or another program has changed the priority since.
    pub fn rt_priority(&self) -> u32 {
        self.given.rt_priority()
    }
}
