// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watches the threads that `--place rtfifo` made SCHED_FIFO, in a process of its own.
//!
//! A thread that spins keeps its CPU for good under SCHED_FIFO. So each CPU has a budget. If these
//! threads exceed it in a window, they run as SCHED_OTHER for the next window, and for twice as
//! long after each further overrun. When tek ends, in whatever way, all of them become SCHED_OTHER,
//! also those of processes that go on.
//!
//! lib/place/keeper.h has the other half: the library in a process makes the file `PID.fifo` in the
//! run's directory before its first thread becomes SCHED_FIFO. Once the file `watched` is gone, it
//! makes no thread SCHED_FIFO.
use crate::message;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::wait::waitpid;
use nix::unistd::{fork, ForkResult};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tek_policy::Budget;

const WATCHED: &str = "watched";
const SUFFIX: &str = ".fifo";

/// The budget if none is given, as libtek.so has it for time-critical threads.
const USUAL_CPU: Duration = Duration::from_millis(800);
const USUAL_WINDOW: Duration = Duration::from_secs(1);

/// Samples of the threads in a window.
const LOOKS: usize = 8;
/// Without a budget only the end of tek matters.
const RARELY: Duration = Duration::from_secs(1);
/// Between samples after tek has ended, and how long threads that started meanwhile are searched
/// for.
const AT_THE_END: Duration = Duration::from_millis(20);
const LAST_LOOKS: u32 = 100;
/// A CPU is banned for a window, then for twice as long each time, up to so many windows.
const MOST_WINDOWS: u32 = 64;

/// The process that watches, until this is dropped.
pub struct Keeper {
    /// Reaches its end when that process has ended.
    end: UnixStream,
}

impl Keeper {
    /// Begins to watch a run, before the program starts.
    pub fn start(directory: &Path, priority: u8, budget: Option<Budget>) -> io::Result<Self> {
        let (own, its) = UnixStream::pair()?;
        fs::write(directory.join(WATCHED), fs::metadata("/proc/self/ns/pid").map(number_of)?)?;
        let usual = Budget::Limit { cpu: USUAL_CPU, window: USUAL_WINDOW };
        let watch = Watch::new(directory, priority, budget.unwrap_or(usual));
        // Its parent ends at once, so it is no child of tek: the program is tek's only child.
        // SAFETY: tek has one thread.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => {
                waitpid(child, None)?;
                Ok(Self { end: own })
            }
            ForkResult::Child => {
                drop(own);
                // SAFETY: as above.
                if let Ok(ForkResult::Child) = unsafe { fork() } {
                    watch.run(&its);
                }
                // SAFETY: these processes have nothing of tek's to clean up.
                unsafe { libc::_exit(0) }
            }
        }
    }
}

fn number_of(data: fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    data.ino().to_string()
}

impl Drop for Keeper {
    /// Returns when no thread is SCHED_FIFO any more.
    fn drop(&mut self) {
        let _ = self.end.shutdown(std::net::Shutdown::Write);
        let _ = self.end.read(&mut [0]);
    }
}

/// A thread: pid and tid.
type Thread = (i32, i32);

struct Watch {
    directory: PathBuf,
    priority: i32,
    /// Of a CPU: budget and window; `None`: it is not limited.
    limit: Option<(Duration, Duration)>,
    /// CPU time of each thread at the last sample.
    used: HashMap<Thread, u64>,
    cpus: HashMap<u32, Cpu>,
    told: bool,
}

/// The threads' use of a CPU.
#[derive(Default)]
struct Cpu {
    /// Use at the last samples, in ns; the newest is at index `look`.
    looks: [u64; LOOKS],
    look: usize,
    overruns: u32,
    /// They are ordinary threads until then.
    out_until: Option<Instant>,
    lowered: BTreeSet<Thread>,
}

/// The scheduling of a thread, from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    policy: i32,
    priority: i32,
}

const OTHER: i32 = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
const FIFO: i32 = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;

impl Watch {
    fn new(directory: &Path, priority: u8, budget: Budget) -> Self {
        let limit = match budget {
            Budget::Limit { cpu, window } => Some((cpu, window)),
            Budget::Off => None,
        };
        Self {
            directory: directory.to_owned(),
            priority: priority.into(),
            limit,
            used: HashMap::new(),
            cpus: HashMap::new(),
            told: false,
        }
    }

