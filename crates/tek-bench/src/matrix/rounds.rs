// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring the cells in alternation, round after round.

use super::cell::{self, Cell};
use super::column::Column;
use super::other_hogs::OtherHogs;
use super::programs::Programs;
use super::row::Row;
use super::stage::Serving;
use crate::alternate::{order, progress_bar};
use crate::early_end;
use crate::ground::end_with_parent;
use crate::json::NotRun;
use crate::programs::output_within;
use anyhow::{bail, ensure, Context};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// The plan of all runs.
pub struct Plan {
    pub rounds: usize,
    pub events: usize,
    pub hogs: usize,
    pub iterations_per_ms: u64,
    pub rows: Vec<Row>,
    pub columns: Vec<Column>,
}

/// A run of the program. Times in ns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// From each event to the end of its answer.
    pub responses_ns: Vec<u64>,
    pub phase_ns: u64,
    /// The steps of background threads, and of hogs.
    pub background: u64,
    pub hogs: u64,
    /// Of the critical thread after its last answer.
    pub policy: i32,
    pub nice: i32,
}

/// All measurements: for each cell one entry a round.
#[derive(Default)]
pub struct Session {
    pub runs: BTreeMap<Cell, Vec<Measured>>,
    /// Why the other cells are empty.
    pub empty: BTreeMap<Cell, String>,
    pub not_run: Vec<NotRun>,
    /// Cells that were measured in some rounds and then failed: their numbers are left out, too.
    pub failed: Vec<NotRun>,
}

