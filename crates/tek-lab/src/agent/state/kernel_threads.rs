// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel threads: their scheduling and their CPUs.
use nix::errno::Errno;
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;

/// Flag of a kernel thread in /proc/PID/stat.
const PF_KTHREAD: u64 = 0x0020_0000;

/// struct sched_attr of sched_setattr(2), in its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

#[derive(Clone, PartialEq)]
struct Thread {
    name: String,
    start: u64,
    /// Nice value, also of a real-time thread, where `attributes` lacks it.
    nice: i32,
    attributes: Attributes,
    cpus: CpuSet,
}

/// The kernel's threads.
pub(super) struct KernelThreads(BTreeMap<i32, Thread>);

impl KernelThreads {
    pub(super) fn take() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid| Some((pid, thread(pid)?))).collect())
    }

    /// Restores the scheduling of changed threads; reports those that it cannot restore. New
    /// threads are workers, whose scheduling is known.
    pub(super) fn restore(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (&pid, now) in &Self::take().0 {
            let was = self.0.get(&pid).filter(|was| was.start == now.start);
            let usual = || now.name.starts_with("kworker/").then(|| now.as_a_worker());
            let Some(wanted) = was.cloned().or_else(usual) else { continue };
            if wanted.attributes != now.attributes {
                if let Err(error) = set_attributes(pid, &wanted.attributes) {
                    left.push(format!("kernel thread {}: {}", now.name, error.desc()));
                }
            }
            if wanted.nice != now.nice {
                // SAFETY: no pointers.
                let set = unsafe { libc::setpriority(libc::PRIO_PROCESS, pid as u32, wanted.nice) };
                if let Err(error) = Errno::result(set) {
                    left.push(format!("kernel thread {}: nice: {}", now.name, error.desc()));
                }
            }
            if wanted.cpus != now.cpus {
                match sched_setaffinity(Pid::from_raw(pid), &wanted.cpus) {
                    // EINVAL: the kernel fixes the CPUs of such a thread.
                    Ok(()) | Err(Errno::EINVAL) => {}
                    Err(error) => {
                        left.push(format!("kernel thread {}: CPUs: {}", now.name, error.desc()));
                    }
                }
            }
        }
        left
    }
}

impl Thread {
    fn as_a_worker(&self) -> Self {
        let mut usual = self.clone();
        if usual.attributes.policy != libc::SCHED_OTHER as u32 {
            usual.attributes = Attributes { size: usual.attributes.size, ..Attributes::default() };
            usual.nice = 0;
        }
        usual
    }
}

/// A process, if it is a kernel thread.
fn thread(pid: i32) -> Option<Thread> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let Stat { name, flags, nice, start } = parse(&stat)?;
    if flags & PF_KTHREAD == 0 {
        return None;
    }
    let attributes = attributes(pid).ok()?;
    let cpus = sched_getaffinity(Pid::from_raw(pid)).ok()?;
    Some(Thread { name, start, nice, attributes, cpus })
}

/// The fields of interest of /proc/PID/stat.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    flags: u64,
    nice: i32,
    start: u64,
}

fn parse(stat: &str) -> Option<Stat> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    // The first of these is the third in proc(5).
    let fields: Vec<&str> = after.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3);
    Some(Stat {
        name: name.to_owned(),
        flags: field(9)?.parse().ok()?,
        nice: field(19)?.parse().ok()?,
        start: field(22)?.parse().ok()?,
    })
}

fn attributes(pid: i32) -> nix::Result<Attributes> {
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>() as u32;
    // SAFETY: it writes at most `size` bytes to `attributes`, which has as many.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &mut attributes, size, 0) };
    Errno::result(done).map(|_| attributes)
}

fn set_attributes(pid: i32, attributes: &Attributes) -> nix::Result<()> {
    let wanted = Attributes { size: size_of::<Attributes>() as u32, flags: 0, ..*attributes };
    // SAFETY: it reads `wanted`, which contains its own size.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &wanted, 0) };
    Errno::result(done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{parse, Stat};
    use proptest::prelude::*;

    #[test]
    fn a_name_may_have_parentheses() {
        let stat = "17 (irq/9-a) b (c)) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 -51 0 1 0 23 0 0";
        let name = "irq/9-a) b (c)".into();
        assert_eq!(parse(stat), Some(Stat { name, flags: 2_129_984, nice: 0, start: 23 }));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in ".{0,80}") {
            let _ = parse(&text);
        }
    }
}
