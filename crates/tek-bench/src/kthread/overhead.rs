// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables 2 to 7 (kernel-threads-wapip-2007, V-E): TEK's cost to all programs, column by column.

use super::stage::{now, times, Stage};
use super::variant::Variant;
use crate::alternate::{order, progress_bar};
use crate::daemon::Daemon;
use crate::early_end;
use crate::ground::User;
use crate::json::{NotRun, Row};
use crate::programs::run_json;
use crate::random::Random;
use crate::stats::{median, quantile};
use crate::table::table;
use crate::terminal::Terminal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Halves of the rounds that are compared.
const SPLITS: usize = 1000;
const SPLITS_SEED: u64 = 1;
/// Noise above this is reported.
const UNSTEADY: f64 = 0.05;

/// The presence of tekd and of a critical task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum With {
    /// No tekd.
    Off,
    /// The same again: shows how much two equal measurements differ.
    OffAgain,
    /// tekd, and no critical task.
    On,
    /// No tekd, and a critical task that has little to do: shows the cost of the task itself.
    Task,
    /// tekd, and the same task.
    Critical,
}

impl With {
    pub const ALL: [With; 5] = [With::Off, With::OffAgain, With::On, With::Task, With::Critical];

    fn name(self) -> &'static str {
        match self {
            With::Off => "off",
            With::OffAgain => "off-2",
            With::On => "on",
            With::Task => "off, one critical",
            With::Critical => "on, one critical",
        }
    }

    fn has_tekd(self) -> bool {
        matches!(self, With::On | With::Critical)
    }

    fn has_task(self) -> bool {
        matches!(self, With::Task | With::Critical)
    }
}

/// A column of the paper's tables, as `micro` measures it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Column {
    /// The number of the paper's table.
    pub table: u32,
    pub name: String,
    /// us, ns, or MB/s, of which more is better.
    pub unit: String,
    pub value: f64,
}

/// All rounds: by setup, one list of columns a round.
#[derive(Default, Serialize)]
pub struct Measured {
    pub columns: Vec<Column>,
    #[serde(skip)]
    pub rounds: BTreeMap<With, Vec<Vec<f64>>>,
}

