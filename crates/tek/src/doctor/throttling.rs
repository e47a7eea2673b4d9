// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keeps real-time threads from taking a CPU for good: the kernel's throttling, and since Linux
//! 6.12 its fair servers.
use super::checks::{info, no, unknown, yes};
use super::Check;
use crate::system::{line, number};
use std::fs;

const ID: &str = "rt-throttling";
const CURE: &str = "as root: sysctl kernel.sched_rt_runtime_us=950000";

/// What the kernel's settings come to.
pub(super) fn rt_throttling() -> Check {
    let setting = |name: &str| number(format!("/proc/sys/kernel/sched_rt_{name}_us"));
    match (setting("runtime"), setting("period")) {
        (Some(runtime), Some(period)) if runtime < 0 || runtime >= period => without(),
        (Some(0), _) => no(ID, "real-time threads get no CPU time at all", CURE),
        (Some(runtime), Some(period)) => yes(
            ID,
            format!(
                "real-time threads leave {:.3}% of the CPU to others ({runtime} us in {period} us)",
                percent(period - runtime, period)
            ),
        ),
        _ => unknown(ID, "no /proc/sys/kernel/sched_rt_runtime_us"),
    }
}

/// No throttling: is there something else?
fn without() -> Check {
    match least_of_fair_servers() {
        Some((0, _)) => no(
            ID,
            "off, and so is a fair server: a real-time thread that never waits can hang a CPU for good",
            "as root: echo 50000000 > /sys/kernel/debug/sched/fair_server/cpuN/runtime",
        ),
        Some((runtime, period)) => yes(
            ID,
            format!(
                "the kernel's fair servers give others {:.3}% of each CPU ({} us in {} us)",
                percent(runtime, period),
                runtime / 1000,
                period / 1000
            ),
        ),
        None if line("/proc/sys/kernel/osrelease").is_some_and(|release| has_servers(&release)) => {
            info(ID, "off, as is usual since Linux 6.12: its fair servers give others 5% of each CPU, unless root changed that")
        }
        None => no(ID, "off: a real-time thread that never waits can hang a CPU for good", CURE),
    }
}

/// Run-time and period (ns) of the fair server that gives least; `None` where they cannot be read.
fn least_of_fair_servers() -> Option<(i64, i64)> {
    fs::read_dir("/sys/kernel/debug/sched/fair_server")
        .ok()?
        .filter_map(|cpu| {
            let cpu = cpu.ok()?.path();
            let period = number(cpu.join("period")).filter(|&period| period > 0)?;
            Some((number(cpu.join("runtime"))?, period))
        })
        .min_by(|a, b| percent(a.0, a.1).total_cmp(&percent(b.0, b.1)))
}

fn percent(part: i64, whole: i64) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// Linux 6.12 or later.
fn has_servers(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 12),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::has_servers;

    #[test]
    fn fair_servers_came_with_linux_6_12() {
        for (release, has) in [
            ("6.12.1-amd64", true),
            ("7.2.12+deb13-rt-amd64", true),
            ("6.1.0-50-rt-amd64", false),
            ("5.10", false),
            ("odd", false),
        ] {
            assert_eq!(has_servers(release), has, "{release}");
        }
    }
}
