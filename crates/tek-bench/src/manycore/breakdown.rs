// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of the programs' time, by `tek profile` (Figs 9, 12, 15).

use super::launch::{command, profiled};
use super::programs::{Cell, Extent};
use super::setting::Model;
use super::Part;
use crate::json::{NotRun, Row};
use crate::programs::output_within;
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::{bail, Context};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tek_command::values::time::PARTS;

const LIMIT: Duration = Duration::from_secs(120);

/// One cell: the parts of its threads' lives, in ns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Breakdown {
    pub cell: Cell,
    pub wall_ns: f64,
    pub parts: BTreeMap<String, f64>,
    /// The parts of the critical path, where the profile has one.
    pub path_ns: Option<f64>,
    /// Threads that run the same function: the stages of a pipeline.
    #[serde(default)]
    pub stages: Vec<Stage>,
}

/// The threads of one function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stage {
    pub name: String,
    pub threads: u64,
    pub parts: BTreeMap<String, f64>,
}

/// A part's share, 0 to 1.
fn share(parts: &BTreeMap<String, f64>, part: &str) -> Option<f64> {
    let all: f64 = parts.values().sum();
    Some(parts.get(part)? / all).filter(|it| it.is_finite())
}

/// Profiles each cell that uses the kernel's threads, once.
pub fn measure(
    cells: &[Cell],
    extent: &Extent,
    progress: &ProgressBar,
) -> (Vec<Breakdown>, Vec<NotRun>) {
    let (mut all, mut not_run) = (Vec::new(), Vec::new());
    for cell in cells {
        let variant = format!("breakdown of {}", cell.name());
        progress.set_message(variant.clone());
        if cell.setting.model != Model::Kernel {
            let reason = "tek profile cannot tell user-level threads apart".to_owned();
            not_run.push(NotRun { variant, reason });
            continue;
        }
        match profile(cell, extent) {
            Ok(it) => all.push(it),
            Err(error) => not_run.push(NotRun { variant, reason: format!("{error:#}") }),
        }
    }
    (all, not_run)
}

fn profile(cell: &Cell, extent: &Extent) -> anyhow::Result<Breakdown> {
    let directory = tempfile::tempdir()?;
    let json = directory.path().join("profile.json");
    let text = directory.path().join("profile.txt");
    let around = profiled(&["--json".as_ref(), json.as_ref(), "-o".as_ref(), text.as_ref()])?;
    let mut command =
        command("manycore", &cell.program.name(), &cell.setting, extent.cpus, &around)?;
    command.args(cell.arguments(extent.size(cell.program)));
    output_within(command, LIMIT)?;
    let text = std::fs::read_to_string(&json).context("tek profile wrote nothing")?;
    read(cell, &serde_json::from_str(&text)?)
}

/// Reads the document's process with the longest life.
fn read(cell: &Cell, document: &serde_json::Value) -> anyhow::Result<Breakdown> {
    let number = |it: &serde_json::Value| it.as_f64().unwrap_or(0.0);
    let processes = document["processes"].as_array().context("the profile has no processes")?;
    let longest =
        processes.iter().max_by(|a, b| number(&a["wall_ns"]).total_cmp(&number(&b["wall_ns"])));
    let Some(process) = longest else { bail!("tek profile saw no process") };
    let parts = |of: &serde_json::Value| {
        let parts = of["parts"].as_object().context("the profile has no parts")?;
        anyhow::Ok(parts.iter().map(|(name, ns)| (name.clone(), number(ns))).collect())
    };
    let stage = |role: &serde_json::Value| {
        anyhow::Ok(Stage {
            name: role["name"].as_str().unwrap_or_default().to_owned(),
            threads: role["threads"].as_u64().unwrap_or(0),
            parts: parts(role)?,
        })
    };
    let roles = process["roles"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(Breakdown {
        cell: cell.clone(),
        wall_ns: number(&process["wall_ns"]),
        parts: parts(process)?,
        path_ns: process["critical_path"]["length_ns"].as_f64(),
        stages: roles.iter().map(stage).collect::<Result<_, _>>()?,
    })
}

/// The shares of a row.
fn shares(parts: &BTreeMap<String, f64>) -> [String; PARTS.len()] {
    PARTS.map(|part| {
        share(parts, part).map_or("-".to_owned(), |share| format!("{:.1}", share * 100.0))
    })
}

/// For people.
pub fn report(breakdowns: &[Breakdown], terminal: Terminal) -> String {
    if breakdowns.is_empty() {
        return String::new();
    }
    let mut header = vec!["breakdown, % of the threads' time"];
    header.extend(PARTS);
    header.push("path, ms");
    let mut table = table(&header, terminal);
    for it in breakdowns {
        let mut row = vec![it.cell.name()];
        row.extend(shares(&it.parts));
        row.push(it.path_ns.map_or("-".to_owned(), |ns| format!("{:.1}", ns / 1e6)));
        table.add_row(row);
    }
    let stages = report_stages(breakdowns, terminal);
    format!("{}\n(by tek profile, one run each)\n{stages}", table.trim_fmt())
}

/// The stages of the pipeline (Fig. 15), with the smallest number of threads above one.
fn report_stages(breakdowns: &[Breakdown], terminal: Terminal) -> String {
    let pipelines = || breakdowns.iter().filter(|it| it.cell.program == Part::Dedup);
    let several = pipelines().map(|it| it.cell.threads).filter(|&it| it > 1).min();
    let mut header = vec!["stage, % of its threads' time", "threads"];
    header.extend(PARTS);
    let mut table = table(&header, terminal);
    for it in pipelines().filter(|it| Some(it.cell.threads) == several) {
        for stage in &it.stages {
            let name = format!("{}: {}", it.cell.name(), stage.name);
            let mut row = vec![name, stage.threads.to_string()];
            row.extend(shares(&stage.parts));
            table.add_row(row);
        }
    }
    match table.is_empty() {
        true => String::new(),
        false => format!("\n{}\n", table.trim_fmt()),
    }
}

/// The rows of the JSON document.
pub fn rows(breakdowns: &[Breakdown]) -> Vec<Row> {
    let mut rows = Vec::new();
    for it in breakdowns {
        for part in PARTS {
            let share = share(&it.parts, part).map(|share| share * 100.0);
            rows.extend(share.map(|share| Row::number(it.cell.name(), part, "share", "%", share)));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::setting::Setting;
    use super::*;

    #[test]
    fn the_longest_process_is_the_program() {
        let cell = Cell { program: Part::Dedup, setting: Setting::default(), threads: 2 };
        let document = serde_json::json!({ "processes": [
            { "wall_ns": 10, "parts": { "work": 1 } },
            { "wall_ns": 90, "parts": { "work": 60, "sync": 20 },
              "critical_path": { "length_ns": 5_000_000 },
              "roles": [{ "name": "compress", "threads": 3, "parts": { "work": 1, "sync": 7 } }] },
        ]});
        let it = read(&cell, &document).unwrap();
        let shares = ["work", "sync", "none"].map(|part| share(&it.parts, part));
        assert_eq!(shares, [Some(0.75), Some(0.25), None]);
        let text = report(&[it], Terminal { width: 140, unicode: false });
        assert!(text.contains("75.0") && text.contains("5.0"), "{text}");
        assert!(
            text.lines().any(|line| line.contains("compress") && line.contains("87.5")),
            "{text}"
        );
        assert!(read(&cell, &serde_json::json!({ "processes": [] })).is_err());
    }
}
