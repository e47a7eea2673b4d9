// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether interrupts are handled in threads: then their handlers have priorities, and a
//! time-critical thread can come before them, or after.
use super::check::{info, unknown, yes, Check};
use crate::system::{self, line};
use tek_model::{Device, Stat, Wanted};

const ID: &str = "irq-threads";

/// The check, from the kernel threads and the kernel's command line.
pub fn irq_threads() -> Check {
    let Ok(device) = Device::examine(&Wanted::default()) else { return unknown(ID, "no /proc") };
    let tasks = device.programs.into_iter().flat_map(|program| program.tasks);
    let kernel: Vec<Stat> = tasks.map(|task| task.stat).filter(|stat| stat.kernel).collect();
    judge(
        &kernel,
        system::is_preempt_rt() || is_asked_for(&line("/proc/cmdline").unwrap_or_default()),
    )
}

fn is_asked_for(command_line: &str) -> bool {
    command_line.split_whitespace().any(|word| word == "threadirqs")
}

/// `kernel` has the kernel threads; `all`: each handler that can have a thread has one.
fn judge(kernel: &[Stat], all: bool) -> Check {
    let threads: Vec<&Stat> = kernel.iter().filter(|stat| stat.name.starts_with("irq/")).collect();
    if kernel.is_empty() {
        return unknown(ID, "the threads of the kernel cannot be seen from here");
    }
    let count = threads.len();
    match (all, priorities(&threads)) {
        (true, Some(range)) => {
            yes(ID, format!("interrupts are handled in {count} threads, at priority {range}"))
        }
        (true, None) => yes(ID, "interrupts are handled in threads, of which none is there yet"),
        (false, Some(range)) => info(
            ID,
            format!(
                "{count}, at priority {range}, of drivers that want one: threadirqs on the \
                 kernel's command line has more"
            ),
        ),
        (false, None) => info(ID, "none: threadirqs on the kernel's command line has some"),
    }
}

fn priorities(threads: &[&Stat]) -> Option<String> {
    let of = |stat: &&Stat| stat.rt_priority;
    let (low, high) = (threads.iter().map(of).min()?, threads.iter().map(of).max()?);
    Some(if low == high { low.to_string() } else { format!("{low} to {high}") })
}

#[cfg(test)]
mod tests {
    use super::super::check::Answer;
    use super::*;

    fn thread(name: &str, rt_priority: u32) -> Stat {
        Stat {
            tid: 70,
            name: name.into(),
            parent: 2,
            state: 'S',
            start_ns: 0,
            policy: 1,
            nice: 0,
            rt_priority,
            cpu_ns: 0,
            kernel: true,
        }
    }

    #[test]
    fn threads_of_interrupts_are_counted_with_their_priorities() {
        let kernel = [thread("kthreadd", 0), thread("irq/9-acpi", 50), thread("irq/4-ttyS0", 50)];
        let check = judge(&kernel, true);
        assert_eq!(check.answer, Answer::Yes);
        assert!(check.found.contains("in 2 threads, at priority 50"), "{}", check.found);
        let check = judge(&[thread("irq/9-acpi", 50), thread("irq/4-ttyS0", 90)], true);
        assert!(check.found.contains("50 to 90"), "{}", check.found);
    }

    #[test]
    fn a_few_drivers_with_threads_are_not_a_kernel_with_all() {
        let check = judge(&[thread("irq/9-acpi", 50)], false);
        assert_eq!(check.answer, Answer::Info);
        assert!(check.found.contains("threadirqs"), "{}", check.found);
        assert_eq!(judge(&[thread("kthreadd", 0)], false).answer, Answer::Info);
    }

    #[test]
    fn a_container_that_hides_the_kernels_threads_is_no_kernel_without() {
        assert_eq!(judge(&[], true).answer, Answer::Unknown);
    }

    #[test]
    fn only_the_whole_word_asks_for_threads() {
        assert!(is_asked_for("quiet threadirqs console=ttyS0\n"));
        assert!(!is_asked_for("nothreadirqs threadirqs=0"));
    }
}
