// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of /proc about processes and threads that may end at any time.
//!
//! A lookup of the directory of an ended task makes the kernel remove what it remembers of that
//! directory (d_invalidate). It waits in a loop for each other task that removes the same. If that
//! task cannot run, because the caller has a higher real-time priority on its CPU, the loop never
//! ends, and the caller survives SIGKILL. So each function asks by a system call whether the task
//! exists, which needs no lookup, before its path is used. Use each path at once: a task that ends
//! after the answer is reaped on another CPU, where its reaper goes on.
#![forbid(unsafe_code)]

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::io;

/// Whether a process or thread exists. A zombie exists.
pub fn exists(id: i32) -> bool {
    id > 0 && kill(Pid::from_raw(id), None) != Err(Errno::ESRCH)
}

/// /proc/ID/FILE of a process or thread. It fails with ESRCH if there is none with this id.
pub fn path(id: i32, file: &str) -> io::Result<String> {
    match exists(id) {
        true => Ok(format!("/proc/{id}/{file}")),
        false => Err(Errno::ESRCH.into()),
    }
}

/// /proc/PROCESS/task/TID/FILE. It fails with ESRCH if there is no such process or no such thread.
pub fn thread_path(process: i32, tid: i32, file: &str) -> io::Result<String> {
    match exists(process) && exists(tid) {
        true => Ok(format!("/proc/{process}/task/{tid}/{file}")),
        false => Err(Errno::ESRCH.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_has_a_path_and_nothing_else() {
        let own = std::process::id() as i32;
        assert_eq!(path(own, "stat").unwrap(), format!("/proc/{own}/stat"));
        let task = thread_path(own, own, "comm").unwrap();
        assert_eq!(task, format!("/proc/{own}/task/{own}/comm"));
        for none in [i32::MAX, 0, -1] {
            assert!(!exists(none));
            assert_eq!(path(none, "stat").unwrap_err().raw_os_error(), Some(Errno::ESRCH as i32));
            assert!(thread_path(none, own, "").is_err() && thread_path(own, none, "").is_err());
        }
    }

    #[test]
    fn a_thread_that_is_not_the_first_exists_until_it_ends() {
        let thread = std::thread::spawn(|| {
            let tid = nix::unistd::gettid().as_raw();
            assert!(exists(tid) && std::fs::read(path(tid, "stat").unwrap()).is_ok());
            tid
        });
        let tid = thread.join().unwrap();
        // The kernel wakes who joins it a moment before it ends.
        while exists(tid) {
            std::thread::yield_now();
        }
        assert!(path(tid, "stat").is_err());
    }

    #[test]
    fn a_zombie_exists() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id() as i32;
        let status = || std::fs::read_to_string(path(id, "stat").unwrap()).unwrap();
        while !status().contains(") Z") {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!exists(id));
    }
}
