// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bars for locks, barriers and allocators, and whether they were met.

use super::programs::with_barrier;
use super::setting::{Setting, GLIBC};
use super::{Measured, Part};
use crate::verdict::{missed, Must, Verdict};
use clap::ValueEnum;
use tek_command::values::lock::{name_of, Lock};

/// The least number of rounds for a trustworthy median.
const MIN_ROUNDS: usize = 5;

/// The numbers of threads at which `auto` is compared; the other locks are at some of them.
pub const AUTO_AT: [(usize, &str); 5] = [
    (1, "auto by the best lock, 1 thread"),
    (2, "auto by the best lock, 2 threads"),
    (4, "auto by the best lock, 4 threads"),
    (8, "auto by the best lock, 8 threads"),
    (32, "auto by the best lock, 32 threads"),
];

/// Ours by Concurrency Kit's.
const BESIDE_CK: [(&str, &str, &str, &str); 6] = [
    ("tas", "ck-fas", "1", "TAS by Concurrency Kit's, 1 thread"),
    ("tas", "ck-fas", "2", "TAS by Concurrency Kit's, 2 threads"),
    ("ticket-pb", "ck-ticket-pb", "1", "ticket by Concurrency Kit's, 1 thread"),
    ("ticket-pb", "ck-ticket-pb", "2", "ticket by Concurrency Kit's, 2 threads"),
    ("mcs", "ck-mcs", "1", "MCS by Concurrency Kit's, 1 thread"),
    ("mcs", "ck-mcs", "2", "MCS by Concurrency Kit's, 2 threads"),
];

/// With more threads than CPUs.
const BESIDE_MUTEX: [(&str, &str, &str); 10] = [
    ("tp", "8", "tp by pthread_mutex, 8 threads"),
    ("tp", "32", "tp by pthread_mutex, 32 threads"),
    ("park", "8", "park by pthread_mutex, 8 threads"),
    ("park", "32", "park by pthread_mutex, 32 threads"),
    ("futex", "8", "futex by pthread_mutex, 8 threads"),
    ("futex", "32", "futex by pthread_mutex, 32 threads"),
    ("pi", "8", "pi by pthread_mutex, 8 threads"),
    ("pi", "32", "pi by pthread_mutex, 32 threads"),
    ("auto", "8", "auto by pthread_mutex, 8 threads"),
    ("auto", "32", "auto by pthread_mutex, 32 threads"),
];

/// The most that `tek run --lock` may add to an uncontended mutex, in ns.
const UNCONTENDED_MORE: f64 = 2.0;

/// The most CPU time of a profiled program, as a multiple of the plain one's.
const PROFILED: [(Part, f64, &str); 2] = [
    (Part::Dedup, 1.05, "dedup under tek profile, CPU time"),
    (Part::Swaptions, 1.01, "swaptions under tek profile, CPU time"),
];

/// Judges these parts.
pub fn judge(measured: &Measured, parts: &[Part]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for part in parts {
        match part {
            Part::Spin => verdicts.extend(spin(measured)),
            Part::Uncontended => verdicts.push(uncontended(measured)),
            Part::Alloc => verdicts.push(at_least(
                "mimalloc by glibc, 2 threads",
                1.5,
                "2",
                measured.micro.ratio(Part::Alloc, "2", "mimalloc", "glibc"),
            )),
            Part::Streamcluster => verdicts.extend(streamcluster(measured)),
            Part::Profile => verdicts.extend(PROFILED.map(|(program, limit, what)| {
                let must = Must::BeAtMost(limit);
                let value = measured.overhead.ratio(program);
                Verdict { what, paper: "-", must, unit: "times", value }
            })),
            _ => {} // nothing is asked of it
        }
    }
    verdicts
}

fn at_least(what: &'static str, limit: f64, paper: &'static str, value: Option<f64>) -> Verdict {
    Verdict { what, paper, must: Must::BeAtLeast(limit), unit: "times", value }
}

fn spin(measured: &Measured) -> Vec<Verdict> {
    let ratio = |at, one, other| measured.micro.ratio(Part::Spin, at, one, other);
    let mut verdicts = Vec::new();
    for (ours, theirs, at, what) in BESIDE_CK {
        verdicts.push(at_least(what, 0.95, "-", ratio(at, ours, theirs)));
    }
    for (at, what) in AUTO_AT {
        let value = measured.micro.by_best(Part::Spin, &at.to_string(), "auto");
        verdicts.push(at_least(what, 0.9, "-", value));
    }
    for (ours, at, what) in BESIDE_MUTEX {
        verdicts.push(at_least(what, 0.5, "-", ratio(at, ours, "pthread_mutex")));
    }
    verdicts
}

