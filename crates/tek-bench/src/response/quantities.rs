// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds.toml judges of `tek bench response`.

use super::summary::{Summaries, VariantSummary};
use super::variant::Variant;
use crate::stats::{median, median_of_ratios};
use crate::verdict::{judge, Quantities, Verdicts};

/// Judges every TEK variant that ran.
pub fn judged(summaries: &Summaries) -> Verdicts {
    let teks = summaries.keys().filter(|variant| variant.is_tek()).map(|variant| variant.name());
    judge("response", teks.chain(["variants"]), &quantities(summaries))
}

/// By their names in bounds.toml.
fn quantities(summaries: &Summaries) -> Quantities {
    let least = |number: fn(&VariantSummary) -> usize| {
        summaries.values().map(|it| number(it) as f64).reduce(f64::min)
    };
    let mut all = Quantities::from([
        ("rounds", least(|it| it.round_p99_ms.len())),
        ("events a variant", least(|it| it.response_ms.n)),
    ]);
    let of = |variant| summaries.get(&variant);
    let (alone, conventional) = (of(Variant::Alone), of(Variant::Conventional));
    for (variant, tek) in summaries.iter().filter(|(variant, _)| variant.is_tek()) {
        let mean = tek.response_ms.mean;
        let before = conventional.map(VariantSummary::critical_switches);
        let by_alone = |it: &VariantSummary| median_of_ratios(&tek.round_p99_ms, &it.round_p99_ms);
        let stall = tek.stall_ms.zip(alone).map(|(stall, alone)| stall / alone.response_ms.mean);
        let quantities = [
            ("p99", alone.and_then(by_alone)),
            ("mean", conventional.map(|it| it.response_ms.mean / mean)),
            ("switches", before.map(|before| change_percent(before, tek.critical_switches()))),
            ("switch", conventional.and_then(|it| switch_time(tek, it))),
            ("stall", stall),
            ("left otherwise", Some(tek.left_otherwise as f64)),
        ];
        let name = variant.name();
        all.extend(quantities.map(|(quantity, value)| (format!("{name}: {quantity}"), value)));
    }
    all
}

