// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the schedulers treat threads: shares, wake-ups beside hogs, turnaround, priorities.

use super::engine::{self, command, quantum, run_json, Cpus, Sched, Setting, Threads};
use crate::alternate::order;
use crate::json::{NotRun, Row};
use crate::stats::{median, median_of_ratios, p99, summarize};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::Context;
use indicatif::ProgressBar;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(100);
const QUANTUM_US: u64 = 5000;
/// Threads that share a CPU. In 2 s each has so many quanta that one more or less is below 2%.
const SHARERS: u32 = 4;
const HOGS: u32 = 50;
const LONG_JOBS: u32 = 10;
const PRIORITIES: u32 = 16;

/// The scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum By {
    /// The kernel, on one CPU.
    Kernel,
    Uthreads(Sched),
}

impl By {
    const ALL: [By; 6] = [
        By::Kernel,
        By::Uthreads(Sched::Rr),
        By::Uthreads(Sched::Mlfq),
        By::Uthreads(Sched::Psjf),
        By::Uthreads(Sched::Fifo),
        By::Uthreads(Sched::Steal),
    ];

    fn name(self) -> &'static str {
        match self {
            By::Kernel => "pthread, 1 CPU",
            By::Uthreads(sched) => sched.name(),
        }
    }

    /// Whether threads of equal priority share the CPU. The measurements of shares and of wake-up
    /// need this.
    fn alternates(self) -> bool {
        self != By::Uthreads(Sched::Fifo)
    }
}

/// One entry a round.
#[derive(Default, Serialize)]
pub struct Measured {
    /// The greatest difference of a thread's share from an equal one, in percent of that.
    pub shares: BTreeMap<&'static str, Vec<f64>>,
    /// The p99 of the time from a wake-up to running in each round, in quanta.
    pub wake_quanta: BTreeMap<&'static str, Vec<f64>>,
    /// Mean turnaround of all jobs, and of the short ones, in ms.
    pub turnaround_ms: BTreeMap<&'static str, Vec<f64>>,
    pub short_ms: BTreeMap<&'static str, Vec<f64>>,
    /// Of fifo: the number of checks, and how often a lower priority ran while a higher was ready.
    pub checks: u64,
    pub violations: u64,
}

#[derive(Deserialize)]
struct Shares {
    units: Vec<f64>,
}

#[derive(Deserialize)]
struct Interactive {
    late_us: Vec<f64>,
}

#[derive(Deserialize)]
struct Mixed {
    mean_us: f64,
    short_mean_us: f64,
}

#[derive(Deserialize)]
struct Priorities {
    checks: u64,
    violations: u64,
}

impl Measured {
    /// rr's, the median of the rounds.
    pub fn share_percent(&self) -> Option<f64> {
        median(self.shares.get(Sched::Rr.name())?)
    }

    /// mlfq's, the median of the rounds.
    pub fn wake_quanta(&self) -> Option<f64> {
        median(self.wake_quanta.get(Sched::Mlfq.name())?)
    }

    /// psjf's mean turnaround by rr's, the median of the rounds.
    pub fn turnaround_ratio(&self) -> Option<f64> {
        let of = |sched: Sched| self.turnaround_ms.get(sched.name());
        median_of_ratios(of(Sched::Psjf)?, of(Sched::Rr)?)
    }

    /// How often fifo ran a lower priority while a higher one was ready; `None`: this was not
    /// checked.
    pub fn violations(&self) -> Option<f64> {
        (self.checks > 0).then_some(self.violations as f64)
    }

    /// The number of rounds.
    pub fn rounds(&self) -> usize {
        self.shares.get(Sched::Rr.name()).map_or(0, Vec::len)
    }
}

/// Runs all of it in alternation; each case lasts as many ms.
pub fn measure(rounds: usize, ms: u64, spinner: &ProgressBar) -> (Measured, Vec<NotRun>) {
    let (mut measured, mut not_run) = (Measured::default(), Vec::<NotRun>::new());
    let library = engine::preload();
    if let Err(error) = &library {
        let variant = "fairness of user-level threads".to_owned();
        not_run.push(NotRun { variant, reason: format!("{error:#}") });
    }
    for round in 0..rounds {
        for by in order(&By::ALL, round) {
            let variant = format!("fairness, {}", by.name());
            if by != By::Kernel && library.is_err() {
                continue;
            }
            if not_run.iter().any(|it| it.variant == variant) {
                continue;
            }
            spinner.set_message(format!("{variant}, round {}", round + 1));
            if let Err(error) = run_all(by, ms, round, &mut measured) {
                not_run.push(NotRun { variant, reason: format!("{error:#}") });
            }
        }
    }
    (measured, not_run)
}

