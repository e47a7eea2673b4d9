// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fig. 11 (a): stacks over days in which threads start and end.

use super::lab::{Lab, Limits, Tek, MIB};
use crate::json::Row;
use crate::programs;
use crate::table::table;
use crate::terminal::Terminal;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Of some threads.
#[derive(Clone, Copy, Deserialize, Serialize)]
pub struct Totals {
    pub threads: u64,
    pub allocated: u64,
    pub used: u64,
}

impl Totals {
    fn ratio(&self) -> f64 {
        self.allocated as f64 / self.used.max(1) as f64
    }
}

/// The state at the end of a day.
#[derive(Clone, Copy, Deserialize, Serialize)]
pub struct Day {
    pub day: u64,
    pub alive: Totals,
    /// All threads created so far, whether they live or not.
    pub created: Totals,
    /// Virtual memory of the process.
    pub vm: u64,
}

#[derive(Deserialize)]
struct Output {
    days: Vec<Day>,
}

/// A variant and its result.
#[derive(Serialize)]
pub struct Run {
    pub variant: &'static str,
    pub days: Vec<Day>,
}

/// How long.
#[derive(Clone, Copy)]
pub struct Plan {
    pub days: u16,
    pub hour_ms: u32,
}

fn run(lab: &Lab, plan: Plan, variant: &'static str, tek: Tek, stack: u64) -> anyhow::Result<Run> {
    let program = programs::find("stack", "spread")?;
    let mut command = lab.command(&program, tek, Limits { stack, ..Limits::default() });
    command.arg(format!("--days={}", plan.days)).arg(format!("--hour-ms={}", plan.hour_ms));
    let output: Output = lab.run(&mut command)?;
    Ok(Run { variant, days: output.days })
}

/// With the stacks that the C library gives.
pub fn conventional(lab: &Lab, plan: Plan) -> anyhow::Result<Vec<Run>> {
    let run = |(variant, stack)| run(lab, plan, variant, Tek::Without, stack);
    [("8 MiB", 8 * MIB), ("2 MiB", 2 * MIB)].into_iter().map(run).collect()
}

/// Under TEK; the first run learns into `profiles`, which is empty before.
pub fn under_tek(lab: &Lab, plan: Plan, profiles: &Path) -> anyhow::Result<Vec<Run>> {
    let fitted = |variant, mode, profiles: &Path| {
        run(lab, plan, variant, Tek::Stack(mode, profiles), 8 * MIB)
    };
    let first = fitted(super::spread::FIRST, "auto", profiles)?;
    let auto = fitted(super::spread::AUTO, "auto", &lab.copy_of(profiles, "churn-auto")?)?;
    let tight = fitted(super::spread::TIGHT, "tight", &lab.copy_of(profiles, "churn-tight")?)?;
    Ok(vec![first, auto, tight])
}

/// For people.
pub fn report(runs: &[Run], terminal: Terminal) -> String {
    let Some(days) = runs.first().map(|run| &run.days) else {
        return String::new();
    };
    let picked: Vec<usize> = (1..=3).map(|third| days.len() * third / 3 - 1).collect();
    let mut header = vec!["allocated, MiB (by used)".to_owned()];
    header.extend(picked.iter().map(|at| format!("created, day {}", days[*at].day)));
    header.push("alive".into());
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = table(&header, terminal);
    let cell = |totals: &Totals| format!("{} ({:.2})", totals.allocated / MIB, totals.ratio());
    for run in runs {
        let mut row = vec![run.variant.to_owned()];
        row.extend(picked.iter().filter_map(|at| run.days.get(*at)).map(|day| cell(&day.created)));
        row.extend(run.days.last().map(|day| cell(&day.alive)));
        table.add_row(row);
    }
    let last = &days[days.len() - 1];
    format!(
        "{}\n(stacks of all threads created so far, {} in {} simulated days, and of the {} alive \
         at their end)\n",
        table.trim_fmt(),
        last.created.threads,
        last.day,
        last.alive.threads
    )
}

/// The rows of the JSON document.
pub fn rows(runs: &[Run]) -> Vec<Row> {
    let rows = |run: &Run| {
        let last = run.days.last().copied()?;
        let row = |metric, totals: Totals| {
            Row::number("threads that come and go", run.variant, metric, "times", totals.ratio())
        };
        Some([
            row("allocated by used, all created", last.created),
            row("allocated by used, alive at the end", last.alive),
        ])
    };
    runs.iter().filter_map(rows).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ratio: u64, days: u64) -> Run {
        let totals = Totals { threads: 10, allocated: ratio * MIB, used: MIB };
        let day = |day| Day { day, alive: totals, created: totals, vm: 0 };
        Run { variant: "8 MiB", days: (1..=days).map(day).collect() }
    }

    #[test]
    fn a_report_shows_the_thirds_of_the_time() {
        let terminal = Terminal { width: 100, unicode: false };
        let text = report(&[run(44, 15)], terminal);
        for part in ["day 5 ", "day 10 ", "day 15 ", "44 (44.00)", "15 simulated days"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn two_days_are_enough_for_a_report() {
        let terminal = Terminal { width: 100, unicode: false };
        assert!(report(&[run(2, 3)], terminal).contains("day 3 "));
        assert_eq!(rows(&[run(2, 2)])[0].value, 2.0);
    }
}
