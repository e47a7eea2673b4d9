// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's seven programs (uthreads, 5), each under every variant.

use super::cell::{self, threads, Batch, Cell, Program, Variant, JUDGED_US, THREADS};
use super::engine::{self, quantum, run_json, Sched, Threads};
use crate::alternate::{order, progress_bar};
use crate::json::{NotRun, Row};
use crate::stats::{median, median_of_ratios, summarize, Summary};
use anyhow::ensure;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A run takes a fraction of a second.
const LIMIT: Duration = Duration::from_secs(60);
/// The least time of every program, alone on one CPU.
pub const LEAST_MS: f64 = 100.0;
/// The target time, so that the least time is reached.
const WANTED_MS: f64 = 150.0;

/// How much is measured.
pub struct Extent {
    /// The rounds of the judged cells.
    pub judged_rounds: usize,
    /// The rest.
    pub rounds: usize,
    /// The paper's tables, all of them.
    pub full: bool,
    /// Some cells only, of sizes that take some ms.
    pub little: bool,
}

/// The report of a program on a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    result: u64,
    size: u64,
    threads: u32,
    wall_ns: u64,
    first_ns: u64,
    last_ns: u64,
    cpu_ns: u64,
    /// Switches of kernel threads.
    voluntary: u64,
    involuntary: u64,
    kernel_threads: u32,
}

/// A number of a run.
pub type Number = fn(&Run) -> f64;

pub const WALL_MS: Number = |run| run.wall_ns as f64 / 1e6;
pub const FIRST_MS: Number = |run| run.first_ns as f64 / 1e6;
pub const LAST_MS: Number = |run| run.last_ns as f64 / 1e6;
pub const CPU_MS: Number = |run| run.cpu_ns as f64 / 1e6;
pub const SWITCHES: Number = |run| (run.voluntary + run.involuntary) as f64;

/// All runs of a cell: one a round.
#[derive(Serialize)]
pub struct Measured {
    pub cells: Vec<Entry>,
    /// The sizes, and how long each program takes alone, in ms.
    pub sizes: BTreeMap<Program, (u64, f64)>,
    #[serde(skip)]
    index: BTreeMap<Cell, usize>,
}

#[derive(Serialize)]
pub struct Entry {
    pub cell: Cell,
    pub runs: Vec<Run>,
}

impl Measured {
    /// One number of all runs of a cell.
    pub fn numbers(&self, cell: &Cell, number: Number) -> Vec<f64> {
        self.index
            .get(cell)
            .map_or(Vec::new(), |&at| self.cells[at].runs.iter().map(number).collect())
    }

    pub fn summary(&self, cell: &Cell, number: Number) -> Option<Summary> {
        summarize(&self.numbers(cell, number))
    }

    /// rr on one CPU by pthread there: the median of the rounds' ratios.
    pub fn ratio(&self, program: Program, threads: u32, variant: Variant) -> Option<f64> {
        let of = |variant: Variant| {
            let quantum_us = if variant.is_tek() { JUDGED_US } else { 0 };
            self.numbers(&Cell { program, threads, quantum_us, variant }, WALL_MS)
        };
        median_of_ratios(&of(variant), &of(Variant::PthreadOne))
    }

    /// The greatest of these ratios, whatever the number of threads.
    pub fn worst_ratio(&self, program: Program) -> Option<f64> {
        let all = THREADS.iter();
        all.filter_map(|&threads| self.ratio(program, threads, Variant::One(Sched::Rr)))
            .max_by(f64::total_cmp)
    }

    /// The number of judged rounds.
    pub fn judged_rounds(&self) -> usize {
        let variant = Variant::PthreadOne;
        let count = |&program: &Program| {
            let cell = Cell { program, threads: cell::USUAL_THREADS, quantum_us: 0, variant };
            self.numbers(&cell, WALL_MS).len()
        };
        Program::ALL.iter().map(count).min().unwrap_or(0)
    }

    fn add(&mut self, cell: Cell, run: Run) {
        let at = *self.index.entry(cell).or_insert_with(|| {
            self.cells.push(Entry { cell, runs: Vec::new() });
            self.cells.len() - 1
        });
        self.cells[at].runs.push(run);
    }

    fn forget(&mut self, cell: &Cell) {
        if let Some(&at) = self.index.get(cell) {
            self.cells[at].runs.clear();
        }
    }
}

