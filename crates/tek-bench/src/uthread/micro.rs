// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of single calls of thread libraries, on one CPU: the same source, built for each.

use super::engine::{command, run_json, Cpus, Sched, Setting, Threads};
use crate::alternate::order;
use crate::json::{NotRun, Row};
use crate::programs;
use crate::stats::{median, median_of_ratios, summarize};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::ensure;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use tek_advice::Package;
use tek_command::system::library::BUILD_AGAIN;

const LIMIT: Duration = Duration::from_secs(120);

/// The kind of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum On {
    /// TEK's own interface, one worker.
    Native,
    /// The same with more than one worker, for which locks need more work.
    NativeMany,
    /// A pthread program with libtek-uthread.so preloaded, one worker.
    Preloaded,
    /// The same with more than one worker.
    PreloadedMany,
    /// The C library's.
    Glibc,
    StateThreads,
    Pth,
    Fiber,
    Go,
    /// Contexts alone, without threads: see CONTEXTS.
    Contexts,
}

/// The calls, as the programs name them.
pub const YIELD: &str = "yield";
pub const CREATE: &str = "create and join";
pub const MUTEX: &str = "mutex pair";
pub const COND: &str = "cond ping-pong";
const CALLS: [&str; 4] = [YIELD, CREATE, MUTEX, COND];

/// The ways of switching between contexts, as the program names them.
pub const SWITCH: &str = "TEK";
pub const SWITCH_BOOST: &str = "Boost.Context";
/// What the same program measures beside them.
pub const SYSTEM_CALL: &str = "system call";
const CONTEXTS: [&str; 3] = [SWITCH, SWITCH_BOOST, "swapcontext"];

impl On {
    const ALL: [On; 10] = [
        On::Native,
        On::NativeMany,
        On::Preloaded,
        On::PreloadedMany,
        On::Glibc,
        On::StateThreads,
        On::Pth,
        On::Fiber,
        On::Go,
        On::Contexts,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            On::Native => "TEK",
            On::NativeMany => "TEK, 2 workers",
            On::Preloaded => "TEK preloaded",
            On::PreloadedMany => "TEK preloaded, 2 workers",
            On::Glibc => "glibc",
            On::StateThreads => "State Threads",
            On::Pth => "Pth",
            On::Fiber => "Boost.Fiber",
            On::Go => "Go",
            On::Contexts => "contexts",
        }
    }

    fn program(self) -> &'static str {
        match self {
            On::Native | On::NativeMany => "threads-micro-native",
            On::Preloaded | On::PreloadedMany | On::Glibc => "threads-micro",
            On::StateThreads => "threads-micro-st",
            On::Pth => "threads-micro-pth",
            On::Fiber => "threads-micro-fiber",
            On::Go => "threads-micro-go",
            On::Contexts => "contexts",
        }
    }

    /// The package that its program needs to be built.
    fn package(self) -> Option<Package> {
        match self {
            On::StateThreads => Some(Package { names: &[("libst-dev", 0)] }),
            On::Pth => Some(Package { names: &[("libpth-dev", 0)] }),
            On::Fiber => Some(Package { names: &[("libboost-fiber-dev", 0)] }),
            On::Go => Some(Package { names: &[("golang-go", 0)] }),
            _ => None,
        }
    }

    /// Only calls that need no second worker are measured with two: it might run on another CPU.
    fn has(self, call: &str) -> bool {
        call == MUTEX || !matches!(self, On::NativeMany | On::PreloadedMany)
    }

    fn command(self) -> anyhow::Result<Command> {
        // A quantum longer than a batch.
        let one = Setting::one(Sched::Rr, 100_000);
        let many = Setting { workers: 2, ..Setting::one(Sched::Steal, 100_000) };
        let (threads, unpinned) = match self {
            On::Native => (Threads::Custom(&one), false),
            On::NativeMany => (Threads::Custom(&many), true),
            On::Preloaded => (Threads::Preloaded(&one), false),
            On::PreloadedMany => (Threads::Preloaded(&many), true),
            _ => (Threads::Own, false),
        };
        let cpus = if unpinned { Cpus::All } else { Cpus::One };
        let mut command = command(self.program(), threads, cpus)?;
        command.env("GOMAXPROCS", "1");
        Ok(command)
    }
}

/// The output of a program: of each call the time in ns, in each batch.
#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    user_level: bool,
    #[serde(alias = "contexts")]
    calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    name: String,
    ns: Vec<f64>,
}

/// The median time of each process for each call, in ns.
#[derive(Default, Serialize)]
pub struct Measured(BTreeMap<On, BTreeMap<String, Vec<f64>>>);

impl Measured {
    /// The times of a call, one a round.
    pub fn times(&self, on: On, call: &str) -> &[f64] {
        let times = self.0.get(&on).filter(|_| on.has(call)).and_then(|calls| calls.get(call));
        times.map_or(&[], Vec::as_slice)
    }

    /// Its time as a multiple of a bare system call's: the median of the rounds' ratios.
    pub fn by_system_call(&self, on: On, call: &str) -> Option<f64> {
        median_of_ratios(self.times(on, call), self.times(On::Contexts, SYSTEM_CALL))
    }

    /// Its time as a multiple of another's: the median of the rounds' ratios.
    pub fn ratio(&self, call: &str, on: On, other: On) -> Option<f64> {
        median_of_ratios(self.times(on, call), self.times(other, call))
    }

    /// A raw switch by Boost.Context's.
    pub fn switch_ratio(&self) -> Option<f64> {
        let of = |way| self.times(On::Contexts, way);
        median_of_ratios(of(SWITCH), of(SWITCH_BOOST))
    }

    /// The number of processes of each.
    pub fn rounds(&self) -> usize {
        self.times(On::Glibc, YIELD).len()
    }

