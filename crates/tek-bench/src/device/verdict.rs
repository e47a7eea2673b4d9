// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bars for the device, and whether they were met.

use super::floor;
use super::setup::{Load, Setup, Variant, TWENTY, TWO_HUNDRED};
use super::summary::{p99_ratio, summarize};
use super::switches::{enter_p99, Beside};
use super::{Measured, Part};
use crate::verdict::{missed, Must, Verdict};

/// How far the p99 may be above that of the run without load.
const RT_RATIO: f64 = 1.05;
const FAIR_RATIO: f64 = 1.5;
/// The paper's 1719 ms -> 235 ms (tek-2020, V-C).
const SPEED_UP: f64 = 7.3;
/// The paper's worst stall (tek-2020, V-C), in ms.
const STALL_MS: f64 = 1487.0;
/// How far the floor may be from what is configured, in points.
const FLOOR_POINTS: f64 = 3.0;
/// The p99 of a switch through tekd under load, in us.
const SWITCH_US: f64 = 200.0;
const RESIDENT_MB: f64 = 10.0;
/// The least number of rounds for trustworthy medians.
const MIN_ROUNDS: usize = 9;
const MIN_EVENTS: usize = 200;
const MIN_KILLS: usize = 1000;
const MIN_REST_S: u64 = 10;

/// Judges these parts.
pub fn judge(measured: &Measured, parts: &[Part]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for part in parts {
        verdicts.extend(match part {
            Part::Response => response(measured),
            Part::Floor => floor_of_fair(measured),
            Part::Switches => switches(measured),
            Part::Rest => rest(measured),
            Part::Faults => faults(measured),
        });
    }
    verdicts
}

fn verdict(
    what: &'static str,
    paper: &'static str,
    must: Must,
    unit: &'static str,
    value: Option<f64>,
) -> Verdict {
    Verdict { what, paper, must, unit, value }
}

fn response(measured: &Measured) -> Vec<Verdict> {
    let Some(session) = &measured.response else { return Vec::new() };
    let summaries = summarize(session);
    let ratio = |what, load: Load, variant, most| {
        let value = p99_ratio(&summaries, Setup::under(load, variant));
        verdict(what, "-", Must::BeAtMost(most), "times alone", value)
    };
    let speed_up = |what, load: Load| {
        let mean = |variant| Some(summaries.get(&Setup::under(load, variant))?.response_ms.mean);
        let value = mean(Variant::Groups).zip(mean(Variant::Rt)).map(|(groups, rt)| groups / rt);
        verdict(what, "7.3 (1719 -> 235 ms)", Must::BeAtLeast(SPEED_UP), "times", value)
    };
    let rt_stall = summaries.get(&Setup::under(TWENTY, Variant::Rt)).and_then(|it| it.stall_ms);
    vec![
        ratio("p99 of a round, rt, 20 hogs", TWENTY, Variant::Rt, RT_RATIO),
        ratio("p99 of a round, rt, 200 hogs", TWO_HUNDRED, Variant::Rt, RT_RATIO),
        ratio("p99 of a round, fair, 20 hogs", TWENTY, Variant::Fair, FAIR_RATIO),
        ratio("p99 of a round, fair, 200 hogs", TWO_HUNDRED, Variant::Fair, FAIR_RATIO),
        speed_up("groups only mean / rt mean, 20 hogs", TWENTY),
        speed_up("groups only mean / rt mean, 200 hogs", TWO_HUNDRED),
        verdict("longest stall, rt, 20 hogs", "1487 ms", Must::BeAtMost(STALL_MS), "ms", rt_stall),
    ]
}

fn floor_of_fair(measured: &Measured) -> Vec<Verdict> {
    let fair = measured.floor.iter().find(|it| it.backend == "fair");
    let points = fair.and_then(floor::Measured::worst_difference);
    let what = "floor of others under fair, farthest from 5%";
    vec![verdict(what, "-", Must::BeAtMost(FLOOR_POINTS), "points", points)]
}

fn switches(measured: &Measured) -> Vec<Verdict> {
    let p99 = |what, way| {
        let value = enter_p99(&measured.switches, way, Beside::Hogs(20));
        verdict(what, "-", Must::BeAtMost(SWITCH_US), "us", value)
    };
    vec![
        p99("p99 of becoming critical by tekd, rt, 20 hogs", "rt"),
        p99("p99 of becoming critical by tekd, fair, 20 hogs", "fair"),
    ]
}

fn rest(measured: &Measured) -> Vec<Verdict> {
    let rest = measured.rest.as_ref();
    let wake_ups = rest.map(|it| it.wake_ups as f64);
    let resident = rest.map(|it| it.resident_mb);
    vec![
        verdict("wake-ups of tekd at rest", "-", Must::BeAtMost(0.0), "wake-ups", wake_ups),
        verdict("resident memory of tekd", "-", Must::BeAtMost(RESIDENT_MB), "MB", resident),
    ]
}

