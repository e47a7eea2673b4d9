// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resources of a process: its limits, and their use.
use crate::system::{cgroup, elf, line, number};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tek_stack::budget::{Available, Resource};

/// A process as /proc shows it: this one, or one that runs.
pub struct Seen {
    /// Its number; `None`: this one.
    pub pid: Option<u32>,
    directory: String,
    status: String,
    limits: String,
}

impl Seen {
    /// Queries a process; `None`: this one.
    pub fn examine(pid: Option<u32>) -> io::Result<Self> {
        let directory = pid.map_or_else(|| "/proc/self".into(), |pid| format!("/proc/{pid}"));
        let read = |name| fs::read(format!("{directory}/{name}"));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (status, limits) = (text(read("status")?), text(read("limits")?));
        Ok(Self { pid, directory, status, limits })
    }

    /// A soft limit, as /proc/PID/limits calls it; `None`: unlimited, or not known.
    pub fn limit(&self, name: &str) -> Option<u64> {
        limit(&self.limits, name)
    }

    /// The hard one.
    pub fn hard_limit(&self, name: &str) -> Option<u64> {
        let rest = self.limits.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().nth(1)?.parse().ok()
    }

    /// A number of /proc/PID/status, in bytes where the kernel has kB.
    fn field(&self, name: &str) -> Option<u64> {
        field(&self.status, name)
    }

    /// Addresses that it takes.
    pub fn addresses(&self) -> u64 {
        self.field("VmSize").unwrap_or(0)
    }

    /// Bytes that it has locked.
    pub fn locked(&self) -> u64 {
        self.field("VmLck").unwrap_or(0)
    }

    /// Its mappings; `None` if they are not visible.
    pub fn mappings(&self) -> Option<u64> {
        let maps = fs::read(format!("{}/maps", self.directory)).ok()?;
        Some(maps.iter().filter(|&&byte| byte == b'\n').count() as u64)
    }

    /// CPUs that it may run on.
    pub fn cpus(&self) -> u64 {
        let line = self.status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"));
        line.map_or(1, |mask| {
            mask.chars().filter_map(|c| c.to_digit(16)).map(|d| u64::from(d.count_ones())).sum()
        })
    }

    /// Word size of its program.
    pub fn bits(&self) -> u8 {
        let program = elf::read(Path::new(&format!("{}/exe", self.directory))).ok().flatten();
        program.map_or(64, |program| program.machine().bits)
    }

    fn user(&self) -> Option<u32> {
        user(&self.status)
    }

    /// Threads of its user.
    pub fn threads_of_user(&self) -> u64 {
        threads_of(self.user())
    }

    fn has_capability(&self, number: u32) -> bool {
        let line = self.status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let set = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        set.is_some_and(|set| set & (1 << number) != 0)
    }

    /// Whether RLIMIT_NPROC counts for it: not for root, nor with certain capabilities.
    fn is_counted(&self) -> bool {
        const SYS_RESOURCE: u32 = 24;
        const SYS_ADMIN: u32 = 21;
        self.user() != Some(0)
            && !self.has_capability(SYS_RESOURCE)
            && !self.has_capability(SYS_ADMIN)
    }

    /// RLIMIT_MEMLOCK; none with CAP_IPC_LOCK.
    pub fn memlock(&self) -> Option<u64> {
        const IPC_LOCK: u32 = 14;
        self.limit("Max locked memory").filter(|_| !self.has_capability(IPC_LOCK))
    }

