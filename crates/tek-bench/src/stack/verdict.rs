// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bars for stacks, and whether they were met.

use super::births::{self, Variant};
use super::fit::{self, Place, TEK};
use super::{spread, steady, Measured};
use crate::verdict::{missed, Must, Verdict};

/// Allocated by used, after one learning run, in the worst of all runs.
const RATIO: f64 = 1.15;
/// Threads that must fit where conventional ones do not.
const THREADS: f64 = 10_000.0;
/// A measure of a running thread, in ns.
const LIVE_NS: f64 = 2000.0;
/// The most that a thread's creation and join may take longer, in ns.
const LEARNING_NS: f64 = 1000.0;
const SETTLED_NS: f64 = 300.0;
/// Of 300 threads.
const LOCKED_MB: f64 = 60.0;
/// The required runs and rounds.
const TIGHT_RUNS: usize = 50;
const AUTO_RUNS: usize = 200;
const MIN_ROUNDS: usize = 11;

/// Judges all measurements.
pub fn judge(measured: &Measured) -> Vec<Verdict> {
    let at_most = |what, paper, limit, unit, value| Verdict {
        what,
        paper,
        must: Must::BeAtMost(limit),
        unit,
        value,
    };
    let series = |mode| measured.steady.iter().find(move |it| it.series.mode == mode);
    let overflows = |mode| Some(series(mode)?.overflows.len() as f64);
    let fitted = |what, place| Verdict {
        what,
        paper: "fails after 200",
        must: Must::BeAtLeast(THREADS),
        unit: "threads",
        value: fit::running(&measured.fit, place, TEK),
    };
    let live = measured.live.as_ref();
    let added = |variant| measured.births.as_ref()?.added_ns(variant);
    let locked = measured.locked.fitted.map(|bytes| bytes as f64 / 1e6);
    vec![
        at_most(
            "stacks allocated by used, tight",
            "1.39 (44 conventional)",
            RATIO,
            "times",
            series(steady::TIGHT.mode).and_then(steady::Measured::worst_ratio),
        ),
        at_most("overflows, tight, use ±3%", "-", 0.0, "runs", overflows(steady::TIGHT.mode)),
        at_most("overflows, auto, use ±20%", "-", 0.0, "runs", overflows(steady::AUTO.mode)),
        fitted("threads in 32 bits, 3 GiB", Place::ThreeGib),
        fitted("threads in RLIMIT_AS 1 GiB, one arena", Place::OneGibMallocOneArena),
        at_most(
            "measuring a running thread",
            "-",
            LIVE_NS,
            "ns",
            live.and_then(super::live::Measured::usual_ns),
        ),
        at_most(
            "made resident by measuring",
            "-",
            0.0,
            "bytes",
            live.map(super::live::Measured::resident_added),
        ),
        at_most(
            "create and join, added while learning",
            "-",
            LEARNING_NS,
            "ns",
            added(Variant::Learning),
        ),
        at_most(
            "create and join, added when settled",
            "-",
            SETTLED_NS,
            "ns",
            added(Variant::Settled),
        ),
        at_most("locked by 300 threads", "-", LOCKED_MB, "MB", locked),
    ]
}

/// Judges the paper's figures 11 and 12; the rest is not measured.
pub fn judge_figures(measured: &Measured) -> Vec<Verdict> {
    let second = measured.spread.iter().find(|run| run.variant == spread::TIGHT);
    vec![
        Verdict {
            what: "stacks allocated by used, tight, in one run",
            paper: "1.39 (44 conventional)",
            must: Must::BeAtMost(RATIO),
            unit: "times",
            value: second.map(|run| run.threads.ratio()),
        },
        Verdict {
            what: "of 2,000 threads in 32 bits, 3 GiB",
            paper: "fails after 200",
            must: Must::BeAtLeast(fit::PAPER_CREATIONS.into()),
            unit: "threads",
            value: fit::running(&measured.fit, Place::ThreeGib, TEK),
        },
    ]
}

/// The bars of `--assert` that were not met, a reason each; empty: all were met.
pub fn failures(verdicts: &[Verdict], measured: &Measured) -> Vec<String> {
    let mut failures = missed(verdicts);
    let mut ask = |enough: bool, reason: String| {
        if !enough {
            failures.push(reason);
        }
    };
    for (mode, runs) in [(steady::TIGHT.mode, TIGHT_RUNS), (steady::AUTO.mode, AUTO_RUNS)] {
        let ran = measured.steady.iter().find(|it| it.series.mode == mode);
        let ran = ran.map_or(0, |it| it.runs);
        ask(ran >= runs, format!("the bars ask for {runs} runs in {mode} mode; there were {ran}"));
    }
    let rounds = measured.births.as_ref().map_or(0, births::Measured::rounds);
    ask(
        rounds >= MIN_ROUNDS,
        format!("the bars ask for {MIN_ROUNDS} rounds of creating threads; this run had {rounds}"),
    );
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{live, locked};

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
                ns: vec![2000.0],
                resident_before: 4096,
                resident_after: 4096,
            }),
            births: Some(births::Measured::of([7e3, 7e3, 7e3, 7300.0, 8e3, 9e3], 11)),
            beside: Vec::new(),
            locked: locked::Measured { conventional: None, fitted: Some(60_000_000) },
        }
    }

    #[test]
    fn a_value_at_its_limit_passes() {
        let measured = measured();
        assert_eq!(failures(&judge(&measured), &measured), Vec::<String>::new());
    }

    #[test]
    fn one_overflow_is_one_too_many() {
        let mut measured = measured();
        measured.steady[1].overflows.push("thread 3".to_owned());
        let failures = failures(&judge(&measured), &measured);
        assert_eq!(failures, ["overflows, auto, use ±20% is 1.00 runs, must be <= 0 runs"]);
    }

    #[test]
    fn the_worst_of_all_runs_is_judged() {
        let mut measured = measured();
        measured.steady[0].ratios[7] = 1.16;
        let failures = failures(&judge(&measured), &measured);
        assert_eq!(
            failures,
            ["stacks allocated by used, tight is 1.16 times, must be <= 1.15 times"]
        );
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let mut measured = measured();
        measured.live = None;
        measured.births = None;
        let failures = failures(&judge(&measured), &measured);
        assert_eq!(failures.len(), 5, "{failures:?}");
    }

    #[test]
    fn the_figures_are_judged_without_the_rest() {
        let mut measured = Measured { spread: measured().spread, ..Measured::default() };
        measured.fit = vec![fit::tests::run(Place::ThreeGib, TEK, 1999)];
        assert_eq!(
            missed(&judge_figures(&measured)),
            ["of 2,000 threads in 32 bits, 3 GiB is 1999 threads, must be >= 2000 threads"]
        );
    }

    #[test]
    fn a_short_run_is_reported_as_short() {
        let mut measured = measured();
        measured.steady[1].runs = 20;
        let failures = failures(&judge(&measured), &measured);
        assert_eq!(failures, ["the bars ask for 200 runs in auto mode; there were 20"]);
    }
}
