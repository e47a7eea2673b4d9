// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creating a thread and joining it: the program `create` as it is, the same with libtek.so
//! preloaded, and `create-tek`, which is linked with it. Each variant is a process of its own, run
//! in alternation.

use crate::json::Row;
use crate::programs;
use crate::stats::{median, median_difference, median_of_ratios, summarize};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::{ensure, Context};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tek_command::system::library;

/// A variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Variant {
    Plain,
    /// The same again: shows how much two equal measurements differ.
    PlainAgain,
    Preloaded,
    Linked,
}

impl Variant {
    const ALL: [Variant; 4] =
        [Variant::Plain, Variant::PlainAgain, Variant::Preloaded, Variant::Linked];

    fn name(self) -> &'static str {
        match self {
            Variant::Plain => "glibc",
            Variant::PlainAgain => "glibc, again",
            Variant::Preloaded => "libtek.so preloaded",
            Variant::Linked => "linked with libtek",
        }
    }

    fn is_tek(self) -> bool {
        matches!(self, Variant::Preloaded | Variant::Linked)
    }
}

/// The time of one thread's creation and join in ns: of each process the median.
#[derive(Default, Serialize)]
pub struct Measured(BTreeMap<Variant, Vec<f64>>);

impl Measured {
    /// The same times in so many rounds, for tests: plain, again, preloaded, linked.
    #[cfg(test)]
    pub fn of(ns: [f64; 4], rounds: usize) -> Measured {
        Measured(Variant::ALL.into_iter().zip(ns.map(|ns| vec![ns; rounds])).collect())
    }

    fn times(&self, variant: Variant) -> &[f64] {
        self.0.get(&variant).map_or(&[], Vec::as_slice)
    }

    /// How many processes of each variant ran.
    pub fn rounds(&self) -> usize {
        self.times(Variant::Plain).len()
    }

    /// The time of a variant as a multiple of glibc's: the median of the rounds' ratios.
    pub fn ratio(&self, variant: Variant) -> Option<f64> {
        median_of_ratios(self.times(variant), self.times(Variant::Plain))
    }

    /// The time that a variant takes beyond glibc's, in ns: the median of the rounds' differences.
    fn added_ns(&self, variant: Variant) -> Option<f64> {
        median_difference(self.times(variant), self.times(Variant::Plain))
    }
}

/// Runs all variants, so many processes of each.
pub fn measure(tables: &Path, rounds: usize, pinned: bool) -> anyhow::Result<Measured> {
    let bench = Bench {
        plain: programs::find("ident", "create")?,
        linked: programs::find("ident", "create-tek")?,
        library: library::find()?.0,
        tables,
        pinned,
    };
    let mut measured = Measured::default();
    for round in 0..rounds {
        // Each variant is the first and each other one in the row equally often.
        for place in 0..Variant::ALL.len() {
            let variant = Variant::ALL[(round + place) % Variant::ALL.len()];
            measured.0.entry(variant).or_default().push(bench.run(variant)?);
        }
    }
    Ok(measured)
}

struct Bench<'a> {
    plain: PathBuf,
    linked: PathBuf,
    library: PathBuf,
    tables: &'a Path,
    pinned: bool,
}

/// The output of the program: the time of a thread in ns, in each batch.
#[derive(Deserialize)]
struct Output {
    under_tek: bool,
    ns: Vec<f64>,
}

impl Bench<'_> {
    fn run(&self, variant: Variant) -> anyhow::Result<f64> {
        let mut command = match variant {
            Variant::Linked => Command::new(&self.linked),
            _ => Command::new(&self.plain),
        };
        command.env_remove("LD_PRELOAD").env("TEK_RUN_DIR", self.tables);
        if variant == Variant::Preloaded {
            command.env("LD_PRELOAD", &self.library);
        }
        if !self.pinned {
            command.arg("--unpinned");
        }
        let output: Output = programs::run_json(&mut command)?;
        // A variant must not silently be another one.
        ensure!(
            output.under_tek == variant.is_tek(),
            "{}: libtek.so is {}loaded",
            variant.name(),
            if variant.is_tek() { "not " } else { "" }
        );
        median(&output.ns).context("the program create measured nothing")
    }
}

/// For people.
pub fn report(pinned: &Measured, unpinned: &Measured, terminal: Terminal) -> String {
    let header = ["create and join a thread, ns", "median", "least", "added", "unpinned", "added"];
    let mut table = table(&header, terminal);
    for variant in Variant::ALL {
        let (Some(on_one), Some(on_all)) =
            (summarize(pinned.times(variant)), summarize(unpinned.times(variant)))
        else {
            continue;
        };
        let added = |measured: &Measured| match measured.added_ns(variant) {
            Some(ns) if variant != Variant::Plain => format!("{ns:+.0}"),
            _ => String::new(),
        };
        table.add_row([
            variant.name().to_owned(),
            format!("{:.0}", on_one.p50),
            format!("{:.0}", on_one.min),
            added(pinned),
            format!("{:.0}", on_all.p50),
            added(unpinned),
        ]);
    }
    format!(
        "{}\n(medians of {} rounds on one CPU, of {} on all; added: median of the differences of a \
         round)\n",
        table.trim_fmt(),
        pinned.rounds(),
        unpinned.rounds()
    )
}

/// The rows of the JSON document.
pub fn rows(case: &str, measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for variant in Variant::ALL {
        if let Some(summary) = summarize(measured.times(variant)) {
            let metric = "time of a thread's creation and join";
            rows.push(Row::distribution(case, variant.name(), metric, "ns", &summary));
        }
        if let Some(ns) = measured.added_ns(variant).filter(|_| variant != Variant::Plain) {
            rows.push(Row::number(case, variant.name(), "added to glibc's, median", "ns", ns));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_the_median_of_the_differences() {
        let measured = Measured(BTreeMap::from([
            (Variant::Plain, vec![7000.0, 14000.0, 7000.0]),
            (Variant::Preloaded, vec![7200.0, 14210.0, 9000.0]),
        ]));
        assert_eq!(measured.added_ns(Variant::Preloaded), Some(210.0));
        assert_eq!(measured.rounds(), 3);
    }

    #[test]
    fn nothing_measured_adds_nothing_known() {
        assert_eq!(Measured::default().added_ns(Variant::Linked), None);
        assert!(rows("create", &Measured::default()).is_empty());
    }
}
