// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile as people and scripts read it.
use super::parts::Parts;
use super::watch::Seen;
use serde::Serialize;
use std::collections::HashMap;

/// The facts that `tek` knows beside the file.
#[derive(Default)]
pub struct Known {
    pub ns_per_tick: Option<f64>,
    /// CLOCK_MONOTONIC when the program was seen to have ended, or became another one.
    pub end_ns: Option<u64>,
    /// The scheduler's last times of threads while they ran.
    pub scheduler: HashMap<u32, Seen>,
}

/// A program's profile.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    pub program: String,
    pub pid: u32,
    pub wall_ns: u64,
    /// The sum of the parts: of the threads' lives.
    pub threads_ns: u64,
    pub parts: Parts,
    /// Whether it ended by itself, so that the file is complete.
    pub ended: bool,
    /// Whether it ended by exec(3).
    pub became_another: bool,
    /// Threads that still waited for another thread at its end.
    pub still_waiting: usize,
    pub roles: Vec<Role>,
    pub threads: Vec<Thread>,
    pub objects: Vec<Object>,
    /// Objects that are not listed.
    pub more_objects: usize,
    /// Whether loaded files may be missing in the list, so that their functions have no name.
    pub more_files: bool,
    pub critical_path: Option<CriticalPath>,
    pub overhead: Overhead,
    pub lost: Lost,
    /// Whether the kernel reported how long threads ran and were ready: if not, delay and other are
    /// work.
    pub scheduler: bool,
}

/// The records that had no room.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Lost {
    pub threads: u64,
    pub waits: u64,
    pub acquisitions: u64,
}

/// The cost of counting, as measured for each kind of call when the program started.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Overhead {
    pub start_ns: u64,
    pub calls_ns: u64,
    /// Of the threads' lives.
    pub percent: f64,
}

/// Threads that run the same function.
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
    /// Its waits: their object, place and length.
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
    /// The acquisitions that the measured hold times stand for.
    pub holds: u64,
    pub hold_mean_ns: u64,
    pub hold_most_ns: u64,
}

/// The parts of the time on the critical path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    pub work_ns: u64,
    pub file_ns: u64,
    pub allocator_ns: u64,
    /// From one thread to the next, and where the waker is unknown.
    pub sync_ns: u64,
    /// The part of threads' work in which they were ready and did not run: each by its own share.
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
    /// For merged short phases: how often the path changes threads there.
    pub changes: usize,
}
