// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds.toml judges of `tek bench device`.

use super::setup::{Load, Setup, Variant, TWENTY, TWO_HUNDRED};
use super::summary::{p99_ratio, summarize, Summaries, Summed};
use super::switches::{enter, Beside};
use super::{floor, Measured};
use crate::verdict::Quantities;

impl Measured {
    /// By their names in bounds.toml.
    pub fn quantities(&self) -> Quantities {
        let (rest, faults) = (self.rest.as_ref(), self.faults.as_ref());
        let fair = self.floor.iter().find(|it| it.backend == "fair");
        let mut all = Quantities::from([
            ("floor", fair.and_then(floor::Measured::worst_difference)),
            ("wake-ups", rest.map(|it| it.wake_ups as f64)),
            ("resident", rest.map(|it| it.resident_mb)),
            ("s of rest", rest.map(|it| it.seconds as f64)),
            ("differences", faults.map(|it| it.differences as f64)),
            ("kills", faults.map(|it| it.kills as f64)),
        ]);
        let entered = |way, beside| enter(&self.switches, way, beside);
        let usual = entered("rt", Beside::Idle(20)).map(|it| it.p50);
        all.extend(["rt", "fair"].map(|way| {
            let loaded = entered(way, Beside::Hogs(20)).map(|it| it.p99);
            let ratio = loaded.zip(usual).map(|(loaded, usual)| loaded / usual);
            (format!("switch, {way}"), ratio)
        }));
        response(&mut all, &self.response.as_ref().map(summarize).unwrap_or_default());
        all
    }
}

fn response(all: &mut Quantities, summaries: &Summaries) {
    let of = |load, variant| summaries.get(&Setup::under(load, variant));
    for load @ Load { hogs, .. } in [TWENTY, TWO_HUNDRED] {
        all.extend([Variant::Rt, Variant::Fair].map(|variant| {
            let ratio = p99_ratio(summaries, Setup::under(load, variant));
            (format!("p99, {}, {hogs} hogs", variant.name()), ratio)
        }));
        let mean = |variant| Some(of(load, variant)?.response_ms.mean);
        let ratio = mean(Variant::Groups).zip(mean(Variant::Rt)).map(|(groups, rt)| groups / rt);
        all.extend([(format!("mean, {hogs} hogs"), ratio)]);
    }
    let stall = of(TWENTY, Variant::Rt).and_then(|it| it.stall_ms);
    let alone = summaries.get(&Setup::ALONE).map(|it| it.response_ms.mean);
    let judged = |setup: &Setup| {
        setup.load.is_none_or(|load| !load.own_sessions && setup.variant.backend().is_some())
    };
    let least = |number: fn(&Summed) -> usize| {
        let judged = summaries.iter().filter(|(setup, _)| judged(setup));
        judged.map(|(_, it)| number(it) as f64).reduce(f64::min)
    };
    all.extend([
        ("stall", stall.zip(alone).map(|(stall, alone)| stall / alone)),
        ("rounds", least(|it| it.round_p99_ms.len())),
        ("events of each that is judged", least(|it| it.response_ms.n)),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Backend;
    use crate::device::{faults, fixture, rest, switches, Part};
    use crate::verdict::judge;
    use clap::ValueEnum;
    use tek_command::values::kind::name_of;

    /// A measurement that meets every bar.
    fn measured() -> Measured {
        let mut session = fixture::session();
        for load in [TWENTY, TWO_HUNDRED] {
            let like_rt = fixture::session().runs.remove(&Setup::under(load, Variant::Rt)).unwrap();
            session.runs.insert(Setup::under(load, Variant::Fair), like_rt);
        }
        let mut switches: Vec<_> = ["rt", "fair"]
            .map(|way| switches::tests::measured(way, Beside::Hogs(20), 118.0))
            .into();
        let mut idle = switches::tests::measured("rt", Beside::Idle(20), 276.0);
        idle.enter.p50 = 100.0;
        switches.push(idle);
        Measured {
            response: Some(session),
            floor: vec![floor::tests::measured(Backend::Fair, [2.1, 7.9])],
            switches,
            rest: Some(rest::Measured { seconds: 10, wake_ups: 0, cpu_us: 0.0, resident_mb: 10.0 }),
            faults: Some(faults::Measured { kills: 1000, ..Default::default() }),
        }
    }

    fn failures(measured: &Measured) -> Vec<String> {
        let parts = Part::value_variants().iter().map(|&part| name_of(part));
        judge("device", parts, &measured.quantities()).failures()
    }

    #[test]
    fn values_at_their_limits_pass() {
        assert_eq!(failures(&measured()), [""; 0]);
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
        let failures = failures(&measured);
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(failures[0].contains("rt, 20 hogs is 1.50 times"), "{failures:?}");
    }

    #[test]
    fn a_slow_switch_and_a_long_stall_fall_short() {
        let mut measured = measured();
        measured.switches[1].enter.p99 = 118.5;
        let session = measured.response.as_mut().unwrap();
        let runs = session.runs.get_mut(&Setup::under(TWENTY, Variant::Rt)).unwrap();
        runs[3].load.hogs[0].stall_ns = 1_301_000_000; // alone takes 20 ms
        let failures = failures(&measured);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures[0].contains("stall") && failures[1].contains("tekd, fair"));
    }

    #[test]
    fn what_was_not_measured_does_not_pass_unless_it_was_not_to_be() {
        let nothing = Measured::default();
        assert!(failures(&nothing).len() > 8);
        let measured = Measured { faults: measured().faults, ..nothing };
        assert_eq!(judge("device", ["faults"], &measured.quantities()).failures(), [""; 0]);
    }

    #[test]
    fn a_short_run_is_reported_as_one() {
        let mut measured = measured();
        measured.faults.as_mut().unwrap().kills = 50;
        for runs in measured.response.as_mut().unwrap().runs.values_mut() {
            runs.truncate(2);
        }
        let failures = failures(&measured);
        assert!(failures[0].contains("this run had 2 and 50"), "{failures:?}");
        assert!(failures[1].contains("1000 kills; this run had 50"), "{failures:?}");
    }
}
