// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread as `tek ps` shows it: its values and those of its process, with names resolved. From
//! the second sample on it has the changes since the previous one.
use std::collections::HashMap;
use std::rc::Rc;
use tek_abi::{text, Module, WHY_LIFT, ZONE_HIGH, ZONE_LOW, ZONE_NORMAL};
use tek_model::{Device, Functions, Program, SchedStat, Stat, Switches, Task, Uthread, Worker};
use tek_stack::{Zone, Zones};

/// A thread.
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// The name of that.
    pub program: Rc<str>,
    /// Its values.
    pub task: Task,
    /// The extra values of a user-level thread. Its task is filled from its table; its tid is 0,
    /// which is no kernel thread.
    pub user: Option<User>,
    /// Size of its process's address space.
    pub vm_bytes: Option<u64>,
    /// Size of the pages in which its record counts.
    pub page_bytes: u32,
    /// Where the zones of its stack meet.
    pub zones: Zones,
    /// The function that it runs, if requested.
    pub function: Option<String>,
    /// The place of its creation, if requested.
    pub call_site: Option<String>,
    /// The thread that is lifted because this one waits for it.
    pub waits_for: Option<u32>,
    /// The thread for which tekd has lifted this one.
    pub lifted_by_tekd_for: Option<u32>,
    /// CLOCK_BOOTTIME of the sample.
    pub time_ns: u64,
    /// Its state at the previous sample.
    pub before: Option<Before>,
}

/// The fields that only a user-level thread has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number in its process, from 1.
    pub number: u32,
    /// The worker on which it runs, or ran last.
    pub worker: Option<Worker>,
}

/// The identity of a thread, for as long as it lives: its tid, or of a user-level thread pid and
/// number, and its start time.
pub type Identity = (u64, u64);

/// A thread at an earlier sample.
#[derive(Clone, Copy, Default)]
pub struct Before {
    time_ns: u64,
    cpu_ns: u64,
    schedstat: SchedStat,
    switches: Switches,
    /// It was running, or ready to run.
    was_ready: bool,
    /// CPU time by its stat, in clock ticks.
    stat_cpu_ns: u64,
    /// Waiting for a CPU that was reported already, and that the kernel had not counted by then.
    reported_ns: u64,
}

impl Before {
    /// The base for the next sample.
    fn of(thread: &Thread) -> Self {
        Self {
            time_ns: thread.time_ns,
            cpu_ns: thread.cpu_ns().unwrap_or_default(),
            schedstat: thread.task.schedstat.unwrap_or_default(),
            switches: thread.task.switches.unwrap_or_default(),
            was_ready: thread.is_ready(),
            stat_cpu_ns: thread.task.stat.cpu_ns,
            reported_ns: thread.before.map_or(0, |before| thread.delay(&before).reported_ns),
        }
    }
}

/// Waiting for a CPU. The kernel counts it only when the thread gets one. So a long wait would all
/// be in the interval in which it ends, and may be longer than that interval.
struct Delay {
    /// The part that belongs to the interval.
    ns: u64,
    /// [`Before::reported_ns`] from now on.
    reported_ns: u64,
}

/// The changes of a thread between two samples.
pub struct Interval {
    /// How long that is.
    pub ns: u64,
    /// CPU time, where that is counted.
    pub cpu_ns: Option<u64>,
    /// Time that it waited for a CPU.
    pub run_delay_ns: u64,
    /// Context switches.
    pub switches: Switches,
}

/// Names are resolved only where they are shown.
#[derive(Clone, Copy, Default)]
pub struct Names {
    /// [`Thread::function`].
    pub function: bool,
    /// [`Thread::call_site`].
    pub call_site: bool,
}

impl Thread {
    /// Its identity.
    pub fn identity(&self) -> Identity {
        let id = match self.user {
            Some(user) => u64::from(self.pid) << 32 | u64::from(user.number),
            None => self.task.stat.tid.into(),
        };
        (id, self.task.stat.start_ns)
    }

