// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the kernel schedules the thread, its control group, and the privilege of its process.
use crate::explain::daemon;
use crate::explain::facts::{Facts, Kernel};

pub fn kernel(facts: &Facts) -> Vec<String> {
    let kernel = &facts.kernel;
    let by_tekd = |what: fn(&daemon::Known) -> bool| facts.daemon.as_ref().is_some_and(what);
    let mut reported = vec![scheduling(kernel), format!("It is {}.", state(kernel.state))];
    if !kernel.cpus.is_empty() {
        reported.push(format!("It may run on CPU {}.", kernel.cpus));
    }
    if let Some(group) = &kernel.cgroup {
        reported.push(match kernel.cgroup_rt_runtime_us {
            // This needs no cure: tekd moves the threads that it makes Fast.
            Some(0) if by_tekd(|known| known.fast.is_some()) => {
                format!("Its cpu control group is {group}, without real-time run-time.")
            }
            Some(0) if by_tekd(|known| known.group.is_some()) => format!(
                "Its cpu control group, {group}, has no real-time run-time, as all of tekd's: its \
                 threads become time-critical through tekd, which moves them to another."
            ),
            Some(0) => format!(
                "Its cpu control group, {group}, has no real-time run-time: in there no thread can \
                 become time-critical (`tek doctor` has the cure)."
            ),
            Some(us) => {
                format!(
                    "Its cpu control group is {group}, with {us} us of real-time run-time a period."
                )
            }
            None => format!("Its cpu control group is {group}."),
        });
    }
    if let (Some(autogroup), 0) = (&kernel.autogroup, kernel.rt_priority) {
        reported.push(format!(
            "Autogroup is on: it shares the CPU with its session ({autogroup}) first, and its nice \
             value counts only there."
        ));
    }
    if facts.kernel_thread.is_none() {
        reported.push(privilege(kernel));
    }
    reported
}

fn scheduling(kernel: &Kernel) -> String {
    let Kernel { policy, rt_priority, nice, .. } = kernel;
    match policy.as_str() {
        "SCHED_FIFO" | "SCHED_RR" => format!(
            "It is scheduled as {policy} with real-time priority {rt_priority}: before every \
             thread of the fair classes, behind those of a higher one. Its nice value, {nice}, \
             does not count meanwhile."
        ),
        "SCHED_DEADLINE" => format!("It is scheduled as {policy}: before every other class."),
        "SCHED_IDLE" => format!("It is scheduled as {policy}: it gets what all others leave."),
        _ => {
            format!("It is scheduled as {policy}, nice {nice}: fairly, by weight, with all others.")
        }
    }
}

fn privilege(kernel: &Kernel) -> String {
    match (kernel.sys_nice, kernel.rtprio_limit) {
        (true, _) => "Its process may use every real-time priority (CAP_SYS_NICE).".into(),
        (false, Some(0)) => "Its process may not use real-time priorities: it has neither \
            CAP_SYS_NICE nor RLIMIT_RTPRIO (`tek doctor` has the cure)."
            .into(),
        (false, Some(limit)) => {
            format!("Its process may use real-time priorities up to {limit} (RLIMIT_RTPRIO).")
        }
        (false, None) => "Whether its process may use real-time priorities is not told.".into(),
    }
}

fn state(letter: char) -> &'static str {
    match letter {
        'R' => "running, or ready to run and waiting for a CPU",
        'S' => "asleep, waiting for something to happen",
        'D' => "waiting for storage or the kernel, and cannot be interrupted",
        'T' => "stopped by a signal",
        't' => "stopped by a debugger",
        'I' => "idle",
        'Z' | 'X' => "dead",
        _ => "in a state that tek does not know",
    }
}