/// Runs all of it, without the library only the part that needs none. A cell that fails once is
/// named and not run again.
pub fn measure(extent: &Extent, cpus: usize) -> anyhow::Result<(Measured, Vec<NotRun>)> {
    let directory = tempfile::tempdir()?;
    let bench = Bench { files: directory.path(), cpus };
    let mut measured =
        Measured { cells: Vec::new(), sizes: BTreeMap::new(), index: BTreeMap::new() };
    let mut failed = Vec::new();
    let mut batches: Vec<_> = Program::ALL.iter().map(|&it| batches(extent, it)).collect();
    if let Err(error) = engine::preload() {
        let variant = "programs on user-level threads".to_owned();
        failed.push(NotRun { variant, reason: format!("{error:#}") });
        let all = batches.iter_mut().flatten();
        all.for_each(|batch| batch.cells.retain(|cell| !cell.variant.is_tek()));
    }
    let steps = batches.iter().flatten().map(|batch| batch.rounds * batch.cells.len()).sum();
    let progress = progress_bar(steps);
    for (&program, batches) in Program::ALL.iter().zip(&batches) {
        progress.set_message(program.name());
        let size = bench.size(program, extent.little)?;
        measured.sizes.insert(program, size);
        for batch in batches {
            bench.run_batch(batch, size.0, &mut measured, &mut failed, &progress);
        }
    }
    progress.finish_and_clear();
    Ok((measured, failed))
}

fn batches(extent: &Extent, program: Program) -> Vec<Batch> {
    if extent.little {
        return vec![Batch { rounds: extent.rounds, cells: cell::usual(program) }];
    }
    let judged = cell::judged(program, &THREADS);
    let mut rest = if extent.full { cell::full(program) } else { cell::usual(program) };
    if !extent.full {
        rest.extend(cell::sweep(program));
        rest.sort();
        rest.dedup();
    }
    // A ratio needs both in the same round, so the judged cells run separately.
    rest.retain(|cell| !judged.contains(cell));
    vec![
        Batch { rounds: extent.judged_rounds, cells: judged },
        Batch { rounds: extent.rounds, cells: rest },
    ]
}

struct Bench<'a> {
    /// Where programs write files.
    files: &'a Path,
    cpus: usize,
}

impl Bench<'_> {
    fn run_batch(
        &self,
        batch: &Batch,
        size: u64,
        measured: &mut Measured,
        failed: &mut Vec<NotRun>,
        progress: &ProgressBar,
    ) {
        for round in 0..batch.rounds {
            for cell in order(&batch.cells, round) {
                progress.inc(1);
                let variant = cell.describe();
                if failed.iter().any(|it| it.variant == variant) {
                    continue;
                }
                match self.run(&cell, size) {
                    Ok(run) => measured.add(cell, run),
                    Err(error) => {
                        measured.forget(&cell);
                        failed.push(NotRun { variant, reason: format!("{error:#}") });
                    }
                }
            }
        }
    }

    fn run(&self, cell: &Cell, size: u64) -> anyhow::Result<Run> {
        let setting = cell.setting(self.cpus);
        self.start(cell, threads(setting.as_ref()), size)
    }

    fn start(&self, cell: &Cell, threads: Threads, size: u64) -> anyhow::Result<Run> {
        let mut command = engine::command(cell.program.name(), threads, cell.variant.cpus())?;
        command.env("TMPDIR", self.files);
        command.args(["--threads", &cell.threads.to_string(), "--size", &size.to_string()]);
        let run: Run = run_json(command, LIMIT)?;
        // A variant must not silently be another one.
        let is_tek = run.kernel_threads < run.threads;
        ensure!(
            is_tek == cell.variant.is_tek(),
            "{} threads were {} kernel threads",
            run.threads,
            run.kernel_threads
        );
        Ok(run)
    }

    /// A size that takes long enough, and its time in ms: with the C library's threads on one CPU.
    fn size(&self, program: Program, little: bool) -> anyhow::Result<(u64, f64)> {
        let variant = Variant::PthreadOne;
        let alone = Cell { program, threads: cell::USUAL_THREADS, quantum_us: 0, variant };
        let wall = |size| self.start(&alone, Threads::Own, size).map(|run| WALL_MS(&run));
        let mut size = program.little();
        let mut ms = wall(size)?;
        for _ in 0..8 {
            if little || ms >= LEAST_MS * 1.2 {
                break;
            }
            size = program.scaled(size, (WANTED_MS / ms).min(20.0));
            ms = wall(size)?;
        }
        Ok((size, ms))
    }
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let metrics: [(&str, &str, Number); 5] = [
        ("wall time", "ms", WALL_MS),
        ("response of the first thread", "ms", FIRST_MS),
        ("response of the last thread", "ms", LAST_MS),
        ("CPU time", "ms", CPU_MS),
        ("kernel switches", "1", SWITCHES),
    ];
    let mut rows = Vec::new();
    for Entry { cell, .. } in &measured.cells {
        let case = format!("{}, {} threads", cell.program.name(), cell.threads);
        let variant = match cell.quantum_us {
            0 => cell.variant.name(),
            us => format!("{}, {}", cell.variant.name(), quantum(us)),
        };
        for (metric, unit, number) in metrics {
            if let Some(summary) = measured.summary(cell, number) {
                rows.push(Row::distribution(&case, &variant, metric, unit, &summary));
            }
        }
    }
    for program in Program::ALL {
        for threads in THREADS {
            let case = format!("{}, {threads} threads", program.name());
            for variant in [Variant::One(Sched::Rr), Variant::PthreadOneAgain] {
                if let Some(ratio) = measured.ratio(program, threads, variant) {
                    let metric = "by pthread on one CPU, median of the rounds";
                    rows.push(Row::number(&case, variant.name(), metric, "times", ratio));
                }
            }
        }
    }
    rows
}

