// SPDX-License-Identifier: MIT OR Apache-2.0
//! The delay of two critical threads over time, before, during and after contention
//! (tek-2020, Fig. 2): `temp` probes the temperature, `display` shows it.

use crate::appliance::{self, Appliance, Measured};
use crate::json::{NotRun, Row};
use crate::programs;
use crate::stats::{summarize, Summary};
use crate::table::table;
use crate::terminal::{time_chart, Terminal, TimeChart};
use anyhow::ensure;
use std::path::Path;
use std::process::Command;

/// The critical threads, and what each does.
const CRITICAL: [(&str, &str); 2] =
    [("temp", "probes the temperature"), ("display", "shows the temperature")];

/// The lines of a chart.
const HEIGHT: usize = 5;

/// Both variants, one entry a round; TEK may be impossible here.
pub struct Session {
    pub conventional: Vec<Measured>,
    pub tek: Vec<Measured>,
    pub not_run: Vec<NotRun>,
    pub failed: Vec<NotRun>,
}

/// The plan of each run.
pub struct Plan {
    pub rounds: u16,
    pub seconds: u16,
    pub hogs: u16,
}

/// Runs both in alternation; every second round begins with the other one, so that the
/// after-effects of each fall on both.
pub fn measure(plan: &Plan) -> anyhow::Result<Session> {
    let appliance = programs::find("response", "appliance")?;
    let tek = programs::tek()?;
    let speed = appliance::calibrate(&appliance)?;
    let mut session = Session::new();
    for round in 0..plan.rounds {
        let tek_first = round % 2 == 1;
        for under_tek in [tek_first, !tek_first] {
            if !under_tek {
                let (measured, _) = run_once(Command::new(&appliance), plan, speed)?;
                session.conventional.push(measured);
            } else if session.not_run.is_empty() && session.failed.is_empty() {
                let command = command_under_tek(&tek, &appliance);
                match run_once(command, plan, speed).and_then(check_critical) {
                    Ok(measured) => session.tek.push(measured),
                    Err(error) => session.give_up_tek(&error),
                }
            }
        }
    }
    Ok(session)
}

fn command_under_tek(tek: &Path, appliance: &Path) -> Command {
    let mut command = Command::new(tek);
    command.arg("run");
    for (name, _) in CRITICAL {
        command.args(["--critical", name]);
    }
    command.arg("--").arg(appliance);
    command
}

fn run_once(mut command: Command, plan: &Plan, speed: u64) -> anyhow::Result<(Measured, String)> {
    for (option, value) in [
        ("--observe", u64::from(plan.seconds)),
        ("--hogs", u64::from(plan.hogs)),
        ("--limit", u64::from(plan.seconds) + 60),
        ("--iterations-per-ms", speed),
    ] {
        command.arg(option).arg(value.to_string());
    }
    Appliance::start(command)?.go()
}

fn check_critical((measured, printed): (Measured, String)) -> anyhow::Result<Measured> {
    for (name, _) in CRITICAL {
        let thread = measured.threads.iter().find(|thread| thread.name == name);
        ensure!(
            thread.is_some_and(|thread| thread.during.policy == libc::SCHED_RR),
            "thread {name} did not become critical, `tek doctor` says why: {printed}"
        );
    }
    Ok(measured)
}

impl Session {
    fn new() -> Self {
        let (not_run, failed) = (Vec::new(), Vec::new());
        Self { conventional: Vec::new(), tek: Vec::new(), not_run, failed }
    }

    fn give_up_tek(&mut self, error: &anyhow::Error) {
        let list = if self.tek.is_empty() { &mut self.not_run } else { &mut self.failed };
        list.push(NotRun { variant: "tek-name".to_owned(), reason: format!("{error:#}") });
        self.tek.clear();
    }

    fn variants(&self) -> impl Iterator<Item = (&'static str, &[Measured])> {
        [("conventional", &self.conventional[..]), ("tek-name", &self.tek)]
            .into_iter()
            .filter(|(_, rounds)| !rounds.is_empty())
    }
}

/// (time in s, delay in ms) of a thread's readings.
fn points(measured: &Measured, thread: &str) -> Vec<(f64, f64)> {
    let delays = measured.delays_ns.get(thread).map_or(&[][..], Vec::as_slice);
    delays.iter().map(|(at, delay)| (*at as f64 / 1e9, *delay as f64 / 1e6)).collect()
}

