// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four programs of the paper's kinds: how they scale under each setting (Figs 8, 10, 11, 13,
//! 14).

use super::launch::{command, run_lines};
use super::paper;
use super::setting::Setting;
use super::Part;
use crate::alternate::order;
use crate::json::{NotRun, Row};
use crate::stats::{median, median_of_ratios, summarize};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::bail;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::Duration;

/// Longer than any run that makes progress; with queue locks a run may hang.
const LIMIT: Duration = Duration::from_secs(60);

/// A run: a program with its setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    pub program: Part,
    pub setting: Setting,
    pub threads: usize,
}

impl Cell {
    /// For people.
    pub fn name(&self) -> String {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        format!("{}, {}, {} {threads}", self.program.name(), self.setting.name(), self.threads)
    }

    /// The arguments of the program itself.
    pub fn arguments(&self, size: Option<u64>) -> Vec<String> {
        let mut all = vec!["--threads".to_owned(), self.threads.to_string()];
        if let Some(size) = size {
            all.extend(["--size".to_owned(), size.to_string()]);
        }
        let has_files = self.program != Part::Swaptions;
        if has_files && self.setting.memory_files {
            all.extend(["--files", "memory"].map(str::to_owned));
        }
        if self.program == Part::Streamcluster && self.setting.barrier.is_some() {
            all.extend(["--barrier", "pthread"].map(str::to_owned));
        }
        all
    }
}

/// The report of a program on a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub size: u64,
    pub result: String,
    pub right: bool,
    pub wall_ns: f64,
    pub serial_ns: f64,
    pub file_ns: f64,
    pub parallel_ns: f64,
    pub cpu_ns: f64,
    pub locks: u64,
    pub barriers: u64,
    pub most_threads: usize,
    pub kernel_threads: usize,
}

/// A cell, and its runs: one a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    pub cell: Cell,
    pub runs: Vec<Run>,
}

/// All measurements of the programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    pub series: Vec<Series>,
}

impl Measured {
    fn walls(&self, program: Part, setting: &Setting, threads: usize) -> Vec<f64> {
        let same = |it: &&Series| {
            (it.cell.program, it.cell.threads, &it.cell.setting) == (program, threads, setting)
        };
        let series = self.series.iter().find(same);
        series.map_or(Vec::new(), |it| it.runs.iter().map(|run| run.wall_ns).collect())
    }

    /// The time of one setting as a multiple of another one's: the median of the rounds' ratios.
    pub fn ratio(
        &self,
        program: Part,
        threads: usize,
        one: &Setting,
        other: &Setting,
    ) -> Option<f64> {
        let (one, other) = (self.walls(program, one, threads), self.walls(program, other, threads));
        (one.len() == other.len()).then(|| median_of_ratios(&one, &other)).flatten()
    }

    /// The least number of rounds.
    pub fn rounds(&self) -> usize {
        self.series.iter().map(|it| it.runs.len()).filter(|&it| it > 0).min().unwrap_or(0)
    }

    fn settings(&self, program: Part) -> Vec<Setting> {
        let of_it = self.series.iter().filter(|it| it.cell.program == program);
        super::setting::unique(of_it.map(|it| it.cell.setting.clone()).collect())
    }