fn faults(measured: &Measured) -> Vec<Verdict> {
    let differences = measured.faults.as_ref().map(|it| it.differences as f64);
    let what = "differences after kills and restores";
    vec![verdict(what, "-", Must::BeAtMost(0.0), "differences", differences)]
}

/// The bars of `--assert` that were not met, a reason each; empty: all were met.
pub fn failures(verdicts: &[Verdict], measured: &Measured, parts: &[Part]) -> Vec<String> {
    let mut failures = missed(verdicts);
    if verdicts.is_empty() {
        failures.push("nothing that is judged was to run".to_owned());
    }
    for part in parts {
        failures.extend(match part {
            Part::Response => too_few_events(measured),
            Part::Faults => {
                let kills = measured.faults.as_ref().map_or(0, |it| it.kills);
                (kills < MIN_KILLS)
                    .then(|| format!("the bars ask for {MIN_KILLS} kills; this run had {kills}"))
            }
            Part::Rest => {
                let seconds = measured.rest.as_ref().map_or(0, |it| it.seconds);
                let few =
                    format!("the bars ask for {MIN_REST_S} s of rest; this run had {seconds}");
                (seconds < MIN_REST_S).then_some(few)
            }
            Part::Floor | Part::Switches => None,
        });
    }
    failures
}

fn too_few_events(measured: &Measured) -> Option<String> {
    let summaries = measured.response.as_ref().map(summarize).unwrap_or_default();
    let judged = |setup: &Setup| {
        setup.load.is_none_or(|load| !load.own_sessions && setup.variant.backend().is_some())
    };
    let judged = || summaries.iter().filter(|(setup, _)| judged(setup)).map(|(_, it)| it);
    let rounds = judged().map(|it| it.round_p99_ms.len()).min().unwrap_or(0);
    let events = judged().map(|it| it.response_ms.n).min().unwrap_or(0);
    (rounds < MIN_ROUNDS || events < MIN_EVENTS).then(|| {
        format!(
            "the bars ask for {MIN_ROUNDS} rounds and {MIN_EVENTS} events of each that is judged; \
             this run had {rounds} and {events}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Backend;
    use crate::device::{faults, fixture, rest, switches};

    /// A measurement that meets every bar.
    fn measured() -> Measured {
        let mut session = fixture::session();
        for load in [TWENTY, TWO_HUNDRED] {
            let like_rt = fixture::session().runs.remove(&Setup::under(load, Variant::Rt)).unwrap();
            session.runs.insert(Setup::under(load, Variant::Fair), like_rt);
        }
        Measured {
            response: Some(session),
            floor: vec![floor::tests::measured(Backend::Fair, [2.1, 7.9])],
            switches: ["rt", "fair"]
                .map(|way| switches::tests::measured(way, Beside::Hogs(20), 200.0))
                .into(),
            rest: Some(rest::Measured { seconds: 10, wake_ups: 0, cpu_us: 0.0, resident_mb: 10.0 }),
            faults: Some(faults::Measured { kills: 1000, ..Default::default() }),
        }
    }

    fn failures_of(measured: &Measured) -> Vec<String> {
        failures(&judge(measured, &Part::ALL), measured, &Part::ALL)
    }

    #[test]
    fn values_at_their_limits_pass() {
        assert_eq!(failures_of(&measured()), Vec::<String>::new());
    }

    #[test]
    fn one_difference_one_wake_up_and_one_slow_round_more_than_half_fall_short() {
        let mut measured = measured();
        measured.faults.as_mut().unwrap().differences = 1;
        measured.rest.as_mut().unwrap().wake_ups = 1;
        let session = measured.response.as_mut().unwrap();
        let runs = session.runs.get_mut(&Setup::under(TWENTY, Variant::Rt)).unwrap();
        for run in &mut runs[..5] {
            run.appliance.responses_ns[0] = 30_000_000;
        }
        let failures = failures_of(&measured);
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(
            failures[0].starts_with("p99 of a round, rt, 20 hogs is 1.50 times"),
            "{failures:?}"
        );
    }

    #[test]
    fn what_was_not_measured_does_not_pass_unless_it_was_not_to_be() {
        let nothing = Measured::default();
        assert!(failures_of(&nothing).len() > 8);
        let only = [Part::Faults];
        let measured = Measured { faults: measured().faults, ..nothing };
        assert!(failures(&judge(&measured, &only), &measured, &only).is_empty());
    }

    #[test]
    fn a_short_run_is_reported_as_short() {
        let mut measured = measured();
        measured.faults.as_mut().unwrap().kills = 50;
        for runs in measured.response.as_mut().unwrap().runs.values_mut() {
            runs.truncate(2);
        }
        let failures = failures_of(&measured);
        assert!(failures[0].contains("this run had 2 and 50"), "{failures:?}");
        assert!(failures[1].contains("1000 kills; this run had 50"), "{failures:?}");
    }
}