/// The delays in ms of all rounds' readings that were due during the contention.
fn under_load(rounds: &[Measured], thread: &str) -> Option<Summary> {
    let delays: Vec<f64> = rounds
        .iter()
        .flat_map(|measured| {
            let load = measured.load_from_ns as f64 / 1e9..measured.load_to_ns as f64 / 1e9;
            points(measured, thread).into_iter().filter(move |(at, _)| load.contains(at))
        })
        .map(|(_, delay)| delay)
        .collect();
    summarize(&delays)
}

/// For people: a chart of each thread and variant in the first round, on the same scale, and a
/// table of all rounds.
pub fn report(session: &Session, seconds: u16, terminal: Terminal) -> String {
    let mut text = String::new();
    for (thread, does) in CRITICAL {
        let greatest = session
            .variants()
            .flat_map(|(_, rounds)| points(&rounds[0], thread))
            .map(|(_, delay)| delay)
            .fold(1.0, f64::max);
        for (variant, rounds) in session.variants() {
            let measured = &rounds[0];
            text.push_str(&format!("{thread} ({does}), {variant}: delay over {seconds} s\n"));
            let chart = TimeChart {
                points: &points(measured, thread),
                end: f64::from(seconds),
                greatest,
                unit: "ms",
                marked: &[(measured.load_from_ns as f64 / 1e9, measured.load_to_ns as f64 / 1e9)],
            };
            text.push_str(&time_chart(&chart, HEIGHT, terminal));
        }
    }
    let rounds = session.conventional.len();
    text.push_str(&format!("(=: contention; round 1 of {rounds}, the table has all)\n\n"));
    let mut table =
        table(&["delay under contention, ms", "mean", "p50", "p99", "max", "readings"], terminal);
    for (thread, _) in CRITICAL {
        for (variant, rounds) in session.variants() {
            let Some(delay) = under_load(rounds, thread) else {
                continue;
            };
            table.add_row([
                format!("{thread}, {variant}"),
                format!("{:.2}", delay.mean),
                format!("{:.2}", delay.p50),
                format!("{:.2}", delay.p99),
                format!("{:.2}", delay.max),
                delay.n.to_string(),
            ]);
        }
    }
    text.push_str(&table.trim_fmt());
    text.push('\n');
    text
}

/// The rows of the JSON document.
pub fn rows(session: &Session) -> Vec<Row> {
    let mut rows = Vec::new();
    for (thread, _) in CRITICAL {
        for (variant, rounds) in session.variants() {
            if let Some(delay) = under_load(rounds, thread) {
                let metric = "delay under contention";
                rows.push(Row::distribution(thread, variant, metric, "ms", &delay));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Four readings, two of them during the contention from 1 s to 3 s.
    fn measured(delays_ms: [u64; 4]) -> Measured {
        let delays: Vec<(u64, u64)> =
            (0..4).zip(delays_ms).map(|(at, ms)| (at * 1_000_000_000, ms * 1_000_000)).collect();
        Measured {
            events_phase_ns: 2_000_000_000,
            load_from_ns: 1_000_000_000,
            load_to_ns: 3_000_000_000,
            responses_ns: Vec::new(),
            threads: Vec::new(),
            switch_ns: BTreeMap::new(),
            delays_ns: CRITICAL.map(|(name, _)| (name.to_owned(), delays.clone())).into(),
        }
    }

    fn session() -> Session {
        Session {
            conventional: vec![measured([1, 50, 30, 1]), measured([1, 20, 20, 1])],
            tek: vec![measured([1, 1, 1, 1]), measured([1, 1, 1, 1])],
            ..Session::new()
        }
    }

    #[test]
    fn only_readings_due_during_the_contention_count_in_all_rounds() {
        let delay = under_load(&session().conventional, "temp").unwrap();
        assert_eq!((delay.mean, delay.max, delay.n), (30.0, 50.0, 4));
    }

    #[test]
    fn the_two_variants_are_drawn_on_one_scale() {
        let terminal = Terminal { width: 60, unicode: false };
        let text = report(&session(), 4, terminal);
        assert_eq!(text.matches("50.0 ms").count(), 4, "{text}");
        assert_eq!(rows(&session()).len(), 4);
    }

    #[test]
    fn tek_has_failed_when_it_ran_before_and_cannot_run_when_it_never_did() {
        let mut session = session();
        session.give_up_tek(&anyhow::anyhow!("no"));
        assert_eq!((session.not_run.len(), session.failed.len(), session.tek.len()), (0, 1, 0));
        let mut session = Session::new();
        session.give_up_tek(&anyhow::anyhow!("no"));
        assert_eq!((session.not_run.len(), session.failed.len()), (1, 0));
    }

    #[test]
    fn threads_that_stayed_fair_are_no_tek_run() {
        let run = (measured([1; 4]), String::new());
        assert!(check_critical(run).is_err());
    }
}
