// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command that raises a limit that is too low, if there is one.
use super::pages;
use super::room::{threads_of_the_system, Seen, RESERVED_PIDS};
use std::path::Path;
use tek_advice::{as_root, write_as_root};
use tek_stack::budget::{Item, Resource};

/// Threads that may start meanwhile.
const SPARE: u64 = 1000;

/// A limit of a process: what ulimit, prlimit, systemd and the kernel call it.
struct Rlimit {
    /// Option of the shell's ulimit, and its unit.
    letter: &'static str,
    unit: u64,
    option: &'static str,
    directive: &'static str,
    /// In /proc/PID/limits.
    name: &'static str,
}

const ADDRESSES: Rlimit = Rlimit {
    letter: "-Sv",
    unit: 1024,
    option: "as",
    directive: "LimitAS",
    name: "Max address space",
};
const LOCKED: Rlimit = Rlimit {
    letter: "-Sl",
    unit: 1024,
    option: "memlock",
    directive: "LimitMEMLOCK",
    name: "Max locked memory",
};
const PROCESSES: Rlimit = Rlimit {
    letter: "-Su",
    unit: 1,
    option: "nproc",
    directive: "LimitNPROC",
    name: "Max processes",
};

/// The cure, for the examined process.
pub fn cure(item: &Item, seen: &Seen) -> String {
    // The use by other processes may have grown by the time that this is followed.
    let most = |used: u64| used.saturating_add(item.needed).saturating_add(SPARE);
    let kernel = |name: &str, used| write_as_root(most(used), Path::new("/proc/sys").join(name));
    match item.resource {
        Resource::Limit => "smaller stacks, or a higher --limit".into(),
        Resource::WordSize => "smaller stacks, or a 64-bit program".into(),
        Resource::RlimitAs => ADDRESSES.raised(item.needed, seen),
        Resource::Memlock => LOCKED.raised(item.needed, seen),
        Resource::Nproc => PROCESSES.raised(most(seen.threads_of_user()), seen),
        Resource::Mappings => write_as_root(item.needed, "/proc/sys/vm/max_map_count"),
        Resource::ThreadsMax => kernel("kernel/threads-max", threads_of_the_system()),
        Resource::PidMax => kernel("kernel/pid_max", threads_of_the_system() + RESERVED_PIDS),
        Resource::PidsMax => match seen.pids_max() {
            Some(tightest) => {
                let most = most(tightest.now);
                format!(
                    "{}, or TasksMax={most} of its systemd unit",
                    write_as_root(most, tightest.file)
                )
            }
            None => "raise pids.max of its control group".to_owned(),
        },
        Resource::Memory => "more memory, or fewer threads".into(),
        Resource::Commit => write_as_root(0, "/proc/sys/vm/overcommit_memory"),
        Resource::Stack => format!("a --stack of {} bytes or more", pages(item.needed)),
    }
}

impl Rlimit {
    /// The command that raises it: as its user up to the hard limit, beyond it as root.
    fn raised(&self, needed: u64, seen: &Seen) -> String {
        let Self { letter, unit, option, directive, name } = self;
        let now = match (seen.hard_limit(name).is_none_or(|hard| needed <= hard), seen.pid) {
            (true, None) => format!("ulimit {letter} {}", needed.div_ceil(*unit)),
            (true, Some(pid)) => format!("prlimit --pid {pid} --{option}={needed}:"),
            (false, pid) => {
                let pid = pid.unwrap_or_else(|| nix::unistd::getppid().as_raw().unsigned_abs());
                as_root(&format!("prlimit --pid {pid} --{option}={needed}:{needed}"))
            }
        };
        format!("{now}, or {directive}={needed} of its systemd unit")
    }
}
