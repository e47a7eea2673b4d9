// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of preempting threads that only compute, beside a bare timer's signals in the same run.

use super::engine::{command, quantum, run_json, Cpus, Preempt, Sched, Setting, Threads};
use crate::json::{NotRun, Row};
use crate::programs;
use crate::stats::{median, median_difference, median_of_ratios};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::ensure;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const PROGRAM: &str = "preemption-native";
const LIMIT: Duration = Duration::from_secs(300);
/// The issue's.
pub const QUANTA: [u64; 4] = [10_000, 1000, 200, 50];
/// If two threads share a CPU, the first has done its half not long before the end: at least this
/// share of the time is over by then.
const ALTERNATE: f64 = 0.6;

/// The same work three times.
#[derive(Clone, Serialize, Deserialize)]
pub struct Round {
    alone_ns: f64,
    signal_ns: f64,
    threads_ns: f64,
    /// When the first of the two threads had done its half.
    first_ns: f64,
    signals: u64,
}

#[derive(Serialize)]
pub struct Series {
    pub quantum_us: u64,
    pub preempt: Preempt,
    pub rounds: Vec<Round>,
}

/// All quanta, and both ways of preempting.
#[derive(Default, Serialize)]
pub struct Measured {
    pub series: Vec<Series>,
}

impl Series {
    fn column(&self, of: fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(of).collect()
    }

    /// The time beyond the work alone, in percent: the median of the rounds.
    fn percent(&self, of: fn(&Round) -> f64) -> Option<f64> {
        let ratio = median_of_ratios(&self.column(of), &self.column(|it| it.alone_ns))?;
        Some(100.0 * (ratio - 1.0))
    }

    /// The cost of preemption beyond the bare signal, in percentage points: the median of the
    /// rounds.
    fn points(&self) -> Option<f64> {
        let share = |of: fn(&Round) -> f64| -> Vec<f64> {
            self.rounds.iter().map(|it| 100.0 * of(it) / it.alone_ns).collect()
        };
        median_difference(&share(|it| it.threads_ns), &share(|it| it.signal_ns))
    }
}

impl Measured {
    /// Points beyond the bare signal, at this quantum, with deferred preemption.
    pub fn points(&self, quantum_us: u64) -> Option<f64> {
        let mut all = self.series.iter();
        all.find(|it| it.quantum_us == quantum_us && it.preempt == Preempt::Defer)?.points()
    }

    /// The number of judged rounds.
    pub fn rounds(&self) -> usize {
        let judged = self.series.iter().filter(|it| it.preempt == Preempt::Defer);
        judged.map(|it| it.rounds.len()).min().unwrap_or(0)
    }
}

/// Runs each quantum so many rounds.
pub fn measure(rounds: usize, spinner: &ProgressBar) -> (Measured, Vec<NotRun>) {
    let (mut measured, mut not_run) = (Measured::default(), Vec::new());
    if let Err(error) = programs::find("uthread", PROGRAM) {
        not_run.push(NotRun { variant: "preemption".to_owned(), reason: format!("{error:#}") });
        return (measured, not_run);
    }
    for preempt in [Preempt::Defer, Preempt::Klt] {
        for quantum_us in QUANTA {
            let what = format!("preemption, {}, {}", preempt.name(), quantum(quantum_us));
            spinner.set_message(what.clone());
            match run(quantum_us, preempt, rounds) {
                Ok(rounds) => measured.series.push(Series { quantum_us, preempt, rounds }),
                Err(error) => {
                    not_run.push(NotRun { variant: what, reason: format!("{error:#}") });
                }
            }
        }
    }
    (measured, not_run)
}

fn run(quantum_us: u64, preempt: Preempt, rounds: usize) -> anyhow::Result<Vec<Round>> {
    #[derive(Deserialize)]
    struct Output {
        rounds: Vec<Round>,
    }
    let setting = Setting { preempt, ..Setting::one(Sched::Rr, quantum_us) };
    let mut command = command(PROGRAM, Threads::Custom(&setting), Cpus::One)?;
    command.args(["--quantum-us", &quantum_us.to_string(), "--rounds", &rounds.to_string()]);
    let output: Output = run_json(command, LIMIT)?;
    let first: Vec<f64> = output.rounds.iter().map(|it| it.first_ns / it.threads_ns).collect();
    ensure!(
        median(&first).is_some_and(|share| share > ALTERNATE),
        "the threads did not take turns: the first one ended after {:.0}% of the time",
        100.0 * median(&first).unwrap_or(0.0)
    );
    Ok(output.rounds)
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    if measured.series.is_empty() {
        return String::new();
    }
    let header = ["preemption, % of the time", "mode", "bare signal", "threads", "points more"];
    let mut table = table(&header, terminal);
    for it in &measured.series {
        let text = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
        table.add_row([
            quantum(it.quantum_us),
            it.preempt.name().to_owned(),
            text(it.percent(|round| round.signal_ns)),
            text(it.percent(|round| round.threads_ns)),
            text(it.points()),
        ]);
    }
    format!(
        "{}\n(beside the same work without interruption; medians of {} rounds)\n",
        table.trim_fmt(),
        measured.rounds()
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for it in &measured.series {
        let case = format!("preemption, quantum {}", quantum(it.quantum_us));
        let all = [
            ("bare signal", it.percent(|round| round.signal_ns)),
            (it.preempt.name(), it.percent(|round| round.threads_ns)),
        ];
        for (variant, percent) in all {
            let row = |value| Row::number(&case, variant, "overhead, median", "%", value);
            rows.extend(percent.map(row));
        }
    }
    rows
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// At each quantum a bare signal costs 2%, preemption so many points more.
    pub fn measured(points: f64, rounds: usize) -> Measured {
        let round = Round {
            alone_ns: 100.0,
            signal_ns: 102.0,
            threads_ns: 102.0 + points,
            first_ns: 90.0,
            signals: 40,
        };
        let series = QUANTA.map(|quantum_us| Series {
            quantum_us,
            preempt: Preempt::Defer,
            rounds: vec![round.clone(); rounds],
        });
        Measured { series: series.into() }
    }

    #[test]
    fn points_are_those_beyond_the_bare_signal() {
        let it = measured(0.25, 3);
        assert!((it.points(1000).unwrap() - 0.25).abs() < 1e-9);
        assert_eq!((it.points(7), it.rounds()), (None, 3));
        let rows = rows(&it);
        assert_eq!(rows.len(), 2 * QUANTA.len());
        assert!((rows[1].value - 2.25).abs() < 1e-9);
    }
}