    /// Its role.
    pub fn role(&self) -> Option<String> {
        let own = self.task.record.filter(|own| own.record.role_bytes != 0)?;
        Some(text(&own.side.role))
    }

    /// The zone of its stack: as its process has it, else by the use that was measured.
    pub fn zone(&self) -> Option<Zone> {
        let own = self.task.record?.record;
        let stack = u64::from(own.stack_pages) * u64::from(self.page_bytes);
        match own.zone() {
            ZONE_LOW => Some(Zone::Low),
            ZONE_NORMAL => Some(Zone::Normal),
            ZONE_HIGH => Some(Zone::High),
            _ => self.zones.of(self.task.stack?.peak_bytes?, stack),
        }
    }

    /// Whether it is in the Fast Region.
    pub fn is_fast(&self) -> bool {
        self.task.is_fast()
    }

    /// The thread that created it.
    pub fn creator(&self) -> Option<u32> {
        self.task.record.map(|own| own.side.creator_tid).filter(|&tid| tid != 0)
    }

    /// The thread that waits for it, and for which it is lifted.
    pub fn lifted_by(&self) -> Option<u32> {
        lifted_by(&self.task).or(self.lifted_by_tekd_for)
    }

    /// Whether it is in the Fast Region only because another thread waits for it.
    pub fn is_lifted(&self) -> bool {
        self.is_fast() && self.task.record.is_some_and(|own| own.side.reasons == WHY_LIFT)
    }

    /// Time since it began.
    pub fn age_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.task.stat.start_ns)
    }

    /// CPU time: exact where that was read, else in clock ticks. `None` for a user-level thread,
    /// because its CPU time is not counted.
    pub fn cpu_ns(&self) -> Option<u64> {
        let stat = self.user.is_none().then_some(self.task.stat.cpu_ns);
        self.task.schedstat.map(|times| times.cpu_ns).or(stat)
    }

    /// The share of a CPU that it had since the previous sample, else in its life.
    pub fn cpu_percent(&self) -> Option<f64> {
        let (cpu, time) = match self.interval() {
            Some(interval) => (interval.cpu_ns?, interval.ns),
            None => (self.cpu_ns()?, self.age_ns()),
        };
        share(cpu, time)
    }

    /// The share of the time since the previous sample, else of its life, that it waited for a CPU.
    pub fn delay_percent(&self) -> Option<f64> {
        let times = self.task.schedstat?;
        let (delay, time) = match self.interval() {
            Some(interval) => (interval.run_delay_ns, interval.ns),
            None => (times.run_delay_ns, self.age_ns()),
        };
        share(delay, time)
    }

    /// Whether it runs, or could if it had a CPU.
    fn is_ready(&self) -> bool {
        self.task.stat.state == 'R'
    }

    /// Its waiting for a CPU since the previous sample. A thread has waited all the time if it was
    /// ready at both samples, and neither got nor used a CPU between them.
    fn delay(&self, before: &Before) -> Delay {
        let times = self.task.schedstat.unwrap_or_default();
        let had_none = times == before.schedstat && self.task.stat.cpu_ns == before.stat_cpu_ns;
        if self.task.schedstat.is_some() && self.is_ready() && before.was_ready && had_none {
            let ns = self.time_ns.saturating_sub(before.time_ns);
            return Delay { ns, reported_ns: before.reported_ns.saturating_add(ns) };
        }
        let counted = times.run_delay_ns.saturating_sub(before.schedstat.run_delay_ns);
        Delay {
            ns: counted.saturating_sub(before.reported_ns),
            reported_ns: before.reported_ns.saturating_sub(counted),
        }
    }

    /// Its context switches of a kind per second, since the previous sample, else in its life.
    pub fn rate(&self, kind: impl Fn(&Switches) -> u64) -> Option<f64> {
        let switches = self.task.switches?;
        let (count, time) = match self.interval() {
            Some(interval) => (kind(&interval.switches), interval.ns),
            None => (kind(&switches), self.age_ns()),
        };
        (time != 0).then(|| count as f64 * 1e9 / time as f64)
    }

    /// Its changes since the previous sample; `None` at the first.
    pub fn interval(&self) -> Option<Interval> {
        let before = self.before?;
        let switches = self.task.switches.unwrap_or_default();
        let since = |now: u64, before: u64| now.saturating_sub(before);
        Some(Interval {
            ns: since(self.time_ns, before.time_ns),
            cpu_ns: self.cpu_ns().map(|now| since(now, before.cpu_ns)),
            run_delay_ns: self.delay(&before).ns,
            switches: Switches {
                voluntary: since(switches.voluntary, before.switches.voluntary),
                involuntary: since(switches.involuntary, before.switches.involuntary),
            },
        })
    }
}

