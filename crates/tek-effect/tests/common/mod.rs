// SPDX-License-Identifier: MIT OR Apache-2.0
//! Victims that sleep, what they have as seen by other means than the crate's, and children that
//! are killed.
#![allow(dead_code)] // each test uses some of it
pub mod ground;
pub mod numbers;
pub mod victim;

use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::{fork, ForkResult, Pid};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread of this process that does nothing.
pub struct Sleeper {
    pub tid: i32,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    pub fn new() -> Self {
        let (report, reported) = channel();
        let (end, ended) = channel::<()>();
        let thread = thread::spawn(move || {
            report.send(nix::unistd::gettid().as_raw()).unwrap();
            let _ = ended.recv();
        });
        let tid = reported.recv().unwrap();
        set_nice(tid, 0); // if it may; the tests may run under nice(1)
        Self { tid, end: Some(end), thread: Some(thread) }
    }

    /// Ends it, and waits until the kernel has forgotten it.
    pub fn end(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        wait_until(|| !Path::new(&format!("/proc/self/task/{}", self.tid)).exists());
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process that does nothing.
pub struct Process(pub Child);

impl Process {
    pub fn new() -> Self {
        let mut command = Command::new("sleep");
        Self(command.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Kills it and leaves it as a zombie.
    pub fn become_zombie(&mut self) {
        self.0.kill().unwrap();
        let stat = format!("/proc/{}/stat", self.pid());
        wait_until(|| fs::read_to_string(&stat).unwrap().contains(") Z "));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// For people to read: where tests run in the kernel lab, which shows it with their results, too.
pub fn report(words: &str) {
    println!("{words}");
    if let Some(directory) = std::env::var_os("OUT").map(PathBuf::from) {
        let reported = directory.join("told");
        let mut file = fs::File::options().create(true).append(true).open(reported).unwrap();
        file.write_all(format!("{words}\n").as_bytes()).unwrap();
    }
}

pub fn wait_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never came to that");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the kernel is just making it, or it waits for its first time on a CPU.
pub fn has_never_run(tid: i32) -> bool {
    let counted = fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap_or_default();
    counted.trim_end().ends_with(" 0")
}

/// Policy with the flag for reset-on-fork, nice value and real-time priority.
pub type Seen = (i32, i32, i32);

pub fn seen(tid: i32) -> Seen {
    // SAFETY: no memory is involved.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) } as i32;
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (policy, fields[19 - 3].parse().unwrap(), fields[40 - 3].parse().unwrap())
}

/// Sets it, as another process would. `false`: the kernel refuses.
pub fn set(tid: i32, (policy, nice, priority): Seen) -> bool {
    // SAFETY: the kernel reads one int.
    let set = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &priority) };
    set_nice(tid, nice) && set == 0
}

pub fn set_nice(tid: i32, nice: i32) -> bool {
    // SAFETY: no memory is involved.
    (unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, tid, nice) }) == 0
}

/// Whether this process may do what these tests do to its own threads.
pub fn may_use_real_time() -> bool {
    let sleeper = Sleeper::new();
    let may = set(sleeper.tid, (libc::SCHED_RR, -1, 1)) && set(sleeper.tid, (0, 0, 0));
    if !may {
        println!("skipped: needs CAP_SYS_NICE, and a cgroup with real-time runtime");
    }
    may
}

/// A directory of the cgroup v1 hierarchy of the controller cpu in which groups can be made.
pub fn cpu_groups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_cpu = |line: &&str| {
        let system = line.split(" - ").nth(1).unwrap_or("");
        system.starts_with("cgroup ") && system.split([',', ' ']).any(|option| option == "cpu")
    };
    usable_groups(mounts.lines().find(is_cpu))
}

/// The same of version 2.
pub fn unified_groups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    usable_groups(mounts.lines().find(|line| line.contains(" - cgroup2 ")))
}

fn usable_groups(mount: Option<&str>) -> Option<PathBuf> {
    let point = mount.and_then(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let usable = point.filter(|point| {
        let probe = point.join(format!("tek-test-probe-{}-{:?}", std::process::id(), name()));
        fs::create_dir(&probe).is_ok() && fs::remove_dir(&probe).is_ok()
    });
    if usable.is_none() {
        println!("skipped: needs a hierarchy of cgroups in which groups can be made");
    }
    usable
}

/// Something that no other test uses.
pub fn name() -> String {
    let name = format!("tek-test-{}-{:?}", std::process::id(), thread::current().id());
    name.replace(['(', ')'], "")
}

/// Groups that a test may leave behind if it fails.
pub struct Swept(pub PathBuf);

impl Drop for Swept {
    fn drop(&mut self) {
        // Threads that were in it may still be ending.
        for _ in 0..100 {
            let below = fs::read_dir(&self.0).into_iter().flatten().flatten();
            for entry in below.filter(|entry| entry.path().is_dir()) {
                let _ = fs::remove_dir(entry.path());
            }
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether no other test runs in this process. If another does, the calling test has run by itself
/// in another process when this returns false: a child that is forked beside another test has
/// copies of that test's locks, and no thread that gives them back.
pub fn alone() -> bool {
    const ALONE: &str = "TEK_TEST_ALONE";

    let thread = thread::current();
    // The harness names a thread after its test, and "main" where it makes none.
    let Some(name) = thread.name().filter(|&name| name != "main") else { return true };
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--test-threads=1", "--include-ignored", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    print!("{}", String::from_utf8_lossy(&ended.stdout));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    false
}

/// Calls in a child that ends with what it returns. The child has copies of this process's memory
/// and only the calling thread, so it must do nothing that waits for another.
pub fn in_child(act: impl FnOnce() -> bool) -> Pid {
    // SAFETY: the C library makes its allocator usable in the child, which uses no other lock.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            // SAFETY: it takes no pointers; the child dies with the test.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let good = act();
            // SAFETY: it does not return, and runs nothing of the parent's.
            unsafe { libc::_exit(if good { 0 } else { 1 }) }
        }
    }
}

/// How a child ended: `true`: as it should; `false`: it was killed.
pub fn ended_well(child: Pid) -> bool {
    match waitpid(child, None).unwrap() {
        WaitStatus::Exited(_, 0) => true,
        WaitStatus::Signaled(_, Signal::SIGKILL, _) => false,
        other => panic!("the child failed: {other:?}"),
    }
}

pub fn kill_child(child: Pid) {
    kill(child, Signal::SIGKILL).unwrap();
}

/// A process that sleeps and has this id, which no other may have. `None`: it cannot be had.
pub fn process_with_id(pid: i32) -> Option<Pid> {
    let set = [pid];
    // Fields of struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack,
    // stack_size, tls, set_tid, set_tid_size.
    let args = [0, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0, set.as_ptr() as u64, 1];
    // SAFETY: without flags it is a fork; the kernel reads `args` and `set`.
    match unsafe { libc::syscall(libc::SYS_clone3, &args, size_of_val(&args)) } {
        -1 => None,
        0 => loop {
            // SAFETY: neither takes pointers; the child dies with the test.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::pause();
            }
        },
        child => Some(Pid::from_raw(child as i32)),
    }
}
