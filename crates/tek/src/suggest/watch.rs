// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the threads of a program and of its descendants, again and again.
use super::clock::Sleeps;
use super::plan::Watched;
use super::window::{Counters, Track};
use crate::run::forward::descends;
use crate::system::{library, sched};
use nix::time::{clock_gettime, ClockId};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tek_abi::FLAG_NAMED;
use tek_model::{boot_time_ns, processes, Device, Functions, Program, Task, Wanted};

/// Time between two samples. A thread with a shorter life may stay unseen.
const EVERY: Duration = Duration::from_millis(100);

/// Samples of thousands of threads take CPU time, and must not disturb these threads. So the pause
/// is at least so many times as long as a sample's CPU time. A sample's own wait for a CPU does not
/// count, so that a busy machine is sampled as often.
const PAUSE: u32 = 9;

const LEAST_NICE: i32 = -20;

/// The kernel reports start times in whole clock ticks, rounded down; no tick is longer than this.
const TICK_NS: u64 = 10_000_000;

/// A thread, distinct from a later one with its number.
type Identity = (u32, u32, u64);

/// The threads in the samples so far.
pub struct Watch {
    root: u32,
    began_ns: u64,
    time: Option<Duration>,
    end: Option<Instant>,
    next: Instant,
    wanted: Wanted,
    functions: Functions,
    threads: HashMap<Identity, (Watched, Track, Sleeps)>,
    processes: HashSet<u32>,
}

impl Watch {
    /// Watches this process and its descendants, for so long or without an end. Their thread tables
    /// lie in these directories.
    ///
    /// The calling thread gets the lowest nice value, if it may: beside many CPU-bound programs it
    /// would sample too seldom.
    pub fn new(root: u32, directories: Vec<PathBuf>, time: Option<Duration>) -> Self {
        let _ = sched::set_nice(0, LEAST_NICE);
        let wanted = Wanted {
            directories,
            schedstat: true,
            switches: true,
            storage: true,
            waits: true,
            modules: true,
            ..Wanted::default()
        };
        Self {
            root,
            began_ns: boot_time_ns(),
            time,
            end: None,
            next: Instant::now(),
            wanted,
            functions: Functions::default(),
            threads: HashMap::new(),
            processes: HashSet::new(),
        }
    }

    /// Samples, if it is time, and returns the time until the next sample; `None` after the last
    /// one. The whole watching time lies between the first sample and the last.
    pub fn examine(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if now >= self.next {
            let used = cpu_time();
            self.sample_now();
            let used = cpu_time().saturating_sub(used);
            if self.end.is_some_and(|end| now >= end) {
                return None;
            }
            self.next = now + EVERY.max(used * PAUSE);
            self.end = self.end.or_else(|| Some(Instant::now() + self.time?));
        }
        Some(self.next.saturating_duration_since(Instant::now()))
    }

    fn sample_now(&mut self) {
        let root = self.root;
        let Ok(mut pids) = processes() else { return };
        pids.retain(|&pid| descends(pid as i32, root as i32));
        // An empty list would mean all processes.
        if pids.is_empty() {
            return;
        }
        self.wanted.pids = pids;
        let Ok(device) = Device::examine(&self.wanted) else { return };
        for program in &device.programs {
            self.processes.insert(program.pid);
            for task in program.tasks.iter().filter(|task| !library::is_helper(&task.stat.name)) {
                self.add(program, task, device.time_ns);
            }
        }
    }

    fn add(&mut self, program: &Program, task: &Task, at_ns: u64) {
        let stat = &task.stat;
        let began_ns = self.began_ns;
        let entry = self.threads.entry((program.pid, stat.tid, stat.start_ns));
        let (watched, track, sleeps) = entry.or_insert_with(|| {
            // For a thread that was there before, only its activity from now on counts.
            let is_new = stat.start_ns + TICK_NS >= began_ns;
            let zero = Counters { at_ns: stat.start_ns, ..Counters::default() };
            let first = if is_new { zero } else { counters(task, at_ns, &zero) };
            (Watched::default(), Track::new(first), Sleeps::default())
        });
        let now = counters(task, at_ns, track.last());
        track.add(now);
        if let Some(wait) = task.wait {
            sleeps.add(wait, now.wakeups, now.at_ns.saturating_sub(now.delay_ns));
        }
        watched.program.clone_from(&program.name);
        // Only a table that was read has the properties of its pages.
        watched.whole_program = program.page_bytes != 0;
        watched.name.clone_from(&stat.name);
        watched.named = is_named(program, task);
        watched.real_time = stat.rt_priority > 0;
        if let (None, Some(thread)) = (&watched.runs, &task.record) {
            let routine = thread.record.start_routine;
            watched.function = self.functions.symbol(&program.modules, routine);
            watched.runs = self.functions.name(&program.modules, routine);
        }
    }

    /// The results of all of them; and the number of their processes.
    pub fn finish(self) -> (Vec<Watched>, usize) {
        let threads = self.threads.into_values().map(|(watched, track, sleeps)| {
            let (windows, asleep_ns) = track.finish();
            Watched { windows, asleep_ns, waker: sleeps.waker(), ..watched }
        });
        (threads.collect(), self.processes.len())
    }
}

/// The CPU time of the calling thread; always 0 where the kernel does not report it.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn counters(task: &Task, at_ns: u64, before: &Counters) -> Counters {
    let times = task.schedstat.unwrap_or_default();
    Counters {
        at_ns,
        wakeups: task.switches.unwrap_or_default().voluntary,
        // A kernel without CONFIG_SCHED_INFO has only the time in ticks.
        cpu_ns: if times.cpu_ns > 0 { times.cpu_ns } else { task.stat.cpu_ns },
        delay_ns: times.run_delay_ns,
        sleeping: before.sleeping + u64::from(task.stat.state == 'S'),
        storage: before.storage + u64::from(task.stat.state == 'D'),
        storage_bytes: task.storage_bytes.unwrap_or(before.storage_bytes),
    }
}

/// Whether a thread has a name of its own. Under TEK its record shows it. Otherwise a thread with
/// the name of its program's first thread is taken to have inherited it.
fn is_named(program: &Program, task: &Task) -> bool {
    let is_first = task.stat.tid == program.pid;
    match &task.record {
        _ if is_first => true,
        Some(thread) => thread.record.flags & FLAG_NAMED != 0,
        None => {
            let mut tasks = program.tasks.iter();
            tasks.find(|t| t.stat.tid == program.pid).is_none_or(|t| t.stat.name != task.stat.name)
        }
    }
}
