// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client process: who it is, and what it may do.
use crate::configuration;
use crate::domain::{Domain, Outside};
use crate::homes::Homes;
use crate::process::{Person, Status};
use crate::region::Refused;
use crate::sys;
use crate::viewer::Viewer;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use tek_effect::{Change, Identity};
use tek_policy::{Bucket, Configuration, Grant, Refusal, Requester};

/// Requests of any kind, a second and at once. Who has more is only told so.
const REQUESTS: u32 = 2000;

/// A process that is connected.
pub struct Peer {
    pub process: Identity,
    pub connections: Vec<u64>,
    /// When it connected first: what it was before does not matter.
    pub since_ns: u64,
    /// Its account of switches.
    pub switches: Bucket,
    /// Its RLIMIT_RTPRIO, raised.
    pub limit: Option<Change>,
    pub checked: Option<Checked>,
    /// It was looked at while the kernel's news were listened to, so they would tell of another one.
    pub is_sure: bool,
    /// Effective user and group when it connected.
    connected_as: (u32, u32),
    requests: Bucket,
    /// Readable when it has ended.
    pidfd: OwnedFd,
}

/// What was found out about it, once.
pub struct Checked {
    pub person: Person,
    pub name: String,
    pub grant: Result<Rc<Grant>, Refusal>,
    pub domain: Result<(), Outside>,
    /// Where it is in the control groups, if that matters.
    cgroups: Vec<String>,
}

/// A process's accounts of requests. It finds them again when it connects anew; else the next
/// process of its user takes them over.
#[derive(Clone, Copy, Default)]
pub struct Accounts {
    switches: Bucket,
    requests: Bucket,
}

impl Accounts {
    /// How long it takes until they are full.
    pub fn missing_ns(&self, now_ns: u64) -> u64 {
        self.switches.missing_ns(now_ns).max(self.requests.missing_ns(now_ns))
    }

    /// Whether new ones are as good.
    pub fn are_full(&self, now_ns: u64) -> bool {
        self.switches.is_full(now_ns) && self.requests.is_full(now_ns)
    }
}

/// Whether a peer still is who it was.
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

    /// What it keeps.
    pub fn accounts(&self) -> Accounts {
        Accounts { switches: self.switches, requests: self.requests }
    }

    /// Whether it has ended, with all its threads.
    pub fn has_ended(&self) -> bool {
        sys::has_ended(self.pidfd.as_fd())
    }

    /// Whether it may ask something now.
    pub fn may_ask(&mut self, now_ns: u64) -> Result<(), Refused> {
        match self.requests.take(REQUESTS, REQUESTS, now_ns) {
            true => Ok(()),
            false => Err(Refused::new(libc::EBUSY, "too many requests: try later")),
        }
    }

    /// Finds out about it, or looks whether that is still so.
    pub fn check(
        &mut self,
        configuration: &Configuration,
        domain: &Domain,
        homes: &Homes,
    ) -> Result<Still, Refused> {
        let pid = self.process.tid;
        let gone = || Refused::new(libc::ESRCH, "the process has ended");
        let status = Status::of(pid).map_err(|_| gone())?;
        if status.has_own_pids() {
            let why = "the process is in a pid namespace: tekd does not know its threads' ids";
            return Err(Refused::new(libc::EOPNOTSUPP, why));
        }
        let person = Person::of(pid, &status).ok_or_else(gone)?;
        // What was read is this process's only if it is still there.
        if self.has_ended() {
            return Err(gone());
        }
        let cgroups = match configuration.names_cgroups() || domain.names_cgroups() {
            true => homes.cgroups(pid),
            false => Vec::new(),
        };
        if let Some(checked) = &self.checked {
            let is_inside =
                || domain.check_known(pid, &status, &configuration.protected, homes).is_ok();
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
        // A set-uid program that was executed with the connection has not asked for anything.
        if (person.uid, person.gids.first().copied())
            != (self.connected_as.0, Some(self.connected_as.1))
        {
            return Ok(Still::Another("it has become another user since it connected"));
        }
        let requester = requester(pid, &person, configuration, cgroups.clone());
        self.checked = Some(Checked {
            grant: configuration.grant_for(&requester).map(|grant| Rc::new(grant.clone())),
            domain: domain.check_known(pid, &status, &configuration.protected, homes),
            cgroups,
            name: status.name().to_owned(),
            person,
        });
        Ok(Still::Itself)
    }

    /// Of which processes it may be told.
    pub fn viewer(&self) -> Result<Viewer, Refused> {
        let pid = self.process.tid;
        let gone = || Refused::new(libc::ESRCH, "the process has ended");
        let status = Status::of(pid).map_err(|_| gone())?;
        let viewer = Viewer::of(pid, &status);
        // What was read is this process's only if it is still there.
        if self.has_ended() {
            return Err(gone());
        }
        // A set-uid program that was executed with the connection has not asked for anything.
        if !status.is_wholly_of(self.connected_as.0) {
            let why = "it has become another user since it connected: connect again";
            return Err(Refused::new(libc::EPERM, why));
        }
        Ok(viewer)
    }

    /// The grant, if it was checked and has one.
    pub fn grant(&self) -> Result<Rc<Grant>, Refused> {
        match &self.checked {
            Some(checked) => checked.grant.clone().map_err(Refused::from),
            None => Err(Refused::new(libc::EPERM, "nothing is known of this process")),
        }
    }
}

fn requester(
    pid: i32,
    person: &Person,
    configuration: &Configuration,
    cgroups: Vec<String>,
) -> Requester {
    let active = configuration::is_active(person.uid);
    let mut requester = person.requester(pid, active, cgroups);
    // A path is looked up only if a grant names it, because that can wait for its file system.
    let is_named = |path: &String| {
        let mut patterns = configuration.grants.iter().flat_map(|grant| &grant.programs);
        patterns.any(|pattern| pattern.is_path_of(path))
    };
    requester.program = requester.program.filter(|path| is_named(path) && person.has_program(path));
    requester
}