    fn threads(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.series.iter().map(|it| it.cell.threads).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// How much is measured.
pub struct Extent {
    pub rounds: usize,
    pub little: bool,
    pub cpus: usize,
}

impl Extent {
    /// The size for the program; `None`: its own default.
    pub fn size(&self, program: Part) -> Option<u64> {
        match program {
            _ if !self.little => None,
            Part::Blackscholes => Some(2048),
            Part::Swaptions => Some(200),
            Part::Streamcluster => Some(512),
            _ => Some(1 << 20),
        }
    }
}

/// Runs all cells in alternation. A cell that has failed is named, and not tried again.
pub fn measure(
    cells: &[Cell],
    extent: &Extent,
    progress: &ProgressBar,
) -> (Measured, Vec<NotRun>, Vec<NotRun>) {
    let mut series: Vec<Series> =
        cells.iter().map(|cell| Series { cell: cell.clone(), runs: Vec::new() }).collect();
    let (mut not_run, mut failed) = (Vec::new(), Vec::<NotRun>::new());
    let mut out = vec![false; series.len()];
    for round in 0..extent.rounds {
        let places: Vec<usize> = (0..series.len()).collect();
        for place in order(&places, round) {
            let it = &mut series[place];
            if out[place] {
                continue;
            }
            progress.set_message(format!("{}, round {}", it.cell.name(), round + 1));
            match run(&it.cell, extent, &[]) {
                Ok(run) => it.runs.push(run),
                Err(error) => {
                    let list = if it.runs.is_empty() { &mut not_run } else { &mut failed };
                    let reason = format!("{error:#}");
                    list.push(NotRun { variant: it.cell.name(), reason });
                    out[place] = true;
                }
            }
        }
    }
    for program in Part::PROGRAMS {
        failed.extend(disagreement(&series, program));
    }
    (Measured { series }, not_run, failed)
}

/// Runs it once, inside another command of tek if `around` has one.
pub fn run(cell: &Cell, extent: &Extent, around: &[OsString]) -> anyhow::Result<Run> {
    let mut command =
        command("manycore", &cell.program.name(), &cell.setting, extent.cpus, around)?;
    command.args(cell.arguments(extent.size(cell.program)));
    let run: Run = run_lines(command, LIMIT)?.remove(0);
    if !run.right {
        bail!("its result is wrong");
    }
    Ok(run)
}

/// The result must be the same under each lock and each scheduler.
fn disagreement(series: &[Series], program: Part) -> Option<NotRun> {
    let mut runs = series
        .iter()
        .filter(|it| it.cell.program == program)
        .flat_map(|it| it.runs.iter().map(move |run| (&it.cell, run)));
    let (_, first) = runs.next()?;
    let (cell, _) = runs.find(|(_, run)| run.result != first.result)?;
    let reason = "its result is not that of the first setting".to_owned();
    Some(NotRun { variant: cell.name(), reason })
}

/// For people: a table for each program.
pub fn report(measured: &Measured, terminal: Terminal) -> Vec<String> {
    let measured_ones = Part::PROGRAMS.iter().filter(|&&it| !measured.settings(it).is_empty());
    measured_ones.map(|&program| report_one(measured, program, terminal)).collect()
}

fn report_one(measured: &Measured, program: Part, terminal: Terminal) -> String {
    let threads = measured.threads();
    let mut header = vec![format!("{}, ms (scaling)", program.name())];
    header.extend(threads.iter().map(|&it| match it {
        1 => "1 thread".to_owned(),
        it => format!("{it} threads"),
    }));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = table(&header, terminal);
    for setting in measured.settings(program) {
        let alone = measured.walls(program, &setting, threads[0]);
        let mut row = vec![setting.name()];
        row.extend(threads.iter().map(|&threads| {
            let walls = measured.walls(program, &setting, threads);
            let Some(wall) = median(&walls) else { return "-".to_owned() };
            let scaling = (walls.len() == alone.len())
                .then(|| median_of_ratios(&alone, &walls))
                .flatten()
                .map_or(String::new(), |it| format!(" ({it:.2})"));
            format!("{:.1}{scaling}", wall / 1e6)
        }));
        table.add_row(row);
    }
    let counted = measured
        .series
        .iter()
        .filter(|it| it.cell.program == program)
        .find_map(|it| it.runs.first());
    let counts = counted.map_or(String::new(), |run| {
        format!("; size {}, {} locks, {} barriers", run.size, run.locks, run.barriers)
    });
    format!(
        "{}\n(medians of the rounds; scaling: by the same setting with {} \
         thread(s){counts})\npaper, {}\n",
        table.trim_fmt(),
        threads[0],
        paper::statement(program)
    )
}

/// The parts of the wall time of the program's main thread, by its own account: needs no profiler.
pub fn report_parts(measured: &Measured, terminal: Terminal) -> String {
    let mut table =
        table(&["time by the programs, ms", "serial", "file", "parallel", "CPU"], terminal);
    let plain = |it: &&Series| {
        let setting = &it.cell.setting;
        !it.runs.is_empty() && (setting.is_plain() || setting.preset.is_some())
    };
    for it in measured.series.iter().filter(plain) {
        let of = |part: fn(&Run) -> f64| {
            median(&it.runs.iter().map(part).collect::<Vec<_>>())
                .map_or("-".to_owned(), |ns| format!("{:.1}", ns / 1e6))
        };
        table.add_row([
            it.cell.name(),
            of(|run| run.serial_ns),
            of(|run| run.file_ns),
            of(|run| run.parallel_ns),
            of(|run| run.cpu_ns),
        ]);
    }
    format!("{}\n(medians of the rounds)\n", table.trim_fmt())
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let rows = measured.series.iter().filter_map(|it| {
        let walls: Vec<f64> = it.runs.iter().map(|run| run.wall_ns / 1e6).collect();
        let case = format!("{}, {} threads", it.cell.program.name(), it.cell.threads);
        let summary = summarize(&walls)?;
        Some(Row::distribution(case, it.cell.setting.name(), "wall time", "ms", &summary))
    });
    rows.collect()
}

/// The program as it is, with pthread's barrier of this kind instead of streamcluster's own.
pub fn with_barrier(kind: &str) -> Setting {
    Setting { barrier: Some(kind.to_owned()), ..Setting::default() }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn run_of(ms: f64) -> Run {
        Run {
            size: 1,
            result: "2f".to_owned(),
            right: true,
            wall_ns: ms * 1e6,
            serial_ns: 1e6,
            file_ns: 2e6,
            parallel_ns: ms * 1e6 - 3e6,
            cpu_ns: ms * 1e6,
            locks: 3,
            barriers: 4,
            most_threads: 2,
            kernel_threads: 2,
        }
    }

    pub fn series(program: Part, setting: Setting, threads: usize, ms: &[f64]) -> Series {
        let cell = Cell { program, setting, threads };
        Series { cell, runs: ms.iter().copied().map(run_of).collect() }
    }

    const TERMINAL: Terminal = Terminal { width: 120, unicode: false };

    #[test]
    fn scaling_is_by_one_thread_of_the_same_round() {
        let plain = Setting::default;
        let measured = Measured {
            series: vec![
                series(Part::Dedup, plain(), 1, &[100.0, 900.0, 104.0]),
                series(Part::Dedup, plain(), 2, &[50.0, 450.0, 52.0]),
                series(Part::Dedup, with_barrier("block"), 2, &[]),
            ],
        };
        let text = report_one(&measured, Part::Dedup, TERMINAL);
        assert!(text.contains("52.0 (2.00)") && text.contains("104.0 (1.00)"), "{text}");
        assert!(text.contains("Figs 14, 15"), "{text}");
        assert!(text.lines().any(|line| line.contains("block") && line.contains('-')), "{text}");
        assert_eq!((rows(&measured).len(), measured.rounds()), (2, 3));
        assert_eq!(measured.ratio(Part::Dedup, 2, &with_barrier("block"), &plain()), None);
    }

    #[test]
    fn a_setting_that_changes_the_result_is_named() {
        let mut all = vec![
            series(Part::Swaptions, Setting::default(), 1, &[1.0]),
            series(Part::Swaptions, Setting::default(), 8, &[1.0]),
        ];
        assert!(disagreement(&all, Part::Swaptions).is_none());
        all[1].runs[0].result = "30".to_owned();
        let found = disagreement(&all, Part::Swaptions).unwrap();
        assert_eq!(found.variant, "swaptions, 1:1, 8 threads");
    }

    #[test]
    fn programs_get_their_settings_as_arguments() {
        let setting = Setting { memory_files: true, ..with_barrier("block") };
        let reported = |program| {
            Cell { program, setting: setting.clone(), threads: 3 }.arguments(Some(9)).join(" ")
        };
        assert_eq!(reported(Part::Swaptions), "--threads 3 --size 9");
        assert_eq!(reported(Part::Dedup), "--threads 3 --size 9 --files memory");
        assert_eq!(
            reported(Part::Streamcluster),
            "--threads 3 --size 9 --files memory --barrier pthread"
        );
    }
}