/// The results, and the columns that could not be measured. A signal ends it early.
pub fn measure(stage: &Stage, rounds: usize) -> (Measured, Vec<NotRun>) {
    let (mut measured, mut not_run) = (Measured::default(), Vec::<NotRun>::new());
    let progress = progress_bar(rounds * With::ALL.len());
    'all: for round in 0..rounds {
        for with in order(&With::ALL, round) {
            let variant = format!("overhead, {}", with.name());
            if !not_run.iter().any(|it| it.variant == variant) {
                progress.set_message(variant.clone());
                match pass(stage, with) {
                    Ok(columns) => {
                        let values = columns.iter().map(|column| column.value).collect();
                        measured.rounds.entry(with).or_default().push(values);
                        measured.columns = columns;
                    }
                    // Its programs got the signal too.
                    Err(_) if early_end::ended_by().is_some() => {}
                    Err(error) => {
                        measured.rounds.remove(&with);
                        not_run.push(NotRun { variant, reason: format!("{error:#}") });
                    }
                }
            }
            if early_end::ended_by().is_some() {
                break 'all;
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    (measured, not_run)
}

fn pass(stage: &Stage, with: With) -> anyhow::Result<Vec<Column>> {
    let settings = Variant::Tek.settings().filter(|_| with.has_tekd());
    let daemon = settings.map(|it| Daemon::start(&stage.ground, it)).transpose()?;
    let task = super::case::writer(4096, 100_000).with("file-bytes", 1 << 20).and("@little");
    let mut critical = with.has_task().then(|| stage.start(&task)).transpose()?;
    if let Some(critical) = &mut critical {
        critical.announce(&times(now(), now() + Duration::from_secs(100)))?;
    }
    let mut command = stage.ground.command("micro", User::Own, false);
    command.arg(stage.ground.path("."));
    let columns = run_json(&mut command)?;
    drop(critical);
    daemon.map(Daemon::stop).transpose()?;
    Ok(columns)
}

impl Measured {
    fn of(&self, with: With, column: usize) -> Vec<f64> {
        let rounds = self.rounds.get(&with).map_or(&[][..], Vec::as_slice);
        rounds.iter().filter_map(|round| round.get(column).copied()).collect()
    }

    /// All rounds without tekd and task.
    fn without(&self, column: usize) -> Vec<f64> {
        [self.of(With::Off, column), self.of(With::OffAgain, column)].concat()
    }

    /// How many times as long as without tekd (for a bandwidth: how many times less), by the
    /// medians of the rounds; with a critical task on both sides or on none. Some columns have two
    /// usual values, and a round has one of them: there a ratio of each round shows only chance.
    pub fn ratio(&self, with: With, column: usize) -> Option<f64> {
        let base = match with {
            With::OffAgain => self.of(With::Off, column),
            With::Critical => self.of(With::Task, column),
            _ => self.without(column),
        };
        let ratio = ratio(&self.of(with, column), &base)?;
        Some(if self.columns.get(column)?.unit == "MB/s" { 1.0 / ratio } else { ratio })
    }

    /// The relative difference of two equal measurements: the greater of two. One is that of off
    /// and off-2, the other that of any two halves of the rounds without tekd, in 95% of all cases.
    pub fn noise(&self, column: usize) -> Option<f64> {
        let mut rounds = self.without(column);
        let half = rounds.len() / 2;
        let mut random = Random::new(SPLITS_SEED);
        let mut split = || {
            for at in (1..rounds.len()).rev() {
                rounds.swap(at, random.below(at as u64 + 1) as usize);
            }
            Some((ratio(&rounds[..half], &rounds[half..])? - 1.0).abs())
        };
        let splits: Option<Vec<f64>> = (0..SPLITS).map(|_| split()).collect();
        Some(quantile(&splits?, 0.95)?.max(self.off_by_off(column)?))
    }

    /// The relative difference of off and off-2: the bars allow it in addition.
    fn off_by_off(&self, column: usize) -> Option<f64> {
        Some((self.ratio(With::OffAgain, column)? - 1.0).abs())
    }

    /// The column that costs most beyond the difference of off and off-2, in percent. If the noise
    /// of that column is greater, the result may be chance.
    pub fn worst(&self, with: With) -> Option<(f64, &str)> {
        let beyond = |column: usize| {
            let percent = 100.0 * (self.ratio(with, column)? - 1.0 - self.off_by_off(column)?);
            Some((percent, &self.columns[column].name[..]))
        };
        let all: Option<Vec<_>> = (0..self.columns.len()).map(beyond).collect();
        all?.into_iter().max_by(|one, other| one.0.total_cmp(&other.0))
    }
}

/// By their medians.
fn ratio(numerators: &[f64], denominators: &[f64]) -> Option<f64> {
    let (numerator, denominator) = (median(numerators)?, median(denominators)?);
    (denominator > 0.0).then(|| numerator / denominator)
}

/// For people.
pub fn report(it: &Measured, terminal: Terminal) -> String {
    if it.columns.is_empty() {
        return String::new();
    }
    let header = [
        "table, column",
        "unit",
        "off",
        "on",
        "task, off",
        "task, on",
        "off-2/off",
        "noise",
        "on/off",
        "task, on/off",
    ];
    let mut table = table(&header, terminal);
    for (number, column) in it.columns.iter().enumerate() {
        let value = |with| {
            median(&it.of(with, number)).map_or("-".to_owned(), |value| format!("{value:.3}"))
        };
        let ratio =
            |with| it.ratio(with, number).map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        table.add_row([
            format!("{}, {}", column.table, column.name),
            column.unit.clone(),
            median(&it.without(number)).map_or("-".to_owned(), |value| format!("{value:.3}")),
            value(With::On),
            value(With::Task),
            value(With::Critical),
            ratio(With::OffAgain),
            it.noise(number).map_or("-".to_owned(), |noise| format!("{:.1}%", 100.0 * noise)),
            ratio(With::On),
            ratio(With::Critical),
        ]);
    }
    format!(
        "{}\nmedians of the rounds, off of twice as many; a ratio above 1 is slower, of a \
         bandwidth too. task: one critical task beside it. noise: by how much equal measurements \
         differ\n{}{}{}",
        table.trim_fmt(),
        reported(it, With::On),
        reported(it, With::Critical),
        unsteady(it)
    )
}

fn reported(it: &Measured, with: With) -> String {
    it.worst(with).map_or_else(String::new, |(percent, column)| {
        format!("{}: most beyond off/off: {column}, {percent:.1}%\n", with.name())
    })
}

/// Columns with so much noise in this run that smaller differences cannot be shown.
fn unsteady(it: &Measured) -> String {
    let noisy = |number: &usize| it.noise(*number).is_none_or(|noise| noise > UNSTEADY);
    let names: Vec<&str> =
        (0..it.columns.len()).filter(noisy).map(|number| &it.columns[number].name[..]).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "these differ by more than {:.0}% without tekd too, so that less cannot be told: {}\n",
            100.0 * UNSTEADY,
            names.join(", ")
        ),
    }
}

