// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time from an event in the kernel to the changed priority, as tekd reports it. Beside it is
//! the least time in which a process can do it, and the cost of tekd at 4,000 events a second.

use super::case::{writer, Case, Task, MIB};
use super::experiments::{self, Extent};
use super::stage::{Run, Stage};
use super::summary::tekd_percent;
use super::variant::{Variant, CRITICAL};
use crate::json::Row;
use crate::stats;
use anyhow::Context;
use serde::{Deserialize, Serialize};

/// As in tekd's status.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Reaction {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    pub n: u64,
}

#[derive(Debug, Serialize)]
pub struct Measured {
    /// In ns.
    pub reaction: Reaction,
    /// From waking a thread of the highest priority, which does nothing else, to the priority that
    /// it changed, beside the same load.
    pub limit: Reaction,
    /// Percent of a CPU, beside a task that writes 4,000 times a second.
    pub tekd_percent: f64,
}

/// Measures both.
pub fn measure(stage: &mut Stage, seconds: f64) -> anyhow::Result<Measured> {
    let cases = experiments::pdflush(Extent { seconds, varied: false }, stage.writes()?);
    let case = cases.first().context("there is no case")?;
    stage.arrange(case)?;
    let run = stage.run(case, Variant::Tek)?;
    let reaction = serde_json::from_value(run.kthreads["reaction_ns"].clone());
    let reaction = reaction.context("tekd does not tell its reaction as kthreads.reaction_ns")?;

    let waker = Task::new("waker").and(&CRITICAL.to_string()).and("50000");
    let alone = Case { task: waker, beside: vec![case.task.clone()], ..case.clone() };
    let limit = limit(&stage.run(&alone, Variant::AsItIs)?).context("no thread was woken")?;

    let task = writer(16, 250).with("file-bytes", 16 * MIB).and("@written");
    let events = Case::new("4,000 events a second", task, seconds);
    let run = stage.run(&events, Variant::Tek)?;
    let tekd_percent = tekd_percent(&run).context("tekd was not there")?;
    Ok(Measured { reaction, limit, tekd_percent })
}

fn limit(run: &Run) -> Option<Reaction> {
    let all: Vec<f64> = run.periods.iter().map(|(_, took)| *took as f64).collect();
    let it = stats::summarize(&all)?;
    Some(Reaction { p50: it.p50, p99: it.p99, max: it.max, n: it.n as u64 })
}

/// For people.
pub fn report(it: &Measured) -> String {
    let reported = |it: &Reaction| {
        let [p50, p99, max] = [it.p50, it.p99, it.max].map(|ns| ns / 1e3);
        format!("p50 {p50:.0} us, p99 {p99:.0} us, max {max:.0} us ({} times)", it.n)
    };
    format!(
        "from an event to the changed priority: {}\n\
         a thread that is woken for nothing else, the limit: {}\n\
         tekd beside a task that writes 4,000 times a second: {:.2}% of a CPU\n",
        reported(&it.reaction),
        reported(&it.limit),
        it.tekd_percent
    )
}

/// The rows of the JSON document.
pub fn rows(it: &Measured) -> Vec<Row> {
    let row = |variant, it: &Reaction| Row {
        p50: Some(it.p50 / 1e3),
        p99: Some(it.p99 / 1e3),
        max: Some(it.max / 1e3),
        n: Some(it.n as usize),
        ..Row::number("reaction", variant, "event to priority", "us", it.p50 / 1e3)
    };
    let percent = it.tekd_percent;
    vec![
        row("TEK", &it.reaction),
        row("limit", &it.limit),
        Row::number("4,000 events a second", "TEK", "CPU time of tekd", "%", percent),
    ]
}
