// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of the device, by the code of `tek ps`, and their cost.
use super::daemon::{Answer, Daemon, Tekd};
use crate::ps::column::Column;
use crate::ps::filter::Filter;
use crate::ps::thread::Thread;
use crate::ps::value::Value;
use crate::ps::view::{Reading, View};
use nix::time::{clock_gettime, ClockId};
use nix::unistd::{sysconf, SysconfVar};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tek_abi::printable;

/// The state at one time.
#[derive(Default)]
pub struct Sample {
    /// Every thread.
    pub threads: Vec<Thread>,
    /// The unreadable files, and why; each only the first time.
    pub problems: Vec<String>,
    /// The answer of tekd.
    pub daemon: Daemon,
    /// Load averages, as the kernel writes them.
    pub load: String,
    /// CPUs that are in use.
    pub cpus: usize,
    /// Whether there is a previous sample, with which it is compared.
    pub is_compared: bool,
    /// The cost of sampling.
    pub cost: Cost,
}

/// CPU time of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// For the sample itself.
    pub examine: Duration,
    /// Share of a CPU since the previous sample, drawing included.
    pub percent: f64,
}

impl Sample {
    /// Whether a thread is in the Fast Region, by its table or by tekd.
    pub fn is_fast(&self, thread: &Thread) -> bool {
        thread.is_fast() || self.is_fast_by_daemon(thread)
    }

    fn is_fast_by_daemon(&self, thread: &Thread) -> bool {
        self.latest().is_some_and(|latest| latest.fast.contains(&identity(thread)))
    }

    /// Whether tekd has lowered it below the Fast Region.
    fn is_lowered(&self, thread: &Thread) -> bool {
        self.latest().is_some_and(|latest| latest.lowered.contains(&identity(thread)))
    }

    fn latest(&self) -> Option<&Answer> {
        match &self.daemon {
            Daemon::Answer(latest) => Some(latest),
            _ => None,
        }
    }

    /// The value of a column for a thread: tekd's report takes precedence over the thread's table.
    pub fn value(&self, column: Column, thread: &Thread) -> Value {
        let by_daemon = match column {
            Column::Region if self.is_fast_by_daemon(thread) => Some("fast"),
            Column::Region if self.is_lowered(thread) => Some("lowered"),
            Column::Group => {
                self.latest().and_then(|latest| latest.groups.get(&thread.task.stat.tid).copied())
            }
            _ => None,
        };
        by_daemon.map_or_else(|| column.value(thread), |text| Value::Text(text.into()))
    }

    /// The same for people.
    pub fn human(&self, column: Column, thread: &Thread) -> String {
        match column {
            Column::Region if thread.is_lifted() && !self.is_lowered(thread) => {
                column.human(thread)
            }
            Column::Region | Column::Group => self.value(column, thread).human(),
            _ => column.human(thread),
        }
    }

    /// The threads that are Fast, as `name (program)`.
    pub fn fast(&self) -> Vec<String> {
        let fast = self.threads.iter().filter(|thread| self.is_fast(thread));
        let reported = |thread: &Thread| {
            let shown = |text: &str| printable(text.as_bytes());
            format!("{} ({})", shown(&thread.task.stat.name), shown(&thread.program))
        };
        fast.map(reported).collect()
    }

    /// How many of the threads are the kernel's.
    pub fn kernel_threads(&self) -> usize {
        self.threads.iter().filter(|thread| thread.task.stat.kernel).count()
    }
}

fn identity(thread: &Thread) -> (u32, u32) {
    (thread.pid, thread.task.stat.tid)
}

/// Takes samples.
pub struct Sampler {
    view: View,
    tekd: Tekd,
    /// The end of the previous sample, and the CPU time that this process had used by then.
    before: Option<(Instant, Duration)>,
}

impl Sampler {
    /// Reads what these columns need. `patience`: the longest wait for an answer of tekd.
    pub fn new(columns: Vec<Column>, patience: Duration) -> anyhow::Result<Self> {
        let mut view = View::new(columns, None, false, Filter::default());
        view.take_exact_times();
        Ok(Self { view, tekd: Tekd::new(patience)?, before: None })
    }