    fn run(mut self, tek: &UnixStream) {
        stand_apart(self.priority);
        let between = self.limit.map_or(RARELY, |(_, window)| window / LOOKS as u32);
        while !has_ended(tek, between) {
            if self.limit.is_some() {
                self.look();
            }
        }
        let _ = fs::remove_file(self.directory.join(WATCHED));
        let mut quiet = 0;
        for _ in 0..LAST_LOOKS {
            quiet = if self.lower_all() { 0 } else { quiet + 1 };
            if quiet == 2 {
                break;
            }
            std::thread::sleep(AT_THE_END);
        }
        for (pid, _) in self.processes() {
            let _ = fs::remove_file(self.directory.join(format!("{pid}{SUFFIX}")));
        }
    }

    /// The processes that have such threads, with the threads of each. Ended processes are
    /// forgotten.
    fn processes(&self) -> Vec<(i32, Vec<i32>)> {
        let names = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let pids = names.filter_map(|entry| {
            entry.file_name().to_str()?.strip_suffix(SUFFIX)?.parse::<i32>().ok()
        });
        pids.filter_map(|pid| {
            let tasks = fs::read_dir(format!("/proc/{pid}/task"));
            if tasks.is_err() {
                let _ = fs::remove_file(self.directory.join(format!("{pid}{SUFFIX}")));
            }
            let tids = tasks.ok()?.flatten();
            Some((pid, tids.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()))
        })
        .collect()
    }

    /// The threads that are SCHED_FIFO because of this run.
    fn fifo(&self) -> Vec<Thread> {
        let ours = State { policy: FIFO, priority: self.priority };
        let threads = self.processes().into_iter();
        threads
            .flat_map(|(pid, tids)| tids.into_iter().map(move |tid| (pid, tid)))
            .filter(|&(_, tid)| state(tid) == Some(ours))
            .collect()
    }

    /// True if there was any.
    fn lower_all(&self) -> bool {
        let threads = self.fifo();
        for &(_, tid) in &threads {
            set(tid, State { policy: OTHER, priority: 0 });
        }
        !threads.is_empty()
    }

    fn look(&mut self) {
        let now = Instant::now();
        let threads = self.fifo();
        for cpu in self.cpus.values_mut() {
            cpu.next_look();
        }
        let mut used = HashMap::new();
        let mut on = HashMap::<u32, Vec<Thread>>::new();
        for thread in threads {
            let Some((cpu, ns)) = cpu_and_time(thread) else { continue };
            let before = self.used.get(&thread).copied().unwrap_or(0);
            self.cpus.entry(cpu).or_default().add(ns.saturating_sub(before));
            used.insert(thread, ns);
            on.entry(cpu).or_default().push(thread);
        }
        // The time that threads use while they are lowered counts for no CPU.
        let lowered = self.cpus.values().flat_map(|cpu| &cpu.lowered);
        used.extend(lowered.filter_map(|&thread| Some((thread, cpu_and_time(thread)?.1))));
        self.used = used;
        let (Some((most, window)), ours) = (self.limit, self.priority) else { return };
        let mut over = None;
        for (number, cpu) in &mut self.cpus {
            let used = cpu.used();
            if cpu.out_until.is_none() && used > most {
                cpu.out_until = Some(now + window * (1 << cpu.overruns).min(MOST_WINDOWS));
                cpu.overruns = (cpu.overruns + 1).min(MOST_WINDOWS.ilog2());
                over = Some((*number, used));
            }
            cpu.settle(now, on.get(number).map_or(&[], Vec::as_slice), ours);
        }
        if let Some((number, used)) = over.filter(|_| !std::mem::replace(&mut self.told, true)) {
            message::print(&format!(
                "--place rtfifo: threads used {} ms of {} ms of CPU {number}, and share it with others for a while; \
                 --budget says how much they may",
                used.as_millis(),
                window.as_millis()
            ));
        }
    }
}

impl Cpu {
    fn next_look(&mut self) {
        self.look = (self.look + 1) % LOOKS;
        self.looks[self.look] = 0;
    }

    fn add(&mut self, ns: u64) {
        self.looks[self.look] += ns;
    }

    fn used(&self) -> Duration {
        Duration::from_nanos(self.looks.iter().sum())
    }