/// The rows of the JSON document.
pub fn rows(it: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, column) in it.columns.iter().enumerate() {
        let case = format!("table {}, {}", column.table, column.name);
        let unit = ["us", "ns", "MB/s"].into_iter().find(|unit| *unit == column.unit);
        for with in With::ALL {
            if let Some(value) = median(&it.of(with, number)) {
                let unit = unit.unwrap_or("1");
                rows.push(Row::number(&case, with.name(), "median", unit, value));
            }
            if let Some(ratio) = it.ratio(with, number) {
                rows.push(Row::number(&case, with.name(), "slower than off", "times", ratio));
            }
        }
        if let Some(noise) = it.noise(number) {
            rows.push(Row::number(&case, With::Off.name(), "noise", "%", 100.0 * noise));
        }
    }
    rows
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A latency and a bandwidth; with tekd both are worse by this share.
    pub fn measured(worse: f64) -> Measured {
        let column = |name: &str, unit: &str| {
            let (name, unit) = (name.to_owned(), unit.to_owned());
            Column { table: 2, name, unit, value: 0.0 }
        };
        let off = vec![vec![10.0, 1000.0]; 3];
        let on = vec![vec![10.0 * (1.0 + worse), 1000.0 / (1.0 + worse)]; 3];
        let rounds = [
            (With::Off, off.clone()),
            (With::OffAgain, off.clone()),
            (With::On, on.clone()),
            (With::Task, off),
            (With::Critical, on),
        ];
        let columns = vec![column("null call", "us"), column("pipe", "MB/s")];
        Measured { columns, rounds: rounds.into() }
    }

    #[test]
    fn less_bandwidth_is_as_bad_as_a_longer_latency() {
        let it = measured(0.25);
        for column in 0..2 {
            assert!((it.ratio(With::On, column).unwrap() - 1.25).abs() < 1e-9);
        }
        assert!((it.worst(With::On).unwrap().0 - 25.0).abs() < 1e-6);
        assert!(report(&it, Terminal { width: 100, unicode: false }).contains("2, null call"));
    }

    #[test]
    fn what_two_equal_measurements_differ_by_is_not_counted() {
        let mut it = measured(0.05);
        it.rounds.insert(With::OffAgain, vec![vec![10.5, 1000.0 / 1.05]; 3]);
        assert!(it.worst(With::On).unwrap().0 < 1e-6);
        it.rounds.remove(&With::On);
        assert!(it.worst(With::On).is_none());
    }

    /// 15 rounds each of a column that takes 20 or 32, in an alternation that differs with each
    /// `with`.
    fn bimodal(slower: f64) -> Measured {
        let mut it = measured(0.0);
        for (number, with) in With::ALL.into_iter().enumerate() {
            let worse = if with.has_tekd() { slower } else { 1.0 };
            let value = |round: usize| if (round + number).is_multiple_of(2) { 20.0 } else { 32.0 };
            let rounds = (0..15).map(|round| vec![worse * value(round), 1000.0]).collect();
            it.rounds.insert(with, rounds);
        }
        it
    }

    #[test]
    fn a_column_with_two_usual_values_is_neither_slower_by_chance_nor_judged_in_silence() {
        let it = bimodal(1.0);
        assert!(it.worst(With::On).unwrap().0 <= 0.0, "{:?}", it.worst(With::On));
        assert!(it.noise(0).unwrap() > 0.3);
        let text = report(&it, Terminal { width: 100, unicode: false });
        assert!(text.contains("cannot be told: null call\n"), "{text}");
        assert!(bimodal(4.0).worst(With::On).unwrap().0 > 20.0);
    }

    #[test]
    fn a_steady_column_is_judged_to_the_percent() {
        let mut it = measured(0.0);
        for (number, with) in With::ALL.into_iter().enumerate() {
            let worse = if with >= With::On { 1.03 } else { 1.0 };
            let value = |round: usize| 10.0 * worse + ((round * 7 + number) % 5) as f64 * 0.01;
            it.rounds.insert(with, (0..15).map(|round| vec![value(round), 1000.0]).collect());
        }
        let (percent, name) = it.worst(With::On).unwrap();
        assert!((2.0..3.2).contains(&percent) && name == "null call", "{percent}");
    }
}