/// The median wall time of a cell, in ms.
pub fn wall_ms(measured: &Measured, cell: &Cell) -> Option<f64> {
    median(&measured.numbers(cell, WALL_MS))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// pthread on one CPU takes 150 ms, rr so many times as long.
    pub fn measured(ratio: f64, rounds: usize) -> Measured {
        let mut measured =
            Measured { cells: Vec::new(), sizes: BTreeMap::new(), index: BTreeMap::new() };
        for program in Program::ALL {
            measured.sizes.insert(program, (1000, 150.0));
            for cell in cell::judged(program, &THREADS) {
                for round in 0..rounds {
                    let pthread_ns = 150_000_000.0 + 1e6 * round as f64;
                    let ns = if cell.variant.is_tek() { pthread_ns * ratio } else { pthread_ns };
                    measured.add(cell, run(cell.threads, ns as u64));
                }
            }
        }
        measured
    }

    fn run(threads: u32, wall_ns: u64) -> Run {
        Run {
            result: 1,
            size: 1000,
            threads,
            wall_ns,
            first_ns: wall_ns / 2,
            last_ns: wall_ns,
            cpu_ns: wall_ns,
            voluntary: 3,
            involuntary: 4,
            kernel_threads: 1,
        }
    }

    #[test]
    fn the_ratio_is_of_the_same_round() {
        let it = measured(1.02, 9);
        assert!((it.worst_ratio(Program::Banking).unwrap() - 1.02).abs() < 1e-6);
        assert_eq!(it.ratio(Program::Banking, 5, Variant::PthreadOneAgain), Some(1.0));
        assert_eq!(it.judged_rounds(), 9);
    }

    #[test]
    fn what_failed_has_no_numbers() {
        let mut it = measured(1.0, 3);
        let cell = it.cells[0].cell;
        it.forget(&cell);
        assert_eq!(it.summary(&cell, WALL_MS), None);
    }

    #[test]
    fn what_is_judged_is_not_run_a_second_time() {
        let extent = Extent { judged_rounds: 11, rounds: 3, full: true, little: false };
        let batches = batches(&extent, Program::Vector);
        assert!(!batches[1].cells.iter().any(|cell| batches[0].cells.contains(cell)));
        let all = batches[0].cells.len() + batches[1].cells.len();
        assert_eq!(all, cell::full(Program::Vector).len());
    }

    #[test]
    fn every_number_has_a_row() {
        let it = measured(1.0, 3);
        let metrics = it.cells.len() * 5 + Program::ALL.len() * THREADS.len() * 2;
        assert_eq!(rows(&it).len(), metrics);
    }
}