/// Measures all of it. A cell that fails once is left out and named with the reason. A signal ends
/// it early.
pub fn measure(plan: &Plan, programs: &Programs) -> anyhow::Result<Session> {
    early_end::catch()?;
    let mut session = Session::default();
    let progress = progress_bar(plan.rounds * plan.rows.len() * plan.columns.len());
    'all: for round in 0..plan.rounds {
        for row in order(&plan.rows, round) {
            // Cells of a row are compared, so they follow one another.
            for column in order(&plan.columns, round) {
                progress.set_message(format!("round {}, {}", round + 1, cell::name((row, column))));
                session.measure((row, column), plan, programs);
                if early_end::ended_by().is_some() {
                    break 'all;
                }
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    early_end::require_some(session.runs.len())?;
    match session.not_run.first() {
        Some(first) if session.runs.is_empty() => bail!("{}: {}", first.variant, first.reason),
        _ => Ok(session),
    }
}

impl Session {
    fn measure(&mut self, cell: Cell, plan: &Plan, programs: &Programs) {
        if self.empty.contains_key(&cell) {
            return;
        }
        if let Some(reason) = cell::why_empty(cell, programs) {
            let reason = reason.to_owned();
            self.not_run.push(NotRun { variant: cell::name(cell), reason: reason.clone() });
            self.empty.insert(cell, reason);
            return;
        }
        match run_once(cell, plan, programs) {
            Ok(measured) => self.runs.entry(cell).or_default().push(measured),
            // Its programs got the signal too.
            Err(_) if early_end::ended_by().is_some() => {}
            Err(error) => self.give_up(cell, &error),
        }
    }

    fn give_up(&mut self, cell: Cell, error: &anyhow::Error) {
        let good = self.runs.remove(&cell).map_or(0, |runs| runs.len());
        let (list, reason) = match good {
            0 => (&mut self.not_run, format!("{error:#}")),
            _ => {
                let reason = format!("after {good} good rounds, which are left out: {error:#}");
                (&mut self.failed, reason)
            }
        };
        list.push(NotRun { variant: cell::name(cell), reason: reason.clone() });
        self.empty.insert(cell, reason);
    }
}

fn run_once(cell: Cell, plan: &Plan, programs: &Programs) -> anyhow::Result<Measured> {
    let (row, column) = cell;
    let limit = 60 + 4 * plan.events as u64;
    let finished = |mut command: Command| {
        for (option, value) in [
            ("--events", plan.events as u64),
            ("--iterations-per-ms", plan.iterations_per_ms),
            ("--limit", limit),
        ] {
            command.arg(option).arg(value.to_string());
        }
        // SAFETY: it makes one system call.
        unsafe { command.pre_exec(|| end_with_parent(libc::SIGKILL)) };
        command
    };
    let serving = match (&programs.stage, column.backend()) {
        (Ok(stage), Some(backend)) => {
            let first = cell::first_command(stage, programs, plan.iterations_per_ms);
            Some(stage.serve(backend, first)?)
        }
        _ => None,
    };
    let hogs = cell::hogs(cell, plan.hogs);
    let (hogs, separate) = match row {
        Row::UserHogs if hogs > 0 => {
            let command = finished(cell::hogs_command(cell, programs));
            (0, Some(OtherHogs::start(command, hogs)?))
        }
        _ => (hogs, None),
    };
    let mut command = finished(cell::command(cell, programs, hogs)?);
    if let Some(separate) = &separate {
        command.arg("--counters").arg(separate.counters());
    }
    // The program ends by itself at the limit.
    let printed = output_within(command, Duration::from_secs(limit + 10))?;
    separate.map(OtherHogs::end).transpose()?;
    serving.map(Serving::end).transpose()?;
    let measured = parse(&printed, plan.events)?;
    verify(column, &measured)?;
    Ok(measured)
}

/// Checks that the kernel scheduled the thread as a column requires.
fn verify(column: Column, measured: &Measured) -> anyhow::Result<()> {
    let Measured { policy, nice, .. } = *measured;
    ensure!(
        column.is_meant(policy, nice),
        "{} was not scheduled as meant (policy {policy}, nice {nice}); `tek doctor` says why",
        cell::CRITICAL
    );
    Ok(())
}

/// Reads the output of the program.
fn parse(printed: &[u8], events: usize) -> anyhow::Result<Measured> {
    let measured: Measured =
        serde_json::from_slice(printed).context("the program printed something else than JSON")?;
    let answered = measured.responses_ns.len();
    if answered != events || measured.responses_ns.contains(&0) || measured.phase_ns == 0 {
        bail!("the program answered {answered} of {events} events, or took no time for one");
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::fixture;

    const PRINTED: &str = r#"{"responses_ns":[2000000,3000000],"phase_ns":30000000,
        "background":4,"hogs":5,"policy":2,"nice":0}"#;

    #[test]
    fn the_line_of_the_program_is_read() {
        let measured = parse(PRINTED.as_bytes(), 2).unwrap();
        assert_eq!(measured.responses_ns, [2_000_000, 3_000_000]);
        assert_eq!((measured.background, measured.hogs, measured.policy), (4, 5, 2));
    }

    #[test]
    fn a_run_that_is_not_whole_is_refused() {
        for (text, events) in [
            (PRINTED.to_owned(), 3),
            (PRINTED.replace("3000000]", "0]"), 2),
            (PRINTED.replace("30000000", "0"), 2),
            (PRINTED.replace("\"policy\":2,", ""), 2),
            (String::new(), 0),
        ] {
            assert!(parse(text.as_bytes(), events).is_err(), "{text}");
        }
    }

    #[test]
    fn a_cell_that_fails_is_empty_and_its_good_rounds_are_left_out() {
        let mut session = fixture::session();
        let cell = (Row::Mutex, Column::Tek);
        session.give_up(cell, &anyhow::anyhow!("refused"));
        assert!(!session.runs.contains_key(&cell));
        assert_eq!((session.not_run.len(), session.failed.len()), (0, 1));
        assert!(session.empty[&cell].contains("2 good rounds"));
        session.give_up((Row::Mutex, Column::Nice), &anyhow::anyhow!("refused"));
        assert_eq!(session.not_run[0].variant, "mutex/nice");
    }
}
