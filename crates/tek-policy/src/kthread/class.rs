// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of kernel threads: Table 1 of the paper, adapted to present kernels.
//!
//! The work of pdflush is now a work of a pool's worker. keventd, aio and khelper are now work
//! queues, and kthread is kthreadd, which creates the workers.
use serde::de::{Deserializer, Error};
use serde::Deserialize;
use std::fmt;

/// The purpose of a kernel thread, derived from its name. Valid only for threads of the kernel
/// (PF_KTHREAD) and workers of io_uring: any program may have the name kswapd0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// `irq/24-eth0`.
    Irq,
    /// `ksoftirqd/0`; on PREEMPT_RT also `ktimers/0`, which runs the softirqs of timers only, and
    /// its predecessor `ktimersoftd/0`.
    Softirq,
    /// A worker that writes files back, as pdflush did. The work shows it: [`Class::of_work`].
    Writeback,
    /// `kswapd0`.
    Reclaim,
    /// `kcompactd0`, and `khugepaged`, which moves pages too, for huge pages.
    Compaction,
    /// `kworker/0:1`, and threads of a file system or a disk driver.
    Worker,
    /// `iou-wrk-812`.
    IoUring,
    /// `kthreadd`.
    Creator,
    /// An ordinary thread that holds something inside a file system. No name shows it.
    Holder,
    /// Threads that the kernel's own order depends on: never changed for any waiter.
    Untouchable,
    /// The waiters of the thread are not known, so it is not changed.
    Unknown,
}

/// How the response time of a task depends on a kernel thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClassGroup {
    /// The thread wakes the task: each delay of the thread delays the task.
    Direct,
    /// Without the thread the system reaches a state in which the task must do the same work.
    IndirectSystem,
    /// The thread does work that the task has handed over to it.
    IndirectWorker,
}

/// A name of the class is this prefix, then a number or the end. A longer prefix precedes a shorter
/// one. Outside /proc the kernel truncates names to 15 bytes.
const NUMBERED: &[(&str, Class)] = &[
    ("irq/", Class::Irq),
    ("ksoftirqd/", Class::Softirq),
    ("ktimers/", Class::Softirq),
    ("ktimersoftd/", Class::Softirq),
    ("kswapd", Class::Reclaim),
    ("kcompactd", Class::Compaction),
    ("iou-wrk-", Class::IoUring),
    ("iou-sqp-", Class::IoUring), // polls the submission queue for its process
    ("io_wqe_worker-", Class::IoUring), // before Linux 5.12
    ("loop", Class::Worker),      // each request to such a disk goes through its thread
    ("irq_work/", Class::Untouchable),
    ("migration/", Class::Untouchable), // the stopper
    ("stopper/", Class::Untouchable),
    ("cpuhp/", Class::Untouchable),
    ("watchdog/", Class::Untouchable),
    ("idle_inject/", Class::Untouchable),
    ("posixcputmr/", Class::Untouchable), // CPU timers of PREEMPT_RT before Linux 5.10
    ("sugov:", Class::Untouchable),       // sets the frequency; SCHED_DEADLINE
    ("backlog_napi/", Class::Softirq),    // processes deferred network packets, since Linux 6.10
];

/// A name with this prefix is of the class.
const BEGINNINGS: &[(&str, Class)] = &[
    ("kworker/", Class::Worker),
    // fsync(2) waits until the journal is written; a task that needs room waits until it is empty.
    ("jbd2/", Class::Worker),
    ("xfsaild/", Class::Worker),
    ("btrfs-transacti", Class::Worker),
    ("f2fs_ckpt-", Class::Worker),
    ("f2fs_flush-", Class::Worker),
    // Each request to such a disk goes through its thread.
    ("dmcrypt_write/", Class::Worker),
    ("usb-storage", Class::Worker),
    // Answers of a file server go through its thread.
    ("cifsd", Class::Worker),
    // A network device whose packets have a thread of their own.
    ("napi/", Class::Softirq),
    // RCU: known only so that it stays above ksoftirqd.
    ("rcu", Class::Untouchable),
    ("sched_ext", Class::Untouchable),
];

impl Class {
    /// The classes that tekd.toml may name.
    pub const NAMED: [Self; 9] = [
        Self::Irq,
        Self::Softirq,
        Self::Writeback,
        Self::Reclaim,
        Self::Compaction,
        Self::Worker,
        Self::IoUring,
        Self::Creator,
        Self::Holder,
    ];

