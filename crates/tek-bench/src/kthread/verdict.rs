// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bars for kernel threads, and whether they were met.

use super::equations::{extra_loss, to_kernel_threads};
use super::files;
use super::overhead::With;
use super::session::{Measured as Case, Session};
use super::summary::sum;
use super::variant::Variant;
use super::{Measured, Part};
use crate::verdict::{missed, Must, Verdict};

/// How far TEK may be above the run without load.
const P99_RATIO: f64 = 1.2;
const MAX_RATIO: f64 = 2.0;
/// How far the kernel as it is must be above it; otherwise there is no problem to solve.
const PDFLUSH_PROBLEM: f64 = 10.0;
const PROBLEM: f64 = 5.0;
/// For operations on files: outside the windows of RT throttling.
const FILES_RATIO: f64 = 2.0;
const FILES_PROBLEM_PERCENT: f64 = 5.0;
const REACTION_US: f64 = 100.0;
const TEKD_PERCENT: f64 = 1.0;
/// In addition to the difference of two equal measurements.
const OVERHEAD_PERCENT: f64 = 2.0;
const CRITICAL_PERCENT: f64 = 5.0;
const MIN_KILLS: usize = 200;
const MIN_ROUNDS: usize = 5;

/// Judges these parts.
pub fn judge(measured: &Measured, parts: &[Part]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for part in parts {
        verdicts.extend(match part {
            Part::Pdflush => pdflush(measured.session("pdflush")),
            Part::Irq => problem(
                ["irq: TEK max of a round / alone", "irq: as it is max of a round / alone"],
                measured.session("irq"),
            ),
            Part::Kswapd => problem(
                ["kswapd: TEK max of a round / alone", "kswapd: as it is max of a round / alone"],
                measured.session("kswapd"),
            ),
            Part::Worker => problem(
                ["worker: TEK max of a round / alone", "worker: as it is max of a round / alone"],
                measured.session("worker"),
            ),
            Part::Files => files(measured.session("files")),
            Part::Equations => equations(measured.session("equations")),
            Part::Reaction => reaction(measured),
            Part::Overhead => overhead(measured),
            Part::Faults => {
                let differences = measured.faults.as_ref().map(|it| it.differences as f64);
                let what = "kernel threads left otherwise after kills";
                vec![verdict(what, Must::BeAtMost(0.0), "threads", differences)]
            }
        });
    }
    verdicts
}

fn verdict(what: &'static str, must: Must, unit: &'static str, value: Option<f64>) -> Verdict {
    Verdict { what, paper: "-", must, unit, value }
}

/// The case that is judged.
fn judged(session: Option<&Session>) -> Option<&Case> {
    session?.cases.iter().find(|case| case.judged)
}

fn max_ratio(case: Option<&Case>, variant: Variant) -> Option<f64> {
    sum(case?, variant)?.max_ratio
}

fn pdflush(session: Option<&Session>) -> Vec<Verdict> {
    let case = judged(session);
    let p99 = case.and_then(|case| sum(case, Variant::Tek)?.p99_ratio);
    let max = |variant| max_ratio(case, variant);
    vec![
        verdict("pdflush: TEK p99 of a round / alone", Must::BeAtMost(P99_RATIO), "times", p99),
        verdict(
            "pdflush: TEK max of a round / alone",
            Must::BeAtMost(MAX_RATIO),
            "times",
            max(Variant::Tek),
        ),
        verdict(
            "pdflush: as it is max of a round / alone",
            Must::BeAtLeast(PDFLUSH_PROBLEM),
            "times",
            max(Variant::AsItIs),
        ),
    ]
}