    /// The same time in so many rounds, for tests.
    #[cfg(test)]
    pub fn set(&mut self, on: On, call: &str, ns: f64, rounds: usize) {
        self.0.entry(on).or_default().insert(call.to_owned(), vec![ns; rounds]);
    }
}

/// Runs all of them in alternation, so many processes of each, each with so many batches.
pub fn measure(rounds: usize, batches: usize, spinner: &ProgressBar) -> (Measured, Vec<NotRun>) {
    let (mut measured, mut not_run) = (Measured::default(), Vec::<NotRun>::new());
    for round in 0..rounds {
        for on in order(&On::ALL, round) {
            if not_run.iter().any(|it| it.variant == on.name()) {
                continue;
            }
            spinner.set_message(format!("calls of {}, round {}", on.name(), round + 1));
            match run(on, batches) {
                Ok(calls) => {
                    let all = measured.0.entry(on).or_default();
                    for call in calls {
                        all.entry(call.name).or_default().extend(median(&call.ns));
                    }
                }
                Err(reason) => {
                    measured.0.remove(&on);
                    not_run.push(NotRun { variant: on.name().to_owned(), reason });
                }
            }
        }
    }
    (measured, not_run)
}

fn run(on: On, batches: usize) -> Result<Vec<Call>, String> {
    if let (Some(package), Err(_)) = (on.package(), programs::find("uthread", on.program())) {
        return Err(format!(
            "it was not there when TEK was built: {}, then {BUILD_AGAIN}",
            tek_advice::install(&[package], None)
        ));
    }
    let output = || -> anyhow::Result<Output> {
        let mut command = on.command()?;
        command.arg(batches.to_string());
        if matches!(on, On::NativeMany | On::PreloadedMany) {
            command.arg("--unpinned");
        }
        let output: Output = run_json(command, LIMIT)?;
        // A variant must not silently be another one; more workers may be more threads.
        let one_carrier = matches!(on, On::Native | On::Preloaded);
        ensure!(
            !one_carrier || output.user_level,
            "its threads are the kernel's: the engine did not start"
        );
        ensure!(on != On::Glibc || !output.user_level, "its threads are not the kernel's");
        Ok(output)
    };
    output().map(|output| output.calls).map_err(|error| format!("{error:#}"))
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    let mut header = vec!["on one CPU, ns"];
    header.extend(CALLS);
    let mut calls = table(&header, terminal);
    for on in On::ALL {
        if on == On::Contexts || !measured.0.contains_key(&on) {
            continue;
        }
        let mut row = vec![on.name().to_owned()];
        row.extend(CALLS.iter().map(|call| spread(measured.times(on, call))));
        calls.add_row(row);
    }
    let mut contexts = table(
        &["a switch between contexts, and a bare system call, ns", "median (least to max)"],
        terminal,
    );
    for way in CONTEXTS.into_iter().chain([SYSTEM_CALL]) {
        let times = measured.times(On::Contexts, way);
        if !times.is_empty() {
            contexts.add_row([way.to_owned(), spread(times)]);
        }
    }
    format!(
        "{}\n\n{}\n(of {} processes of each the median, least and max; preloaded threads have \
         thread-local storage of their own)\n",
        contexts.trim_fmt(),
        calls.trim_fmt(),
        measured.rounds()
    )
}

fn spread(times: &[f64]) -> String {
    let Some(it) = summarize(times) else { return "-".to_owned() };
    let digits = |ns: f64| if ns < 100.0 { 1 } else { 0 };
    let text = |ns: f64| format!("{ns:.*}", digits(ns));
    format!("{} ({} to {})", text(it.p50), text(it.min), text(it.max))
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for (&on, calls) in &measured.0 {
        for call in calls.keys().filter(|call| on.has(call)) {
            if let Some(summary) = summarize(measured.times(on, call)) {
                let (case, variant) = match on {
                    On::Contexts if call == SYSTEM_CALL => (SYSTEM_CALL, "bare"),
                    On::Contexts => ("switch between contexts", call.as_str()),
                    _ => (call.as_str(), on.name()),
                };
                rows.push(Row::distribution(case, variant, "time of a call", "ns", &summary));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_two_workers_only_the_mutex_counts() {
        let mut it = Measured::default();
        it.set(On::NativeMany, MUTEX, 8.0, 3);
        it.set(On::NativeMany, YIELD, 8.0, 3);
        it.set(On::Glibc, MUTEX, 16.0, 3);
        assert_eq!(it.ratio(MUTEX, On::NativeMany, On::Glibc), Some(0.5));
        it.set(On::Contexts, SYSTEM_CALL, 80.0, 3);
        assert_eq!(it.by_system_call(On::NativeMany, MUTEX), Some(0.1));
        assert_eq!(it.by_system_call(On::NativeMany, YIELD), None);
        assert_eq!(rows(&it).len(), 3);
    }

    #[test]
    fn a_switch_is_compared_with_boosts_of_the_same_round() {
        let mut it = Measured::default();
        it.set(On::Contexts, SWITCH, 2.0, 3);
        assert_eq!(it.switch_ratio(), None);
        it.set(On::Contexts, SWITCH_BOOST, 4.0, 3);
        assert_eq!(it.switch_ratio(), Some(0.5));
        let text = report(&it, Terminal { width: 120, unicode: false });
        assert!(text.contains("Boost.Context") && text.contains("4.0 (4.0 to 4.0)"), "{text}");
    }

    #[test]
    fn what_a_program_prints_is_understood() {
        let text = r#"{"contexts":[{"name":"TEK","ns":[2.5]}]}"#;
        assert_eq!(serde_json::from_str::<Output>(text).unwrap().calls[0].ns, [2.5]);
    }
}
