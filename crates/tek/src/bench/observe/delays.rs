// SPDX-License-Identifier: MIT OR Apache-2.0
//! The delay of two critical threads over time, before, during and after contention
//! (tek-2020, Fig. 2): `temp` probes the temperature, `display` shows it.

use crate::bench::appliance::{Appliance, Measured};
use crate::bench::json::{NotRun, Row};
use crate::bench::programs;
use crate::bench::stats::{summarize, Summary};
use crate::bench::table::table;
use crate::bench::terminal::{time_chart, Terminal, TimeChart};
use anyhow::ensure;
use std::process::Command;

/// The critical threads, and what each does.
const CRITICAL: [(&str, &str); 2] =
    [("temp", "probes the temperature"), ("display", "shows the temperature")];

/// The lines of a chart.
const HEIGHT: usize = 5;

/// Both variants; TEK may be impossible here.
pub struct Session {
    pub conventional: Measured,
    pub tek: Option<Measured>,
    pub not_run: Vec<NotRun>,
}

/// Runs both.
pub fn measure(seconds: u16, hogs: u16) -> anyhow::Result<Session> {
    let appliance = programs::find("response", "appliance")?;
    let (conventional, _) = run_once(Command::new(&appliance), seconds, hogs)?;

    let mut command = Command::new(programs::own_executable()?);
    command.arg("run");
    for (name, _) in CRITICAL {
        command.args(["--critical", name]);
    }
    command.arg("--").arg(&appliance);
    let tek = run_once(command, seconds, hogs).and_then(check_critical);
    let not_run = match &tek {
        Ok(_) => Vec::new(),
        Err(error) => vec![NotRun { variant: "tek-name".to_owned(), reason: format!("{error:#}") }],
    };
    Ok(Session { conventional, tek: tek.ok(), not_run })
}

fn run_once(mut command: Command, seconds: u16, hogs: u16) -> anyhow::Result<(Measured, String)> {
    command.args(["--observe", &seconds.to_string()]);
    command.args(["--hogs", &hogs.to_string()]);
    command.args(["--limit", &(seconds + 60).to_string()]);
    Appliance::start(command)?.go()
}

fn check_critical((measured, said): (Measured, String)) -> anyhow::Result<Measured> {
    for (name, _) in CRITICAL {
        let thread = measured.threads.iter().find(|thread| thread.name == name);
        ensure!(
            thread.is_some_and(|thread| thread.during.policy == libc::SCHED_RR),
            "thread {name} did not become critical, `tek doctor` says why: {said}"
        );
    }
    Ok(measured)
}

impl Session {
    fn variants(&self) -> impl Iterator<Item = (&'static str, &Measured)> {
        let tek = self.tek.as_ref().map(|tek| ("tek-name", tek));
        [("conventional", &self.conventional)].into_iter().chain(tek)
    }
}

/// (time in s, delay in ms) of a thread's readings.
fn points(measured: &Measured, thread: &str) -> Vec<(f64, f64)> {
    let delays = measured.delays_ns.get(thread).map_or(&[][..], Vec::as_slice);
    delays.iter().map(|(at, delay)| (*at as f64 / 1e9, *delay as f64 / 1e6)).collect()
}

/// The delays in ms of the readings that were due during the contention.
fn under_load(measured: &Measured, thread: &str) -> Option<Summary> {
    let load = measured.load_from_ns as f64 / 1e9..measured.load_to_ns as f64 / 1e9;
    let delays: Vec<f64> = points(measured, thread)
        .into_iter()
        .filter(|(at, _)| load.contains(at))
        .map(|(_, delay)| delay)
        .collect();
    summarize(&delays)
}

/// For people: a chart of each thread and variant, on the same scale, and a table.
pub fn report(session: &Session, seconds: u16, terminal: Terminal) -> String {
    let mut text = String::new();
    for (thread, does) in CRITICAL {
        let greatest = session
            .variants()
            .flat_map(|(_, measured)| points(measured, thread))
            .map(|(_, delay)| delay)
            .fold(1.0, f64::max);
        for (variant, measured) in session.variants() {
            text.push_str(&format!("{thread} ({does}), {variant}: delay over {seconds} s\n"));
            let chart = TimeChart {
                points: &points(measured, thread),
                end: f64::from(seconds),
                greatest,
                marked: (measured.load_from_ns as f64 / 1e9, measured.load_to_ns as f64 / 1e9),
            };
            text.push_str(&time_chart(&chart, HEIGHT, terminal));
        }
    }
    text.push_str("(=: contention)\n\n");
    let mut table =
        table(&["delay under contention, ms", "mean", "p50", "p99", "max", "readings"], terminal);
    for (thread, _) in CRITICAL {
        for (variant, measured) in session.variants() {
            let Some(delay) = under_load(measured, thread) else {
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
        for (variant, measured) in session.variants() {
            if let Some(delay) = under_load(measured, thread) {
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

    #[test]
    fn only_readings_due_during_the_contention_count() {
        let delay = under_load(&measured([1, 50, 30, 1]), "temp").unwrap();
        assert_eq!((delay.mean, delay.max, delay.n), (40.0, 50.0, 2));
    }

    #[test]
    fn both_variants_are_drawn_on_one_scale() {
        let session = Session {
            conventional: measured([1, 50, 30, 1]),
            tek: Some(measured([1, 1, 1, 1])),
            not_run: Vec::new(),
        };
        let terminal = Terminal { width: 60, unicode: false };
        let text = report(&session, 4, terminal);
        assert_eq!(text.matches("50.0 ms").count(), 4, "{text}");
        assert_eq!(rows(&session).len(), 4);
    }

    #[test]
    fn threads_that_stayed_fair_are_no_tek_run() {
        let run = (measured([1; 4]), String::new());
        assert!(check_critical(run).is_err());
    }
}