    /// Lowers the threads on a banned CPU, or restores their policy.
    fn settle(&mut self, now: Instant, threads: &[Thread], priority: i32) {
        let Some(until) = self.out_until else { return };
        if now < until {
            for &thread in threads {
                set(thread.1, State { policy: OTHER, priority: 0 });
                self.lowered.insert(thread);
            }
            return;
        }
        self.out_until = None;
        self.looks = [0; LOOKS];
        for (pid, tid) in std::mem::take(&mut self.lowered) {
            // A policy that the program has set meanwhile stays.
            let is_there = Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
            if is_there && state(tid) == Some(State { policy: OTHER, priority: 0 }) {
                set(tid, State { policy: FIFO, priority });
            }
        }
    }
}

/// Leaves the reach of the terminal's signals, and takes a priority above the watched threads.
fn stand_apart(priority: i32) {
    let _ = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let above = State { policy: FIFO, priority: priority + 1 };
    // Without the right it runs in the time that the kernel reserves for ordinary threads.
    set(0, above);
    // SAFETY: a name that ends with NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"tek-keeper".as_ptr()) };
}

/// Waits at most so long for the end of tek.
fn has_ended(tek: &UnixStream, time: Duration) -> bool {
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
    let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    let mut watched = [PollFd::new(tek.as_fd(), PollFlags::POLLIN)];
    poll(&mut watched, timeout).is_ok_and(|ready| ready > 0)
}

fn state(tid: i32) -> Option<State> {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is ours to fill.
    let (policy, read) =
        unsafe { (libc::sched_getscheduler(tid), libc::sched_getparam(tid, &mut param)) };
    (policy >= 0 && read == 0).then_some(State { policy, priority: param.sched_priority })
}

fn set(tid: i32, state: State) {
    let param = libc::sched_param { sched_priority: state.priority };
    // SAFETY: the structure is read only. A thread that has ended, or is another user's, stays.
    unsafe { libc::sched_setscheduler(tid, state.policy, &param) };
}

/// The CPU that a thread ran on last, and its CPU time in ns.
fn cpu_and_time((pid, tid): Thread) -> Option<(u32, u64)> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).ok();
    let stat = read("stat")?;
    // Behind the name, which may have anything in it, is the third field; the CPU is the 39th.
    let cpu = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(39 - 3)?.parse().ok()?;
    let time = read("schedstat")?.split_ascii_whitespace().next()?.parse().ok()?;
    Some((cpu, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_and_time_of_a_thread_are_known() {
        let tid = nix::unistd::gettid().as_raw();
        let mut before = 0;
        for _ in 0..3 {
            let (_, now) = cpu_and_time((std::process::id() as i32, tid)).unwrap();
            assert!(now >= before);
            before = now;
        }
        assert_eq!(cpu_and_time((i32::MAX, 1)), None);
    }

    #[test]
    fn what_a_thread_uses_while_it_is_lowered_does_not_count() {
        let thread = (std::process::id() as i32, nix::unistd::gettid().as_raw());
        let directory = tempfile::tempdir().unwrap();
        let budget = Budget::Limit { cpu: USUAL_CPU, window: USUAL_WINDOW };
        let mut watch = Watch::new(directory.path(), 1, budget);
        let out_until = Some(Instant::now() + 60 * USUAL_WINDOW);
        let lowered = BTreeSet::from([thread]);
        watch.cpus.insert(0, Cpu { out_until, lowered, ..Cpu::default() });
        for _ in 0..2 {
            let (_, before) = cpu_and_time(thread).unwrap();
            watch.look();
            assert!(watch.used.get(&thread).is_some_and(|used| *used >= before));
        }
        assert_eq!(watch.cpus[&0].used(), Duration::ZERO);
    }

    #[test]
    fn a_cpu_forgets_what_was_used_a_window_ago() {
        let mut cpu = Cpu::default();
        cpu.add(500);
        for _ in 1..LOOKS {
            cpu.next_look();
            cpu.add(10);
        }
        assert_eq!(cpu.used(), Duration::from_nanos(500 + 10 * (LOOKS as u64 - 1)));
        cpu.next_look();
        assert_eq!(cpu.used(), Duration::from_nanos(10 * (LOOKS as u64 - 1)));
    }
}
