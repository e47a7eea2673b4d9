// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mechanisms that keep real-time threads from taking a CPU for good: the kernel's throttling,
//! and since Linux 6.12 its fair servers.
use super::check::{info, no, unknown, yes, Check};
use crate::system::{line, number};
use std::fs;
use std::path::PathBuf;
use tek_advice::write_as_root;

const ID: &str = "rt-throttling";
/// The shares of a period that Linux has by default, in percent.
const USUAL_RUNTIME: i64 = 95;
const USUAL_SERVER: i64 = 5;
const USUAL_PERIOD_US: i64 = 1_000_000;

const FAIR_SERVERS: &str = "/sys/kernel/debug/sched/fair_server";

/// The command that sets the default share of the period. The kernel refuses more than the period.
fn cure(period_us: i64) -> String {
    // Not sysctl(8), which is not installed everywhere.
    write_as_root(share(period_us, USUAL_RUNTIME), "/proc/sys/kernel/sched_rt_runtime_us")
}

fn share(period: i64, percent: i64) -> i64 {
    period.saturating_mul(percent) / 100
}

/// The effect of the kernel's settings.
pub(super) fn rt_throttling() -> Check {
    let setting = |name: &str| number(format!("/proc/sys/kernel/sched_rt_{name}_us"));
    match (setting("runtime"), setting("period")) {
        (Some(runtime), Some(period)) if runtime < 0 || runtime >= period => without(period),
        (Some(0), period) => no(
            ID,
            "real-time threads get no CPU time at all",
            cure(period.unwrap_or(USUAL_PERIOD_US)),
        ),
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

/// Without throttling: whether fair servers reserve a share of each CPU for other threads.
fn without(period_us: i64) -> Check {
    let servers = fair_servers();
    let off: Vec<_> = servers.iter().filter(|server| server.runtime_ns == 0).collect();
    if !off.is_empty() {
        let cures = off.iter().map(|server| {
            let runtime_ns = share(server.period_ns, USUAL_SERVER);
            write_as_root(runtime_ns, server.directory.join("runtime"))
        });
        return no(
            ID,
            "off, and so is a fair server: a real-time thread that never waits can hang a CPU for \
             good",
            cures.collect::<Vec<_>>().join("\nand "),
        );
    }
    let least = servers.iter().min_by(|a, b| a.percent().total_cmp(&b.percent()));
    match least {
        Some(server) => yes(
            ID,
            format!(
                "the kernel's fair servers give others {:.3}% of each CPU ({} us in {} us)",
                server.percent(),
                server.runtime_ns / 1000,
                server.period_ns / 1000
            ),
        ),
        None if line("/proc/sys/kernel/osrelease").is_some_and(|release| has_servers(&release)) => {
            info(
                ID,
                "off, as is usual since Linux 6.12: its fair servers give others 5% of each CPU, \
                 unless root changed that",
            )
        }
        None => no(
            ID,
            "off: a real-time thread that never waits can hang a CPU for good",
            cure(period_us),
        ),
    }
}

/// The share of a CPU that the kernel reserves for threads that are not real-time.
struct FairServer {
    directory: PathBuf,
    runtime_ns: i64,
    period_ns: i64,
}

impl FairServer {
    fn percent(&self) -> f64 {
        percent(self.runtime_ns, self.period_ns)
    }
}

/// The fair servers that have readable files, by the name of their CPU.
fn fair_servers() -> Vec<FairServer> {
    let entries = fs::read_dir(FAIR_SERVERS).into_iter().flatten().flatten();
    let mut servers: Vec<_> = entries
        .filter_map(|cpu| {
            let directory = cpu.path();
            let period_ns = number(directory.join("period")).filter(|&period| period > 0)?;
            let runtime_ns = number(directory.join("runtime"))?;
            Some(FairServer { directory, runtime_ns, period_ns })
        })
        .collect();
    tek_sort::by(&mut servers, |a, b| a.directory.cmp(&b.directory));
    servers
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
    use super::{has_servers, share};

    #[test]
    fn the_advised_run_times_fit_into_their_period() {
        assert_eq!((share(1_000_000, 95), share(1_000_000_000, 5)), (950_000, 50_000_000));
        assert_eq!(share(100_000, 95), 95_000);
    }

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
