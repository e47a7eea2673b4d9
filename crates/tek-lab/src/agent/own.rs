// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agent's own process.
use super::error::{Doing, Error};
use nix::errno::Errno;
use nix::sched::{sched_setaffinity, CpuSet};
use nix::sys::mman::{mlockall, MlockAllFlags};
use nix::sys::reboot::{reboot, RebootMode};
use nix::unistd::Pid;
use std::fs;

/// Ensures that no job can starve it of the processor or of memory by accident. Repeated after each
/// job, which may have changed it.
pub(super) fn take_precedence() -> Result<(), Error> {
    rise()?;
    // Its nice value has no effect while it is a real-time process, but is visible.
    // SAFETY: no pointers.
    let set = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
    Errno::result(set).doing("set its nice value")?;
    // On all CPUs, of which some may have been offline.
    let mut cpus = CpuSet::new();
    for cpu in 0..CpuSet::count() {
        cpus.set(cpu).doing("run on all CPUs")?;
    }
    sched_setaffinity(Pid::from_raw(0), &cpus).doing("run on all CPUs")?;
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).doing("lock its memory")?;
    fs::write("/proc/self/oom_score_adj", "-1000").doing("be spared when memory runs out")
}

/// Gives it precedence over all jobs.
pub(super) fn rise() -> Result<(), Error> {
    set_policy(libc::SCHED_FIFO, 99).doing("become a real-time process")
}

/// Makes it an ordinary process before it forks: a child inherits the slack of its timers, which a
/// real-time process does not have.
pub(super) fn step_back() -> Result<(), Error> {
    set_policy(libc::SCHED_OTHER, 0).doing("become an ordinary process")
}

fn set_policy(policy: i32, priority: i32) -> nix::Result<()> {
    let priority = libc::sched_param { sched_priority: priority };
    // SAFETY: it reads `priority` and nothing else.
    Errno::result(unsafe { libc::sched_setscheduler(0, policy, &priority) }).map(drop)
}

/// Writes a message on the console.
pub(super) fn send_frame(what: &str) {
    // A failure cannot be reported anywhere.
    let _ = fs::write("/dev/console", format!("tek-lab: {what}\n"));
}

/// Ends the guest.
pub(super) fn power_off() -> ! {
    nix::unistd::sync();
    for mode in [RebootMode::RB_POWER_OFF, RebootMode::RB_AUTOBOOT] {
        let Err(error) = reboot(mode);
        send_frame(&format!("cannot power off: {error}"));
    }
    // The end of process 1 is a panic, which also ends the guest.
    std::process::exit(1)
}
