// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads to which a bystander loses CPU: from the kernel's trace of context switches.

use anyhow::{ensure, Context};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use What::{Switch, Wakeup};

/// Of each CPU; a run of 6 s has some 10,000 switches of 70 bytes.
const BUFFER_KB: &str = "16384";
/// Priorities of the kernel below this are real-time ones, the lower the more urgent.
const FAIR: i32 = 100;

/// While bystanders were ready to run and did not, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// The measured task ran.
    pub task_ns: u64,
    /// A kernel thread, as urgent or more urgent.
    pub kernel_ns: u64,
    pub tekd_ns: u64,
    /// Another thread, as urgent or more urgent.
    pub other_ns: u64,
    /// No thread as urgent: real-time threads were stopped, or the running thread was not
    /// preemptible.
    pub stopped_ns: u64,
    /// CPU time that kernel threads had at a real-time priority, on all CPUs.
    pub boosted_ns: u64,
}

/// The threads by their role.
#[derive(Default)]
pub struct Threads {
    pub bystanders: BTreeSet<u32>,
    pub task: BTreeSet<u32>,
    pub tekd: BTreeSet<u32>,
    pub kernel: BTreeSet<u32>,
}

/// An instance of the kernel's tracing. The keeper removes it.
pub struct Trace(PathBuf);

impl Trace {
    /// Uses the directory of a new instance.
    pub fn new(directory: PathBuf) -> anyhow::Result<Trace> {
        let trace = Trace(directory);
        trace.set("tracing_on", "0")?;
        trace.set("trace_clock", "mono")?;
        trace.set("buffer_size_kb", BUFFER_KB)?;
        trace.set("events/sched/sched_switch/enable", "1")?;
        Ok(trace)
    }

    /// Traces from now on, until [`Trace::end`].
    pub fn begin(&self, threads: &Threads) -> anyhow::Result<()> {
        let filter: Vec<String> =
            threads.bystanders.iter().map(|tid| format!("pid == {tid}")).collect();
        ensure!(!filter.is_empty(), "there is no bystander");
        self.set("events/sched/sched_wakeup/enable", "0")?;
        self.set("events/sched/sched_wakeup/filter", &filter.join(" || "))?;
        self.set("events/sched/sched_wakeup/enable", "1")?;
        self.set("trace", "")?;
        self.set("tracing_on", "1")
    }

    pub fn end(&self, threads: &Threads) -> anyhow::Result<Losses> {
        self.set("tracing_on", "0")?;
        for entry in fs::read_dir(self.0.join("per_cpu"))? {
            let stats = fs::read_to_string(entry?.path().join("stats"))?;
            let lost = stats.lines().find_map(|line| line.strip_prefix("overrun: "));
            ensure!(lost == Some("0"), "the kernel's trace has lost switches: {lost:?}");
        }
        let mut sums = Sums { threads, cpus: BTreeMap::new(), losses: Losses::default() };
        let path = self.0.join("trace");
        for line in BufReader::new(File::open(&path)?).lines() {
            if let Some(event) = parse(&line.with_context(|| path.display().to_string())?) {
                sums.take(&event);
            }
        }
        self.set("trace", "")?;
        Ok(sums.losses)
    }

