// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figs. 3 and 11 (b): the stacks of 273 threads that live at once, their allocated size and their
//! use.

use super::lab::{Lab, Limits, Tek, KIB, MIB};
use crate::json::Row;
use crate::programs;
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::ensure;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The total use, as published in bench/stack/spread.csv: that of Fig. 11.
pub const PUBLISHED_KIB: u64 = 50_828;

/// A thread's stack, in bytes: mapped, with its guard, and used, from its end.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Stack {
    pub allocated: u64,
    pub used: u64,
}

/// The output of the program.
#[derive(Clone, Deserialize, Serialize)]
pub struct Threads {
    /// How much larger the process was with all of its threads.
    pub vm_added: u64,
    pub stacks: Vec<Stack>,
}

impl Threads {
    pub fn allocated(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.allocated).sum()
    }

    pub fn used(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.used).sum()
    }

    /// Allocated by used.
    pub fn ratio(&self) -> f64 {
        self.allocated() as f64 / self.used().max(1) as f64
    }

    /// (threads, allocated, used) of the threads that use more than `from`, up to `to`.
    fn between(&self, from: u64, to: u64) -> (usize, u64, u64) {
        let fitting = self.stacks.iter().filter(|stack| stack.used > from && stack.used <= to);
        fitting.fold((0, 0, 0), |(count, allocated, used), stack| {
            (count + 1, allocated + stack.allocated, used + stack.used)
        })
    }
}

/// A variant and its result.
#[derive(Serialize)]
pub struct Run {
    pub variant: &'static str,
    pub threads: Threads,
}

pub const FIRST: &str = "TEK, first run";
pub const AUTO: &str = "TEK, second run, auto";
pub const TIGHT: &str = "TEK, second run, tight";

/// The conventional ones.
pub fn conventional(lab: &Lab) -> anyhow::Result<Vec<Run>> {
    let program = programs::find("stack", "spread")?;
    let run = |(variant, stack)| {
        let limits = Limits { stack, ..Limits::default() };
        let threads = lab.run(&mut lab.command(&program, Tek::Without, limits))?;
        Ok(Run { variant, threads: checked(threads)? })
    };
    [("8 MiB", 8 * MIB), ("4 MiB", 4 * MIB), ("2 MiB", 2 * MIB)].into_iter().map(run).collect()
}

/// The runs under TEK; the first one learns into `profiles`, which is empty before.
pub fn under_tek(lab: &Lab, profiles: &Path) -> anyhow::Result<Vec<Run>> {
    let program = programs::find("stack", "spread")?;
    let run = |variant, mode, profiles: &Path| {
        let tek = Tek::Stack(mode, profiles);
        let threads = lab.run(&mut lab.command(&program, tek, Limits::default()))?;
        Ok::<_, anyhow::Error>(Run { variant, threads: checked(threads)? })
    };
    let first = run(FIRST, "auto", profiles)?;
    ensure!(lab.has_profile(profiles), "tek run --stack auto left no profile");
    let auto = run(AUTO, "auto", &lab.copy_of(profiles, "spread-auto")?)?;
    let tight = run(TIGHT, "tight", &lab.copy_of(profiles, "spread-tight")?)?;
    Ok(vec![first, auto, tight])
}

/// The program's use must be the published one; otherwise the comparison is invalid.
fn checked(threads: Threads) -> anyhow::Result<Threads> {
    ensure!(
        threads.used() == PUBLISHED_KIB * KIB,
        "the threads used {} bytes, not {PUBLISHED_KIB} KiB",
        threads.used()
    );
    Ok(threads)
}

/// For people.
pub fn report(runs: &[Run], terminal: Terminal) -> String {
    let Some(first) = runs.first() else {
        return String::new();
    };
    let header =
        ["273 stacks, KiB", "allocated", "used", "ratio", "process grew", "little", "some", "much"];
    let mut table = table(&header, terminal);
    for Run { variant, threads } in runs {
        let ratio = |(_, allocated, used): (usize, u64, u64)| {
            format!("{:.2}", allocated as f64 / used.max(1) as f64)
        };
        table.add_row([
            (*variant).to_owned(),
            (threads.allocated() / KIB).to_string(),
            (threads.used() / KIB).to_string(),
            format!("{:.3}", threads.ratio()),
            (threads.vm_added / KIB).to_string(),
            ratio(threads.between(0, LITTLE)),
            ratio(threads.between(LITTLE, SOME)),
            ratio(threads.between(SOME, u64::MAX)),
        ]);
    }
    let count = |from, to| first.threads.between(from, to).0;
    format!(
        "{}\n(allocated: mapped, guards included; ratio: allocated by used, also for the {} \
         threads that use up to 64 KiB, the {} up to 512 KiB, the {} above)\n",
        table.trim_fmt(),
        count(0, LITTLE),
        count(LITTLE, SOME),
        count(SOME, u64::MAX)
    )
}

const LITTLE: u64 = 64 * KIB;
const SOME: u64 = 512 * KIB;

/// The rows of the JSON document.
pub fn rows(runs: &[Run]) -> Vec<Row> {
    let rows = |Run { variant, threads }: &Run| {
        let row =
            |metric, unit, value| Row::number("273 threads at once", *variant, metric, unit, value);
        [
            row("allocated for stacks", "KiB", threads.allocated() as f64 / KIB as f64),
            row("used of stacks", "KiB", threads.used() as f64 / KIB as f64),
            row("allocated by used", "times", threads.ratio()),
            row("growth of the process", "KiB", threads.vm_added as f64 / KIB as f64),
        ]
    };
    runs.iter().flat_map(rows).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Threads with such stacks, in KiB.
    pub fn threads(stacks: &[(u64, u64)]) -> Threads {
        let stack = |&(allocated, used)| Stack { allocated: allocated * KIB, used: used * KIB };
        Threads { vm_added: 0, stacks: stacks.iter().map(stack).collect() }
    }

    #[test]
    fn the_ratio_is_that_of_the_sums() {
        let threads = threads(&[(100, 10), (100, 90)]);
        assert_eq!((threads.allocated(), threads.used()), (200 * KIB, 100 * KIB));
        assert_eq!(threads.ratio(), 2.0);
    }

    #[test]
    fn threads_are_counted_by_what_they_use() {
        let threads = threads(&[(100, 64), (100, 65), (900, 512), (900, 513)]);
        assert_eq!(threads.between(0, LITTLE), (1, 100 * KIB, 64 * KIB));
        assert_eq!(threads.between(LITTLE, SOME).0, 2);
        assert_eq!(threads.between(SOME, u64::MAX).0, 1);
    }

    #[test]
    fn threads_that_use_something_else_than_published_are_refused() {
        assert!(checked(threads(&[(8192, PUBLISHED_KIB)])).is_ok());
        assert!(checked(threads(&[(8192, PUBLISHED_KIB - 1)])).is_err());
    }
}