    /// The threads and the memory that the kernel, the user's limits and the control groups let it
    /// have, in the order of the report.
    pub fn system(&self) -> Vec<Available> {
        let free = |limit: Option<u64>, used: u64| limit.map(|limit| limit.saturating_sub(used));
        let setting =
            |name: &str| number(format!("/proc/sys/{name}")).and_then(|n| u64::try_from(n).ok());
        let meminfo = line("/proc/meminfo").unwrap_or_default();
        let threads = threads_of_the_system();
        let mut room = vec![
            (Resource::Mappings, setting("vm/max_map_count")),
            (Resource::Memory, field(&meminfo, "MemAvailable")),
        ];
        if setting("vm/overcommit_memory") == Some(2) {
            let used = field(&meminfo, "Committed_AS").unwrap_or(0);
            room.push((Resource::Commit, free(field(&meminfo, "CommitLimit"), used)));
        }
        let nproc = self.limit("Max processes").filter(|_| self.is_counted());
        let used = if nproc.is_some() { self.threads_of_user() } else { 0 };
        room.push((Resource::Nproc, free(nproc, used)));
        room.push((Resource::PidsMax, self.pids_max().map(|tightest| tightest.left)));
        room.push((Resource::ThreadsMax, free(setting("kernel/threads-max"), threads)));
        room.push((Resource::PidMax, free(setting("kernel/pid_max"), threads + RESERVED_PIDS)));
        room
    }

    /// The control group with the least left of pids.max: its own or one above it.
    pub fn pids_max(&self) -> Option<PidsMax> {
        let membership = line(format!("{}/cgroup", self.directory))?;
        let (hierarchy, directory) = cgroup::of_in("pids", &membership)?;
        let groups = directory.ancestors().take_while(|group| group.starts_with(&hierarchy.mount));
        let limits = groups.filter_map(|group| {
            let file = group.join("pids.max");
            let most = u64::try_from(number(&file)?).ok()?;
            let now = number(group.join("pids.current")).and_then(|n| u64::try_from(n).ok());
            let now = now.unwrap_or(0);
            Some(PidsMax { file, now, left: most.saturating_sub(now) })
        });
        limits.min_by_key(|limit| limit.left)
    }
}

/// A limit of a control group.
pub struct PidsMax {
    /// Where it is written.
    pub file: PathBuf,
    /// How many threads there are.
    pub now: u64,
    /// How many more there can be.
    pub left: u64,
}

fn limit(limits: &str, name: &str) -> Option<u64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn field(text: &str, name: &str) -> Option<u64> {
    let values = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
    let value = text.lines().find_map(values)?;
    let mut words = value.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    Some(if words.next() == Some("kB") { number.saturating_mul(1024) } else { number })
}

/// The real user.
fn user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// After a wrap-around the kernel does not use the first ones.
pub const RESERVED_PIDS: u64 = 300;

/// Threads that there are.
pub fn threads_of_the_system() -> u64 {
    // `0.52 0.71 0.80 2/310 9912`: the kernel has the count.
    let load = line("/proc/loadavg").unwrap_or_default();
    let threads = load.split_whitespace().nth(3).and_then(|pair| pair.split_once('/'));
    threads.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

fn threads_of(wanted: Option<u32>) -> u64 {
    let processes = tek_model::processes().unwrap_or_default();
    let statuses = processes.iter().filter_map(|pid| line(format!("/proc/{pid}/status")));
    let ours = statuses.filter(|status| user(status) == wanted);
    ours.filter_map(|status| field(&status, "Threads")).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_fields_are_read_as_the_kernel_writes_them() {
        let limits = "\
Limit                     Soft Limit           Hard Limit           Units     \n\
Max stack size            8388608              unlimited            bytes     \n\
Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(limit(limits, "Max stack size"), Some(8 << 20));
        assert_eq!(limit(limits, "Max address space"), None);
        let status = "Name:\tx\nUid:\t7\t0\t0\t0\nVmSize:\t    2344 kB\nThreads:\t3\n";
        assert_eq!(field(status, "VmSize"), Some(2344 << 10));
        assert_eq!(field(status, "Threads"), Some(3));
        assert_eq!((field(status, "Vm"), user(status)), (None, Some(7)));
    }

    #[test]
    fn this_process_has_room_for_a_thread() {
        let own = Seen::examine(None).unwrap();
        assert!(own.cpus() >= 1 && own.addresses() > 0 && own.mappings() > Some(5));
        assert_eq!(u32::from(own.bits()), usize::BITS);
        assert!(own.system().iter().all(|(_, available)| *available != Some(0)));
    }
}
