// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds.toml judges of `tek bench stack`.

use super::births::{self, Variant};
use super::fit::{self, Place, TEK};
use super::live;
use super::{spread, steady, Measured};
use crate::verdict::Quantities;

/// What is measured without --figures.
pub const PARTS: [&str; 5] = ["steady", "fit", "live", "births", "locked"];

impl Measured {
    /// By their names in bounds.toml.
    pub fn quantities(&self) -> Quantities {
        let series = |mode| self.steady.iter().find(move |it| it.series.mode == mode);
        let [tight, auto] = [steady::TIGHT, steady::AUTO].map(|it| series(it.mode));
        let overflows = |it: &steady::Measured| it.overflows.len() as f64;
        let runs = |it: &steady::Measured| it.runs as f64;
        let spread = self.spread.iter().find(|run| run.variant == spread::TIGHT);
        let (live, births) = (self.live.as_ref(), self.births.as_ref());
        let born = |variant| births.and_then(|it| it.ratio(variant));
        Quantities::from([
            ("one run: ratio", spread.map(|run| run.threads.ratio())),
            ("tight: ratio", tight.and_then(steady::Measured::worst_ratio)),
            ("tight: overflows", tight.map(overflows)),
            ("auto: overflows", auto.map(overflows)),
            ("runs in tight mode", tight.map(runs)),
            ("runs in auto mode", auto.map(runs)),
            ("3 GiB: threads", fit::running(&self.fit, Place::ThreeGib, TEK)),
            (
                "1 GiB, one arena: threads",
                fit::running(&self.fit, Place::OneGibMallocOneArena, TEK),
            ),
            ("measure", live.and_then(live::Measured::by_system_call)),
            ("resident", live.map(live::Measured::resident_added)),
            ("learning", born(Variant::Learning)),
            ("settled", born(Variant::Settled)),
            ("rounds of creating threads", births.map(|it| births::Measured::rounds(it) as f64)),
            ("locked", self.locked.fitted.map(|bytes| bytes as f64 / 1e6)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::locked;
    use crate::verdict::judge;

    /// A measurement that meets every bar at its limit.
    fn measured() -> Measured {
        let steady = |series, runs| steady::Measured {
            series,
            runs,
            ratios: vec![1.15; runs],
            overflows: Vec::new(),
        };
        let fitted = |place| fit::tests::run(place, TEK, 10_000);
        Measured {
            spread: vec![spread::Run {
                variant: spread::TIGHT,
                threads: spread::tests::threads(&[(115, 100)]),
            }],
            steady: vec![steady(steady::TIGHT, 50), steady(steady::AUTO, 200)],
            churn: Vec::new(),
            fit: Place::ALL.map(fitted).into(),
            live: Some(live::Measured {
                threads: 50,
                stack_bytes: 8 << 20,
                ns: vec![1260.0],
                system_call_ns: vec![100.0],
                resident_before: 4096,
                resident_after: 4096,
            }),
            births: Some(births::Measured::of([8e3, 8e3, 8e3, 8120.0, 8e3, 8400.0], 11)),
            beside: Vec::new(),
            locked: locked::Measured { conventional: None, fitted: Some(60_000_000) },
        }
    }

    fn failures(measured: &Measured) -> Vec<String> {
        judge("stack", PARTS, &measured.quantities()).failures()
    }

    #[test]
    fn a_value_at_its_limit_passes() {
        assert_eq!(failures(&measured()), [""; 0]);
    }

    #[test]
    fn one_overflow_is_one_too_many() {
        let mut measured = measured();
        measured.steady[1].overflows.push("thread 3".to_owned());
        assert_eq!(
            failures(&measured),
            ["overflows, auto, use ±20% is 1.00 runs, must be <= 0 runs"]
        );
    }

    #[test]
    fn the_worst_of_all_runs_is_judged() {
        let mut measured = measured();
        measured.steady[0].ratios[7] = 1.16;
        let failures = failures(&measured);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].contains("tight is 1.16 times, must be <= 1.15 times"), "{failures:?}");
    }

    #[test]
    fn a_slow_measure_and_threads_that_are_slow_to_create_fall_short() {
        let mut measured = measured();
        measured.live.as_mut().unwrap().system_call_ns = vec![99.0];
        measured.births = Some(births::Measured::of([8e3, 8e3, 8e3, 8121.0, 8e3, 8401.0], 11));
        let failures = failures(&measured);
        assert_eq!(failures.len(), 3, "{failures:?}");
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let mut measured = measured();
        measured.live = None;
        measured.births = None;
        let failures = failures(&measured);
        assert_eq!(failures.len(), 5, "{failures:?}");
    }

    #[test]
    fn the_figures_are_judged_without_the_rest() {
        let mut measured = Measured { spread: measured().spread, ..Measured::default() };
        measured.fit = vec![fit::tests::run(Place::ThreeGib, TEK, 1999)];
        let failures = judge("stack", ["figures"], &measured.quantities()).failures();
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].contains("3 GiB is 1999 threads, must be >= 2000"), "{failures:?}");
    }

    #[test]
    fn a_short_run_is_reported_as_one() {
        let mut measured = measured();
        measured.steady[1].runs = 20;
        assert_eq!(
            failures(&measured),
            ["the bars ask for 200 runs in auto mode; this run had 20"]
        );
    }
}
