// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bars, and whether they were met: our numbers beside the papers'.

use super::summary::{Summaries, VariantSummary};
use super::variant::Variant;
use crate::json::Row;
use crate::stats::{median, median_of_ratios};

/// A number of one TEK variant, and whether it meets the bar.
pub struct Verdict {
    pub variant: Variant,
    pub value: f64,
    pub text: String,
    pub met: bool,
}

/// A condition that must hold.
pub struct Bar {
    pub what: &'static str,
    pub paper: &'static str,
    pub must: &'static str,
    pub unit: &'static str,
    /// Whether a TEK variant is judged by it.
    pub applies: fn(Variant) -> bool,
    judge: fn(&Compared) -> Option<(f64, String, bool)>,
}

/// The measurements by which one TEK variant is judged.
struct Compared<'a> {
    tek: &'a VariantSummary,
    alone: Option<&'a VariantSummary>,
    conventional: Option<&'a VariantSummary>,
}

/// How far TEK's p99 may be above that of the run without load.
const P99_RATIO: f64 = 1.05;
/// The paper's 1719 ms -> 235 ms (tek-2020, V-C).
const SPEED_UP: f64 = 7.3;
/// The paper's best case (cpu-mediator-2019, 4.1), in percent.
const FEWER_SWITCHES: f64 = 42.0;
const SWITCH_TIME_RATIO: f64 = 1.05;
/// The paper's worst stall (tek-2020, V-C), in ms.
const STALL_MS: f64 = 1487.0;
/// The least number of rounds for a trustworthy median of the p99 ratios.
const MIN_ROUNDS: usize = 9;
const MIN_EVENTS: usize = 200;

static BARS: [Bar; 6] = [
    Bar {
        what: "p99 of a round / alone, median",
        paper: "-",
        must: "<= 1.05",
        unit: "ratio",
        applies: Variant::is_tek,
        judge: p99_ratio,
    },
    Bar {
        what: "conventional mean / TEK mean",
        paper: "7.3 (1719 -> 235 ms)",
        must: ">= 7.3",
        unit: "ratio",
        applies: Variant::is_tek,
        judge: speed_up,
    },
    Bar {
        what: "switches of critical threads",
        paper: "-41...-42%",
        must: "<= -42%",
        unit: "%",
        applies: Variant::is_tek,
        judge: fewer_switches,
    },
    Bar {
        what: "time of a switch (ping-pong) / conventional",
        paper: "similar",
        must: "<= 1.05",
        unit: "ratio",
        applies: Variant::is_tek,
        judge: switch_time,
    },
    Bar {
        what: "longest stall of a non-critical thread",
        paper: "1487 ms",
        must: "< 1487 ms",
        unit: "ms",
        applies: Variant::is_tek,
        judge: stall,
    },
    Bar {
        what: "critical threads leave as they came",
        paper: "-",
        must: "all",
        unit: "bool",
        // A thread that is critical by its name stays critical to its end: only the API leaves.
        applies: |variant| variant == Variant::TekApi,
        judge: left_clean,
    },
];

/// Judges every TEK variant that ran, by every bar with enough measurements.
pub fn judge(summaries: &Summaries) -> Vec<(&'static Bar, Vec<Verdict>)> {
    BARS.iter()
        .map(|bar| {
            let tek = summaries.iter();
            let tek = tek.filter(|(variant, _)| variant.is_tek() && (bar.applies)(**variant));
            let verdicts = tek.filter_map(|(variant, tek)| {
                let (value, text, met) = (bar.judge)(&Compared {
                    tek,
                    alone: summaries.get(&Variant::Alone),
                    conventional: summaries.get(&Variant::Conventional),
                })?;
                Some(Verdict { variant: *variant, value, text, met })
            });
            (bar, verdicts.collect())
        })
        .collect()
}

fn p99_ratio(compared: &Compared) -> Option<(f64, String, bool)> {
    let ratio = median_of_ratios(&compared.tek.round_p99_ms, &compared.alone?.round_p99_ms)?;
    Some((ratio, format!("{ratio:.3}"), ratio <= P99_RATIO))
}

fn speed_up(compared: &Compared) -> Option<(f64, String, bool)> {
    let ratio = compared.conventional?.response_ms.mean / compared.tek.response_ms.mean;
    Some((ratio, format!("{ratio:.1}"), ratio >= SPEED_UP))
}

fn fewer_switches(compared: &Compared) -> Option<(f64, String, bool)> {
    let before = compared.conventional?.critical_switches();
    let percent = change_percent(before, compared.tek.critical_switches());
    Some((percent, format!("{percent:+.0}%"), percent <= -FEWER_SWITCHES))
}

