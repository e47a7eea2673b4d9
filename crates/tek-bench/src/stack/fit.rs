// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fig. 12: how many of many creations of threads fail, where room is short.

use super::lab::{Lab, Limits, Tek, MIB};
use crate::json::Row;
use crate::programs;
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::ensure;
use serde::{Deserialize, Serialize};

/// Threads from which TEK learns the use of stacks.
const LEARNT_FROM: u32 = 8;
/// The creations of tek-2020, V-A.
pub const PAPER_CREATIONS: u32 = 2000;

/// Where room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Place {
    ThreeGib,
    OneGib,
    OneGibMalloc,
    OneGibMallocOneArena,
}

impl Place {
    pub const ALL: [Place; 4] =
        [Place::ThreeGib, Place::OneGib, Place::OneGibMalloc, Place::OneGibMallocOneArena];

    pub fn name(self) -> &'static str {
        match self {
            Place::ThreeGib => "32 bits, 3 GiB",
            Place::OneGib => "RLIMIT_AS 1 GiB",
            Place::OneGibMalloc => "RLIMIT_AS 1 GiB, each thread mallocs",
            Place::OneGibMallocOneArena => "RLIMIT_AS 1 GiB, each mallocs, one arena",
        }
    }

    fn program(self) -> &'static str {
        // A tek of 32 bits has no other programs.
        if self == Place::ThreeGib && cfg!(target_pointer_width = "64") {
            "fit32"
        } else {
            "fit"
        }
    }

    fn limits(self, stack: u64) -> Limits {
        Limits {
            stack,
            address_space: (self != Place::ThreeGib).then_some(1024 * MIB),
            three_gib: self == Place::ThreeGib,
            arenas: (self == Place::OneGibMallocOneArena).then_some(1),
        }
    }

    fn allocates(self) -> bool {
        matches!(self, Place::OneGibMalloc | Place::OneGibMallocOneArena)
    }
}

/// The output of the program.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Output {
    pub tried: u32,
    pub running: u32,
    /// The number of the first creation that failed; 0: none did.
    pub first_failure: u32,
    pub error: String,
    pub failures: Vec<Failures>,
    pub locked: u64,
    pub resident: u64,
}

/// The number of failures after so many tries.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Failures {
    pub tried: u32,
    pub failed: u32,
}

impl Output {
    fn failed_of(&self, tried: u32) -> Option<u32> {
        Some(self.failures.iter().find(|at| at.tried == tried)?.failed)
    }
}

/// A variant and its result.
#[derive(Serialize)]
pub struct Run {
    pub place: Place,
    pub variant: &'static str,
    pub output: Output,
}

pub const TEK: &str = "TEK";
pub const DEFAULT: &str = "8 MiB";

/// The conventional runs of one place.
pub fn conventional(lab: &Lab, place: Place, threads: u32) -> anyhow::Result<Vec<Run>> {
    let stacks = [("2 MiB", 2), ("4 MiB", 4), ("6 MiB", 6), (DEFAULT, 8)];
    let run = |(variant, mib)| {
        let output = start(lab, place, Tek::Without, mib * MIB, threads)?;
        Ok(Run { place, variant, output })
    };
    stacks.into_iter().map(run).collect()
}

/// The run under TEK, after one that only learns, from few threads.
pub fn under_tek(lab: &Lab, place: Place, threads: u32) -> anyhow::Result<Run> {
    let profiles = lab.profiles(&format!("fit-{place:?}"))?;
    let tek = Tek::Stack("auto", &profiles);
    start(lab, place, tek, 8 * MIB, LEARNT_FROM)?;
    ensure!(lab.has_profile(&profiles), "tek run --stack auto left no profile");
    Ok(Run { place, variant: TEK, output: start(lab, place, tek, 8 * MIB, threads)? })
}

fn start(lab: &Lab, place: Place, tek: Tek, stack: u64, threads: u32) -> anyhow::Result<Output> {
    let program = programs::find("stack", place.program())?;
    let mut command = lab.command(&program, tek, place.limits(stack));
    if place.allocates() {
        command.arg("--malloc");
    }
    lab.run(command.arg(threads.to_string()))
}

/// How many threads ran there.
pub fn running(runs: &[Run], place: Place, variant: &str) -> Option<f64> {
    let run = runs.iter().find(|run| run.place == place && run.variant == variant)?;
    Some(run.output.running.into())
}

/// For people.
pub fn report(runs: &[Run], terminal: Terminal) -> String {
    const COLUMNS: [u32; 6] = [100, 300, 1000, PAPER_CREATIONS, 10_000, 20_000];
    let mut text = String::new();
    for place in Place::ALL {
        let mut header = vec![format!("{}: failed of", place.name())];
        header.extend(COLUMNS.map(|tried| tried.to_string()));
        header.push("run".into());
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = table(&header, terminal);
        for run in runs.iter().filter(|run| run.place == place) {
            let failed = |tried| run.output.failed_of(tried).map_or("-".into(), |n| n.to_string());
            let mut row = vec![run.variant.to_owned()];
            row.extend(COLUMNS.map(failed));
            row.push(run.output.running.to_string());
            table.add_row(row);
        }
        if !table.is_empty() {
            text.push_str(&format!("{}\n\n", table.trim_fmt()));
        }
    }
    text.trim_end().to_owned() + if text.is_empty() { "" } else { "\n" }
}

/// The rows of the JSON document.
pub fn rows(runs: &[Run]) -> Vec<Row> {
    let rows = |run: &Run| {
        let row = |metric, value: u32| {
            Row::number(run.place.name(), run.variant, metric, "threads", value.into())
        };
        let failed = run.output.failed_of(PAPER_CREATIONS);
        let failed = failed.map(|failed| row("failed of 2,000 creations", failed));
        [Some(row("running threads", run.output.running)), failed].into_iter().flatten()
    };
    runs.iter().flat_map(rows).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A run of 20,000 creations of which the first ones succeeded.
    pub fn run(place: Place, variant: &'static str, running: u32) -> Run {
        let failures = [100, 300, 1000, 2000, 10_000, 20_000]
            .map(|tried: u32| Failures { tried, failed: tried.saturating_sub(running) });
        let output = Output {
            tried: 20_000,
            running,
            first_failure: running + 1,
            error: String::new(),
            failures: failures.into(),
            locked: 0,
            resident: 0,
        };
        Run { place, variant, output }
    }

    #[test]
    fn failures_are_shown_as_the_creations_add_up() {
        let terminal = Terminal { width: 120, unicode: false };
        let text = report(&[run(Place::ThreeGib, DEFAULT, 380)], terminal);
        let row = text.lines().find(|line| line.contains("8 MiB")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().skip(2).collect();
        assert_eq!(cells, ["0", "0", "620", "1620", "9620", "19620", "380"]);
        assert!(!text.contains("RLIMIT_AS"), "a place without runs is left out");
    }

    #[test]
    fn runs_are_found_by_place_and_variant() {
        let runs = [run(Place::OneGib, DEFAULT, 127), run(Place::OneGib, TEK, 12_000)];
        assert_eq!(running(&runs, Place::OneGib, TEK), Some(12_000.0));
        assert_eq!(running(&runs, Place::ThreeGib, TEK), None);
        assert_eq!(rows(&runs)[1].value, 1873.0);
    }
}
