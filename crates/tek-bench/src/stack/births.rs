// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of the Stack Tuner for a thread: creating and joining one, plain, under `tek run`
//! without it, while it learns a kind, and with a known kind. Each variant is a process of its own,
//! run in alternation; the program is that of `tek bench ident`.

use super::lab::{Lab, Limits, Tek};
use crate::json::Row;
use crate::programs;
use crate::stats::{median, median_difference, median_of_ratios, summarize};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::{ensure, Context};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Enough start routines, so that each one's threads are the first of their kind: all are measured.
const NEW_KINDS: u32 = 64;

/// A variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Variant {
    Plain,
    /// The same again: shows how much two equal measurements differ.
    PlainAgain,
    /// Without the Stack Tuner.
    Idle,
    /// Its kind is known from earlier runs.
    Settled,
    /// The same as `Learning`, without TEK.
    PlainNewKinds,
    /// Its kind is new.
    Learning,
}

impl Variant {
    pub const ALL: [Variant; 6] = [
        Variant::Plain,
        Variant::PlainAgain,
        Variant::Idle,
        Variant::Settled,
        Variant::PlainNewKinds,
        Variant::Learning,
    ];

    fn name(self) -> &'static str {
        match self {
            Variant::Plain => "glibc",
            Variant::PlainAgain => "glibc, again",
            Variant::Idle => "tek run",
            Variant::Settled => "--stack auto, settled",
            Variant::PlainNewKinds => "glibc, 64 kinds",
            Variant::Learning => "--stack auto, learning 64",
        }
    }

    /// The variant with which it is compared.
    fn base(self) -> Variant {
        match self {
            Variant::Learning => Variant::PlainNewKinds,
            _ => Variant::Plain,
        }
    }

    fn is_base(self) -> bool {
        matches!(self, Variant::Plain | Variant::PlainNewKinds)
    }

    fn kinds(self) -> Option<u32> {
        matches!(self, Variant::Learning | Variant::PlainNewKinds).then_some(NEW_KINDS)
    }
}

/// The time of one thread's creation and join in ns: of each process the median.
#[derive(Default, Serialize)]
pub struct Measured(BTreeMap<Variant, Vec<f64>>);

impl Measured {
    /// The same times in so many rounds, for tests.
    #[cfg(test)]
    pub fn of(ns: [f64; 6], rounds: usize) -> Measured {
        Measured(Variant::ALL.into_iter().zip(ns.map(|ns| vec![ns; rounds])).collect())
    }

    fn times(&self, variant: Variant) -> &[f64] {
        self.0.get(&variant).map_or(&[], Vec::as_slice)
    }

    /// How many processes of each variant ran.
    pub fn rounds(&self) -> usize {
        self.0.values().map(Vec::len).min().unwrap_or(0)
    }

    /// The time of a variant as a multiple of glibc's: the median of the rounds' ratios.
    pub fn ratio(&self, variant: Variant) -> Option<f64> {
        median_of_ratios(self.times(variant), self.times(variant.base()))
    }

    /// The time that a variant takes beyond glibc's, in ns: the median of the rounds' differences.
    fn added_ns(&self, variant: Variant) -> Option<f64> {
        median_difference(self.times(variant), self.times(variant.base()))
    }
}

/// The output of the program: the time of a thread in ns, in each batch.
#[derive(Deserialize)]
struct Output {
    ns: Vec<f64>,
}

/// Runs all variants, so many processes of each; `progress` is called after each round.
pub fn measure(lab: &Lab, rounds: usize, progress: impl Fn(usize)) -> anyhow::Result<Measured> {
    let program = programs::find("ident", "create")?;
    let run = |variant: Variant, tek: Tek| -> anyhow::Result<f64> {
        let mut command = lab.command(&program, tek, Limits::default());
        if let Some(kinds) = variant.kinds() {
            // A batch for each.
            command.arg(format!("--kinds={kinds}")).arg(kinds.to_string());
        }
        let output: Output = lab.run(&mut command)?;
        median(&output.ns).context("the program create measured nothing")
    };
    let known = lab.profiles("births-known")?;
    let empty = lab.profiles("births-empty")?;
    run(Variant::Settled, Tek::Stack("auto", &known))?;
    ensure!(lab.has_profile(&known), "tek run --stack auto left no profile");

    let mut measured = Measured::default();
    for round in 0..rounds {
        // Each variant is the first and each other one in the row equally often.
        for place in 0..Variant::ALL.len() {
            let variant = Variant::ALL[(round + place) % Variant::ALL.len()];
            let new = lab.copy_of(&empty, "births-new")?;
            let tek = match variant {
                Variant::Plain | Variant::PlainAgain | Variant::PlainNewKinds => Tek::Without,
                Variant::Idle => Tek::Idle,
                Variant::Settled => Tek::Stack("auto", &known),
                Variant::Learning => Tek::Stack("auto", &new),
            };
            measured.0.entry(variant).or_default().push(run(variant, tek)?);
        }
        progress(round + 1);
    }
    Ok(measured)
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    if measured.rounds() == 0 {
        return String::new();
    }
    let mut table = table(&["create and join a thread, ns", "median", "least", "added"], terminal);
    for variant in Variant::ALL {
        let Some(summary) = summarize(measured.times(variant)) else {
            continue;
        };
        let added = match measured.added_ns(variant) {
            Some(ns) if !variant.is_base() => format!("{ns:+.0}"),
            _ => String::new(),
        };
        table.add_row([
            variant.name().to_owned(),
            format!("{:.0}", summary.p50),
            format!("{:.0}", summary.min),
            added,
        ]);
    }
    format!(
        "{}\n(medians of {} rounds on one CPU; added: median of the differences of a round; \
         learning: {NEW_KINDS} start routines after each other, the first 16 threads of each, \
         compared with the same under glibc)\n",
        table.trim_fmt(),
        measured.rounds()
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    let case = "create and join";
    for variant in Variant::ALL {
        if let Some(summary) = summarize(measured.times(variant)) {
            let metric = "time of a thread's creation and join";
            rows.push(Row::distribution(case, variant.name(), metric, "ns", &summary));
        }
        if let Some(ns) = measured.added_ns(variant).filter(|_| !variant.is_base()) {
            rows.push(Row::number(case, variant.name(), "added to glibc's, median", "ns", ns));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_kinds_are_compared_with_new_kinds() {
        let measured = Measured(BTreeMap::from([
            (Variant::Plain, vec![7000.0; 3]),
            (Variant::Settled, vec![7200.0, 7190.0, 9000.0]),
            (Variant::PlainNewKinds, vec![9000.0; 3]),
            (Variant::Learning, vec![9900.0; 3]),
        ]));
        assert_eq!(measured.added_ns(Variant::Learning), Some(900.0));
        assert_eq!(measured.added_ns(Variant::Settled), Some(200.0));
        assert_eq!(measured.rounds(), 3);
    }

    #[test]
    fn nothing_measured_adds_nothing_known() {
        assert_eq!(Measured::default().added_ns(Variant::Settled), None);
        assert!(rows(&Measured::default()).is_empty());
    }
}
