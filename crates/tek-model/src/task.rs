// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread of the device, and the data to read of it.
use crate::process::{SchedStat, Stat, Switches};
use crate::snapshot::Thread;
use crate::stack::StackUse;
use crate::wait::Wait;
use std::path::PathBuf;

/// The data to read of each thread besides its stat.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// These processes only; all when empty. The tid of a thread other than the first names none.
    pub pids: Vec<u32>,
    /// Only processes that have a table.
    pub tracked: bool,
    /// Directories of tables: see [`crate::directories`]. Empty: only /proc is read.
    pub directories: Vec<PathBuf>,
    /// [`Task::schedstat`].
    pub schedstat: bool,
    /// [`Task::switches`].
    pub switches: bool,
    /// [`Task::storage_bytes`].
    pub storage: bool,
    /// [`Task::wait`]. For a moment this takes a lock of the process.
    pub waits: bool,
    /// [`Task::seat`].
    pub groups: bool,
    /// [`crate::Program::vm_bytes`].
    pub vm: bool,
    /// [`crate::Program::modules`].
    pub modules: bool,
    /// [`crate::Program::kinds`].
    pub kinds: bool,
    /// [`crate::Program::held_up`].
    pub held_up: bool,
    /// [`crate::Program::uthreads`].
    pub uthreads: bool,
    /// [`Task::stack`]. This too takes a lock of the process, for a moment.
    pub stacks: bool,
}

/// A thread.
#[derive(Clone, Debug)]
pub struct Task {
    /// The kernel's data.
    pub stat: Stat,
    /// Its record in the table of its process.
    pub record: Option<Thread>,
    /// Its times.
    pub schedstat: Option<SchedStat>,
    /// Its context switches.
    pub switches: Option<Switches>,
    /// Bytes that it read from storage, and that it caused to be written.
    pub storage_bytes: Option<u64>,
    /// What it waits for, if it sleeps.
    pub wait: Option<Wait>,
    /// Use of its stack: from its process, or else as seen from outside.
    pub stack: Option<StackUse>,
    /// The group, `GROUP_*`, where tekd placed it: by its control group.
    pub seat: Option<u8>,
}

impl Task {
    /// Its group, `GROUP_*`: that of its control group; without one, and while it is Fast, that in
    /// its record.
    pub fn group(&self) -> Option<u8> {
        self.seat.or_else(|| self.record.map(|own| own.record.group()))
    }

    /// Whether it runs as a member of the Fast Region.
    pub fn is_fast(&self) -> bool {
        self.record.is_some_and(|own| own.record.is_fast()) && !self.is_overridden()
    }

    /// Whether TEK made it Fast, and its policy was set since without TEK: then the new policy
    /// counts.
    pub fn is_overridden(&self) -> bool {
        self.record.is_some_and(|Thread { record, side, .. }| {
            let stat = &self.stat;
            let given = [side.rt_priority, side.later_rt_priority];
            let has_given = stat.policy == nix::libc::SCHED_RR as u32
                && given.iter().any(|&given| u32::from(given) == stat.rt_priority);
            record.is_fast() && side.rt_priority != 0 && !has_given
        })
    }
}
