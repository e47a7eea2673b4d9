// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts about the system, for all commands.
pub mod cgroup;
pub mod elf;
pub mod library;
pub mod loader;
pub mod memory;
pub mod privilege;
pub mod sched;
pub mod topology;

use std::fs;
use std::path::Path;

/// A small file of /proc or /sys without its line end; `None` when it cannot be read.
pub fn line(path: impl AsRef<Path>) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\0']).to_owned())
}

/// A file of /proc or /sys that holds one number.
pub fn number(path: impl AsRef<Path>) -> Option<i64> {
    line(path)?.trim().parse().ok()
}

/// Whether the kernel schedules sessions, not threads, fairly against each other (sched(7)); `None`
/// where it cannot.
pub fn autogroup() -> Option<bool> {
    number("/proc/sys/kernel/sched_autogroup_enabled").map(|value| value != 0)
}

/// Whether an option is in the kernel's configuration; `None` where that cannot be read.
pub fn kernel_config(option: &str) -> Option<bool> {
    let release = line("/proc/sys/kernel/osrelease")?;
    let config = line(format!("/boot/config-{release}"))?;
    Some(config.lines().any(|line| line == format!("{option}=y")))
}

/// Whether the kernel is a PREEMPT_RT one. Some of those lack the file, such as Linux 6.12.
pub fn is_preempt_rt() -> bool {
    number("/sys/kernel/realtime") == Some(1)
        || line("/proc/version").is_some_and(|version| version.contains(" PREEMPT_RT "))
}
