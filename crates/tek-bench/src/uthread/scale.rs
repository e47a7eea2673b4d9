// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gain of more workers where all work is scheduling, and under which locks
//! (rtos-linux-scalability-2018, 3.1.5: the three granularities of RtFIFO).

use super::engine::{command, run_json, Cpus, Lock, Sched, Setting, Threads};
use crate::json::{NotRun, Row};
use crate::stats::median;
use crate::table::table;
use crate::terminal::Terminal;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(150);
/// Longer than a run: no thread is preempted.
const QUANTUM_US: u64 = 1_000_000;

/// The work of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    Yield,
    HandOver,
}

impl Work {
    const ALL: [Work; 2] = [Work::Yield, Work::HandOver];

    /// As the program has it.
    fn name(self) -> &'static str {
        match self {
            Work::Yield => "yield",
            Work::HandOver => "hand-over",
        }
    }

    /// Its name in reports.
    fn title(self) -> &'static str {
        match self {
            Work::Yield => "yields on one's own worker",
            Work::HandOver => "hand-overs between workers",
        }
    }

    /// A hand-over that wakes another CPU takes longer by far.
    fn times(self, times: u64) -> u64 {
        match self {
            Work::Yield => times,
            Work::HandOver => (times / 10).max(1),
        }
    }
}

/// The kind of threads, the scheduler and the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    Fifo(Lock),
    Rr,
    Steal,
    Glibc,
}

impl Variant {
    const ALL: [Variant; 6] = [
        Variant::Fifo(Lock::Giant),
        Variant::Fifo(Lock::Worker),
        Variant::Fifo(Lock::Object),
        Variant::Rr,
        Variant::Steal,
        Variant::Glibc,
    ];

    fn name(self) -> String {
        match self {
            Variant::Fifo(lock) => format!("fifo, {} lock", lock.name()),
            Variant::Rr => "rr".to_owned(),
            Variant::Steal => "steal".to_owned(),
            Variant::Glibc => "glibc".to_owned(),
        }
    }

    fn setting(self, workers: usize) -> Option<Setting> {
        let (sched, lock) = match self {
            Variant::Fifo(lock) => (Sched::Fifo, Some(lock)),
            Variant::Rr => (Sched::Rr, None),
            Variant::Steal => (Sched::Steal, None),
            Variant::Glibc => return None,
        };
        Some(Setting { workers, lock, ..Setting::one(sched, QUANTUM_US) })
    }
}

/// How much is measured.
pub struct Extent {
    pub rounds: usize,
    /// How often each thread does its work.
    pub times: u64,
    pub cpus: usize,
}

/// One number of workers: its rate per second in each round.
#[derive(Serialize)]
pub struct Series {
    work: Work,
    variant: Variant,
    workers: usize,
    per_s: Vec<f64>,
}

/// Everything that was measured.
#[derive(Default, Serialize)]
pub struct Measured {
    series: Vec<Series>,
}

impl Measured {
    fn per_s(&self, work: Work, variant: Variant, workers: usize) -> Option<f64> {
        let same = |it: &&Series| (it.work, it.variant, it.workers) == (work, variant, workers);
        median(&self.series.iter().find(same)?.per_s)
    }

    fn workers(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.series.iter().map(|it| it.workers).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// 1, 2, 4 and so on, and as many as there are CPUs.
fn steps(cpus: usize) -> Vec<usize> {
    let mut all: Vec<usize> =
        std::iter::successors(Some(1), |it| Some(it * 2)).take_while(|&it| it < cpus).collect();
    all.push(cpus.max(1));
    all
}

/// Runs all of them in alternation.
pub fn measure(extent: &Extent, spinner: &ProgressBar) -> (Measured, Vec<NotRun>) {
    let (mut measured, mut not_run) = (Measured::default(), Vec::<NotRun>::new());
    for work in Work::ALL {
        for workers in steps(extent.cpus) {
            for variant in Variant::ALL {
                measured.series.push(Series { work, variant, workers, per_s: Vec::new() });
            }
        }
    }
    for round in 0..extent.rounds {
        for it in &mut measured.series {
            let what = format!("{}, {}, {} workers", it.work.name(), it.variant.name(), it.workers);
            if not_run.iter().any(|not| not.variant == what) {
                continue;
            }
            spinner.set_message(format!("{what}, round {}", round + 1));
            match run(it.work, it.variant, it.workers, extent.times) {
                Ok(per_s) => it.per_s.push(per_s),
                Err(error) => {
                    not_run.push(NotRun { variant: what, reason: format!("{error:#}") });
                }
            }
        }
    }
    (measured, not_run)
}

fn run(work: Work, variant: Variant, workers: usize, times: u64) -> anyhow::Result<f64> {
    #[derive(Deserialize)]
    struct Output {
        times: f64,
        ns: f64,
    }
    let setting = variant.setting(workers);
    let mut command = match &setting {
        Some(setting) => command("scale-native", Threads::Custom(setting), Cpus::All)?,
        None => command("scale", Threads::Own, Cpus::All)?,
    };
    command.args(["--pairs", &workers.to_string(), "--work", work.name()]);
    command.args(["--times", &work.times(times).to_string()]);
    let output: Output = run_json(command, LIMIT)?;
    Ok(output.times / output.ns * 1e9)
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> Vec<String> {
    Work::ALL.iter().map(|&work| report_one(measured, work, terminal)).collect()
}

fn report_one(measured: &Measured, work: Work, terminal: Terminal) -> String {
    let workers = measured.workers();
    let mut header = vec![format!("{}, thousands a second", work.title())];
    header.extend(workers.iter().map(|&it| match it {
        1 => "1 worker".to_owned(),
        it => format!("{it} workers"),
    }));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = table(&header, terminal);
    for variant in Variant::ALL {
        let mut row = vec![variant.name()];
        row.extend(workers.iter().map(|&workers| {
            let per_s = measured.per_s(work, variant, workers);
            per_s.map_or("-".to_owned(), |it| format!("{:.0}", it / 1000.0))
        }));
        table.add_row(row);
    }
    format!("{}\n(two threads for each worker; all together, medians)\n", table.trim_fmt())
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let rows = measured.series.iter().filter_map(|it| {
        let case = format!("{}, {} workers", it.work.title(), it.workers);
        let value = median(&it.per_s)?;
        Some(Row::number(&case, it.variant.name(), "throughput, median", "1/s", value))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_double_up_to_the_cpus() {
        assert_eq!(steps(1), [1]);
        assert_eq!(steps(2), [1, 2]);
        assert_eq!(steps(6), [1, 2, 4, 6]);
        assert_eq!(steps(8), [1, 2, 4, 8]);
    }

    #[test]
    fn what_did_not_run_has_no_number() {
        let series = |workers, per_s| Series {
            work: Work::Yield,
            variant: Variant::Fifo(Lock::Giant),
            workers,
            per_s,
        };
        let it = Measured { series: vec![series(1, vec![2e6, 1e6, 3e6]), series(2, Vec::new())] };
        assert_eq!(it.per_s(Work::Yield, Variant::Fifo(Lock::Giant), 1), Some(2e6));
        assert_eq!((rows(&it).len(), it.workers()), (1, vec![1, 2]));
        let terminal = Terminal { width: 100, unicode: false };
        let text = report_one(&it, Work::Yield, terminal);
        assert!(text.contains("fifo, giant lock") && text.contains("2000"), "{text}");
    }
}
