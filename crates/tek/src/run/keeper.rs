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
use nix::time::{clock_gettime, ClockId};
use nix::unistd::{fork, ForkResult};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tek_policy::Budget;
use tek_procfs::{path, thread_path};

const WATCHED: &str = "watched";
const SUFFIX: &str = ".fifo";

/// The budget if none is given, as libtek.so has it for time-critical threads.
const USUAL_CPU: Duration = Duration::from_millis(800);
const USUAL_WINDOW: Duration = Duration::from_secs(1);

/// Samples of the threads in a window.
const SAMPLES: usize = 8;
/// Without a budget only the end of tek matters.
const RARELY: Duration = Duration::from_secs(1);
/// Between samples after tek has ended, and how long threads that started meanwhile are searched
/// for.
const AT_THE_END: Duration = Duration::from_millis(20);
const LAST_SAMPLES: u32 = 100;
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

/// A thread. Its ids can belong to another thread later, which has another start time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Thread {
    pid: i32,
    tid: i32,
    /// When it started, in clock ticks since boot, as this process's time namespace has it.
    start_ticks: u64,
}

/// The file by which a process shows that it has such threads. A process writes it anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shown {
    /// When the process started that had this id when the file was read first.
    start_ticks: u64,
    written: Option<SystemTime>,
}

struct Watch {
    directory: PathBuf,
    priority: i32,
    /// Of a CPU: budget and window; `None`: it is not limited.
    limit: Option<(Duration, Duration)>,
    /// The processes with such a file at the last sample.
    shown: HashMap<i32, Shown>,
    /// CPU time of each thread at the last sample.
    used: HashMap<Thread, u64>,
    cpus: HashMap<u32, Cpu>,
    /// The times of the last samples; the first one is the oldest.
    sampled_at: [Instant; SAMPLES],
    reported: bool,
}

/// The threads' use of a CPU.
#[derive(Default)]
struct Cpu {
    /// Use at the last samples, in ns; the newest is at index `examine`.
    samples: [u64; SAMPLES],
    examine: usize,
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
const LOWERED: State = State { policy: OTHER, priority: 0 };

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
            shown: HashMap::new(),
            used: HashMap::new(),
            cpus: HashMap::new(),
            sampled_at: [Instant::now(); SAMPLES],
            reported: false,
        }
    }

    fn run(mut self, tek: &UnixStream) {
        stand_apart(self.priority);
        let between = self.limit.map_or(RARELY, |(_, window)| window / SAMPLES as u32);
        let mut cost = Duration::ZERO;
        while !has_ended(tek, between.max(8 * cost)) {
            let began = cpu_time();
            if self.limit.is_some() {
                self.examine();
            }
            cost = cpu_time().saturating_sub(began);
        }
        let _ = fs::remove_file(self.directory.join(WATCHED));
        let mut quiet = 0;
        for _ in 0..LAST_SAMPLES {
            quiet = if self.lower_all() { 0 } else { quiet + 1 };
            if quiet == 2 {
                break;
            }
            std::thread::sleep(AT_THE_END);
        }
        for (pid, _) in self.processes() {
            let _ = fs::remove_file(self.file_of(pid));
        }
    }

    fn file_of(&self, pid: i32) -> PathBuf {
        self.directory.join(format!("{pid}{SUFFIX}"))
    }

    /// The processes that have such threads, with the threads of each. Ended processes are
    /// forgotten.
    fn processes(&mut self) -> Vec<(i32, Vec<i32>)> {
        let names = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let pids = names.filter_map(|entry| {
            entry.file_name().to_str()?.strip_suffix(SUFFIX)?.parse::<i32>().ok()
        });
        let mut shown = HashMap::new();
        let mut processes = Vec::new();
        for pid in pids {
            // The process is read before its file: a later process writes the file anew.
            let Some(start_ticks) = start_of(pid, pid) else {
                let _ = fs::remove_file(self.file_of(pid));
                continue;
            };
            let written = fs::metadata(self.file_of(pid)).and_then(|data| data.modified()).ok();
            let known = self.shown.get(&pid).copied().filter(|known| known.written == written);
            // Of an earlier process the file stays: a new one may be about to write it.
            let its = known.unwrap_or(Shown { start_ticks, written });
            shown.insert(pid, its);
            if its.start_ticks == start_ticks {
                processes.push((pid, tids_of(pid)));
            }
        }
        self.shown = shown;
        processes
    }

    /// The threads that are SCHED_FIFO because of this run.
    fn fifo(&mut self) -> Vec<Thread> {
        let ours = State { policy: FIFO, priority: self.priority };
        let threads = self.processes().into_iter();
        threads
            .flat_map(|(pid, tids)| tids.into_iter().filter_map(move |tid| Thread::of(pid, tid)))
            .filter(|thread| state(thread.tid) == Some(ours))
            .collect()
    }

    /// True if there was any.
    fn lower_all(&mut self) -> bool {
        let threads = self.fifo();
        for thread in &threads {
            thread.lower();
        }
        !threads.is_empty()
    }

    fn examine(&mut self) {
        let now = Instant::now();
        let threads = self.fifo();
        for cpu in self.cpus.values_mut() {
            cpu.next_check();
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
        let elapsed = now - self.sampled_at[0];
        self.sampled_at.rotate_left(1);
        self.sampled_at[SAMPLES - 1] = now;
        let mut over = None;
        for (number, cpu) in &mut self.cpus {
            let used = cpu.used();
            if cpu.out_until.is_none() && used > allowed(most, window, elapsed) {
                cpu.out_until = Some(now + window * (1 << cpu.overruns).min(MOST_WINDOWS));
                cpu.overruns = (cpu.overruns + 1).min(MOST_WINDOWS.ilog2());
                over = Some((*number, used));
            }
            cpu.settle(now, on.get(number).map_or(&[], Vec::as_slice), ours);
        }
        if let Some((number, used)) = over.filter(|_| !std::mem::replace(&mut self.reported, true))
        {
            message::print(&format!(
                "--place rtfifo: threads used {} ms of {} ms of CPU {number}, and share it with \
                 others for a while; --budget says how much they may",
                used.as_millis(),
                window.as_millis()
            ));
        }
    }
}

