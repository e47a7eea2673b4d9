// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bars for user-level threads, and whether they were met.

use super::cell::Program;
use super::micro::{self, On, COND, CREATE, MUTEX, YIELD};
use super::million::Kind;
use super::{Measured, Part};
use crate::verdict::{missed, Must, Verdict};

/// rr on one CPU by pthread there.
const NOT_SLOWER: f64 = 1.03;
const FASTER: f64 = 1.0;
/// The least number of rounds for a trustworthy median.
const MIN_ROUNDS: usize = 9;
const MIN_FAIR_ROUNDS: usize = 3;

/// Judges these parts.
pub fn judge(measured: &Measured, parts: &[Part]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for part in parts {
        match part {
            Part::Programs => verdicts.extend(programs(measured)),
            Part::Micro => {
                verdicts.extend(calls(measured));
                verdicts.extend(preemption(measured));
            }
            Part::Million => verdicts.extend(million(measured)),
            Part::Fairness => verdicts.extend(fairness(measured)),
            Part::Scale => {} // nothing is asked of it
        }
    }
    verdicts
}

fn at_most(what: &'static str, limit: f64, unit: &'static str, value: Option<f64>) -> Verdict {
    Verdict { what, paper: "-", must: Must::BeAtMost(limit), unit, value }
}

/// The paper's ratios, at 5 and 10 threads.
fn programs(measured: &Measured) -> Vec<Verdict> {
    let ratio = |(program, what, paper, limit)| Verdict {
        what,
        paper,
        must: Must::BeAtMost(limit),
        unit: "times",
        value: measured.programs.as_ref().and_then(|it| it.worst_ratio(program)),
    };
    let all = [
        (Program::Vector, "vector: rr by pthread, one CPU", "0.21", FASTER),
        (Program::Parallel, "parallel: rr by pthread, one CPU", "-", NOT_SLOWER),
        (Program::External, "external: rr by pthread, one CPU", "0.28", NOT_SLOWER),
        (Program::Banking, "banking: rr by pthread, one CPU", "0.18", FASTER),
        (Program::Philosophers, "philosophers: rr by pthread, one CPU", "1.08", NOT_SLOWER),
        (Program::Fibonacci, "fibonacci: rr by pthread, one CPU", "1.17", NOT_SLOWER),
        (Program::Primes, "primes: rr by pthread, one CPU", "-", NOT_SLOWER),
    ];
    let mut verdicts: Vec<_> = all.map(ratio).into();
    let runs = measured.programs.as_ref().map(|_| measured.failed.len() as f64);
    verdicts.push(at_most("variants that failed, or gave a wrong result", 0.0, "variants", runs));
    verdicts
}

fn calls(measured: &Measured) -> Vec<Verdict> {
    let it = measured.micro.as_ref();
    let ns = |on, call| it.and_then(|it| it.ns(on, call));
    let ratio = |call, on, other| it.and_then(|it| it.ratio(call, on, other));
    vec![
        at_most("raw switch", 3.0, "ns", ns(On::Contexts, micro::SWITCH)),
        at_most("raw switch by Boost.Context's", 1.0, "times", it.and_then(|it| it.switch_ratio())),
        at_most("yield", 15.0, "ns", ns(On::Native, YIELD)),
        at_most("create and join", 60.0, "ns", ns(On::Native, CREATE)),
        at_most("mutex pair", 7.0, "ns", ns(On::Native, MUTEX)),
        at_most(
            "mutex pair, 2 workers, by glibc's",
            1.0,
            "times",
            ratio(MUTEX, On::NativeMany, On::Glibc),
        ),
        at_most(
            "cond ping-pong by State Threads'",
            1.0,
            "times",
            ratio(COND, On::Native, On::StateThreads),
        ),
        at_most("preloaded: switch", 40.0, "ns", ns(On::Preloaded, YIELD)),
        at_most("preloaded: create and join", 250.0, "ns", ns(On::Preloaded, CREATE)),
    ]
}

fn preemption(measured: &Measured) -> Vec<Verdict> {
    let points = |us| measured.preemption.as_ref().and_then(|it| it.points(us));
    vec![
        at_most("preemption at 1 ms beyond a bare signal", 0.5, "points", points(1000)),
        at_most("preemption at 200 us beyond a bare signal", 1.0, "points", points(200)),
    ]
}

fn million(measured: &Measured) -> Vec<Verdict> {
    let kb = |kind| measured.million.as_ref().and_then(|it| it.kb(kind));
    vec![
        at_most("a live thread's memory, parked", 6.0, "KB", kb(Kind::Parked)),
        at_most("a live thread's memory, once preempted", 10.0, "KB", kb(Kind::Preempted)),
    ]
}

