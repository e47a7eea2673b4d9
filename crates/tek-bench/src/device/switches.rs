// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that a thread takes to become time-critical and to be normal again, measured by its
//! program, and the cost for tekd.

use super::load::{Load, Plan};
use crate::daemon::{Backend, Daemon, Settings};
use crate::ground::{Ground, User};
use crate::json::Row;
use crate::programs::Program;
use crate::stats::{summarize, Summary};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::{bail, ensure};
use serde::{Deserialize, Serialize};

/// The load beside the switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// CPU-bound threads.
    Hogs(usize),
    /// Threads that are idle most of the time.
    Idle(usize),
}

impl Beside {
    fn name(self) -> String {
        match self {
            Beside::Nothing => "idle device".to_owned(),
            Beside::Hogs(count) => format!("{count} hogs"),
            Beside::Idle(count) => format!("{count} idle threads"),
        }
    }

    fn plan(self, iterations_per_ms: u64) -> Plan {
        let (hogs, idle) = match self {
            Beside::Nothing => (0, 0),
            Beside::Hogs(count) => (count, 0),
            Beside::Idle(count) => (0, count),
        };
        Plan { hogs, idle, iterations_per_ms, ..Plan::default() }
    }
}

/// The process that makes the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// tekd, each time.
    Strict(Backend),
    /// The process itself, by a limit that tekd raised.
    Limit,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Strict(backend) => backend.name(),
            Way::Limit => "rt, limit",
        }
    }

    /// Its name with the load beside it.
    pub fn reported(self, beside: Beside) -> String {
        format!("{}, {}", self.name(), beside.name())
    }
}

#[derive(Deserialize)]
struct Times {
    enter_ns: Vec<u64>,
    leave_ns: Vec<u64>,
    policy: i32,
}

/// The measurement.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub way: &'static str,
    pub beside: Beside,
    /// In us.
    pub enter: Summary,
    pub leave: Summary,
    /// tekd's, for one switch and back: calls of read(2) and write(2), and CPU time in us.
    pub calls: Option<f64>,
    pub tekd_us: f64,
}

/// Measures it: this often.
pub fn measure(
    ground: &Ground,
    way: Way,
    beside: Beside,
    count: usize,
    iterations_per_ms: u64,
) -> anyhow::Result<Measured> {
    let backend = match way {
        Way::Strict(backend) => backend,
        Way::Limit => Backend::Rt,
    };
    let limit = way == Way::Limit;
    if limit && !may_raise_limits() {
        bail!("tekd needs CAP_SYS_RESOURCE for that, which even root does not have here");
    }
    let daemon = Daemon::start(ground, Settings { limit, ..Settings::of(backend) })?;
    let mut load = Load::start(ground, &beside.plan(iterations_per_ms))?;
    let mut command = ground.command("switches", User::Number(0), false);
    command.arg(count.to_string());
    let mut program = Program::start(command)?;
    ensure!(program.line()? == "ready\n", "the thread did not become critical");
    let fast = daemon.fast_threads(program.pid(), backend)?;
    ensure!(limit || !fast.is_empty(), "tekd did not make the switch");

    load.go()?;
    let before = daemon.usage()?;
    program.announce("go\n")?;
    let times: Times = program.read_line()?;
    let used = daemon.usage()?.since(before);
    load.stop()?;
    daemon.stop()?;
    ensure!(times.policy == backend.policy(), "the thread had policy {}", times.policy);
    let us = |ns: &[u64]| summarize(&ns.iter().map(|ns| *ns as f64 / 1e3).collect::<Vec<_>>());
    let (Some(enter), Some(leave)) = (us(&times.enter_ns), us(&times.leave_ns)) else {
        bail!("nothing was measured");
    };
    Ok(Measured {
        way: way.name(),
        beside,
        enter,
        leave,
        calls: used.calls.map(|calls| calls as f64 / count as f64),
        tekd_us: used.cpu_ns as f64 / 1e3 / count as f64,
    })
}

/// Whether this process, and so tekd, may use CAP_SYS_RESOURCE.
fn may_raise_limits() -> bool {
    const SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & 1 << SYS_RESOURCE != 0)
}

/// For people.
pub fn report(all: &[Measured], terminal: Terminal) -> String {
    if all.is_empty() {
        return String::new();
    }
    let header = ["enter and leave, us", "p50", "p99", "max", "p50", "p99", "max", "tekd", "calls"];
    let mut table = table(&header, terminal);
    for it in all {
        let mut row = vec![format!("{}, {}", it.way, it.beside.name())];
        for summary in [&it.enter, &it.leave] {
            row.extend([summary.p50, summary.p99, summary.max].map(|us| format!("{us:.0}")));
        }
        row.push(format!("{:.0}", it.tekd_us));
        row.push(it.calls.map_or("-".to_owned(), |calls| format!("{calls:.1}")));
        table.add_row(row);
    }
    format!(
        "{}\nfrom a program's call to its return: first to become critical, then to be normal \
         again. tekd: its CPU\ntime for both; calls: of read(2) and write(2), for both\n",
        table.trim_fmt()
    )
}

/// The rows of the JSON document.
pub fn rows(all: &[Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    for it in all {
        let case = format!("switch, {}", it.beside.name());
        rows.push(Row::distribution(&case, it.way, "time to become critical", "us", &it.enter));
        rows.push(Row::distribution(&case, it.way, "time to be normal again", "us", &it.leave));
        rows.push(Row::number(&case, it.way, "tekd's CPU time for both", "us", it.tekd_us));
        if let Some(calls) = it.calls {
            rows.push(Row::number(&case, it.way, "tekd's reads and writes for both", "1", calls));
        }
    }
    rows
}

/// The time to become critical of one of them, in us.
pub fn enter<'a>(all: &'a [Measured], way: &str, beside: Beside) -> Option<&'a Summary> {
    all.iter().find(|it| it.way == way && it.beside == beside).map(|it| &it.enter)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A measurement with this p99.
    pub fn measured(way: &'static str, beside: Beside, p99: f64) -> Measured {
        let summary = Summary { mean: 1.0, min: 1.0, p50: 1.0, p99, max: p99, n: 100 };
        Measured { way, beside, enter: summary, leave: summary, calls: Some(9.0), tekd_us: 50.0 }
    }

    #[test]
    fn the_same_way_beside_something_else_is_another_one() {
        let all = [
            measured("rt", Beside::Nothing, 90.0),
            measured("rt", Beside::Hogs(20), 150.0),
            measured("fair", Beside::Hogs(20), 170.0),
        ];
        assert_eq!(enter(&all, "rt", Beside::Hogs(20)).unwrap().p99, 150.0);
        assert_eq!(enter(&all, "fair", Beside::Nothing), None);
        assert_eq!(rows(&all).len(), 12);
    }
}