/// CPU time of the calling thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

/// The budget of samples of this time. If turns take long, that is more than a window.
fn allowed(most: Duration, window: Duration, elapsed: Duration) -> Duration {
    most.mul_f64(elapsed.as_secs_f64() / window.as_secs_f64()).max(most)
}

impl Cpu {
    fn next_check(&mut self) {
        self.examine = (self.examine + 1) % SAMPLES;
        self.samples[self.examine] = 0;
    }

    fn add(&mut self, ns: u64) {
        self.samples[self.examine] += ns;
    }

    fn used(&self) -> Duration {
        Duration::from_nanos(self.samples.iter().sum())
    }

    /// Lowers the threads on a banned CPU, or restores their policy.
    fn settle(&mut self, now: Instant, threads: &[Thread], priority: i32) {
        let Some(until) = self.out_until else { return };
        if now < until {
            for &thread in threads {
                thread.lower();
                self.lowered.insert(thread);
            }
            return;
        }
        self.out_until = None;
        self.samples = [0; SAMPLES];
        for thread in std::mem::take(&mut self.lowered) {
            // A policy that the program has set meanwhile stays.
            if state(thread.tid) == Some(LOWERED) && thread.is_there() {
                set(thread.tid, State { policy: FIFO, priority });
                if !thread.is_there() {
                    thread.lower(); // its id belongs to another thread
                }
            }
        }
    }
}

impl Thread {
    /// `None`: it has ended, or is not a thread of that process.
    fn of(pid: i32, tid: i32) -> Option<Self> {
        Some(Self { pid, tid, start_ticks: start_of(pid, tid)? })
    }

    fn is_there(&self) -> bool {
        Self::of(self.pid, self.tid) == Some(*self)
    }

    fn lower(&self) {
        set(self.tid, LOWERED);
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

/// The fields of the stat file of a thread from the third one on; `None`: it has ended.
fn stat_of(pid: i32, tid: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(thread_path(pid, tid, "stat").ok()?).ok()?;
    // The name before them may have anything in it.
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace().map(str::to_owned).collect())
}

/// When a thread started, which is field 22.
fn start_of(pid: i32, tid: i32) -> Option<u64> {
    stat_of(pid, tid)?.get(22 - 3)?.parse().ok()
}

fn tids_of(pid: i32) -> Vec<i32> {
    let tasks = path(pid, "task").and_then(fs::read_dir).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The CPU that a thread ran on last, and its CPU time in ns.
fn cpu_and_time(thread: Thread) -> Option<(u32, u64)> {
    let Thread { pid, tid, start_ticks } = thread;
    let time = fs::read_to_string(thread_path(pid, tid, "schedstat").ok()?).ok()?;
    // Read after the time, which then belongs to the thread that started then.
    let stat = stat_of(pid, tid)?;
    (stat.get(22 - 3)?.parse() == Ok(start_ticks)).then_some(())?;
    let cpu = stat.get(39 - 3)?.parse().ok()?;
    Some((cpu, time.split_ascii_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