    /// Samples. Changes that another process made to sleeping threads are reported at once for
    /// these tids. `Err`: /proc cannot be read.
    pub fn examine(&mut self, in_sight: HashSet<u32>) -> anyhow::Result<Sample> {
        let begin = cpu_time();
        self.tekd.ask();
        let Reading { threads, problems, .. } = self.view.examine_changes(in_sight)?;
        let daemon = self.tekd.answer();
        let (now, end) = (Instant::now(), cpu_time());
        let percent = self.before.map_or(0.0, |(time, used)| {
            let passed = now.duration_since(time).as_secs_f64();
            end.saturating_sub(used).as_secs_f64() * 100.0 / passed.max(1e-6)
        });
        let cost = Cost { examine: end.saturating_sub(begin), percent };
        let is_compared = self.before.replace((now, end)).is_some();
        Ok(Sample { threads, problems, daemon, load: load(), cpus: cpus(), is_compared, cost })
    }
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn cpus() -> usize {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    online.and_then(|count| usize::try_from(count).ok()).unwrap_or(1)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::ps::thread::Before;
    use std::collections::HashMap;
    use tek_model::{SchedStat, Stat, Switches, Task};

    /// A thread that existed one second ago, and used so many ms of CPU time since.
    pub fn thread(pid: u32, tid: u32, program: &str, name: &str, cpu_ms: u64) -> Thread {
        let stat = Stat {
            tid,
            name: name.into(),
            parent: 1,
            state: 'S',
            start_ns: u64::from(tid),
            policy: 0,
            nice: 5,
            rt_priority: 0,
            cpu_ns: 0,
            kernel: pid == 2,
        };
        let schedstat =
            SchedStat { cpu_ns: cpu_ms * 1_000_000, run_delay_ns: cpu_ms * 100_000, slices: 1 };
        let switches = Switches { voluntary: 10 * u64::from(tid), involuntary: cpu_ms };
        Thread {
            pid,
            program: program.into(),
            task: Task {
                stat,
                record: None,
                schedstat: Some(schedstat),
                switches: Some(switches),
                storage_bytes: None,
                wait: None,
                stack: None,
                seat: None,
            },
            user: None,
            vm_bytes: None,
            page_bytes: 4096,
            zones: Default::default(),
            function: None,
            call_site: None,
            waits_for: None,
            lifted_by_tekd_for: None,
            time_ns: 1_000_000_000,
            before: Some(Before::default()),
        }
    }

    fn with(threads: Vec<Thread>) -> Sample {
        let latest = Answer {
            mode: "responsiveness".into(),
            fast: HashSet::from([(100, 102)]),
            ..Answer::default()
        };
        Sample {
            threads,
            daemon: Daemon::Answer(latest.into()),
            load: "1.02 0.98 2.10".into(),
            cpus: 2,
            is_compared: true,
            cost: Cost { examine: Duration::from_millis(12), percent: 1.25 },
            ..Sample::default()
        }
    }

    /// A small device; thread 102 is Fast by tekd.
    pub fn sample() -> Sample {
        with(vec![
            thread(2, 2, "kthreadd", "kthreadd", 0),
            thread(100, 100, "fridge", "fridge", 200),
            thread(100, 101, "fridge", "gas", 750),
            thread(100, 102, "fridge", "touch\x1b[2J\u{202e}", 20),
            thread(200, 200, "shell", "shell", 0),
        ])
    }

    /// A sample of so many threads of one process.
    pub fn sample_of(count: u32) -> Sample {
        let name = |n: u32| format!("t{}", n % 97);
        with(
            (0..count)
                .map(|n| thread(10, 10 + n, "tester", &name(n), (n * 7919 % 1000).into()))
                .collect(),
        )
    }

    #[test]
    fn this_very_thread_is_seen_with_what_it_did_since_the_sample_before() {
        let columns = vec![Column::Tid, Column::Voluntary];
        let mut sampler = Sampler::new(columns, Duration::ZERO).unwrap();
        assert!(!sampler.examine(HashSet::new()).unwrap().is_compared);
        let until = Instant::now() + Duration::from_millis(50);
        while Instant::now() < until {}
        let sample = sampler.examine(HashSet::new()).unwrap();
        let tid = nix::unistd::gettid().as_raw() as u32;
        let own = sample.threads.iter().find(|thread| thread.task.stat.tid == tid).unwrap();
        assert!(own.cpu_percent().unwrap() > 1.0 && own.rate(|s| s.voluntary).is_some());
        assert!(own.delay_percent().is_some());
        assert!(sample.is_compared && sample.cost.percent > 1.0 && !sample.cost.examine.is_zero());
        assert!(sample.cpus >= 1 && sample.load.split(' ').count() == 3);
    }

    #[test]
    fn lowered_threads_and_their_groups_are_reported() {
        let latest = Answer {
            lowered: HashSet::from([(200, 200)]),
            groups: HashMap::from([(101, "background")]),
            ..Answer::default()
        };
        let sample = Sample { daemon: Daemon::Answer(latest.into()), ..sample() };
        let reported = |at: usize, column| sample.human(column, &sample.threads[at]);
        assert_eq!([reported(4, Column::Region), reported(3, Column::Region)], ["lowered", "-"]);
        assert_eq!([reported(2, Column::Group), reported(3, Column::Group)], ["background", "-"]);
    }

    #[test]
    fn fast_threads_are_reported_without_controlling_the_terminal() {
        assert_eq!(sample().fast(), ["touch\\u{1b}[2J\\u{202e} (fridge)"]);
        assert_eq!(sample().kernel_threads(), 1);
    }
}
