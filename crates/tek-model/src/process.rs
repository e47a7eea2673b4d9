// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and their threads, from /proc.
//!
//! A read never blocks the target, nor does the target block it: it excludes files of /proc that
//! take a lock of the target's address space or wait for it (cmdline, environ, exe, maps, smaps).
//! Threads and processes that end meanwhile are left out.
use nix::fcntl::{openat, OFlag};
use nix::sys::stat::Mode;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::{sysconf, Pid, SysconfVar};
use procfs_core::process::{Io, Schedstat, StatM};
use procfs_core::{FromBufRead, FromRead};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use tek_abi::TimeOffsets;

/// The kernel's PF_KTHREAD in the flags of a thread.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// Room for a file of /proc. One read returns it whole if there is room: only the status of a user
/// with hundreds of groups is longer.
const USUAL_BYTES: usize = 4096;
const MOST_BYTES: u64 = 1 << 20;

/// A thread's /proc/PID/task/TID/stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Kernel thread id.
    pub tid: u32,
    /// Name: set for it, or inherited from its creator. Any bytes, as lossy UTF-8.
    pub name: String,
    /// The parent of its process; 0: none.
    pub parent: u32,
    /// R, S, D, T, t, Z, X or I: see proc(5).
    pub state: char,
    /// CLOCK_BOOTTIME when it began, rounded down to a clock tick (usually 10 ms), in ns.
    pub start_ns: u64,
    /// SCHED_*.
    pub policy: u32,
    /// Nice value.
    pub nice: i8,
    /// Real-time priority; 0: none.
    pub rt_priority: u32,
    /// CPU time used in user and kernel mode, in whole clock ticks.
    pub cpu_ns: u64,
    /// Whether it is a kernel thread.
    pub kernel: bool,
}

/// A thread's /proc/PID/task/TID/schedstat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// CPU time used.
    pub cpu_ns: u64,
    /// Time that it was ready to run and waited for a CPU.
    pub run_delay_ns: u64,
    /// How often it was given a CPU.
    pub slices: u64,
}

/// How often a thread left its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// It waited for something.
    pub voluntary: u64,
    /// The scheduler preempted it.
    pub involuntary: u64,
}

impl Switches {
    /// Both kinds.
    pub fn total(&self) -> u64 {
        self.voluntary + self.involuntary
    }
}

/// A thread in the directory of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    /// Kernel thread id.
    pub tid: u32,
    /// Inode of its directory. A thread may get another inode, but another thread never gets this
    /// one.
    pub inode: u64,
}

/// The present processes, in the order of their pids.
pub fn processes() -> io::Result<Vec<u32>> {
    numbers_in(Path::new("/proc"))
}

/// An opened process: reads never concern a later process with the same pid.
pub struct Process {
    pid: u32,
    directory: OwnedFd,
    tick_ns: u64,
}

impl Process {
    /// Opens a process; it fails if there is none.
    pub fn open(pid: u32) -> io::Result<Self> {
        let path = format!("/proc/{pid}");
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = nix::fcntl::open(path.as_str(), flags, Mode::empty())?;
        let ticks = sysconf(SysconfVar::CLK_TCK)?.and_then(|ticks| u64::try_from(ticks).ok());
        let tick_ns = 1_000_000_000 / ticks.filter(|&ticks| ticks > 0).unwrap_or(100);
        Ok(Self { pid, directory, tick_ns })
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The tids of its threads, in their order. Some may be missing if the program starts and ends
    /// threads all the time.
    pub fn tids(&self) -> io::Result<Vec<u32>> {
        numbers_in(&Path::new("/proc").join(self.pid.to_string()).join("task"))
    }

    /// The CPU time of all threads that it has and had. It changes whenever one of them runs.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        let pid = Pid::from_raw(self.pid.try_into().ok()?);
        let clock = clock_getcpuclockid(pid).ok()?;
        clock_gettime(clock).ok().map(Duration::from)
    }

    /// Its threads, each with the identity of its directory.
    pub(crate) fn entries(&self) -> io::Result<Vec<Entry>> {
        let path = Path::new("/proc").join(self.pid.to_string()).join("task");
        let entries = fs::read_dir(path)?.flatten();
        let entry = |entry: fs::DirEntry| {
            let tid = entry.file_name().to_str()?.parse().ok()?;
            Some(Entry { tid, inode: entry.ino() })
        };
        let mut entries: Vec<Entry> = entries.filter_map(entry).collect();
        tek_sort::by_key(&mut entries, |entry| entry.tid);
        Ok(entries)
    }

    /// Its threads.
    pub fn threads(&self) -> io::Result<Vec<Stat>> {
        Ok(self.tids()?.into_iter().filter_map(|tid| self.stat(tid)).collect())
    }

