// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds.toml judges of `tek bench uthread`.

use super::cell::Program;
use super::micro::{self, On, COND, CREATE, MUTEX, YIELD};
use super::million::Kind;
use super::Measured;
use crate::verdict::Quantities;

impl Measured {
    /// By their names in bounds.toml.
    pub fn quantities(&self) -> Quantities {
        let (preemption, fairness) = (self.preemption.as_ref(), self.fairness.as_ref());
        let kb = |kind| self.million.as_ref()?.kb(kind);
        let mut all = Quantities::from([
            ("failed", self.programs.as_ref().map(|_| self.failed.len() as f64)),
            ("rounds of preemption", preemption.map(|it| it.rounds() as f64)),
            ("preemption, 1 ms", preemption.and_then(|it| it.points(1000))),
            ("preemption, 200 us", preemption.and_then(|it| it.points(200))),
            ("live threads", self.million.as_ref().map(|it| it.wanted as f64)),
            ("parked", kb(Kind::Parked)),
            ("preempted", kb(Kind::Preempted)),
            ("rounds of fairness", fairness.map(|it| it.rounds() as f64)),
            ("share", fairness.and_then(|it| it.share_percent())),
            ("wake", fairness.and_then(|it| it.wake_quanta())),
            ("turnaround", fairness.and_then(|it| it.turnaround_ratio())),
            ("violations", fairness.and_then(|it| it.violations())),
        ]);
        if let Some(programs) = &self.programs {
            // The paper's ratios, at 5 and 10 threads.
            all.extend(Program::ALL.map(|it| (it.name(), programs.worst_ratio(it))));
            all.extend([("rounds of programs", Some(programs.judged_rounds() as f64))]);
        }
        self.micro.iter().for_each(|it| calls(&mut all, it));
        all
    }
}

fn calls(all: &mut Quantities, it: &micro::Measured) {
    all.extend([
        ("rounds of calls", Some(it.rounds() as f64)),
        ("switch", it.by_system_call(On::Contexts, micro::SWITCH)),
        ("switch, Boost", it.switch_ratio()),
        ("yield", it.by_system_call(On::Native, YIELD)),
        ("create", it.ratio(CREATE, On::Native, On::Glibc)),
        ("mutex", it.by_system_call(On::Native, MUTEX)),
        ("mutex, 2 workers", it.ratio(MUTEX, On::NativeMany, On::Glibc)),
        ("cond", it.ratio(COND, On::Native, On::StateThreads)),
        ("preloaded: yield", it.by_system_call(On::Preloaded, YIELD)),
        ("preloaded: create", it.ratio(CREATE, On::Preloaded, On::Glibc)),
    ]);
}

#[cfg(test)]
mod tests {
    use super::super::{fairness, million, preemption, programs};
    use super::*;
    use crate::json::NotRun;
    use crate::verdict::{judge, Verdicts};

    const ALL: [&str; 4] = ["programs", "micro", "million", "fairness"];
    const ROUNDS: usize = 9;

    /// A measurement that meets every bar.
    fn measured() -> Measured {
        let mut calls = micro::Measured::default();
        let mut set = |on, call, ns| calls.set(on, call, ns, ROUNDS);
        set(On::Contexts, micro::SYSTEM_CALL, 1000.0);
        set(On::Contexts, micro::SWITCH, 18.9);
        set(On::Contexts, micro::SWITCH_BOOST, 18.9);
        set(On::Native, YIELD, 94.0);
        set(On::Native, CREATE, 31.0);
        set(On::Native, MUTEX, 44.3);
        set(On::Native, COND, 14.0);
        set(On::StateThreads, COND, 14.5);
        set(On::NativeMany, MUTEX, 11.0);
        set(On::Glibc, MUTEX, 11.0);
        set(On::Glibc, YIELD, 500.0);
        set(On::Glibc, CREATE, 10_000.0);
        set(On::Preloaded, YIELD, 253.0);
        set(On::Preloaded, CREATE, 132.0);
        Measured {
            programs: Some(programs::tests::measured(0.99, ROUNDS)),
            micro: Some(calls),
            preemption: Some(preemption::tests::measured(0.5, ROUNDS)),
            million: Some(million::tests::measured(6000.0, 10_000.0)),
            fairness: Some(fairness::tests::measured(ROUNDS)),
            scale: None,
            failed: Vec::new(),
        }
    }

    fn judged(measured: &Measured) -> Verdicts {
        judge("uthread", ALL, &measured.quantities())
    }

    #[test]
    fn a_value_at_its_limit_passes() {
        let judged = judged(&measured());
        assert_eq!(judged.failures(), [""; 0]);
        assert_eq!(judged.rows().count(), 25);
    }

    #[test]
    fn where_system_calls_are_faster_calls_have_to_be_faster_too() {
        let mut measured = measured();
        measured.micro.as_mut().unwrap().set(On::Contexts, micro::SYSTEM_CALL, 990.0, ROUNDS);
        let failures = judged(&measured).failures();
        assert_eq!(failures.len(), 4, "{failures:?}");
        assert!(failures.iter().all(|it| it.contains(" / a bare system call is")), "{failures:?}");
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let failures = judged(&Measured::default()).failures();
        assert_eq!(failures.iter().filter(|it| it.contains("not measured")).count(), 25);
        assert_eq!(failures.len(), 25 + ALL.len());
    }

    #[test]
    fn banking_must_be_faster_and_primes_must_not_be_much_slower() {
        let mut measured = measured();
        measured.programs = Some(programs::tests::measured(1.02, ROUNDS));
        let failures = judge("uthread", ["programs"], &measured.quantities()).failures();
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures[0].starts_with("vector") && failures[1].starts_with("banking"));
    }

    #[test]
    fn a_wrong_result_is_no_measurement() {
        let mut measured = measured();
        let failed = NotRun { variant: "banking".to_owned(), reason: "wrong".to_owned() };
        measured.failed.push(failed);
        assert_eq!(judge("uthread", ["programs"], &measured.quantities()).failures().len(), 1);
    }
}
