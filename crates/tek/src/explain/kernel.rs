// SPDX-License-Identifier: MIT OR Apache-2.0
//! The purpose of the kernel's own threads, as far as their names show it.

/// Beginnings of names, the longer ones of one kind first.
const KINDS: &[(&str, &str)] = &[
    ("kthreadd", "it creates the kernel's other threads"),
    ("kworker/u", "it does queued work of the kernel on any CPU, such as writing files back"),
    ("kworker/R-", "it stands by to rescue one work queue when memory is short"),
    ("kworker/", "it does queued work of the kernel on one CPU"),
    ("ksoftirqd/", "it handles what interrupts left to do on one CPU (network, timers, blocks)"),
    ("ktimers/", "it handles timers on one CPU, on a PREEMPT_RT kernel"),
    ("irq_work/", "it handles work that interrupts put off, on one CPU"),
    ("irq/", "it handles one interrupt; on it a device waits"),
    ("migration/", "it moves threads between CPUs; it comes before every other thread"),
    ("idle_inject/", "it keeps a CPU idle when it is too hot"),
    ("cpuhp/", "it takes a CPU in or out of use"),
    ("rcu", "it frees the kernel's data structures once no CPU reads them (RCU)"),
    ("kswapd", "it frees memory when it gets short; a thread that needs memory may wait for it"),
    ("kcompactd", "it makes large pieces of free memory"),
    ("khugepaged", "it joins pages into huge ones"),
    ("ksmd", "it shares equal pages of memory"),
    ("kauditd", "it sends messages of the audit subsystem"),
    ("khungtaskd", "it looks for threads that hang in the kernel"),
    ("oom_reaper", "it takes the memory of a program that was killed for want of it"),
    ("jbd2/", "it writes the journal of an ext4 file system"),
    ("xfs", "it works for an XFS file system"),
    ("btrfs", "it works for a Btrfs file system"),
    ("scsi_", "it handles errors of a disk controller"),
    ("nvme", "it works for an NVMe disk"),
    ("loop", "it serves a file as a disk"),
    ("watchdogd", "it feeds the hardware watchdog"),
    ("kdevtmpfs", "it makes the files of /dev"),
    ("writeback", "it writes changed files back to disk"),
    ("mm_percpu_wq", "it stands by for the memory statistics' work queue"),
    ("vhost-", "it moves data for a virtual machine"),
    ("dmcrypt", "it encrypts a disk"),
    ("psimon", "it watches how long threads stall (PSI)"),
];

/// A sentence about a thread of the kernel.
pub fn what_is(name: &str) -> &'static str {
    let known = KINDS.iter().find(|(beginning, _)| name.starts_with(beginning));
    known.map_or("what it is for is not known to tek", |(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_thread_is_known_by_the_beginning_of_its_name() {
        assert!(what_is("kworker/u8:2-events").contains("any CPU"));
        assert!(what_is("kworker/0:1H").contains("one CPU"));
        assert!(what_is("ksoftirqd/1").contains("interrupts"));
        assert!(what_is("flurb").contains("not known"));
    }

    #[test]
    fn no_kind_hides_a_later_one() {
        for (at, (beginning, _)) in KINDS.iter().enumerate() {
            assert!(!KINDS[..at].iter().any(|(earlier, _)| beginning.starts_with(earlier)));
        }
    }
}
