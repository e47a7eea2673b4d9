// SPDX-License-Identifier: MIT OR Apache-2.0
//! tekd is killed again and again while kernel threads follow; afterwards each is as it was.

use super::case::{dirty, hogs, writer, Case, MIB};
use super::stage::{now, status_of_kthreads, times, Stage};
use super::variant::Variant;
use crate::census::Census;
use crate::daemon::{restore, Daemon};
use crate::early_end;
use crate::json::Row;
use crate::programs::Program;
use crate::random::Random;
use anyhow::Context;
use indicatif::ProgressBar;
use nix::sys::signal::Signal;
use serde::Serialize;
use std::thread::sleep;
use std::time::Duration;

/// It is killed at most so long after its start.
const MOST_BEFORE: Duration = Duration::from_millis(60);
/// The load is started anew after so many kills, well before it ends by itself.
const KILLS_A_LOAD: usize = 20;
const LOAD_LASTS: Duration = Duration::from_secs(60);
const REPORTED_MOST: usize = 20;

#[derive(Debug, Default, Serialize)]
pub struct Measured {
    pub seed: u64,
    pub kills: usize,
    /// Kernel threads that were scheduled otherwise than before.
    pub differences: usize,
    #[serde(rename = "told")]
    pub reported: Vec<String>,
    /// Changes that `tekd --restore` undid.
    pub undone: usize,
}

/// Kills tekd so often.
pub fn measure(
    stage: &mut Stage,
    kills: usize,
    seed: u64,
    spinner: &ProgressBar,
) -> anyhow::Result<Measured> {
    let settings = Variant::Tek.settings().context("TEK has no settings")?;
    let daemon = Daemon::start(&stage.ground, settings)?;
    status_of_kthreads(&daemon)?;
    daemon.stop()?;

    let task = writer(4 * MIB, 50_000).with("file-bytes", 64 * MIB).and("@written");
    let case = Case::new("kills", task, 0.0);
    let case = Case { load: vec![hogs(20_000, 16_000)], settings: dirty(16 * MIB), ..case };
    stage.arrange(&case)?;
    let mut random = Random::new(seed);
    let mut measured = Measured { seed, ..Measured::default() };
    let before = Census::take();
    let mut load = Vec::new();
    while measured.kills < kills && early_end::ended_by().is_none() {
        spinner.set_message(format!("kill {} of {kills}", measured.kills + 1));
        if measured.kills.is_multiple_of(KILLS_A_LOAD) {
            load.clear();
            load = start(stage, &case)?;
        }
        let mut daemon = Daemon::start(&stage.ground, settings)?;
        sleep(random.part_of(MOST_BEFORE));
        daemon.end(Signal::SIGKILL)?;
        measured.kills += 1;
        measured.undone += restore(&stage.ground)?;
        let changes = before.changes(&Census::take());
        let changed = changes.iter().filter(|change| change.before.kernel);
        for change in changed {
            measured.differences += 1;
            if measured.reported.len() < REPORTED_MOST {
                let (was, is) = (&change.before, &change.after);
                measured.reported.push(format!(
                    "kill {}: {}[{}] is policy {} {} nice {}, was {} {} nice {}",
                    measured.kills,
                    is.name,
                    change.tid,
                    is.policy,
                    is.rt_priority,
                    is.nice,
                    was.policy,
                    was.rt_priority,
                    was.nice
                ));
            }
        }
    }
    Ok(measured)
}

fn start(stage: &Stage, case: &Case) -> anyhow::Result<Vec<Program>> {
    let mut programs = Vec::new();
    for task in [&case.task].into_iter().chain(&case.load) {
        programs.push(stage.start(task)?);
    }
    let from = now();
    for program in &mut programs {
        program.announce(&times(from, from + LOAD_LASTS))?;
    }
    Ok(programs)
}

/// For people.
pub fn report(it: &Measured) -> String {
    let reported: String = it.reported.iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "{} kills of tekd, seed {}: {} kernel threads scheduled otherwise afterwards; {} changes \
         undone\n{reported}",
        it.kills, it.seed, it.differences, it.undone
    )
}

/// The rows of the JSON document.
pub fn rows(it: &Measured) -> Vec<Row> {
    let number = |metric, value: usize| Row::number("faults", "TEK", metric, "1", value as f64);
    vec![
        number("kills", it.kills),
        number("differences", it.differences),
        number("undone", it.undone),
    ]
}
