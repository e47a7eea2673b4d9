// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's curves in a few lines of text: response over time, cumulative rate of responses,
//! dirty or free memory over time. The points themselves are in the JSON document.

use super::session::{Measured, Session};
use super::stage::Run;
use super::variant::Variant;
use crate::table::table;
use crate::terminal::{time_chart, Terminal, TimeChart};

/// The responses up to which the cumulative rate is reported, in ms.
const UP_TO_MS: [f64; 10] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];
const LINES: usize = 4;

/// The share of responses up to each of these, in percent.
pub fn cumulative(responses_ms: &[f64]) -> [f64; UP_TO_MS.len()] {
    let up_to = |most: f64| responses_ms.iter().filter(|ms| **ms <= most).count();
    UP_TO_MS.map(|most| 100.0 * up_to(most) as f64 / responses_ms.len().max(1) as f64)
}

/// All curves of an experiment.
pub fn report(session: &Session, terminal: Terminal) -> String {
    let cases = session.cases.iter().filter(|case| !case.runs.is_empty());
    let text: Vec<String> = cases.map(|case| of_case(session.part, case, terminal)).collect();
    text.join("\n")
}

fn of_case(part: &str, case: &Measured, terminal: Terminal) -> String {
    let title = format!("{part}, % of responses up to");
    let limits = UP_TO_MS.map(|ms| format!("{ms} ms"));
    let header: Vec<&str> =
        [&title[..]].into_iter().chain(limits.iter().map(String::as_str)).collect();
    let mut table = table(&header, terminal);
    for (variant, runs) in &case.runs {
        let responses: Vec<f64> = runs.iter().flat_map(Run::responses_ms).collect();
        let rates = cumulative(&responses).map(|percent| format!("{percent:.1}"));
        table.add_row([variant.name().to_owned()].into_iter().chain(rates));
    }
    let mut text = format!("{}:\n{}\n", case.name, table.trim_fmt());
    for (variant, runs) in &case.runs {
        if let (Some(run), true) = (runs.first(), *variant != Variant::AloneAgain) {
            text += &over_time(part, *variant, run, terminal);
        }
    }
    text
}

/// The curves of the first run: the response, and the subject of the experiment.
fn over_time(part: &str, variant: Variant, run: &Run, terminal: Terminal) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let responses: Vec<(f64, f64)> =
        run.periods.iter().map(|(at, took)| (seconds(*at), *took as f64 / 1e6)).collect();
    let end = responses.last().map_or(1.0, |(at, _)| *at).max(0.001);
    let marked: Vec<(f64, f64)> =
        run.stopped.iter().map(|(_, from, to)| (seconds(*from), seconds(*to))).collect();
    let chart = |points: &[(f64, f64)], unit| {
        let greatest = points.iter().map(|point| point.1).fold(0.001, f64::max);
        let chart = TimeChart { points, end, greatest, unit, marked: &marked };
        time_chart(&chart, LINES, terminal)
    };
    let what = if part == "kswapd" { "free pages" } else { "dirty memory" };
    let memory: Vec<(f64, f64)> = run
        .samples
        .iter()
        .map(|&(at, dirty, most, free)| match part {
            "kswapd" => (seconds(at), free as f64),
            _ => (seconds(at), 100.0 * dirty as f64 / most.max(1) as f64),
        })
        .collect();
    let unit = if part == "kswapd" { "pg" } else { "%" };
    let mut text =
        format!("{}, response over {end:.1} s:\n{}", variant.name(), chart(&responses, "ms"));
    if !memory.is_empty() {
        text += &format!("{}, {what}:\n{}", variant.name(), chart(&memory, unit));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::case;
    use super::*;

    #[test]
    fn a_cumulative_curve_rises_to_all_responses() {
        let rates = cumulative(&[0.4, 3.0, 4.0, 30.0]);
        assert!(rates.is_sorted());
        assert_eq!((rates[0], rates[3], rates[9]), (25.0, 75.0, 100.0));
    }

    #[test]
    fn each_variant_has_its_curves() {
        let session = Session { part: "pdflush", cases: vec![case("4 MB")], ..Session::default() };
        let text = report(&session, Terminal { width: 80, unicode: false });
        for curve in ["as it is, response over", "TEK, dirty memory", "400.0 ms"] {
            assert!(text.contains(curve), "{text}");
        }
    }
}