    /// One of its threads; `None` when it has ended.
    pub fn stat(&self, tid: u32) -> Option<Stat> {
        let stat: procfs_core::process::Stat = self.read(&format!("task/{tid}/stat"))?;
        let offsets = TimeOffsets::own().unwrap_or_default();
        let shift_ns = offsets.boottime_ns - offsets.stat_ns;
        Some(Stat {
            tid,
            name: stat.comm,
            parent: stat.ppid.try_into().unwrap_or(0),
            state: stat.state,
            start_ns: stat.starttime.saturating_mul(self.tick_ns).saturating_add_signed(shift_ns),
            policy: stat.policy.unwrap_or(0),
            nice: stat.nice as i8,
            rt_priority: stat.rt_priority.unwrap_or(0),
            cpu_ns: (stat.utime.saturating_add(stat.stime)).saturating_mul(self.tick_ns),
            kernel: stat.flags & KERNEL_THREAD != 0,
        })
    }

    /// A thread's times; `None` when it has ended, or the kernel keeps no such account.
    pub fn schedstat(&self, tid: u32) -> Option<SchedStat> {
        let stat: Schedstat = self.read(&format!("task/{tid}/schedstat"))?;
        Some(SchedStat {
            cpu_ns: stat.sum_exec_runtime,
            run_delay_ns: stat.run_delay,
            slices: stat.pcount,
        })
    }

    /// A thread's context switches; `None` when it has ended.
    pub fn switches(&self, tid: u32) -> Option<Switches> {
        self.with(&format!("task/{tid}/status"), |status| {
            Some(Switches {
                voluntary: status_field(status, "voluntary_ctxt_switches")?,
                involuntary: status_field(status, "nonvoluntary_ctxt_switches")?,
            })
        })
    }

    /// Bytes that a thread read from storage and that it caused to be written, counted when it
    /// makes a page dirty. `None` when it has ended or may not be traced.
    pub fn storage_bytes(&self, tid: u32) -> Option<u64> {
        let io: Io = self.parse(&format!("task/{tid}/io"))?;
        Some(io.read_bytes.saturating_add(io.write_bytes))
    }

    /// A thread's control groups, as in its cgroup file; `None` when it has ended.
    pub(crate) fn cgroups(&self, tid: u32) -> Option<String> {
        self.text(&format!("task/{tid}/cgroup"))
    }

    /// The size of its address space, in bytes; 0 for a process of the kernel.
    pub fn vm_bytes(&self) -> Option<u64> {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten()?;
        let pages = self.read::<StatM>("statm")?.size;
        Some(pages.saturating_mul(u64::try_from(page).ok()?))
    }

    /// Whether it can have begun at this time of CLOCK_BOOTTIME of the initial time namespace. The
    /// time may come from another namespace and be rounded down there. `None` when it has ended.
    pub(crate) fn began_at(&self, initial_ns: u64) -> Option<bool> {
        let start_ns = self.stat(self.pid)?.start_ns;
        let Some(offsets) = TimeOffsets::own() else { return Some(true) };
        let own_ns = start_ns.wrapping_add_signed(offsets.boottime_ns.wrapping_neg());
        Some(own_ns.abs_diff(initial_ns) < self.tick_ns)
    }

    /// Where its first stack begins, which distinguishes a program from one that replaced it;
    /// `None` where this may not be read.
    pub(crate) fn stack_start(&self) -> Option<u64> {
        self.with("stat", |stat| {
            let name_end = stat.iter().rposition(|&byte| byte == b')')?;
            let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
            // Behind the name comes field 3.
            rest.split_ascii_whitespace().nth(28 - 3)?.parse().ok()
        })
        .filter(|&address| address != 0)
    }

    /// The tid of its first thread; not `pid` if the process was opened by another thread's tid.
    pub(crate) fn leader(&self) -> Option<u32> {
        self.with("status", |status| status_field(status, "Tgid"))
    }

    /// Its effective user.
    pub(crate) fn user(&self) -> Option<u32> {
        // The second number. The directory's owner does not serve: it is root where the process is
        // not dumpable.
        self.with("status", |status| {
            status_text(status, "Uid")?.split_ascii_whitespace().nth(1)?.parse().ok()
        })
    }

    pub(crate) fn read<T: FromRead>(&self, file: &str) -> Option<T> {
        self.with(file, |bytes| T::from_read(bytes).ok())
    }

    /// As `read`, of a file of many lines.
    pub(crate) fn parse<T: FromBufRead>(&self, file: &str) -> Option<T> {
        // The parsers want UTF-8, and the name of a thread may be anything.
        self.with(file, |bytes| T::from_buf_read(String::from_utf8_lossy(bytes).as_bytes()).ok())
    }