    /// The class by the name of a kernel thread, as in /proc/PID/comm or stat.
    pub fn of_name(name: &str) -> Self {
        match name {
            "kthreadd" => return Self::Creator,
            "khugepaged" => return Self::Compaction,
            "watchdogd" => return Self::Untouchable,
            "io_uring-sq" | "io_wq_manager" => return Self::IoUring, // before Linux 5.12
            _ => {}
        }
        let numbered =
            |rest: &str| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit());
        let is =
            |(beginning, _): &&(&str, Self)| name.strip_prefix(beginning).is_some_and(numbered);
        let begins = |(beginning, _): &&(&str, Self)| name.starts_with(beginning);
        let found = NUMBERED.iter().find(is).or_else(|| BEGINNINGS.iter().find(begins));
        found.map_or_else(|| Self::of_raid(name), |(_, class)| *class)
    }

    /// `md127_raid1` processes the requests to a RAID.
    fn of_raid(name: &str) -> Self {
        let level = name.strip_prefix("md").and_then(|rest| rest.split_once("_raid"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match level.is_some_and(|(number, level)| is_number(number) && is_number(level)) {
            true => Self::Worker,
            false => Self::Unknown,
        }
    }

    /// The class of a worker while it runs work of this function of the kernel. The name may have
    /// an ending of the compiler (`wb_workfn.llvm.1`).
    pub fn of_work(function: &str) -> Self {
        match function.split('.').next() {
            Some("wb_workfn") => Self::Writeback,
            _ => Self::Worker,
        }
    }

    /// `None` for classes that are never changed.
    pub fn group(self) -> Option<ClassGroup> {
        Some(match self {
            Self::Irq | Self::Softirq => ClassGroup::Direct,
            Self::Writeback | Self::Reclaim | Self::Compaction => ClassGroup::IndirectSystem,
            Self::Worker | Self::IoUring | Self::Creator | Self::Holder => {
                ClassGroup::IndirectWorker
            }
            Self::Untouchable | Self::Unknown => return None,
        })
    }

    /// The name in tekd.toml.
    pub fn name(self) -> &'static str {
        match self {
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::Writeback => "writeback",
            Self::Reclaim => "kswapd",
            Self::Compaction => "kcompactd",
            Self::Worker => "worker",
            Self::IoUring => "io_uring",
            Self::Creator => "kthreadd",
            Self::Holder => "holder",
            Self::Untouchable => "untouchable",
            Self::Unknown => "unknown",
        }
    }

    /// Its work and its waiters: the end of a sentence about the thread.
    pub fn what(self) -> &'static str {
        match self {
            Self::Irq => "handles an interrupt; tasks that wait for the device wait for it",
            Self::Softirq => {
                "handles what interrupts left to do on its CPU; a task that waits for a device or \
                 a timer may wait for it"
            }
            Self::Writeback => {
                "writes changed files back to disk; a task that writes does so itself when too \
                 much is left"
            }
            Self::Reclaim => {
                "frees memory when it gets short; a task that needs memory does so itself when \
                 there is none"
            }
            Self::Compaction => {
                "makes large pieces of free memory; a task that needs one does so itself when \
                 there is none"
            }
            Self::Worker => "does work that other threads have queued",
            Self::IoUring => "does requests of io_uring that would block",
            Self::Creator => {
                "creates the kernel's other threads; work waits when a worker is missing"
            }
            Self::Holder => "is an ordinary thread that holds something inside a file system",
            Self::Untouchable => {
                "is one that the other kernel threads depend on, and TEK never changes it"
            }
            Self::Unknown => "is of a kind whose waiters TEK does not know",
        }
    }

    /// The policy of such a thread on an ordinary kernel; `None`: it differs between threads.
    pub fn default_policy(self) -> Option<&'static str> {
        match self {
            Self::Irq => Some("SCHED_FIFO 50"),
            Self::Softirq => Some("SCHED_OTHER, nice 0; ktimers SCHED_FIFO 1"),
            Self::Writeback | Self::Reclaim | Self::Compaction | Self::Creator => {
                Some("SCHED_OTHER, nice 0")
            }
            Self::Worker => Some("SCHED_OTHER, nice 0 or -20"),
            Self::IoUring => Some("the policy of its creator"),
            Self::Holder => Some("its own policy"),
            Self::Untouchable | Self::Unknown => None,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ClassGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::IndirectSystem => "indirect, system",
            Self::IndirectWorker => "indirect, worker",
        })
    }
}

impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let found = Self::NAMED.into_iter().find(|class| class.name() == text);
        found.ok_or_else(|| {
            let names = Self::NAMED.map(Self::name).join(", ");
            D::Error::custom(format!("`{text}` is no class of kernel threads: there are {names}"))
        })
    }
}

#[cfg(test)]
#[path = "class_tests.rs"]
mod tests;