/// The thread that waits for a thread, and for which that is lifted.
fn lifted_by(task: &Task) -> Option<u32> {
    task.record.map(|own| own.side.lifted_for).filter(|&tid| tid != 0 && task.is_fast())
}

/// In percent; at most 100, because a thread has one CPU at a time. The measured value is greater
/// where the wait began before the interval, or where the thread's two samples are farther apart
/// than the device's.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole != 0).then(|| part.min(whole) as f64 * 100.0 / whole as f64)
}

/// Splits samples of the device into threads, and remembers the previous sample.
#[derive(Default)]
pub struct Threads {
    names: Names,
    functions: Functions,
    last_ns: Option<u64>,
    last: HashMap<Identity, Before>,
}

impl Threads {
    /// With these names.
    pub fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    /// The threads of a sample that fit.
    pub fn of(&mut self, device: Device, fits: impl Fn(&Thread) -> bool) -> Vec<Thread> {
        let Device { time_ns, programs, .. } = device;
        let mut threads = Vec::new();
        for program in programs {
            self.add(program, time_ns, &fits, &mut threads);
        }
        self.last_ns = Some(time_ns);
        self.last = threads.iter().map(|thread| (thread.identity(), Before::of(thread))).collect();
        threads
    }

    fn add(
        &mut self,
        program: Program,
        time_ns: u64,
        fits: impl Fn(&Thread) -> bool,
        threads: &mut Vec<Thread>,
    ) {
        let Program { pid, name, tasks, vm_bytes, page_bytes, modules, table, uthreads, .. } =
            program;
        let name: Rc<str> = name.into();
        // A thread that is new since the last sample did all its work since then.
        let new = self.last_ns.map(|time_ns| Before { time_ns, ..Before::default() });
        let zones = table.map_or_else(Zones::default, |header| {
            Zones::of_table(header.low_percent, header.high_percent)
        });
        let first_name = tasks.iter().find(|task| task.stat.tid == pid);
        let first_name = first_name.map_or_else(String::new, |first| first.stat.name.clone());
        let holders: HashMap<u32, u32> = tasks
            .iter()
            .filter_map(|task| lifted_by(task).map(|waiter| (waiter, task.stat.tid)))
            .collect();
        let tasks = tasks.into_iter().map(|task| (task, None));
        let users = uthreads.iter().map(|uthread| {
            let user = User { number: uthread.number(), worker: uthread.worker };
            (task_of(uthread, pid, &first_name), Some(user))
        });
        for (task, user) in tasks.chain(users) {
            let mut thread = Thread {
                pid,
                program: name.clone(),
                vm_bytes,
                page_bytes,
                zones,
                function: None,
                call_site: None,
                waits_for: holders.get(&task.stat.tid).copied(),
                lifted_by_tekd_for: None,
                time_ns,
                before: None,
                task,
                user,
            };
            thread.before = self.last.get(&thread.identity()).copied().or(new);
            if fits(&thread) {
                self.find_names(&mut thread, &modules);
                threads.push(thread);
            }
        }
    }

