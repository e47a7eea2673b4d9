// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds.toml judges of `tek bench manycore`.

use super::programs::with_barrier;
use super::setting::{Setting, GLIBC};
use super::{Measured, Part};
use crate::verdict::Quantities;
use clap::ValueEnum;
use tek_command::values::kind::name_of;
use tek_command::values::lock::Lock;

/// The locks with which others are compared.
const PEERS: [&str; 4] = ["ck-fas", "ck-ticket-pb", "ck-mcs", "pthread_mutex"];

impl Measured {
    /// By their names in bounds.toml.
    pub fn quantities(&self) -> Quantities {
        let own = Setting::default();
        let gain = |threads, kind: &str| {
            self.programs.ratio(Part::Streamcluster, threads, &own, &with_barrier(kind))
        };
        let mut all = Quantities::from([
            ("uncontended", self.worst_uncontended()),
            ("mimalloc", self.micro.ratio(Part::Alloc, "2", "mimalloc", GLIBC)),
            ("block", gain(2, "block")),
            ("auto", gain(8, "auto")),
            ("dedup", self.overhead.ratio(Part::Dedup)),
            ("swaptions", self.overhead.ratio(Part::Swaptions)),
            ("rounds of streamcluster", Some(self.programs.rounds() as f64)),
            ("rounds of profile", Some(self.overhead.rounds() as f64)),
        ]);
        all.extend([Part::Spin, Part::Uncontended, Part::Alloc].map(|part| {
            (format!("rounds of {}", part.name()), Some(self.micro.rounds(part) as f64))
        }));
        for it in self.micro.points.iter().filter(|it| it.part == Part::Spin) {
            let (lock, at) = (&it.variant, &it.at);
            let best = self.micro.by_best(Part::Spin, at, lock);
            all.extend([(format!("{lock} / best, {at}"), best)]);
            all.extend(PEERS.map(|peer| {
                let ratio = self.micro.ratio(Part::Spin, at, lock, peer);
                (format!("{lock} / {peer}, {at}"), ratio)
            }));
        }
        all
    }

    /// That of the worst kind; unknown if a kind could not be measured, because that may be it.
    fn worst_uncontended(&self) -> Option<f64> {
        let ratios = Lock::value_variants()
            .iter()
            .map(|&kind| self.micro.ratio(Part::Uncontended, "2", &name_of(kind), GLIBC));
        ratios.reduce(|worst, it| Some(worst?.max(it?))).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{micro, overhead, programs};
    use super::*;

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let parts = [
            Part::Spin,
            Part::Uncontended,
            Part::Alloc,
            Part::Streamcluster,
            Part::Dedup,
            Part::Profile,
        ];
        let failures = Measured::default().judge(&parts).failures();
        assert_eq!(failures.len(), (21 + 1 + 1 + 2 + 2) + 5);
        assert!(failures[..27].iter().all(|it| it.contains("not measured")), "{failures:?}");
        assert!(Measured::default().judge(&[Part::Math]).failures().is_empty());
    }

    #[test]
    fn of_uncontended_mutexes_the_worst_kind_is_judged_and_none_may_lack() {
        let mut all: Vec<(Part, String, f64)> = Lock::value_variants()
            .iter()
            .map(|&kind| (Part::Uncontended, name_of(kind), 90.0))
            .collect();
        all.push((Part::Uncontended, GLIBC.to_owned(), 100.0));
        let failures = |all: &[(Part, String, f64)]| {
            let five: Vec<_> =
                all.iter().map(|(part, kind, ns)| (*part, &kind[..], "2", *ns)).collect();
            let micro = micro::tests::measured(&five.repeat(5));
            Measured { micro, ..Measured::default() }.judge(&[Part::Uncontended]).failures()
        };
        assert_eq!(failures(&all[1..]).len(), 1);
        all[4].2 = 114.0;
        assert_eq!(failures(&all), [""; 0]);
        all[4].2 = 115.0;
        assert!(failures(&all)[0].contains("is 1.15 times"));
    }

    /// A measurement of all that is judged, at its limits.
    fn measured() -> Measured {
        let mut points =
            vec![(Part::Alloc, "mimalloc", "2", 15.0), (Part::Alloc, "glibc", "2", 10.0)];
        for at in ["1", "2", "4", "8", "32"] {
            points
                .extend(["ck-fas", "ck-ticket-pb", "ck-mcs"].map(|it| (Part::Spin, it, at, 10.5)));
            points.extend(["tas", "ticket-pb", "mcs"].map(|it| (Part::Spin, it, at, 10.0)));
            points.extend(["tp", "park", "futex", "pi"].map(|it| (Part::Spin, it, at, 5.0)));
            points.extend([(Part::Spin, "auto", at, 9.0), (Part::Spin, "pthread_mutex", at, 10.0)]);
        }
        let series = |setting, threads, ms| {
            programs::tests::series(Part::Streamcluster, setting, threads, &[ms; 5])
        };
        let own = Setting::default;
        let series = vec![
            series(own(), 2, 300.0),
            series(with_barrier("block"), 2, 100.0),
            series(own(), 8, 300.0),
            series(with_barrier("auto"), 8, 300.0),
        ];
        let profiled = [Part::Dedup, Part::Swaptions];
        Measured {
            micro: micro::tests::measured(&points.repeat(5)),
            programs: programs::Measured { series },
            overhead: overhead::tests::measured(&profiled, &[100.0; 40], &[101.0; 40]),
            ..Measured::default()
        }
    }

    const PARTS: [Part; 4] = [Part::Spin, Part::Alloc, Part::Streamcluster, Part::Profile];

    #[test]
    fn values_at_their_limits_pass() {
        let judged = measured().judge(&PARTS);
        assert_eq!(judged.failures(), [""; 0]);
        assert_eq!(judged.rows().count(), 21 + 1 + 2 + 2);
    }

    #[test]
    fn a_slow_lock_a_slow_barrier_and_a_short_run_fall_short() {
        let mut measured = measured();
        for point in measured.micro.points.iter_mut().filter(|it| it.variant == "auto") {
            point.values.fill(8.9);
        }
        measured.programs.series[3].runs.truncate(4);
        let failures = measured.judge(&PARTS).failures();
        assert_eq!(failures.len(), 5 + 2, "{failures:?}");
        assert!(failures[..5].iter().all(|it| it.starts_with("auto by the best lock")));
        assert!(failures[6].contains("5 rounds of streamcluster; this run had 4"), "{failures:?}");
    }
}
