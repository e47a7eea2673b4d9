// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's data on one thread beyond its stat, read only on request for that thread.
//!
//! All but [`environment`] keep the promise of process.rs: they never wait for the thread.
use crate::process::Process;
use procfs_core::process::{LimitValue, Limits, Status};
use std::fs;
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A thread's data beside its stat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Its process.
    pub pid: u32,
    /// Effective user.
    pub user: u32,
    /// Capabilities in effect, a bit for each.
    pub capabilities: u64,
    /// CPUs that it may run on, as `0-1,4`.
    pub cpus: String,
    /// RLIMIT_RTPRIO of its process; `None` where it is not readable.
    pub rtprio_limit: Option<u64>,
    /// Its control groups: the text of /proc/TID/cgroup.
    pub cgroups: String,
    /// Its place in the kernel's autogroups, as `/autogroup-128 nice 0`.
    pub autogroup: Option<String>,
}

impl Detail {
    /// Finds a thread by its tid alone. It fails if there is no such thread.
    pub fn of(tid: u32) -> io::Result<Self> {
        // Every thread has a directory beside those of the processes; it is only not listed.
        let thread = Process::open(tid)?;
        let status: Status = thread.parse("status").ok_or(io::ErrorKind::NotFound)?;
        let limit = thread.parse::<Limits>("limits").map(|limits| limits.max_realtime_priority);
        let cpus = status.cpus_allowed_list.unwrap_or_default();
        let range = |&(first, last): &(u32, u32)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        Ok(Self {
            pid: u32::try_from(status.tgid).map_err(|_| io::ErrorKind::NotFound)?,
            user: status.euid,
            capabilities: status.capeff,
            cpus: cpus.iter().map(range).collect::<Vec<_>>().join(","),
            rtprio_limit: limit.map(|limit| match limit.soft_limit {
                LimitValue::Unlimited => u64::MAX,
                LimitValue::Value(value) => value,
            }),
            cgroups: thread.text("cgroup").unwrap_or_default(),
            autogroup: thread.text("autogroup"),
        })
    }
}

/// A variable of the environment that a process was started with; `None` if it has none of that
/// name.
///
/// The kernel takes a lock of the process's address space for this, so the answer can take long
/// while the process is stuck: after `patience` it is an error.
pub fn environment(pid: u32, variable: &str, patience: Duration) -> io::Result<Option<String>> {
    let (report, reported) = mpsc::channel();
    // If the read never returns, the thread ends with this process, or the read with the other one.
    thread::Builder::new().spawn(move || report.send(fs::read(format!("/proc/{pid}/environ"))))?;
    let environ = reported.recv_timeout(patience).map_err(|_| io::ErrorKind::TimedOut)??;
    let value = environ.split(|&byte| byte == 0).find_map(|entry| {
        entry.strip_prefix(variable.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    });
    Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_by_its_tid_alone() {
        let own = thread::spawn(|| Detail::of(nix::unistd::gettid().as_raw() as u32)).join();
        let own = own.unwrap().unwrap();
        assert_eq!(own.pid, std::process::id());
        assert_eq!(own.user, nix::unistd::geteuid().as_raw());
        assert!(own.cpus.starts_with(|c: char| c.is_ascii_digit()), "{own:?}");
        assert!(own.rtprio_limit.is_some() && !own.cgroups.is_empty());
    }

    #[test]
    fn a_thread_that_is_not_there_is_an_error() {
        assert!(Detail::of(u32::MAX).is_err());
        assert!(Detail::of(0).is_err());
    }

    #[test]
    fn the_environment_is_that_of_the_start() {
        let variable = |name| environment(std::process::id(), name, Duration::from_secs(5));
        let path = variable("PATH").unwrap();
        assert_eq!(path, std::env::var("PATH").ok());
        assert_eq!(variable("TEK_NO_SUCH_VARIABLE").unwrap(), None);
        assert!(environment(u32::MAX, "PATH", Duration::from_secs(5)).is_err());
    }
}