    fn find_names(&mut self, thread: &mut Thread, modules: &[Module]) {
        let Some(own) = thread.task.record else { return };
        let mut name = |wanted: bool, address: u64| {
            if !wanted || address == 0 {
                return None;
            }
            let name = self.functions.name(modules, address);
            Some(name.unwrap_or_else(|| format!("{address:#x}")))
        };
        thread.function = name(self.names.function, own.record.start_routine);
        thread.call_site = name(self.names.call_site, own.side.call_site);
    }
}

/// The values of a user-level thread that any thread has. Without a name of its own it has that of
/// the first thread, as the program itself sees it.
fn task_of(uthread: &Uthread, parent: u32, first_name: &str) -> Task {
    let record = &uthread.own.record;
    Task {
        stat: Stat {
            tid: 0,
            name: uthread.name().unwrap_or_else(|| first_name.to_owned()),
            parent,
            state: uthread.state(),
            start_ns: record.start_ns,
            policy: record.policy.into(),
            nice: 0,
            rt_priority: 0,
            cpu_ns: 0,
            kernel: false,
        },
        record: Some(uthread.own),
        schedstat: None,
        switches: None,
        storage_bytes: None,
        wait: None,
        stack: uthread.stack,
        seat: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A thread at so many seconds, with the kernel's counters at that time, in ms, and its state.
    fn at(seconds: u64, state: char, cpu_ms: u64, delay_ms: u64, slices: u64) -> Thread {
        let ms = SECOND / 1000;
        let mut thread = crate::top::sample::tests::thread(7, 7, "fridge", "ui", cpu_ms);
        thread.task.stat.state = state;
        thread.task.stat.start_ns = 0;
        thread.task.schedstat =
            Some(SchedStat { cpu_ns: cpu_ms * ms, run_delay_ns: delay_ms * ms, slices });
        thread.time_ns = seconds * SECOND;
        thread.before = None;
        thread
    }

    /// DELAY% at each sample, each with the memory of the previous one.
    fn shares(samples: impl IntoIterator<Item = Thread>) -> Vec<f64> {
        let mut before: Option<Before> = None;
        let share = |mut thread: Thread| {
            thread.before = before;
            before = Some(Before::of(&thread));
            thread.delay_percent().unwrap()
        };
        samples.into_iter().map(share).collect()
    }

    #[test]
    fn a_wait_is_shown_while_it_lasts_and_not_again_when_the_kernel_counts_it() {
        let starved = [
            at(1, 'S', 10, 0, 5),
            at(2, 'R', 10, 0, 5), // woken some time since
            at(3, 'R', 10, 0, 5), // all that second
            at(4, 'R', 10, 0, 5),
            at(5, 'S', 12, 3400, 6), // 0.5 s before the look at 2, 0.9 s of this second
        ];
        assert_eq!(shares(starved), [0.0, 0.0, 100.0, 100.0, 100.0]);
        let soon = [at(1, 'R', 0, 0, 1), at(2, 'R', 0, 0, 1), at(3, 'S', 2, 1300, 2)];
        assert_eq!(shares(soon), [0.0, 100.0, 30.0]);
    }

    #[test]
    fn one_that_runs_or_sleeps_does_not_wait() {
        let runs = [at(1, 'R', 10, 0, 5), at(2, 'R', 1010, 0, 5), at(3, 'R', 2010, 0, 5)];
        assert_eq!(shares(runs), [0.0; 3]);
        let sleeps = [at(1, 'S', 10, 0, 5), at(2, 'S', 10, 0, 5)];
        assert_eq!(shares(sleeps), [0.0; 2]);
    }

    #[test]
    fn no_share_is_above_100() {
        let late = [at(1, 'S', 0, 0, 5), at(2, 'S', 1100, 5000, 6)];
        assert_eq!(shares(late), [0.0, 100.0]);
        let mut thread = at(2, 'S', 1100, 0, 6);
        thread.before = Some(Before::of(&at(1, 'S', 0, 0, 5)));
        assert_eq!(thread.cpu_percent(), Some(100.0));
        // The whole counted time is still reported, for sums.
        assert_eq!(thread.interval().unwrap().cpu_ns, Some(1_100_000_000));
    }
}
