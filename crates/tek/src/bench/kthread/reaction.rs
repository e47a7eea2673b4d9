// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long it takes from an event in the kernel to the changed priority, as tekd says it, and what
//! tekd uses at 4,000 events a second.

use super::case::{writer, Case, MIB};
use super::experiments::{self, Extent};
use super::stage::Stage;
use super::summary::tekd_percent;
use super::variant::Variant;
use crate::bench::json::Row;
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
    /// Of a CPU, beside a task that writes 4,000 times a second.
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

    let task = writer(16, 250).with("file-bytes", 16 * MIB).and("@written");
    let events = Case::new("4,000 events a second", task, seconds);
    let run = stage.run(&events, Variant::Tek)?;
    let tekd_percent = tekd_percent(&run).context("tekd was not there")?;
    Ok(Measured { reaction, tekd_percent })
}

/// For people.
pub fn report(it: &Measured) -> String {
    let Reaction { p50, p99, max, n } = it.reaction;
    let us = |ns: f64| ns / 1e3;
    format!(
        "from an event to the changed priority: p50 {:.0} us, p99 {:.0} us, max {:.0} us ({n} times)\n\
         tekd beside a task that writes 4,000 times a second: {:.2}% of a CPU\n",
        us(p50),
        us(p99),
        us(max),
        it.tekd_percent
    )
}

/// The rows of the JSON document.
pub fn rows(it: &Measured) -> Vec<Row> {
    let Reaction { p50, p99, max, n } = it.reaction;
    let reaction = Row::number("reaction", "TEK", "event to priority", "us", p50 / 1e3);
    let percent = it.tekd_percent;
    vec![
        Row {
            p50: Some(p50 / 1e3),
            p99: Some(p99 / 1e3),
            max: Some(max / 1e3),
            n: Some(n as usize),
            ..reaction
        },
        Row::number("4,000 events a second", "TEK", "CPU time of tekd", "%", percent),
    ]
}
