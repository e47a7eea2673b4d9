// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of measuring a program: beside an unmeasured run, and beside the tool `stackusage`.
//! That tool, where it is installed, paints each stack before its thread begins.

use super::fit::Output;
use super::lab::{Lab, Limits, Tek, MIB};
use crate::json::Row;
use crate::programs;
use crate::stats::median;
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use tek_advice::Package;

/// Threads that sleep while resident memory is read.
const THREADS: u32 = 100;

/// A variant and its cost.
#[derive(Serialize)]
pub struct Run {
    pub variant: &'static str,
    /// Resident memory of a process of 100 threads, in bytes.
    pub resident: u64,
    /// Creating and joining a thread.
    pub create_ns: f64,
}

#[derive(Deserialize)]
struct Births {
    ns: Vec<f64>,
}

/// Without anything: the base of the comparison.
pub fn conventional(lab: &Lab) -> anyhow::Result<Run> {
    run(lab, "glibc", Tek::Without)
}

/// `tek run --stack report`.
pub fn under_tek(lab: &Lab) -> anyhow::Result<Run> {
    run(lab, "tek run --stack report", Tek::Stack("report", &lab.profiles("beside")?))
}

/// Under the tool, where it is installed.
pub fn under_stackusage(lab: &Lab) -> anyhow::Result<Run> {
    const PACKAGE: Package = Package { names: &[("stackusage", 0)] };
    let missing = || format!("it is not installed: {}", tek_advice::install(&[PACKAGE], None));
    let tool = programs::installed("stackusage").with_context(missing)?;
    run(lab, "stackusage", Tek::Other(&tool))
}

fn run(lab: &Lab, variant: &'static str, tek: Tek) -> anyhow::Result<Run> {
    let command = |bench, program| -> anyhow::Result<_> {
        Ok(lab.command(&programs::find(bench, program)?, tek, Limits::default()))
    };
    let crowd: Output = lab.run(command("stack", "fit")?.arg(THREADS.to_string()))?;
    // Fewer than elsewhere: the tool takes milliseconds for each.
    let births: Births = lab.run(command("ident", "create")?.arg("50"))?;
    let create_ns = median(&births.ns).context("the program create measured nothing")?;
    Ok(Run { variant, resident: crowd.resident, create_ns })
}

/// For people.
pub fn report(runs: &[Run], terminal: Terminal) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let header = ["measuring every thread", "100 threads resident, MiB", "create and join, ns"];
    let mut table = table(&header, terminal);
    for run in runs {
        table.add_row([
            run.variant.to_owned(),
            format!("{:.1}", run.resident as f64 / MIB as f64),
            format!("{:.0}", run.create_ns),
        ]);
    }
    format!("{}\n", table.trim_fmt())
}

/// The rows of the JSON document.
pub fn rows(runs: &[Run]) -> Vec<Row> {
    let rows = |run: &Run| {
        let row = |metric, unit, value| {
            Row::number("measuring every thread", run.variant, metric, unit, value)
        };
        [
            row("resident memory of 100 threads", "MiB", run.resident as f64 / MIB as f64),
            row("time of a thread's creation and join", "ns", run.create_ns),
        ]
    };
    runs.iter().flat_map(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costs_are_reported() {
        let run = Run { variant: "glibc", resident: 12 * MIB, create_ns: 19_000.4 };
        let terminal = Terminal { width: 100, unicode: false };
        let text = report(std::slice::from_ref(&run), terminal);
        assert!(text.contains("12.0") && text.contains("19000"), "{text}");
        assert_eq!(rows(&[run]).len(), 2);
    }
}
