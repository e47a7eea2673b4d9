// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that have slept since the last look, of which little is read.
use crate::process::{Entry, Process, SchedStat};
use crate::task::{Task, Wanted};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A sleeping thread is read again after so many looks.
pub const ROUND: u32 = 10;

/// The threads as they were at the last look.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    is_remembering: bool,
    /// By pid.
    last: HashMap<u32, Remembered>,
    pub next: HashMap<u32, Remembered>,
    in_sight: HashSet<u32>,
    pub samples: u32,
}

/// A process.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    cpu_time: Option<Duration>,
    /// In the order of their tids.
    pub threads: Vec<(Entry, Task)>,
}

/// The present state of a process.
pub(crate) struct Seen {
    /// CPU time of all its threads, if it was requested.
    pub cpu_time: Option<Duration>,
    /// The kernel's data on each thread, and whether they are from the last look because it has
    /// slept since; then its record is also from there. In the order of their tids.
    pub threads: Vec<(Entry, Task, bool)>,
}

impl Sleepers {
    pub fn begin(&mut self, in_sight: HashSet<u32>) {
        self.is_remembering = true;
        self.in_sight = in_sight;
        self.samples = self.samples.wrapping_add(1);
        self.last = std::mem::take(&mut self.next);
    }

    /// Reads the threads of a process. `None` when it has ended.
    pub fn read(&mut self, process: &Process, wanted: &Wanted) -> Option<Seen> {
        let remembers = self.is_remembering && wanted.schedstat;
        // First, as the times of threads are: a thread that runs during the other reads counts as
        // running at the next look.
        let cpu_time = remembers.then(|| process.cpu_time()).flatten();
        let last = self.last.remove(&process.pid()).unwrap_or_default();
        let slept = cpu_time.is_some_and(|now| !now.is_zero()) && cpu_time == last.cpu_time;
        let threads = match slept {
            // No thread began or ended either: that takes CPU time of a thread of the process.
            true => last
                .threads
                .into_iter()
                .filter_map(|(entry, known)| self.thread(process, entry, Some(known), true, wanted))
                .collect(),
            false => {
                let mut known = last.threads.into_iter().peekable();
                let entries = process.entries().ok()?.into_iter();
                entries
                    .filter_map(|entry| {
                        while known.next_if(|(known, _)| known.tid < entry.tid).is_some() {}
                        let known = known.next_if(|(known, _)| *known == entry);
                        let known = known.map(|(_, task)| task);
                        self.thread(process, entry, known, false, wanted)
                    })
                    .collect()
            }
        };
        Some(Seen { cpu_time, threads })
    }

    /// A thread; `None` when it has ended.
    fn thread(
        &self,
        process: &Process,
        entry: Entry,
        known: Option<Task>,
        process_slept: bool,
        wanted: &Wanted,
    ) -> Option<(Entry, Task, bool)> {
        let tid = entry.tid;
        let known = known.filter(|known| known.stat.state != 'R' && !self.is_due(tid));
        if process_slept && known.is_some() {
            return known.map(|known| (entry, known, true));
        }
        let schedstat = wanted.schedstat.then(|| process.schedstat(tid)).flatten();
        if let Some(known) = known.filter(|known| slept(known, schedstat)) {
            return Some((entry, known, true));
        }
        let stat = process.stat(tid)?;
        let task = Task {
            wait: (wanted.waits && stat.state == 'S').then(|| process.wait(tid)).flatten(),
            stat,
            storage_bytes: wanted.storage.then(|| process.storage_bytes(tid)).flatten(),
            record: None,
            schedstat,
            switches: wanted.switches.then(|| process.switches(tid)).flatten(),
            stack: None,
            seat: None,
        };
        Some((entry, task, false))
    }

    /// Keeps the threads of a process for the next look.
    pub fn keep(
        &mut self,
        pid: u32,
        cpu_time: Option<Duration>,
        entries: &[Entry],
        tasks: &[Task],
    ) {
        if self.is_remembering {
            let threads = entries.iter().copied().zip(tasks.iter().cloned()).collect();
            self.next.insert(pid, Remembered { cpu_time, threads });
        }
    }

    fn is_due(&self, tid: u32) -> bool {
        tid.wrapping_add(self.samples).is_multiple_of(ROUND) || self.in_sight.contains(&tid)
    }
}

/// Whether a thread had no CPU since it was seen.
pub(crate) fn slept(known: &Task, now: Option<SchedStat>) -> bool {
    // Without CONFIG_SCHED_INFO all is 0 for ever. The kernel counts a wait for a CPU only at its
    // end.
    now.is_some_and(|now| now.slices > 0) && now == known.schedstat
}