fn run_all(by: By, ms: u64, round: usize, measured: &mut Measured) -> anyhow::Result<()> {
    if by.alternates() {
        let it: Shares = run(by, "shares", SHARERS, ms, round)?;
        let worst = worst_percent(&it.units).context("no thread did anything")?;
        measured.shares.entry(by.name()).or_default().push(worst);

        // A p99 needs some hundred wake-ups.
        let it: Interactive = run(by, "interactive", HOGS, 2 * ms, round)?;
        let late: Vec<f64> = it.late_us.iter().map(|us| us / QUANTUM_US as f64).collect();
        measured.wake_quanta.entry(by.name()).or_default().extend(p99(&late));

        let it: Mixed = run(by, "mixed", LONG_JOBS, ms, round)?;
        measured.turnaround_ms.entry(by.name()).or_default().push(it.mean_us / 1e3);
        measured.short_ms.entry(by.name()).or_default().push(it.short_mean_us / 1e3);
    } else {
        let it: Priorities = run(by, "priorities", PRIORITIES, ms / 2, round)?;
        measured.checks += it.checks;
        measured.violations += it.violations;
    }
    Ok(())
}

fn run<T: DeserializeOwned>(
    by: By,
    case: &str,
    threads: u32,
    ms: u64,
    seed: usize,
) -> anyhow::Result<T> {
    let setting = match by {
        By::Kernel => None,
        By::Uthreads(sched) => Some(Setting::one(sched, QUANTUM_US)),
    };
    let threads_of = setting.as_ref().map_or(Threads::Own, Threads::Preloaded);
    let mut command = command("fair", threads_of, Cpus::One)?;
    command.args([case, "--threads", &threads.to_string(), "--ms", &ms.max(10).to_string()]);
    command.args(["--seed", &seed.to_string()]);
    run_json(command, LIMIT).with_context(|| case.to_owned())
}

/// The greatest difference from the mean, in percent of it.
fn worst_percent(units: &[f64]) -> Option<f64> {
    let mean = units.iter().sum::<f64>() / units.len() as f64;
    let difference = |unit: &f64| 100.0 * (unit / mean - 1.0).abs();
    units.iter().map(difference).max_by(f64::total_cmp).filter(|percent| percent.is_finite())
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    let shares = format!("share of {SHARERS}, off by %");
    let wake = format!("p99 wake-up beside {HOGS} hogs, quanta");
    let header = ["fairness", &shares, &wake, "mean turnaround, ms", "of short jobs, ms"];
    let mut table = table(&header, terminal);
    for by in By::ALL.into_iter().filter(|by| by.alternates()) {
        let text = |of: &BTreeMap<&str, Vec<f64>>| {
            let it = of.get(by.name()).and_then(|values| summarize(values));
            it.map_or("-".to_owned(), |it| {
                format!("{:.2} ({:.2} to {:.2})", it.p50, it.min, it.max)
            })
        };
        table.add_row([
            by.name().to_owned(),
            text(&measured.shares),
            text(&measured.wake_quanta),
            text(&measured.turnaround_ms),
            text(&measured.short_ms),
        ]);
    }
    format!(
        "{}\n(quantum {}; of {} rounds median, least and max. fifo: a lower priority ran while a \
         higher was ready {} times of {} looks)\n",
        table.trim_fmt(),
        quantum(QUANTUM_US),
        measured.rounds(),
        measured.violations,
        measured.checks
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let all = [
        ("share of a CPU", "greatest difference from an equal share", "%", &measured.shares),
        ("interactive thread", "p99 from wake-up to running", "quanta", &measured.wake_quanta),
        ("mixed jobs", "mean turnaround", "ms", &measured.turnaround_ms),
        ("short jobs", "mean turnaround", "ms", &measured.short_ms),
    ];
    let mut rows = Vec::new();
    for (case, metric, unit, values) in all {
        for (&by, values) in values {
            let row = |summary| Row::distribution(case, by, metric, unit, &summary);
            rows.extend(summarize(values).map(row));
        }
    }
    let violations =
        |value| Row::number("priorities", "fifo", "lower ones that ran before higher", "1", value);
    rows.extend(measured.violations().map(violations));
    rows
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A measurement that meets the bars, in so many rounds.
    pub fn measured(rounds: usize) -> Measured {
        let of = |sched: Sched, value: f64| (sched.name(), vec![value; rounds]);
        Measured {
            shares: [of(Sched::Rr, 1.0)].into(),
            wake_quanta: [of(Sched::Mlfq, 1.5)].into(),
            turnaround_ms: [of(Sched::Rr, 100.0), of(Sched::Psjf, 60.0)].into(),
            short_ms: BTreeMap::new(),
            checks: 1000,
            violations: 0,
        }
    }

    #[test]
    fn the_share_that_is_farthest_off_counts() {
        assert_eq!(worst_percent(&[75.0, 100.0, 125.0, 100.0]), Some(25.0));
        assert_eq!(worst_percent(&[100.0, 100.0]), Some(0.0));
        assert_eq!(worst_percent(&[]), None);
        assert_eq!(worst_percent(&[0.0, 0.0]), None);
    }

    #[test]
    fn without_a_check_the_violations_are_unknown() {
        assert_eq!(measured(3).violations(), Some(0.0));
        assert_eq!(Measured::default().violations(), None);
        assert_eq!(measured(3).turnaround_ratio(), Some(0.6));
        assert_eq!(rows(&measured(3)).len(), 5);
    }
}