fn fairness(measured: &Measured) -> Vec<Verdict> {
    let it = measured.fairness.as_ref();
    vec![
        at_most("rr: a share off by", 2.0, "%", it.and_then(|it| it.share_percent())),
        at_most(
            "mlfq: p99 from wake-up to running",
            2.0,
            "quanta",
            it.and_then(|it| it.wake_quanta()),
        ),
        at_most("psjf: turnaround by rr's", 0.7, "times", it.and_then(|it| it.turnaround_ratio())),
        at_most(
            "fifo: lower priorities that ran before higher",
            0.0,
            "times",
            it.and_then(|it| it.violations()),
        ),
    ]
}

/// The bars of `--assert` that were not met, a reason each; empty: all were met.
pub fn failures(verdicts: &[Verdict], measured: &Measured, parts: &[Part]) -> Vec<String> {
    let mut failures = missed(verdicts);
    let mut ask = |part, what: &str, rounds: usize, least: usize| {
        if parts.contains(&part) && rounds < least {
            failures
                .push(format!("the bars ask for {least} rounds of {what}; this run had {rounds}"));
        }
    };
    let programs = measured.programs.as_ref().map_or(0, |it| it.judged_rounds());
    let calls = measured.micro.as_ref().map_or(0, |it| it.rounds());
    let preemption = measured.preemption.as_ref().map_or(0, |it| it.rounds());
    let fairness = measured.fairness.as_ref().map_or(0, |it| it.rounds());
    ask(Part::Programs, "programs", programs, MIN_ROUNDS);
    ask(Part::Micro, "calls", calls, MIN_ROUNDS);
    ask(Part::Micro, "preemption", preemption, MIN_ROUNDS);
    ask(Part::Fairness, "fairness", fairness, MIN_FAIR_ROUNDS);
    let live = measured.million.as_ref().map_or(0, |it| it.wanted);
    if parts.contains(&Part::Million) && live < super::FULL.live {
        failures.push(format!(
            "the bars ask for {} live threads; this run had {live}",
            super::FULL.live
        ));
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::super::{fairness, million, preemption, programs};
    use super::*;
    use crate::json::NotRun;
    use crate::verdict::rows;

    const ALL: [Part; 4] = [Part::Programs, Part::Micro, Part::Million, Part::Fairness];

    /// A measurement that meets every bar.
    fn measured() -> Measured {
        let mut calls = micro::Measured::default();
        let mut set = |on, call, ns| calls.set(on, call, ns, MIN_ROUNDS);
        set(On::Contexts, micro::SWITCH, 3.0);
        set(On::Contexts, micro::SWITCH_BOOST, 3.0);
        set(On::Native, YIELD, 15.0);
        set(On::Native, CREATE, 60.0);
        set(On::Native, MUTEX, 7.0);
        set(On::Native, COND, 14.0);
        set(On::StateThreads, COND, 14.5);
        set(On::NativeMany, MUTEX, 11.0);
        set(On::Glibc, MUTEX, 11.0);
        set(On::Glibc, YIELD, 500.0);
        set(On::Preloaded, YIELD, 40.0);
        set(On::Preloaded, CREATE, 250.0);
        Measured {
            programs: Some(programs::tests::measured(0.99, MIN_ROUNDS)),
            micro: Some(calls),
            preemption: Some(preemption::tests::measured(0.5, MIN_ROUNDS)),
            million: Some(million::tests::measured(6000.0, 10_000.0)),
            fairness: Some(fairness::tests::measured(MIN_ROUNDS)),
            scale: None,
            failed: Vec::new(),
        }
    }

    #[test]
    fn a_value_at_its_limit_passes() {
        let measured = measured();
        let judged = judge(&measured, &ALL);
        assert_eq!(failures(&judged, &measured, &ALL), Vec::<String>::new());
        assert_eq!(rows(&judged).len(), judged.len());
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let measured = Measured::default();
        let judged = judge(&measured, &ALL);
        assert!(judged.iter().all(|verdict| !verdict.met()));
        assert!(failures(&judged, &measured, &ALL).len() > judged.len());
        assert!(judge(&measured, &[]).is_empty());
    }

    #[test]
    fn banking_must_be_faster_and_primes_must_not_be_much_slower() {
        let mut measured = measured();
        measured.programs = Some(programs::tests::measured(1.02, MIN_ROUNDS));
        let judged = judge(&measured, &[Part::Programs]);
        let failures = failures(&judged, &measured, &[Part::Programs]);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures[0].starts_with("vector") && failures[1].starts_with("banking"));
    }

    #[test]
    fn a_wrong_result_is_no_measurement() {
        let mut measured = measured();
        let failed = NotRun { variant: "banking".to_owned(), reason: "wrong".to_owned() };
        measured.failed.push(failed);
        let judged = judge(&measured, &[Part::Programs]);
        assert_eq!(judged.iter().filter(|verdict| !verdict.met()).count(), 1);
    }
}