    fn set(&self, file: &str, value: &str) -> anyhow::Result<()> {
        let path: &Path = &self.0.join(file);
        fs::write(path, value).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    cpu: u32,
    at_ns: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// The thread that ran, its priority and whether it stays ready; the thread that runs now, and
    /// its priority.
    Switch { from: (u32, i32), is_ready: bool, to: (u32, i32) },
    /// The bystander that became ready, and its priority. The kernel reports no other wake-ups.
    Wakeup { tid: u32, priority: i32 },
}

/// A line of the trace. A thread's name can be anything, so the text behind it is parsed from the
/// end.
fn parse(line: &str) -> Option<Event> {
    let part = |name: &str, of| line.split_once(name).map(|(head, rest)| (head, of, rest));
    let found = part(": sched_switch: ", true).or_else(|| part(": sched_wakeup: ", false));
    let (head, switch, rest) = found?;
    let (head, seconds) = head.rsplit_once(' ')?;
    let (seconds, micros) = seconds.split_once('.')?;
    let at_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1000;
    let cpu = head.rsplit_once('[')?.1.split_once(']')?.0.parse().ok()?;
    if !switch {
        let what = Wakeup { tid: number(rest, " pid=")?, priority: number(rest, " prio=")? };
        return Some(Event { cpu: number(rest, " target_cpu=")?, at_ns, what });
    }
    let (from, to) = rest.rsplit_once(" ==> next_comm=")?;
    let what = Switch {
        from: (number(from, " prev_pid=")?, number(from, " prev_prio=")?),
        is_ready: from.rsplit_once(" prev_state=")?.1.starts_with('R'),
        to: (number(to, " next_pid=")?, number(to, " next_prio=")?),
    };
    Some(Event { cpu, at_ns, what })
}

fn number<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
    let behind = text.rsplit_once(name)?.1;
    behind.split(' ').next()?.parse().ok()
}

/// The known state of a CPU.
#[derive(Default)]
struct Cpu {
    /// The running thread, its priority and its begin in ns; `None` at the beginning.
    running: Option<(u32, i32, u64)>,
    /// Bystanders that wait for it: since when, and their priority.
    waiting: BTreeMap<u32, (u64, i32)>,
}

struct Sums<'a> {
    threads: &'a Threads,
    cpus: BTreeMap<u32, Cpu>,
    losses: Losses,
}

impl Sums<'_> {
    fn take(&mut self, event: &Event) {
        let cpu = self.cpus.entry(event.cpu).or_default();
        match event.what {
            Wakeup { tid, priority } => {
                let runs = cpu.running.is_some_and(|(running, ..)| running == tid);
                if !runs {
                    cpu.waiting.entry(tid).or_insert((event.at_ns, priority));
                }
            }
            Switch { from: (from, now), is_ready, to: (to, next) } => {
                // Its priority may have changed while it ran.
                let began = cpu.running.filter(|(tid, ..)| *tid == from);
                let (before, since) = began.map_or((now, event.at_ns), |(_, it, at)| (it, at));
                let priority = now.min(before);
                let ran_ns = event.at_ns.saturating_sub(since);
                if priority < FAIR && from != 0 && self.threads.kernel.contains(&from) {
                    self.losses.boosted_ns += ran_ns;
                }
                for (from_ns, its) in cpu.waiting.values_mut() {
                    let lost_ns = event.at_ns.saturating_sub(since.max(*from_ns));
                    *self.losses.to(self.threads, from, priority <= *its) += lost_ns;
                }
                if is_ready && self.threads.bystanders.contains(&from) {
                    cpu.waiting.insert(from, (event.at_ns, now));
                }
                cpu.waiting.remove(&to);
                cpu.running = Some((to, next, event.at_ns));
            }
        }
    }
}

impl Losses {
    fn to(&mut self, threads: &Threads, tid: u32, is_urgent: bool) -> &mut u64 {
        if !is_urgent || tid == 0 {
            &mut self.stopped_ns
        } else if threads.task.contains(&tid) {
            &mut self.task_ns
        } else if threads.tekd.contains(&tid) {
            &mut self.tekd_ns
        } else if threads.kernel.contains(&tid) {
            &mut self.kernel_ns
        } else {
            &mut self.other_ns
        }
    }

