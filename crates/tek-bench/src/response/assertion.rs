// SPDX-License-Identifier: MIT OR Apache-2.0
//! The condition of `--assert`: every requested TEK variant was measured often enough and met every
//! bar.

use super::summary::Summaries;
use super::variant::Variant;
use super::verdict::{too_few, Bar, Verdict};

/// Why it does not hold, a reason each; empty: it holds.
pub fn failures(
    selected: &[Variant],
    summaries: &Summaries,
    judged: &[(&Bar, Vec<Verdict>)],
    threads_left_changed: usize,
) -> Vec<String> {
    let mut failures = Vec::new();
    let teks: Vec<Variant> = selected.iter().copied().filter(|variant| variant.is_tek()).collect();
    if teks.is_empty() {
        failures.push("no variant of TEK was to run".to_owned());
    }
    for tek in teks {
        if summaries.contains_key(&tek) {
            failures.extend(judged.iter().filter_map(|(bar, verdicts)| miss(tek, bar, verdicts)));
        } else {
            failures.push(format!("{} was not measured", tek.name()));
        }
    }
    failures.extend(too_few(summaries));
    if threads_left_changed > 0 {
        failures.push(format!("{threads_left_changed} threads are scheduled differently"));
    }
    failures
}

/// How a variant misses a bar, if it does.
fn miss(tek: Variant, bar: &Bar, verdicts: &[Verdict]) -> Option<String> {
    let name = tek.name();
    match verdicts.iter().find(|verdict| verdict.variant == tek) {
        None if (bar.applies)(tek) => {
            Some(format!("{name}: {} was not judged: run alone and conventional too", bar.what))
        }
        Some(verdict) if !verdict.met => {
            Some(format!("{name}: {} is {}, must be {}", bar.what, verdict.text, bar.must))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::fixture::session;
    use crate::response::rounds::Session;
    use crate::response::summary::summarize;
    use crate::response::verdict::judge;

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

    fn failures_of(selected: &[Variant], session: &Session, changed: usize) -> Vec<String> {
        let summaries = summarize(session);
        failures(selected, &summaries, &judge(&summaries), changed)
    }

    #[test]
    fn a_long_run_that_meets_every_bar_is_asserted() {
        assert_eq!(failures_of(&SELECTED, &long_session(), 0), [""; 0]);
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
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(failures.iter().all(|text| text.contains("was not judged")), "{failures:?}");
    }

    #[test]
    fn a_missed_bar_too_few_events_and_changed_threads_are_failures() {
        let mut session = session();
        session.runs.get_mut(&Variant::TekName).unwrap()[0].threads[3].stall_ns = 2_000_000_000;
        let failures = failures_of(&SELECTED, &session, 1);
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(failures[0].contains("is 2000 ms, must be < 1487 ms"), "{failures:?}");
        assert!(failures[1].contains("9 rounds and 200 events"), "{failures:?}");
        assert!(failures[2].starts_with("1 threads"), "{failures:?}");
    }
}