/// The difference of the worst kind; unknown if a kind could not be measured, because that may be
/// it.
fn uncontended(measured: &Measured) -> Verdict {
    let more = Lock::value_variants()
        .iter()
        .map(|&kind| measured.micro.difference(Part::Uncontended, "2", &name_of(kind), GLIBC));
    let worst = more.reduce(|worst, it| Some(worst?.max(it?)));
    Verdict {
        what: "uncontended mutex, the worst --lock less glibc",
        paper: "-",
        must: Must::BeAtMost(UNCONTENDED_MORE),
        unit: "ns",
        value: worst.flatten(),
    }
}

fn streamcluster(measured: &Measured) -> Vec<Verdict> {
    let own = Setting::default();
    let gain = |threads, kind: &str| {
        let programs = &measured.programs;
        programs.ratio(Part::Streamcluster, threads, &own, &with_barrier(kind))
    };
    vec![
        at_least("streamcluster: own barrier by block, 2 threads", 3.0, "-", gain(2, "block")),
        at_least("streamcluster: own barrier by auto, 8 threads", 1.0, "-", gain(8, "auto")),
    ]
}

/// The bars of `--assert` that were not met, a reason each; empty: all were met.
pub fn failures(verdicts: &[Verdict], measured: &Measured, parts: &[Part]) -> Vec<String> {
    let mut failures = missed(verdicts);
    for &part in parts {
        let rounds = match part {
            Part::Spin | Part::Uncontended | Part::Alloc => measured.micro.rounds(part),
            Part::Streamcluster => measured.programs.rounds(),
            Part::Profile => measured.overhead.rounds(),
            _ => continue,
        };
        if rounds < MIN_ROUNDS {
            let name = part.name();
            failures.push(format!(
                "the bars ask for {MIN_ROUNDS} rounds of {name}; this run had {rounds}"
            ));
        }
    }
    failures
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
        let judged = judge(&Measured::default(), &parts);
        assert_eq!(judged.len(), 21 + 1 + 1 + 2 + 2);
        assert!(judged.iter().all(|it| !it.met()));
        assert_eq!(failures(&judged, &Measured::default(), &parts).len(), 27 + 5);
        assert!(judge(&Measured::default(), &[Part::Math]).is_empty());
    }

    #[test]
    fn of_uncontended_mutexes_the_worst_kind_is_judged_and_none_may_lack() {
        let mut all: Vec<(Part, String, f64)> = Lock::value_variants()
            .iter()
            .map(|&kind| (Part::Uncontended, name_of(kind), 7.0))
            .collect();
        all.push((Part::Uncontended, GLIBC.to_owned(), 8.0));
        let judged = |all: &[(Part, String, f64)]| {
            let all: Vec<_> =
                all.iter().map(|(part, kind, ns)| (*part, &kind[..], "2", *ns)).collect();
            let micro = micro::tests::measured(&all);
            uncontended(&Measured { micro, ..Measured::default() })
        };
        assert!(!judged(&all[1..]).met());
        all[4].2 = 10.0;
        assert!(judged(&all).met());
        all[4].2 = 10.5;
        assert_eq!(judged(&all).value, Some(2.5));
        assert!(!judged(&all).met());
    }

    #[test]
    fn a_value_at_its_limit_passes() {
        let all = [
            (Part::Alloc, "mimalloc", "2", 15.0),
            (Part::Alloc, "glibc", "2", 10.0),
            (Part::Spin, "auto", "1", 9.0),
            (Part::Spin, "tas", "1", 10.0),
            (Part::Spin, "ck-fas", "1", 10.5),
        ];
        let own = Setting::default();
        let measured = Measured {
            micro: micro::tests::measured(&all),
            programs: programs::Measured {
                series: vec![
                    programs::tests::series(Part::Streamcluster, own, 2, &[300.0]),
                    programs::tests::series(
                        Part::Streamcluster,
                        with_barrier("block"),
                        2,
                        &[100.0],
                    ),
                ],
            },
            overhead: overhead::tests::measured(Part::Swaptions, &[100.0], &[101.0]),
            ..Measured::default()
        };
        let judged =
            judge(&measured, &[Part::Spin, Part::Alloc, Part::Streamcluster, Part::Profile]);
        let met: Vec<_> = judged.iter().filter(|it| it.met()).map(|it| it.what).collect();
        assert_eq!(
            met,
            [
                "TAS by Concurrency Kit's, 1 thread",
                "auto by the best lock, 1 thread",
                "mimalloc by glibc, 2 threads",
                "streamcluster: own barrier by block, 2 threads",
                "swaptions under tek profile, CPU time"
            ]
        );
    }
}
