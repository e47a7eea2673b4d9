// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bars, and whether they were met: our numbers beside the paper's.

use super::births::Variant;
use super::Measured;
use crate::verdict::{missed, Must, Verdict};

/// A call of the program `calls`, the paper's time, and the longest that it may take, in ns.
const CALLS: [(&str, &str, f64); 8] = [
    ("get own", "46 ns", 5.0),
    ("get by tid, one", "46 ns", 15.0),
    ("get by tid, random", "46 ns", 15.0),
    ("set own group", "67 ns", 20.0),
    ("set own role", "67 ns", 20.0),
    ("set another's group", "67 ns", 20.0),
    ("tek_gettid", "-", 2.0),
    ("gettid", "-", 2.0),
];

/// /proc's time by the table's.
const SNAPSHOT_RATIO: f64 = 10.0;
/// `tek ps` of 2,000 threads, in ms.
const PS_MS: f64 = 50.0;
/// The most that a thread's creation and join may take longer, in ns.
const ADDED_NS: f64 = 250.0;
/// tek-2020, IV-C.
const BYTES: f64 = 40.0;
/// The least number of rounds for a trustworthy median.
const MIN_ROUNDS: usize = 11;

/// Judges everything that was measured.
pub fn judge(measured: &Measured) -> Vec<Verdict> {
    let calls = CALLS.map(|(what, paper, limit)| Verdict {
        what,
        paper,
        must: Must::BeAtMost(limit),
        unit: "ns",
        value: measured.calls.call_ns(what),
    });
    let added = [
        ("create and join, added by preloading", Variant::Preloaded),
        ("create and join, added by linking", Variant::Linked),
    ];
    let added = added.map(|(what, variant)| Verdict {
        what,
        paper: "-",
        must: Must::BeAtMost(ADDED_NS),
        unit: "ns",
        value: measured.births.added_ns(variant),
    });
    let snapshot = Verdict {
        what: "snapshot, /proc by the table",
        paper: "-",
        must: Must::BeAtLeast(SNAPSHOT_RATIO),
        unit: "times",
        value: measured.snapshot.ratio(),
    };
    let ps = Verdict {
        what: "tek ps of all threads",
        paper: "-",
        must: Must::BeAtMost(PS_MS),
        unit: "ms",
        value: measured.ps.usual_ms(),
    };
    let memory = Verdict {
        what: "memory of a thread's record",
        paper: "40 bytes",
        must: Must::BeAtMost(BYTES),
        unit: "bytes",
        value: Some(measured.memory.bytes_per_thread()),
    };
    calls.into_iter().chain([snapshot, ps]).chain(added).chain([memory]).collect()
}

/// The bars of `--assert` that were not met, a reason each; empty: all were met.
pub fn failures(verdicts: &[Verdict], measured: &Measured) -> Vec<String> {
    let mut failures = missed(verdicts);
    let rounds = measured.births.rounds();
    if rounds < MIN_ROUNDS {
        failures.push(format!(
            "the bars ask for {MIN_ROUNDS} rounds of creating threads; this run had {rounds}"
        ));
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::{births, calls, memory, ps, snapshot};
    use crate::verdict::rows;

    fn call(name: &str, ns: f64) -> calls::Call {
        calls::Call { name: name.to_owned(), ns: vec![ns; 3] }
    }

    /// A measurement that meets every bar: each call takes 1 ns.
    fn measured() -> Measured {
        let mut calls: Vec<_> = CALLS.map(|(name, _, _)| call(name, 1.25)).into();
        calls.push(call(calls::LOOP, 0.25));
        Measured {
            calls: calls::Measured { threads: 2000, calls },
            snapshot: snapshot::Measured {
                table_us: vec![100.0],
                proc_us: vec![1000.0],
                ..Default::default()
            },
            ps: ps::Measured { threads: 2000, ms: vec![20.0, 50.0, 90.0] },
            memory: memory::Measured {
                threads: 2000,
                slots: 2000,
                record_bytes: 80_000,
                side_bytes: 256_000,
                file_bytes: 400_000,
            },
            births: births::Measured::of([7000.0, 7010.0, 7250.0, 7250.0], MIN_ROUNDS),
            unpinned_births: births::Measured::default(),
        }
    }

    #[test]
    fn a_value_at_its_limit_passes() {
        let measured = measured();
        let judged = judge(&measured);
        assert_eq!(failures(&judged, &measured), Vec::<String>::new());
        assert_eq!(rows(&judged).len(), judged.len());
    }

    #[test]
    fn a_slow_call_is_named_with_its_limit() {
        let mut measured = measured();
        measured.calls.calls[0].ns = vec![5.5; 3];
        let failures = failures(&judge(&measured), &measured);
        assert_eq!(failures, ["get own is 5.25 ns, must be <= 5 ns"]);
    }

    #[test]
    fn a_slow_tek_ps_is_named_with_its_limit() {
        let mut measured = measured();
        measured.ps.ms = vec![50.5; 3];
        let failures = failures(&judge(&measured), &measured);
        assert_eq!(failures, ["tek ps of all threads is 50.5 ms, must be <= 50 ms"]);
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let mut measured = measured();
        measured.calls.calls.clear();
        let failures = failures(&judge(&measured), &measured);
        assert_eq!(failures.len(), CALLS.len());
        assert!(failures[0].contains("not measured"), "{failures:?}");
    }

    #[test]
    fn a_short_run_is_reported_as_short() {
        let mut measured = measured();
        measured.births = births::Measured::of([7000.0; 4], 5);
        let failures = failures(&judge(&measured), &measured);
        assert!(failures[0].ends_with("this run had 5"), "{failures:?}");
    }
}
