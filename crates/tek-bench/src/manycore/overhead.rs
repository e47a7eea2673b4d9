// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of `tek profile` for the programs that it watches.

use super::launch::profiled;
use super::programs::{run, Cell, Extent, Run};
use super::setting::Setting;
use super::Part;
use crate::alternate::order;
use crate::json::{NotRun, Row};
use crate::stats::{median, median_of_ratios};
use crate::table::table;
use crate::terminal::Terminal;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

const THREADS: usize = 2;

/// The runs of a program in each round: two runs differ by some percent, more than the bar.
fn times(program: Part) -> usize {
    match program {
        Part::Streamcluster => 1, // seconds each
        _ => 8,
    }
}

/// A program's runs, in alternation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pair {
    program: Part,
    plain: Vec<Run>,
    profiled: Vec<Run>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    pairs: Vec<Pair>,
}

impl Pair {
    /// The ratio with and without profiling, by the rounds.
    fn ratio(&self, of: fn(&Run) -> f64) -> Option<f64> {
        let all = |runs: &[Run]| runs.iter().map(of).collect::<Vec<_>>();
        median_of_ratios(&all(&self.profiled), &all(&self.plain))
    }
}

impl Measured {
    /// The CPU time of a profiled program as a multiple of the plain one's.
    pub fn ratio(&self, program: Part) -> Option<f64> {
        self.pairs.iter().find(|it| it.program == program)?.ratio(|run| run.cpu_ns)
    }

    /// The least number of rounds.
    pub fn rounds(&self) -> usize {
        self.pairs.iter().map(|it| it.profiled.len() / times(it.program)).min().unwrap_or(0)
    }
}

/// Runs each program with and without, in alternation.
pub fn measure(extent: &Extent, progress: &ProgressBar) -> (Measured, Vec<NotRun>) {
    let named =
        |variant: &str, reason: String| NotRun { variant: format!("profile, {variant}"), reason };
    let (mut pairs, mut not_run) = (Vec::new(), Vec::new());
    for program in [Part::Blackscholes, Part::Swaptions, Part::Streamcluster, Part::Dedup] {
        match pair(program, extent, progress) {
            Ok(pair) => pairs.push(pair),
            Err(error) => not_run.push(named(&program.name(), format!("{error:#}"))),
        }
    }
    (Measured { pairs }, not_run)
}

fn pair(program: Part, extent: &Extent, progress: &ProgressBar) -> anyhow::Result<Pair> {
    let directory = tempfile::tempdir()?;
    let reported = directory.path().join("profile");
    let around = profiled(&["-o".as_ref(), reported.as_ref()])?;
    let cell = Cell { program, setting: Setting::default(), threads: THREADS };
    let mut pair = Pair { program, plain: Vec::new(), profiled: Vec::new() };
    for iteration in 0..extent.rounds * times(program) {
        progress.set_message(format!(
            "{} with and without tek profile, round {}",
            program.name(),
            iteration / times(program) + 1
        ));
        for profiled in order(&[false, true], iteration) {
            let around: &[_] = if profiled { &around } else { &[] };
            let run = run(&cell, extent, around)?;
            if profiled { &mut pair.profiled } else { &mut pair.plain }.push(run);
        }
    }
    Ok(pair)
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    if measured.pairs.is_empty() {
        return String::new();
    }
    let header = ["profiled, times as much", "CPU time", "wall time", "CPU without, ms", "locks"];
    let mut table = table(&header, terminal);
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
    for pair in &measured.pairs {
        let cpu: Vec<f64> = pair.plain.iter().map(|run| run.cpu_ns / 1e6).collect();
        table.add_row([
            pair.program.name().to_owned(),
            shown(pair.ratio(|run| run.cpu_ns)),
            shown(pair.ratio(|run| run.wall_ns)),
            median(&cpu).map_or("-".to_owned(), |ms| format!("{ms:.1}")),
            pair.plain.first().map_or("-".to_owned(), |run| run.locks.to_string()),
        ]);
    }
    format!(
        "{}\n(medians of the ratios of runs that follow each other, {THREADS} threads)\n",
        table.trim_fmt()
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for pair in &measured.pairs {
        let ratios = [
            ("CPU time", pair.ratio(|run| run.cpu_ns)),
            ("wall time", pair.ratio(|run| run.wall_ns)),
        ];
        for (what, ratio) in ratios {
            let case = format!("profile, {}", pair.program.name());
            rows.extend(ratio.map(|it| Row::number(case, what, "by plain", "times", it)));
        }
    }
    rows
}

#[cfg(test)]
pub mod tests {
    use super::super::programs::tests::run_of;
    use super::*;

    /// Each program with these times in ms.
    pub fn measured(programs: &[Part], plain: &[f64], profiled: &[f64]) -> Measured {
        let runs = |all: &[f64]| all.iter().copied().map(run_of).collect();
        let pair = |&program| Pair { program, plain: runs(plain), profiled: runs(profiled) };
        Measured { pairs: programs.iter().map(pair).collect() }
    }

    #[test]
    fn a_profiled_run_is_compared_with_the_plain_one_of_its_round() {
        let it = measured(&[Part::Streamcluster], &[100.0, 200.0, 300.0], &[102.0, 204.0, 900.0]);
        assert_eq!(it.ratio(Part::Streamcluster), Some(1.02));
        assert_eq!((it.ratio(Part::Swaptions), it.rounds()), (None, 3));
        let text = report(&it, Terminal { width: 100, unicode: false });
        assert!(text.contains("streamcluster") && text.contains("1.020"), "{text}");
        assert_eq!(rows(&it).len(), 2);
    }
}