/// The worst thread's. A disturbance here lasts for a run, not for a round, so the medians
/// over all rounds are compared: pairs of single runs would only add their noise.
fn switch_time(compared: &Compared) -> Option<(f64, String, bool)> {
    let conventional = &compared.conventional?.switch_ns;
    let ratio = compared
        .tek
        .switch_ns
        .iter()
        .zip(conventional)
        .filter_map(|(tek, conventional)| Some(median(tek)? / median(conventional)?))
        .reduce(f64::max)?;
    Some((ratio, format!("{ratio:.2}"), ratio <= SWITCH_TIME_RATIO))
}

fn stall(compared: &Compared) -> Option<(f64, String, bool)> {
    let stall = compared.tek.stall_ms?;
    Some((stall, format!("{stall:.0} ms"), stall < STALL_MS))
}

fn left_clean(compared: &Compared) -> Option<(f64, String, bool)> {
    let clean = compared.tek.left_clean;
    let text = if clean { "all" } else { "not all" };
    Some((f64::from(u8::from(clean)), text.to_owned(), clean))
}

/// The change from one number to another, in percent.
pub fn change_percent(from: f64, to: f64) -> f64 {
    (to / from - 1.0) * 100.0
}

/// The p99 of the second run without load divided by that of the first: the noise of the ratio.
pub fn noise(summaries: &Summaries) -> Option<f64> {
    median_of_ratios(
        &summaries.get(&Variant::AloneAgain)?.round_p99_ms,
        &summaries.get(&Variant::Alone)?.round_p99_ms,
    )
}

/// The missing part of the number of measurements that the bars ask for; `None`: nothing.
pub fn too_few(summaries: &Summaries) -> Option<String> {
    let rounds = summaries.values().map(|it| it.round_p99_ms.len()).min()?;
    let events = summaries.values().map(|it| it.response_ms.n).min()?;
    (rounds < MIN_ROUNDS || events < MIN_EVENTS).then(|| {
        format!(
            "the bars ask for {MIN_ROUNDS} rounds and {MIN_EVENTS} events a variant; \
             this run had {rounds} and {events}, so noise may decide"
        )
    })
}

/// The rows of the JSON document.
pub fn rows(judged: &[(&Bar, Vec<Verdict>)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (bar, verdicts) in judged {
        for verdict in verdicts {
            let variant = verdict.variant.name();
            rows.push(Row::number("must show", variant, bar.what, bar.unit, verdict.value));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::{fixture::session, summary::summarize};

    fn verdicts() -> Vec<(&'static str, f64, bool)> {
        judge(&summarize(&session()))
            .iter()
            .flat_map(|(bar, verdicts)| {
                verdicts.iter().map(|verdict| (bar.what, verdict.value, verdict.met))
            })
            .collect()
    }

    #[test]
    fn a_session_that_reaches_everything_passes() {
        let verdicts = verdicts();
        assert_eq!(verdicts.len(), 5);
        assert!(verdicts.iter().all(|(_, _, met)| *met), "{verdicts:?}");
    }

    #[test]
    fn the_p99_ratio_is_the_median_over_the_rounds() {
        // 20/20 and 21/20.
        assert!((verdicts()[0].1 - 1.025).abs() < 1e-9);
        // 20/20 and 22/20.
        assert!((noise(&summarize(&session())).unwrap() - 1.05).abs() < 1e-9);
    }

    #[test]
    fn half_the_switches_are_50_percent_less() {
        assert_eq!(verdicts()[2].1, -50.0);
    }

    #[test]
    fn a_slow_answer_falls_short() {
        let mut session = session();
        for run in session.runs.get_mut(&Variant::TekName).unwrap() {
            run.responses_ns = vec![40_000_000; 3];
        }
        let judged = judge(&summarize(&session));
        assert!(!judged[0].1[0].met && !judged[1].1[0].met);
        assert!(judged[2].1[0].met);
    }

    #[test]
    fn a_short_run_is_reported_as_short() {
        let text = too_few(&summarize(&session())).unwrap();
        assert!(text.contains("this run had 2 and 6"), "{text}");
    }

    #[test]
    fn the_switch_time_is_that_of_the_worst_thread() {
        let mut session = session();
        for run in session.runs.get_mut(&Variant::TekName).unwrap() {
            run.switch_ns.insert("ui".into(), 2090.0);
        }
        let judged = judge(&summarize(&session));
        let verdict = &judged[3].1[0];
        assert!((verdict.value - 1.1).abs() < 1e-9 && !verdict.met);
    }

    #[test]
    fn without_a_conventional_run_nothing_is_compared_with_it() {
        let mut session = session();
        session.runs.remove(&Variant::Conventional);
        let judged = judge(&summarize(&session));
        assert!(judged[1].1.is_empty() && judged[2].1.is_empty());
        assert_eq!(judged[0].1.len(), 1);
    }
}
