// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of processes: prlimit(2).
use crate::identity::process_of;
use crate::sys;
use crate::{Error, Identity, Undone};
use serde::{Deserialize, Serialize};

/// A limit that can be changed: RLIMIT_*.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The highest real-time priority that threads may give themselves.
    Rtprio,
    /// CPU time between two waits of a real-time thread, in µs.
    Rttime,
    /// 20 - the lowest nice value that threads may give themselves.
    Nice,
    /// Bytes that may be locked in memory.
    Memlock,
    /// File descriptors.
    Nofile,
}

impl Resource {
    fn number(self) -> u32 {
        match self {
            Self::Rtprio => libc::RLIMIT_RTPRIO,
            Self::Rttime => libc::RLIMIT_RTTIME,
            Self::Nice => libc::RLIMIT_NICE,
            Self::Memlock => libc::RLIMIT_MEMLOCK,
            Self::Nofile => libc::RLIMIT_NOFILE,
        }
    }
}

/// Both of a limit; `u64::MAX` is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// What is in force.
    pub soft: u64,
    /// How far the process may raise that.
    pub hard: u64,
}

impl Limits {
    /// Those of a process.
    pub fn of(pid: i32, resource: Resource) -> Result<Self, Error> {
        sys::limits(pid, resource.number())
            .map_err(|source| Error::thread(pid, format!("ask for {resource:?} of"), source))
    }
}

/// A limit of a process, changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitChange {
    pub(crate) who: Identity,
    pub(crate) resource: Resource,
    pub(crate) was: Limits,
    pub(crate) ours: Vec<Limits>,
}

impl LimitChange {
    pub(crate) fn planned(who: Identity, resource: Resource, set: Limits) -> Result<Self, Error> {
        if set.soft > set.hard {
            let what =
                format!("a soft limit of {} is above the hard one of {}", set.soft, set.hard);
            return Err(Error::invalid(what, "raise the hard one, too"));
        }
        if process_of(who.tid)? != who.tid {
            let what = format!("{} is a thread, and limits are a process's", who.tid);
            return Err(Error::invalid(what, "give the id of its process"));
        }
        let was = Limits::of(who.tid, resource)?;
        Self { who, resource, was, ours: vec![set] }.checked()
    }

    pub(crate) fn act(&self) -> Result<(), Error> {
        self.ours.last().map_or(Ok(()), |&limits| self.set(limits))
    }

    pub(crate) fn undo(&self) -> Result<Undone, Error> {
        self.check()?;
        let present = Limits::of(self.who.tid, self.resource)?;
        if present == self.was {
            return Ok(Undone::Undone);
        }
        if !self.ours.contains(&present) {
            return Ok(Undone::Changed);
        }
        self.set(self.was)?;
        Ok(Undone::Undone)
    }

    /// A child has what was there before, or less if it has lowered its limit.
    pub(crate) fn take_from_child(&self, child: Identity) -> Result<(), Error> {
        child.check_process()?;
        let present = Limits::of(child.tid, self.resource)?;
        let wanted =
            Limits { soft: present.soft.min(self.was.soft), hard: present.hard.min(self.was.hard) };
        let is_inherited = self.ours.iter().any(|ours| ours.hard == present.hard);
        match is_inherited && wanted != present {
            true => Self { who: child, was: present, ..self.clone() }.set(wanted),
            false => Ok(()),
        }
    }

    fn set(&self, limits: Limits) -> Result<(), Error> {
        let failed = |source| {
            let tried =
                format!("set {:?} to {} of {} for", self.resource, limits.soft, limits.hard);
            Error::thread(self.who.tid, tried, source)
        };
        self.check()?;
        let number = self.resource.number();
        let was = sys::set_limits(self.who.tid, number, limits).map_err(failed)?;
        match self.who.check_after(|| drop(sys::set_limits(self.who.tid, number, was))) {
            Ok(()) => Ok(()),
            Err(_) => self.check(), // perhaps only its first thread ended
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.who.check_process()
    }

    fn checked(self) -> Result<Self, Error> {
        self.check().map(|()| self)
    }

    pub(crate) fn is_sensible(&self) -> bool {
        self.who.tid > 0
            && !self.ours.is_empty()
            && self.ours.iter().chain([&self.was]).all(|limits| limits.soft <= limits.hard)
    }
}