fn problem(what: [&'static str; 2], session: Option<&Session>) -> Vec<Verdict> {
    let max = |variant| max_ratio(judged(session), variant);
    vec![
        verdict(what[0], Must::BeAtMost(MAX_RATIO), "times", max(Variant::Tek)),
        verdict(what[1], Must::BeAtLeast(PROBLEM), "times", max(Variant::AsItIs)),
    ]
}

/// The worst of all operations.
fn files(session: Option<&Session>) -> Vec<Verdict> {
    let cases = || session.into_iter().flat_map(|session| &session.cases);
    let ratio = cases().filter_map(|case| files::p99_ratio(case, Variant::Tek));
    let late = |variant| {
        let all: Vec<_> = cases().filter_map(|case| files::late(case, variant)).collect();
        let late = all.iter().map(|(late, _)| late).sum::<usize>() as f64;
        (!all.is_empty()).then_some((late, all.iter().map(|(_, n)| n).sum::<usize>() as f64))
    };
    let percent = late(Variant::AsItIs).map(|(late, all)| 100.0 * late / all.max(1.0));
    vec![
        verdict(
            "files: TEK p99 of the worst operation / alone",
            Must::BeAtMost(FILES_RATIO),
            "times",
            ratio.reduce(f64::max),
        ),
        verdict(
            "files: TEK answers over 20 ms",
            Must::BeAtMost(0.0),
            "answers",
            late(Variant::Tek).map(|(late, _)| late),
        ),
        verdict(
            "files: as it is answers over 20 ms",
            Must::BeAtLeast(FILES_PROBLEM_PERCENT),
            "%",
            percent,
        ),
    ]
}

fn equations(session: Option<&Session>) -> Vec<Verdict> {
    let case = |number: usize| session.and_then(|session| session.cases.get(number));
    let beyond = |case, variant| extra_loss(case, variant).map(|(lost, used)| lost - used);
    let lost = |variant| to_kernel_threads(case(1)?, variant);
    let spared = lost(Variant::Plain).zip(lost(Variant::Tek)).map(|(plain, tek)| plain - tek);
    vec![
        verdict(
            "a third task's loss beyond what boosted threads used",
            Must::BeAtMost(0.0),
            "ms",
            case(0).and_then(|case| beyond(case, Variant::Tek)),
        ),
        verdict(
            "what equation (2) spares it, beside equation (1)",
            Must::BeAtLeast(0.0),
            "ms",
            spared,
        ),
    ]
}

fn reaction(measured: &Measured) -> Vec<Verdict> {
    let it = measured.reaction.as_ref();
    let p99 = it.map(|it| it.reaction.p99 / 1e3);
    let percent = it.map(|it| it.tekd_percent);
    vec![
        verdict("event to changed priority, p99", Must::BeAtMost(REACTION_US), "us", p99),
        verdict("tekd at 4,000 events a second", Must::BeAtMost(TEKD_PERCENT), "%", percent),
    ]
}

fn overhead(measured: &Measured) -> Vec<Verdict> {
    let worst = |with| measured.overhead.as_ref()?.worst(with).map(|(percent, _)| percent);
    vec![
        verdict(
            "slowest column beyond off/off, no critical task",
            Must::BeAtMost(OVERHEAD_PERCENT),
            "%",
            worst(With::On),
        ),
        verdict(
            "slowest column beyond off/off, one critical task",
            Must::BeAtMost(CRITICAL_PERCENT),
            "%",
            worst(With::Critical),
        ),
    ]
}

/// The bars of `--assert` that were not met, a reason each; empty: all were met.
pub fn failures(verdicts: &[Verdict], measured: &Measured, parts: &[Part]) -> Vec<String> {
    let mut failures = missed(verdicts);
    let few = |what, needed: usize, had: usize| {
        (had < needed).then(|| format!("the bars ask for {needed} {what}; this run had {had}"))
    };
    for session in &measured.sessions {
        let runs = session.cases.iter().filter(|case| case.judged).flat_map(|case| &case.runs);
        let rounds = runs.map(|(_, runs)| runs.len()).min().unwrap_or(0);
        let reason = few("rounds", MIN_ROUNDS, rounds);
        failures.extend(reason.map(|reason| format!("{}: {reason}", session.part)));
    }
    if parts.contains(&Part::Faults) {
        let kills = measured.faults.as_ref().map_or(0, |it| it.kills);
        failures.extend(few("kills", MIN_KILLS, kills));
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::{case, runs};
    use super::super::{equations, faults, overhead, reaction};
    use super::*;
    use clap::ValueEnum;

    fn session(part: &'static str) -> Session {
        let mut case = case(part);
        let five = |runs: &mut Vec<_>| runs.extend_from_within(..2);
        case.runs.values_mut().for_each(five);
        Session { part, cases: vec![case], ..Session::default() }
    }

    /// A measurement that meets every bar.
    fn measured() -> Measured {
        let lost = [(Variant::AsItIs, 10), (Variant::Plain, 50), (Variant::Tek, 50)];
        let mut equations = equations::tests::session(&lost);
        let case = equations::tests::session(&lost).cases.remove(0);
        equations.cases.push(case);
        for runs in equations.cases.iter_mut().flat_map(|case| case.runs.values_mut()) {
            *runs = vec![runs[0].clone(); MIN_ROUNDS];
        }
        let mut sessions: Vec<_> =
            ["pdflush", "irq", "kswapd", "worker", "files"].map(session).into();
        let files = sessions.last_mut().unwrap();
        let late = files.cases[0].runs.values_mut().flatten();
        late.for_each(|run| run.periods.truncate(200));
        for run in files.cases[0].runs.get_mut(&Variant::AsItIs).unwrap() {
            run.periods.iter_mut().take(20).for_each(|iteration| iteration.1 = 400_000_000);
        }
        sessions.push(equations);
        let reaction = reaction::Reaction { p50: 9e3, p99: 1e5, max: 2e5, n: 900 };
        Measured {
            sessions,
            reaction: Some(reaction::Measured { reaction, limit: reaction, tekd_percent: 1.0 }),
            overhead: Some(overhead::tests::measured(0.01)),
            faults: Some(faults::Measured { kills: 200, ..faults::Measured::default() }),
        }
    }

    fn failures_of(measured: &Measured) -> Vec<String> {
        let parts = Part::value_variants();
        failures(&judge(measured, parts), measured, parts)
    }

    #[test]
    fn values_at_their_limits_pass() {
        assert_eq!(failures_of(&measured()), Vec::<String>::new());
    }

    #[test]
    fn a_kernel_without_the_problem_and_one_thread_left_boosted_fall_short() {
        let mut measured = measured();
        measured.faults.as_mut().unwrap().differences = 1;
        let good = [runs(3, 5), runs(3, 5)].concat();
        measured.sessions[0].cases[0].runs.insert(Variant::AsItIs, good);
        let failures = failures_of(&measured);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(
            failures[0].starts_with("pdflush: as it is max of a round / alone is 1.25"),
            "{failures:?}"
        );
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let parts = Part::value_variants();
        let nothing = Measured::default();
        let verdicts = judge(&nothing, parts);
        assert_eq!(missed(&verdicts).len(), verdicts.len());
    }

    #[test]
    fn a_short_run_is_reported_as_short() {
        let mut measured = measured();
        measured.faults.as_mut().unwrap().kills = 20;
        measured.sessions[0].cases[0].runs.get_mut(&Variant::Tek).unwrap().truncate(1);
        let failures = failures_of(&measured);
        assert!(failures[0].contains("pdflush: the bars ask for 5 rounds; this run had 1"));
        assert!(failures[1].contains("200 kills; this run had 20"), "{failures:?}");
    }
}
