// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes of several threads, for tests that move them about.
use super::{in_child, kill_child, wait_until};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::{self, Builder};
use std::time::Duration;

/// The work of a process until it is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    /// Nothing.
    Sleep,
    /// Begins a thread, which soon ends, again and again.
    Threads,
    /// Begins a process, which soon ends, again and again.
    Forks,
}

/// A process with so many threads.
pub struct Victim {
    pub pid: i32,
}

impl Victim {
    /// Comes back when all threads are there.
    pub fn new(threads: usize, does: Does) -> Self {
        let (mut ready, mut theirs) = UnixStream::pair().unwrap();
        let child = in_child(|| {
            for _ in 1..threads {
                let sleep = || thread::sleep(Duration::from_secs(600));
                Builder::new().stack_size(32 << 10).spawn(sleep).unwrap();
            }
            theirs.write_all(b"!").unwrap();
            act(does)
        });
        drop(theirs);
        ready.read_exact(&mut [0]).unwrap();
        Self { pid: child.as_raw() }
    }

    /// The threads that the process has now.
    pub fn tids(&self) -> Vec<i32> {
        let list = fs::read_dir(format!("/proc/{}/task", self.pid)).unwrap();
        list.flatten().map(|entry| entry.file_name().to_str().unwrap().parse().unwrap()).collect()
    }
}

/// A process of two threads, of which one executes a program when it is told to.
pub struct Executer {
    victim: Victim,
    report: UnixStream,
}

impl Executer {
    pub fn new(first_executes: bool) -> Self {
        let (report, mut reported) = UnixStream::pair().unwrap();
        let mut execute = move || {
            let _ = reported.read_exact(&mut [0]);
            let _ = Command::new("sleep").arg("600").exec();
        };
        let child = in_child(|| {
            let sleep = || thread::sleep(Duration::from_secs(600));
            match first_executes {
                true => (drop(thread::spawn(sleep)), execute()),
                false => (drop(thread::spawn(execute)), sleep()),
            };
            false
        });
        let executer = Self { victim: Victim { pid: child.as_raw() }, report };
        wait_until(|| executer.threads().is_some());
        executer
    }

    /// The first one, and the other.
    pub fn threads(&self) -> Option<(i32, i32)> {
        let (pid, tids) = (self.victim.pid, self.victim.tids());
        tids.into_iter().find(|&tid| tid != pid).map(|other| (pid, other))
    }

    /// Comes back when it has.
    pub fn execute(&mut self) {
        self.report.write_all(b"!").unwrap();
        let name = format!("/proc/{}/comm", self.victim.pid);
        wait_until(|| fs::read_to_string(&name).unwrap() == "sleep\n");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        kill_child(Pid::from_raw(self.pid));
        let _ = waitpid(Pid::from_raw(self.pid), None);
    }
}

fn act(does: Does) -> bool {
    loop {
        match does {
            Does::Sleep => thread::sleep(Duration::from_secs(600)),
            Does::Threads => {
                let short = || thread::sleep(Duration::from_micros(300));
                let _ = Builder::new().stack_size(32 << 10).spawn(short);
                thread::sleep(Duration::from_micros(200));
            }
            Does::Forks => {
                let child = in_child(|| {
                    thread::sleep(Duration::from_millis(2));
                    true
                });
                thread::sleep(Duration::from_micros(500));
                let _ = waitpid(child, None);
            }
        }
    }
}
