// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds.toml judges of `tek bench kthread`.

use super::equations::{extra_loss, to_kernel_threads};
use super::files;
use super::overhead::With;
use super::session::Session;
use super::summary::sum;
use super::variant::Variant;
use super::Measured;
use crate::verdict::Quantities;

impl Measured {
    /// By their names in bounds.toml.
    pub fn quantities(&self) -> Quantities {
        let (reaction, faults) = (self.reaction.as_ref(), self.faults.as_ref());
        let worst = |with| self.overhead.as_ref()?.worst(with).map(|(percent, _)| percent);
        let mut all = Quantities::from([
            ("reaction", reaction.map(|it| it.reaction.p99 / it.limit.p99)),
            ("tekd", reaction.map(|it| it.tekd_percent)),
            ("slowest", worst(With::On)),
            ("slowest, critical", worst(With::Critical)),
            ("differences", faults.map(|it| it.differences as f64)),
            ("kills", faults.map(|it| it.kills as f64)),
        ]);
        for session in &self.sessions {
            all.extend([(format!("rounds of {}", session.part), Some(rounds(session)))]);
            match session.part {
                "files" => files(&mut all, session),
                "equations" => equations(&mut all, session),
                _ => responses(&mut all, session),
            }
        }
        all
    }
}

/// The least number of rounds of all that is judged.
fn rounds(session: &Session) -> f64 {
    let runs = session.cases.iter().filter(|case| case.judged).flat_map(|case| &case.runs);
    runs.map(|(_, runs)| runs.len()).min().unwrap_or(0) as f64
}

/// Of the case that is judged.
fn responses(all: &mut Quantities, session: &Session) {
    let case = session.cases.iter().find(|case| case.judged);
    for (name, variant) in [("TEK", Variant::Tek), ("as it is", Variant::AsItIs)] {
        let summed = case.and_then(|case| sum(case, variant));
        all.extend([
            (format!("{}: {name} p99", session.part), summed.as_ref().and_then(|it| it.p99_ratio)),
            (format!("{}: {name} max", session.part), summed.and_then(|it| it.max_ratio)),
        ]);
    }
}

/// The worst of all operations.
fn files(all: &mut Quantities, session: &Session) {
    let ratio = session.cases.iter().filter_map(|case| files::p99_ratio(case, Variant::Tek));
    let late = |variant| {
        let all = session.cases.iter().filter_map(|case| files::late(case, variant));
        all.reduce(|sum, it| (sum.0 + it.0, sum.1 + it.1))
    };
    let percent = |(late, all): (usize, usize)| 100.0 * late as f64 / all.max(1) as f64;
    all.extend([
        ("files: TEK p99", ratio.reduce(f64::max)),
        ("files: TEK late", late(Variant::Tek).map(|(late, _)| late as f64)),
        ("files: as it is late", late(Variant::AsItIs).map(percent)),
    ]);
}

fn equations(all: &mut Quantities, session: &Session) {
    let case = |number: usize| session.cases.get(number);
    let beyond = |case, variant| extra_loss(case, variant).map(|(lost, used)| lost - used);
    let lost = |variant| to_kernel_threads(case(1)?, variant);
    let spared = lost(Variant::Plain).zip(lost(Variant::Tek)).map(|(plain, tek)| plain - tek);
    all.extend([
        ("third task", case(0).and_then(|case| beyond(case, Variant::Tek))),
        ("spared", spared),
    ]);
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::{case, runs};
    use super::super::{equations, faults, overhead, reaction, Part};
    use super::*;
    use crate::verdict::{judge, Verdicts};
    use clap::ValueEnum;
    use tek_command::values::kind::name_of;

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
            *runs = vec![runs[0].clone(); 5];
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
        let limit = reaction::Reaction { p50: 9e3, p99: 1e5, max: 2e5, n: 900 };
        let reaction = reaction::Reaction { p99: 1.58e5, ..limit };
        Measured {
            sessions,
            reaction: Some(reaction::Measured { reaction, limit, tekd_percent: 1.0 }),
            overhead: Some(overhead::tests::measured(0.01)),
            faults: Some(faults::Measured { kills: 200, ..faults::Measured::default() }),
        }
    }

    fn judged(measured: &Measured) -> Verdicts {
        let parts = Part::value_variants().iter().map(|&part| name_of(part));
        judge("kthread", parts, &measured.quantities())
    }

    #[test]
    fn values_at_their_limits_pass() {
        let judged = judged(&measured());
        assert_eq!(judged.failures(), [""; 0]);
        assert_eq!(judged.rows().count(), 19);
    }

    #[test]
    fn a_kernel_without_the_problem_and_one_thread_left_boosted_fall_short() {
        let mut measured = measured();
        measured.faults.as_mut().unwrap().differences = 1;
        let good = [runs(3, 5), runs(3, 5)].concat();
        measured.sessions[0].cases[0].runs.insert(Variant::AsItIs, good);
        let failures = judged(&measured).failures();
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(
            failures[0].starts_with("pdflush: as it is max of a round / alone is 1.25"),
            "{failures:?}"
        );
    }

    #[test]
    fn a_late_answer_and_a_slow_reaction_fall_short() {
        let mut measured = measured();
        measured.reaction.as_mut().unwrap().limit.p99 = 0.99e5;
        let files = &mut measured.sessions[4].cases[0];
        files.runs.get_mut(&Variant::Tek).unwrap()[0].periods[0].1 = 21_000_000;
        let failures = judged(&measured).failures();
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures[0].contains("answers over 20 ms is 1"), "{failures:?}");
        assert!(failures[1].starts_with("event to changed priority"), "{failures:?}");
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let failures = judged(&Measured::default()).failures();
        assert_eq!(failures.iter().filter(|it| it.contains("not measured")).count(), 19);
    }

    #[test]
    fn a_short_run_is_reported_as_one() {
        let mut measured = measured();
        measured.faults.as_mut().unwrap().kills = 20;
        measured.sessions[0].cases[0].runs.get_mut(&Variant::Tek).unwrap().truncate(1);
        let failures = judged(&measured).failures();
        assert!(failures[0].contains("ask for 5 rounds of pdflush; this run had 1"));
        assert!(failures[1].contains("200 kills; this run had 20"), "{failures:?}");
    }
}
