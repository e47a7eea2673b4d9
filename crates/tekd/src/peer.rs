// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client process: its identity, and its rights.
use crate::domain::{Domain, Outside};
use crate::originals::Originals;
use crate::process::{Person, Status};
use crate::region::Refused;
use crate::requester::requester;
use crate::sys;
use crate::viewer::Viewer;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use tek_effect::{Change, Identity};
use tek_policy::{Bucket, Configuration, Grant, Refusal};

/// Requests of any kind, per second and at once. A request beyond that gets only a refusal.
const REQUESTS: u32 = 2000;

/// A process that is connected.
pub struct Peer {
    pub process: Identity,
    pub connections: Vec<u64>,
    /// Its first connection; earlier events do not matter.
    pub since_ns: u64,
    /// Its account of switches.
    pub switches: Bucket,
    /// Its RLIMIT_RTPRIO, raised.
    pub limit: Option<Change>,
    pub checked: Option<Checked>,
    /// It was checked while the kernel's events were received, so they would report a change.
    pub is_sure: bool,
    /// Effective user and group when it connected.
    connected_as: (u32, u32),
    requests: Bucket,
    /// Readable when it has ended.
    pidfd: OwnedFd,
}

/// The result of the check of a client.
pub struct Checked {
    pub person: Person,
    pub name: String,
    pub grant: Result<Rc<Grant>, Refusal>,
    pub domain: Result<(), Outside>,
    /// Its original cgroups, if they matter.
    cgroups: Vec<String>,
}

/// A process's accounts of requests. The process gets them again when it connects again; else the
/// next process of its user takes them over.
#[derive(Clone, Copy, Default)]
pub struct Accounts {
    switches: Bucket,
    requests: Bucket,
}

impl Accounts {
    /// The time until they are full.
    pub fn missing_ns(&self, now_ns: u64) -> u64 {
        self.switches.missing_ns(now_ns).max(self.requests.missing_ns(now_ns))
    }

    /// Whether they equal new ones.
    pub fn are_full(&self, now_ns: u64) -> bool {
        self.switches.is_full(now_ns) && self.requests.is_full(now_ns)
    }
}

/// Whether a peer still has the identity of its check.
pub enum Still {
    Itself,
    /// It executed another program, or has other rights.
    Another(&'static str),
}

impl Peer {
    pub fn new(
        process: Identity,
        pidfd: OwnedFd,
        since_ns: u64,
        connected_as: (u32, u32),
        accounts: Accounts,
    ) -> Self {
        let Accounts { switches, requests } = accounts;
        Self {
            process,
            connections: Vec::new(),
            since_ns,
            switches,
            limit: None,
            checked: None,
            is_sure: false,
            connected_as,
            requests,
            pidfd,
        }
    }

    /// Its user when it connected.
    pub fn connected_uid(&self) -> u32 {
        self.connected_as.0
    }

    /// The accounts that outlive the connection.
    pub fn accounts(&self) -> Accounts {
        Accounts { switches: self.switches, requests: self.requests }
    }

    /// Whether it has ended, with all its threads.
    pub fn has_ended(&self) -> bool {
        sys::has_ended(self.pidfd.as_fd())
    }

    /// Whether a request is allowed now.
    pub fn may_ask(&mut self, now_ns: u64) -> Result<(), Refused> {
        match self.requests.take(REQUESTS, REQUESTS, now_ns) {
            true => Ok(()),
            false => Err(Refused::new(libc::EBUSY, "too many requests: try later")),
        }
    }

    /// Checks it, or compares it with the result of the earlier check.
    pub fn check(
        &mut self,
        configuration: &Configuration,
        domain: &Domain,
        originals: &Originals,
    ) -> Result<Still, Refused> {
        let pid = self.process.tid;
        let gone = || Refused::new(libc::ESRCH, "the process has ended");
        let status = Status::of(pid).map_err(|_| gone())?;
        if status.has_own_pids() {
            let why = "the process is in a pid namespace: tekd does not know its threads' ids";
            return Err(Refused::new(libc::EOPNOTSUPP, why));
        }
        let person = Person::of(pid, &status).ok_or_else(gone)?;
        // The values are of this process only if it still exists.
        if self.has_ended() {
            return Err(gone());
        }
        let cgroups = match configuration.names_cgroups() || domain.names_cgroups() {
            true => originals.cgroups(pid),
            false => Vec::new(),
        };
        if let Some(checked) = &self.checked {
            let is_inside =
                || domain.check_known(pid, &status, &configuration.protected, originals).is_ok();
            return Ok(match checked.person {
                ref was if was.program != person.program => {
                    Still::Another("it executed another program")
                }
                ref was if *was != person => Still::Another("it has another user or other groups"),
                _ if checked.cgroups != cgroups => Still::Another("it is in other control groups"),
                _ if domain.can_be_left() && checked.domain.is_ok() && !is_inside() => {
                    Still::Another("it is in tekd's domain no more")
                }
                _ => Still::Itself,
            });
        }
        // A set-uid program that inherited the connection has not asked for anything.
        if (person.uid, person.gids.first().copied())
            != (self.connected_as.0, Some(self.connected_as.1))
        {
            return Ok(Still::Another("it has become another user since it connected"));
        }
        let requester = requester(pid, &person, configuration, cgroups.clone());
        self.checked = Some(Checked {
            grant: configuration.grant_for(&requester).map(|grant| Rc::new(grant.clone())),
            domain: domain.check_known(pid, &status, &configuration.protected, originals),
            cgroups,
            name: status.name().to_owned(),
            person,
        });
        Ok(Still::Itself)
    }

    /// The processes that it may see in replies.
    pub fn viewer(&self) -> Result<Viewer, Refused> {
        let pid = self.process.tid;
        let gone = || Refused::new(libc::ESRCH, "the process has ended");
        let status = Status::of(pid).map_err(|_| gone())?;
        let viewer = Viewer::of(pid, &status);
        // The values are of this process only if it still exists.
        if self.has_ended() {
            return Err(gone());
        }
        // A set-uid program that inherited the connection has not asked for anything.
        if !status.is_wholly_of(self.connected_as.0) {
            let why = "it has become another user since it connected: connect again";
            return Err(Refused::new(libc::EPERM, why));
        }
        Ok(viewer)
    }

    /// Its grant, if it is checked and has one.
    pub fn grant(&self) -> Result<Rc<Grant>, Refused> {
        match &self.checked {
            Some(checked) => checked.grant.clone().map_err(Refused::from),
            None => Err(Refused::new(libc::EPERM, "nothing is known of this process")),
        }
    }
}
