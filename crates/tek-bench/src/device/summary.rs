// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the measurements of touch events to the reported numbers.

use super::rounds::{Run, Session};
use super::setup::{Setup, Variant};
use crate::json::Row;
use crate::stats::{self, median_of_ratios, Summary};
use crate::table::table;
use crate::terminal::Terminal;
use std::collections::BTreeMap;

/// One setup, all rounds.
pub struct Summed {
    /// All responses, in ms.
    pub response_ms: Summary,
    /// The p99 of each round, in ms.
    pub round_p99_ms: Vec<f64>,
    /// The longest time that a noncritical thread waited, in ms.
    pub stall_ms: Option<f64>,
    /// CPU time of tekd while there was load, in percent of a CPU.
    pub tekd_percent: Option<f64>,
}

/// The summaries of all setups that ran.
pub type Summaries = BTreeMap<Setup, Summed>;

/// Summarizes a session.
pub fn summarize(session: &Session) -> Summaries {
    session.runs.iter().filter_map(|(setup, runs)| Some((*setup, of_setup(runs)?))).collect()
}

fn of_setup(runs: &[Run]) -> Option<Summed> {
    let per_round: Vec<Vec<f64>> = runs.iter().map(|run| run.appliance.responses_ms()).collect();
    let used = runs.iter().map(|run| run.tekd_ns).collect::<Option<Vec<_>>>();
    let percent = used.map(|used| {
        let (cpu, wall): (Vec<u64>, Vec<u64>) = used.into_iter().unzip();
        100.0 * cpu.iter().sum::<u64>() as f64 / wall.iter().sum::<u64>() as f64
    });
    Some(Summed {
        response_ms: stats::summarize(&per_round.concat())?,
        round_p99_ms: per_round.iter().filter_map(|ms| stats::p99(ms)).collect(),
        stall_ms: runs.iter().filter_map(Run::stall_ms).reduce(f64::max),
        tekd_percent: percent,
    })
}

/// The p99 of a round by that of alone in the same round, median over the rounds.
pub fn p99_ratio(summaries: &Summaries, setup: Setup) -> Option<f64> {
    let alone = &summaries.get(&Setup::ALONE)?.round_p99_ms;
    median_of_ratios(&summaries.get(&setup)?.round_p99_ms, alone)
}

/// For people.
pub fn report(summaries: &Summaries, terminal: Terminal) -> String {
    if summaries.is_empty() {
        return String::new();
    }
    let header =
        ["response, ms", "mean", "p50", "p99", "max", "round p99/alone", "stall", "tekd", "events"];
    let mut table = table(&header, terminal);
    for (setup, it) in summaries {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let response = &it.response_ms;
        let mut row = vec![setup.name()];
        row.extend(
            [response.mean, response.p50, response.p99, response.max].map(|ms| format!("{ms:.1}")),
        );
        row.push(or_none(p99_ratio(summaries, *setup).map(|ratio| format!("{ratio:.3}"))));
        row.push(or_none(it.stall_ms.map(|ms| format!("{ms:.0} ms"))));
        row.push(or_none(it.tekd_percent.map(|percent| format!("{percent:.2}%"))));
        row.push(response.n.to_string());
        table.add_row(row);
    }
    let noise = p99_ratio(summaries, Setup::ALONE_AGAIN).map_or_else(String::new, |noise| {
        format!("noise: round p99/alone of alone-2, which does the same as alone, is {noise:.3}\n")
    });
    format!(
        "{}\np99: of the events of all rounds together. round p99/alone: the p99 of each round by \
         that of alone in\nthe same round, median over the rounds. stall: the longest time that a \
         thread waited which is not\ncritical. tekd: its CPU time meanwhile\n{noise}",
        table.trim_fmt()
    )
}

/// The rows of the JSON document.
pub fn rows(summaries: &Summaries) -> Vec<Row> {
    let mut rows = Vec::new();
    for (setup, it) in summaries {
        let (case, name) = (setup.case(), setup.variant.name());
        rows.push(Row::distribution(&case, name, "response", "ms", &it.response_ms));
        let numbers = [
            ("p99 of a round / alone, median", "ratio", p99_ratio(summaries, *setup)),
            ("longest stall of a non-critical thread", "ms", it.stall_ms),
            ("CPU time of tekd", "%", it.tekd_percent),
        ];
        rows.extend(numbers.into_iter().filter_map(|(metric, unit, value)| {
            Some(Row::number(&case, name, metric, unit, value?))
        }));
    }
    rows
}

/// The headline: the gain.
pub fn headline(summaries: &Summaries) -> String {
    let mean = |load, variant| Some(summaries.get(&Setup { load, variant })?.response_ms.mean);
    let load = Some(super::setup::TWENTY);
    let (Some(groups), Some(rt), Some(alone)) =
        (mean(load, Variant::Groups), mean(load, Variant::Rt), mean(None, Variant::Alone))
    else {
        return String::new();
    };
    let fair =
        mean(load, Variant::Fair).map_or_else(String::new, |ms| format!("fair {ms:.0} ms   "));
    format!(
        "groups only {groups:.0} ms   {fair}rt {rt:.0} ms   limit {alone:.0} ms\nBeside 20 \
         CPU-bound threads of other programs a touch is answered {:.1} times as fast with critical \
         threads.\n",
        groups / rt
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::session;
    use crate::device::setup::TWENTY;

    #[test]
    fn a_setup_is_compared_with_alone_round_by_round() {
        let mut session = session();
        let rt = Setup::under(TWENTY, Variant::Rt);
        for run in &mut session.runs.get_mut(&rt).unwrap()[..4] {
            run.appliance.responses_ns = vec![90_000_000];
        }
        let summaries = summarize(&session);
        assert_eq!(p99_ratio(&summaries, rt), Some(1.0));
        assert_eq!(p99_ratio(&summaries, Setup::under(TWENTY, Variant::Fair)), None);
    }

    #[test]
    fn every_setup_has_a_line_and_its_rows() {
        let summaries = summarize(&session());
        let terminal = Terminal { width: 100, unicode: false };
        let text = report(&summaries, terminal);
        for setup in summaries.keys() {
            assert!(text.contains(&setup.name()), "{text}");
        }
        assert!(text.contains("noise: round p99/alone of alone-2"), "{text}");
        let responses = rows(&summaries).iter().filter(|row| row.metric == "response").count();
        assert_eq!(responses, summaries.len());
        assert!(headline(&summaries).contains("9.0 times as fast"), "{}", headline(&summaries));
    }
}
