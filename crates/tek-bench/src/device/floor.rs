// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU time that is left to the noncritical threads, for some seconds. Meanwhile time-critical
//! threads, two on each CPU, never wait, and no budget stops them.

use super::load::{Had, Load, Plan};
use crate::daemon::{Backend, Daemon, Settings};
use crate::ground::{Ground, User};
use crate::json::Row;
use crate::programs::Program;
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::ensure;
use nix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tek_command::system::line;

/// The share that tekd reserves for noncritical threads under `fair`, in percent, by default.
pub const CONFIGURED: f64 = 5.0;

/// By then each program has received the begin and the end of the measured interval.
const AHEAD: Duration = Duration::from_millis(700);

/// A time-critical thread.
#[derive(Debug, Serialize, Deserialize)]
pub struct Fast {
    cpu: i32,
    policy: i32,
    cpu_ns: u64,
}

#[derive(Deserialize)]
struct Spun {
    fast: Vec<Fast>,
}

/// The measurement with one backend.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub backend: &'static str,
    seconds: f64,
    /// The share of each CPU that all noncritical threads had, in percent.
    pub lazy_percent: BTreeMap<i32, f64>,
    /// The share of each CPU that the time-critical threads had, in percent.
    fast_percent: BTreeMap<i32, f64>,
    /// The longest time for which one of the noncritical threads had no CPU, in ms.
    pub gap_ms: f64,
    /// The share that the kernel reserves for ordinary threads, as it reports it.
    kernel: String,
}

impl Measured {
    /// The largest difference of a CPU's share from the configured one, in points.
    pub fn worst_difference(&self) -> Option<f64> {
        self.lazy_percent.values().map(|percent| (percent - CONFIGURED).abs()).reduce(f64::max)
    }
}

/// Measures it.
pub fn measure(
    ground: &Ground,
    backend: Backend,
    seconds: u64,
    iterations_per_ms: u64,
) -> anyhow::Result<Measured> {
    let daemon = Daemon::start(ground, Settings { guard: false, ..Settings::of(backend) })?;
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    // In each of the four programs one on each CPU.
    let plan = Plan { hogs: 4 * cpus, pinned: true, iterations_per_ms, ..Plan::default() };
    let mut load = Load::start(ground, &plan)?;
    let mut spinners = Program::start(ground.command("spinners", User::Number(0), false))?;
    ensure!(spinners.line()? == "ready\n", "the time-critical threads are not there");
    let fast = daemon.fast_threads(spinners.pid(), backend)?.len();
    ensure!(fast >= 2 * cpus, "{fast} of {} threads are critical", 2 * cpus);

    let from = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?) + AHEAD;
    let to = from + Duration::from_secs(seconds);
    let (from, to) = (from.as_nanos() as u64, to.as_nanos() as u64);
    load.go_between(from, to)?;
    spinners.announce(&format!("{from} {to}\n"))?;
    let Spun { fast } = spinners.read_line()?;
    let had = load.wait()?;
    daemon.stop()?;
    let policy = backend.policy();
    ensure!(fast.iter().all(|it| it.policy == policy), "not all critical threads were {policy}");
    Ok(of(backend, &fast, &had, (to - from) as f64))
}

fn of(backend: Backend, fast: &[Fast], had: &Had, ns: f64) -> Measured {
    Measured {
        backend: backend.name(),
        seconds: ns / 1e9,
        lazy_percent: shares(had.hogs.iter().map(|hog| (hog.cpu, hog.cpu_ns)), ns),
        fast_percent: shares(fast.iter().map(|fast| (fast.cpu, fast.cpu_ns)), ns),
        gap_ms: had.stall_ns().unwrap_or(0) as f64 / 1e6,
        kernel: kernel_floor(),
    }
}

fn shares(threads: impl Iterator<Item = (i32, u64)>, ns: f64) -> BTreeMap<i32, f64> {
    let mut shares = BTreeMap::new();
    for (cpu, cpu_ns) in threads {
        *shares.entry(cpu).or_insert(0.0) += cpu_ns as f64 / ns * 100.0;
    }
    shares
}

/// The settings by which the kernel itself reserves CPU time for ordinary threads.
fn kernel_floor() -> String {
    let setting = |name| line(format!("/proc/sys/kernel/{name}")).unwrap_or("?".to_owned());
    let (runtime, period) = (setting("sched_rt_runtime_us"), setting("sched_rt_period_us"));
    let server = line("/sys/kernel/debug/sched/fair_server/cpu0/runtime");
    let server = server.map_or("not readable".to_owned(), |ns| format!("{ns} ns a second"));
    format!("sched_rt_runtime_us {runtime} of {period}, fair server {server}")
}

/// For people.
pub fn report(all: &[Measured], terminal: Terminal) -> String {
    let Some(first) = all.first() else { return String::new() };
    let mut header = vec!["left to others, guard off".to_owned()];
    header.extend(first.lazy_percent.keys().map(|cpu| format!("CPU {cpu}, %")));
    header.push("longest gap, ms".to_owned());
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = table(&header, terminal);
    for it in all {
        let mut row = vec![it.backend.to_owned()];
        row.extend(it.lazy_percent.values().map(|percent| format!("{percent:.1}")));
        row.push(format!("{:.0}", it.gap_ms));
        table.add_row(row);
    }
    format!(
        "{}\n2 critical threads on each CPU that never wait, for {:.0} s; fair keeps {CONFIGURED}% \
         as configured,\nrt what the kernel keeps: {}\n",
        table.trim_fmt(),
        first.seconds,
        first.kernel
    )
}

/// The rows of the JSON document.
pub fn rows(all: &[Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    for it in all {
        for (cpu, percent) in &it.lazy_percent {
            let case = format!("floor, CPU {cpu}");
            rows.push(Row::number(case, it.backend, "left to others", "%", *percent));
        }
        rows.push(Row::number("floor", it.backend, "longest gap", "ms", it.gap_ms));
    }
    rows
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::device::load::Hog;

    /// Two CPUs, of which the noncritical threads had so many percent.
    pub fn measured(backend: Backend, percent: [f64; 2]) -> Measured {
        let cpu_ns = |percent: f64| (percent * 1e8) as u64;
        let hog =
            |cpu: usize| Hog { cpu: cpu as i32, cpu_ns: cpu_ns(percent[cpu]) / 2, stall_ns: 4 };
        let had = Had { hogs: vec![hog(0), hog(1), hog(0), hog(1)], idle_late_ns: 0 };
        of(backend, &[], &had, 1e10)
    }

    #[test]
    fn what_threads_of_one_cpu_had_is_added_up() {
        let measured = measured(Backend::Fair, [4.0, 6.5]);
        let shares: Vec<f64> = measured.lazy_percent.values().copied().collect();
        assert!((shares[0] - 4.0).abs() < 1e-6 && (shares[1] - 6.5).abs() < 1e-6);
        assert!((measured.worst_difference().unwrap() - 1.5).abs() < 1e-6);
    }

    #[test]
    fn the_settings_of_the_kernel_are_reported() {
        assert!(kernel_floor().starts_with("sched_rt_runtime_us "));
    }
}