    /// The text of a file without the end of its last line.
    pub(crate) fn text(&self, file: &str) -> Option<String> {
        self.with(file, |bytes| Some(String::from_utf8_lossy(bytes).trim_end().to_owned()))
    }

    /// One of its files, open for reading.
    pub(crate) fn open_file(&self, file: &str) -> Option<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        Some(File::from(openat(&self.directory, file, flags, Mode::empty()).ok()?))
    }

    /// Calls the function with a file's content.
    fn with<T>(&self, file: &str, use_it: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let mut file = self.open_file(file)?;
        let mut bytes = vec![0; USUAL_BYTES];
        let length = file.read(&mut bytes).ok()?;
        bytes.truncate(length);
        if length == USUAL_BYTES {
            file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        }
        use_it(&bytes)
    }
}

/// A number of /proc/PID/status.
fn status_field<T: FromStr>(status: &[u8], name: &str) -> Option<T> {
    status_text(status, name)?.parse().ok()
}

fn status_text<'a>(status: &'a [u8], name: &str) -> Option<&'a str> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let text = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
    Some(std::str::from_utf8(text).ok()?.trim())
}

/// The names in a directory that are numbers, sorted.
fn numbers_in(directory: &Path) -> io::Result<Vec<u32>> {
    let names = fs::read_dir(directory)?.flatten().map(|entry| entry.file_name());
    let mut numbers: Vec<u32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The inode number of this process's own pid namespace.
pub(crate) fn own_pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|status| status.ino())
}

/// CLOCK_BOOTTIME, the clock of the threads' times.
pub fn boot_time_ns() -> u64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Instant;

    fn own() -> Process {
        Process::open(std::process::id()).unwrap()
    }

    /// join() returns a moment before the kernel has forgotten a thread of this process.
    pub(crate) fn wait_until_forgotten(tid: u32) {
        let path = format!("/proc/self/task/{tid}");
        let end = Instant::now() + Duration::from_secs(20);
        while Path::new(&path).exists() {
            assert!(Instant::now() < end, "thread {tid} is still there");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thread_of_this_process_is_found_with_its_name_age_and_cpu_time() {
        let before = boot_time_ns();
        let (report, reported) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("gas ) (x".into()).spawn(move || {
            let until = Instant::now() + Duration::from_millis(60);
            while Instant::now() < until {}
            report.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            let _ = ended.recv();
        });
        let tid: u32 = reported.recv().unwrap();
        let process = own();
        let threads = process.threads().unwrap();
        let stat = threads.iter().find(|stat| stat.tid == tid).unwrap();
        assert_eq!(stat.name, "gas ) (x");
        assert!(!stat.kernel);
        assert!(stat.start_ns + process.tick_ns >= before && stat.start_ns <= boot_time_ns());
        let times = process.schedstat(tid).unwrap();
        assert!(times.cpu_ns > 0 && times.slices > 0, "{times:?}");
        assert!(process.switches(tid).unwrap().total() > 0);
        drop(end);
        thread.unwrap().join().unwrap();
        wait_until_forgotten(tid);
        assert_eq!(process.stat(tid), None);
    }

    #[test]
    fn a_thread_with_a_name_that_is_no_text_is_read_like_any_other() {
        std::thread::spawn(|| {
            nix::sys::prctl::set_name(c"\xff\n:\xfe").unwrap();
            let tid = nix::unistd::gettid().as_raw() as u32;
            assert_eq!(own().stat(tid).unwrap().name, "\u{fffd}\n:\u{fffd}");
            assert!(own().switches(tid).is_some());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_process_itself_has_an_owner_a_size_and_a_start_time() {
        assert_eq!(own().user(), Some(nix::unistd::geteuid().as_raw()));
        assert!(own().vm_bytes().unwrap() > 1 << 20);
        let start_ns = own().stat(own().pid).unwrap().start_ns;
        let initial_ns =
            start_ns.wrapping_add_signed(TimeOffsets::own().unwrap().boottime_ns.wrapping_neg());
        assert_eq!(own().began_at(initial_ns), Some(true));
        assert_eq!(own().began_at(initial_ns + own().tick_ns), Some(false));
        assert_eq!(own().began_at(initial_ns + own().tick_ns - 1), Some(true));
        let on_stack = 0u8;
        assert!(own().stack_start().unwrap() > std::ptr::from_ref(&on_stack) as u64 >> 1);
        assert!(processes().unwrap().contains(&std::process::id()));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        assert!(Process::open(u32::MAX).is_err());
        assert_eq!(own().stat(u32::MAX), None);
    }
}
