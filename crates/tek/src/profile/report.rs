// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile as people and scripts read it.
use super::make::Maker;
use super::parts::Parts;
use super::read::Raw;
use super::watch::Seen;
use serde::Serialize;
use std::collections::HashMap;

/// What `tek` knows beside the file.
#[derive(Default)]
pub struct Known {
    pub ns_per_tick: Option<f64>,
    /// CLOCK_MONOTONIC when the program was seen to have ended, or became another one.
    pub end_ns: Option<u64>,
    /// What the scheduler told of threads while they ran, last.
    pub scheduler: HashMap<u32, Seen>,
}

/// A program's profile.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    pub program: String,
    pub pid: u32,
    pub wall_ns: u64,
    /// Of the threads' lives: what the parts sum to.
    pub threads_ns: u64,
    pub parts: Parts,
    /// Whether it came to its end by itself, so that nothing is missing.
    pub ended: bool,
    /// Whether that was by becoming another program, exec(3).
    pub became_another: bool,
    /// Threads that still waited for another one when it was over.
    pub still_waiting: usize,
    pub roles: Vec<Role>,
    pub threads: Vec<Thread>,
    pub objects: Vec<Object>,
    /// Objects that are not listed.
    pub more_objects: usize,
    /// Whether there may be loaded files that are not listed, so that what lies in them has no name.
    pub more_files: bool,
    pub critical_path: Option<CriticalPath>,
    pub overhead: Overhead,
    pub lost: Lost,
    /// Whether the kernel told how long threads ran and were ready: if not, delay and other are work.
    pub scheduler: bool,
}

/// What could not be written down.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Lost {
    pub threads: u64,
    pub waits: u64,
    pub acquisitions: u64,
}

/// What counting cost, as was measured for each kind of call when the program started.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Overhead {
    pub start_ns: u64,
    pub calls_ns: u64,
    /// Of the threads' lives.
    pub percent: f64,
}

/// Threads that run the same.
#[derive(Clone, Debug, Serialize)]
pub struct Role {
    pub name: String,
    pub threads: usize,
    pub life_ns: u64,
    pub parts: Parts,
}

/// A thread.
#[derive(Clone, Debug, Serialize)]
pub struct Thread {
    pub number: usize,
    pub tid: u32,
    pub name: String,
    pub role: String,
    pub begin_ns: u64,
    pub life_ns: u64,
    pub parts: Parts,
    pub locks: u64,
    pub file_calls: u64,
    pub allocator_calls: u64,
    /// Its waits: what for, where, and how long.
    #[serde(skip)]
    pub waits: Vec<((String, String), u64)>,
}

/// A lock, barrier, ... .
#[derive(Clone, Debug, Serialize)]
pub struct Object {
    pub kind: &'static str,
    pub name: String,
    pub address: u64,
    #[serde(flatten)]
    pub uses: Uses,
    pub sites: Vec<Site>,
}

/// A place at which it is used.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    pub name: String,
    #[serde(flatten)]
    pub uses: Uses,
}

/// Times in ns.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Uses {
    pub count: u64,
    pub contended: u64,
    pub wait_ns: u64,
    pub wait_most_ns: u64,
    /// Those stand for so many of which it was measured how long it was held.
    pub holds: u64,
    pub hold_mean_ns: u64,
    pub hold_most_ns: u64,
}

/// What the time on the critical path went into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    pub work_ns: u64,
    pub file_ns: u64,
    pub allocator_ns: u64,
    /// From one thread to the next, and where nobody is known to have ended a wait.
    pub sync_ns: u64,
    /// Of what threads did, what they were ready and did not run: each by its own share.
    pub delay_ns: u64,
    pub idle_ns: u64,
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        for (one, more) in [
            (&mut self.work_ns, other.work_ns),
            (&mut self.file_ns, other.file_ns),
            (&mut self.allocator_ns, other.allocator_ns),
            (&mut self.sync_ns, other.sync_ns),
            (&mut self.delay_ns, other.delay_ns),
            (&mut self.idle_ns, other.idle_ns),
        ] {
            *one = one.saturating_add(more);
        }
    }
}

/// The critical path.
#[derive(Clone, Debug, Serialize)]
pub struct CriticalPath {
    pub length_ns: u64,
    #[serde(flatten)]
    pub spent: Spent,
    /// By role, the longest first.
    pub roles: Vec<(String, u64)>,
    pub phases: Vec<Phase>,
}

/// A part of it, of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    pub thread: usize,
    pub role: String,
    pub from_ns: u64,
    pub to_ns: u64,
    #[serde(flatten)]
    pub spent: Spent,
    /// Short ones that were put together: how often the path changes threads there.
    pub changes: usize,
}

impl Profile {
    /// Makes it.
    pub fn of(raw: &Raw, known: &Known) -> Self {
        Maker::new(raw, known).make()
    }
}