/// The worst thread's. A disturbance here lasts for a run, not for a round, so the medians
/// over all rounds are compared: pairs of single runs would only add their noise.
fn switch_time(tek: &VariantSummary, conventional: &VariantSummary) -> Option<f64> {
    let pairs = tek.switch_ns.iter().zip(&conventional.switch_ns);
    pairs
        .filter_map(|(tek, conventional)| Some(median(tek)? / median(conventional)?))
        .reduce(f64::max)
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

/// The reasons beside the bars why --assert fails.
pub fn failures(selected: &[Variant], summaries: &Summaries, left_changed: usize) -> Vec<String> {
    let mut failures = Vec::new();
    let mut teks = selected.iter().filter(|variant| variant.is_tek()).peekable();
    if teks.peek().is_none() {
        failures.push("no variant of TEK was to run".to_owned());
    }
    let lacking = teks.filter(|tek| !summaries.contains_key(tek));
    failures.extend(lacking.map(|tek| format!("{} was not measured", tek.name())));
    let compared = [Variant::Alone, Variant::Conventional];
    if !compared.iter().all(|variant| summaries.contains_key(variant)) {
        failures.push("TEK cannot be judged: run alone and conventional too".to_owned());
    }
    if left_changed > 0 {
        failures.push(format!("{left_changed} threads are scheduled differently"));
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::{fixture::session, rounds::Session, summary::summarize};

    const SELECTED: [Variant; 3] = [Variant::Alone, Variant::Conventional, Variant::TekName];

    /// The small session often enough.
    fn long_session() -> Session {
        let mut session = session();
        for runs in session.runs.values_mut() {
            *runs = runs.iter().cycle().take(10).cloned().collect();
            for run in runs {
                run.responses_ns = run.responses_ns.repeat(8);
            }
        }
        session
    }

    fn values() -> Vec<f64> {
        judged(&summarize(&session())).rows().map(|row| row.value).collect()
    }

    fn failures_of(selected: &[Variant], session: &Session, changed: usize) -> Vec<String> {
        let summaries = summarize(session);
        [judged(&summaries).failures(), failures(selected, &summaries, changed)].concat()
    }

    #[test]
    fn a_long_run_that_meets_every_bar_is_asserted() {
        assert_eq!(values().len(), 5);
        assert_eq!(failures_of(&SELECTED, &long_session(), 0), [""; 0]);
    }

    #[test]
    fn by_the_api_critical_threads_have_to_leave_as_they_came() {
        let mut session = long_session();
        let runs = session.runs.remove(&Variant::TekName).unwrap();
        session.runs.insert(Variant::TekApi, runs);
        let selected = [Variant::TekApi];
        assert_eq!(failures_of(&selected, &session, 0), [""; 0]);
        let run = &mut session.runs.get_mut(&Variant::TekApi).unwrap()[3];
        run.threads[0].after.nice = -20;
        let failures = failures_of(&selected, &session, 0);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].starts_with("tek-api: critical threads that leave"), "{failures:?}");
    }

    #[test]
    fn the_p99_ratio_is_the_median_over_the_rounds() {
        // 20/20 and 21/20.
        assert!((values()[0] - 1.025).abs() < 1e-9);
        // 20/20 and 22/20.
        assert!((noise(&summarize(&session())).unwrap() - 1.05).abs() < 1e-9);
    }

    #[test]
    fn half_the_switches_are_50_percent_less() {
        assert_eq!(values()[2], -50.0);
    }

    #[test]
    fn a_slow_answer_falls_short() {
        let mut session = long_session();
        for run in session.runs.get_mut(&Variant::TekName).unwrap() {
            run.responses_ns = vec![40_000_000; 24];
        }
        let failures = failures_of(&SELECTED, &session, 0);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures[0].contains("p99") && failures[1].contains("mean"), "{failures:?}");
    }

    #[test]
    fn the_switch_time_is_that_of_the_worst_thread() {
        let mut session = long_session();
        for run in session.runs.get_mut(&Variant::TekName).unwrap() {
            run.switch_ns.insert("ui".into(), 2090.0);
        }
        let failures = failures_of(&SELECTED, &session, 0);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].contains("is 1.10 times, must be <= 1.05"), "{failures:?}");
    }

    #[test]
    fn a_variant_of_tek_that_was_not_measured_is_a_failure() {
        let selected = [&SELECTED[..], &[Variant::TekApi]].concat();
        assert_eq!(failures_of(&selected, &long_session(), 0), ["tek-api was not measured"]);
        assert_eq!(
            failures_of(&SELECTED[..2], &long_session(), 0),
            ["no variant of TEK was to run"]
        );
    }

    #[test]
    fn a_bar_that_could_not_be_judged_is_a_failure() {
        let mut session = long_session();
        session.runs.remove(&Variant::Conventional);
        let failures = failures_of(&SELECTED, &session, 0);
        assert_eq!(failures.len(), 3 + 1, "{failures:?}");
        assert!(failures[..3].iter().all(|text| text.contains("not measured")), "{failures:?}");
        assert!(failures[3].ends_with("run alone and conventional too"), "{failures:?}");
    }

    #[test]
    fn a_missed_bar_too_few_events_and_changed_threads_are_failures() {
        let mut session = session();
        session.runs.get_mut(&Variant::TekName).unwrap()[0].threads[3].stall_ns = 2_000_000_000;
        let failures = failures_of(&SELECTED, &session, 1);
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(failures[0].contains("is 100 times, must be <= 72 times"), "{failures:?}");
        assert!(failures[1].contains("9 rounds and 200 events a variant; this run had 2 and 6"));
        assert!(failures[2].starts_with("1 threads"), "{failures:?}");
    }
}