    /// The loss to all but the measured task, in ms.
    pub fn helpers_ms(&self) -> f64 {
        (self.kernel_ns + self.tekd_ns + self.other_ns) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYSTANDER: u32 = 7;
    const PRIORITY: i32 = 59;

    fn threads() -> Threads {
        Threads {
            bystanders: [BYSTANDER].into(),
            task: [20, 21].into(),
            tekd: [30].into(),
            kernel: [40, 41].into(),
        }
    }

    /// A CPU's switches: their times in us, the two threads of each, and their priorities.
    fn losses(events: &[(u64, What)]) -> Losses {
        let threads = threads();
        let mut sums = Sums { threads: &threads, cpus: BTreeMap::new(), losses: Losses::default() };
        for &(us, what) in events {
            sums.take(&Event { cpu: 1, at_ns: us * 1000, what });
        }
        sums.losses
    }

    fn switch(from: (u32, i32), to: (u32, i32)) -> What {
        Switch { from, is_ready: from.0 == BYSTANDER, to }
    }

    fn wakeup() -> What {
        Wakeup { tid: BYSTANDER, priority: PRIORITY }
    }

    #[test]
    fn lines_of_the_trace_are_read_whatever_a_thread_is_called() {
        let line = "  x] prev_pid=9-29374   [001] d..2.  3065.469489: sched_switch: prev_comm=a \
                    ==> next_comm=b prev_pid=29374 prev_prio=120 prev_state=R+ ==> \
                    next_comm=kworker/0:1 next_pid=40 next_prio=59";
        let what = Switch { from: (29374, 120), is_ready: true, to: (40, 59) };
        assert_eq!(parse(line), Some(Event { cpu: 1, at_ns: 3_065_469_489_000, what }));
        let line =
            "   <idle>-0    [000] d.h4.  12.000001: sched_wakeup: comm=bystander pid=7 prio=59 \
                    target_cpu=003";
        let what = Wakeup { tid: 7, priority: 59 };
        assert_eq!(parse(line), Some(Event { cpu: 3, at_ns: 12_000_001_000, what }));
        assert_eq!(parse("# tracer: nop"), None);
        assert_eq!(parse("CPU:1 [LOST 5 EVENTS]"), None);
    }

    #[test]
    fn each_thread_that_runs_instead_of_a_bystander_is_distinguished() {
        let losses = losses(&[
            (0, switch((0, 120), (20, 39))),
            (5, wakeup()),
            (10, switch((20, 39), (40, 47))),
            (30, switch((40, 47), (30, 1))),
            (35, switch((30, 1), (99, 10))),
            (36, switch((99, 10), (BYSTANDER, PRIORITY))),
            (90, switch((BYSTANDER, PRIORITY), (41, 50))),
            (91, switch((41, 50), (BYSTANDER, PRIORITY))),
        ]);
        let expected = Losses {
            task_ns: 5_000,
            kernel_ns: 21_000,
            tekd_ns: 5_000,
            other_ns: 1_000,
            stopped_ns: 0,
            boosted_ns: 21_000,
        };
        assert_eq!(losses, expected);
        assert!((losses.helpers_ms() - 0.027).abs() < 1e-9);
    }

    #[test]
    fn while_it_sleeps_nothing_is_lost() {
        let end = Switch { from: (BYSTANDER, PRIORITY), is_ready: false, to: (40, 47) };
        let losses = losses(&[
            (0, switch((0, 120), (BYSTANDER, PRIORITY))),
            (10, end),
            (90, switch((40, 47), (0, 120))),
        ]);
        assert_eq!(losses, Losses { boosted_ns: 80_000, ..Losses::default() });
    }

    #[test]
    fn a_less_urgent_task_runs_only_where_real_time_threads_are_stopped() {
        let losses = losses(&[
            (0, switch((0, 120), (BYSTANDER, PRIORITY))),
            (10, switch((BYSTANDER, PRIORITY), (0, 120))),
            (20, switch((0, 120), (41, 120))),
            (50, switch((41, 120), (BYSTANDER, PRIORITY))),
        ]);
        assert_eq!(losses, Losses { stopped_ns: 40_000, ..Losses::default() });
    }

    #[test]
    fn a_boost_that_begins_or_ends_while_the_thread_runs_counts() {
        let losses = losses(&[
            (0, switch((0, 120), (40, 120))),
            (0, wakeup()),
            (10, switch((40, 39), (41, 39))),
            (20, switch((41, 120), (BYSTANDER, PRIORITY))),
        ]);
        let kernel_ns = 20_000;
        assert_eq!(losses, Losses { kernel_ns, boosted_ns: kernel_ns, ..Losses::default() });
    }
}
