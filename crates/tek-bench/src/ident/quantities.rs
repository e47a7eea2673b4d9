// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds.toml judges of `tek bench ident`.

use super::births::Variant;
use super::Measured;
use crate::verdict::Quantities;

/// What is always measured.
pub const PARTS: [&str; 5] = ["calls", "snapshot", "ps", "births", "memory"];

impl Measured {
    /// By their names in bounds.toml.
    pub fn quantities(&self) -> Quantities {
        let ps = self.ps.usual_ms().zip(self.snapshot.proc_ms()).map(|(ps, proc)| ps / proc);
        let mut all = Quantities::from([
            ("snapshot", self.snapshot.ratio()),
            ("tek ps", ps),
            ("rounds of creating threads", Some(self.births.rounds() as f64)),
            ("preloaded", self.births.ratio(Variant::Preloaded)),
            ("linked", self.births.ratio(Variant::Linked)),
            ("record", Some(self.memory.bytes_per_thread())),
        ]);
        let calls = self.calls.calls.iter();
        all.extend(calls.map(|call| (&call.name[..], self.calls.by_empty_call(&call.name))));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::{births, calls, memory, ps, snapshot};
    use crate::verdict::judge;

    /// The judged calls: each takes as long as one that only returns.
    const CALLS: [&str; 8] = [
        "get own",
        "get by tid, one",
        "get by tid, random",
        "set own group",
        "set own role",
        "set another's group",
        "tek_gettid",
        "gettid",
    ];

    fn call(name: &str, ns: f64) -> calls::Call {
        calls::Call { name: name.to_owned(), ns: vec![ns; 3] }
    }

    /// A measurement that meets every bar.
    fn measured() -> Measured {
        let mut calls: Vec<_> = CALLS.map(|name| call(name, 1.25)).into();
        calls.extend([call(calls::LOOP, 0.25), call(calls::EMPTY_CALL, 1.25)]);
        Measured {
            calls: calls::Measured { threads: 2000, calls },
            snapshot: snapshot::Measured {
                table_us: vec![2000.0],
                proc_us: vec![20_000.0],
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
            births: births::Measured::of([8000.0, 8010.0, 8104.0, 8104.0], 11),
            unpinned_births: births::Measured::default(),
        }
    }

    fn failures(measured: &Measured) -> Vec<String> {
        judge("ident", PARTS, &measured.quantities()).failures()
    }

    #[test]
    fn values_at_their_limits_pass() {
        let judged = judge("ident", PARTS, &measured().quantities());
        assert_eq!(judged.failures(), [""; 0]);
        assert_eq!(judged.rows().count(), 13);
    }

    #[test]
    fn a_slow_call_is_named_with_its_limit() {
        let mut measured = measured();
        measured.calls.calls[0].ns = vec![3.0; 3];
        assert_eq!(
            failures(&measured),
            ["get own / a call that only returns is 2.75 times, must be <= 2.6 times"]
        );
    }

    #[test]
    fn a_slow_tek_ps_and_threads_that_are_slow_to_create_fall_short() {
        let mut measured = measured();
        measured.ps.ms = vec![50.5; 3];
        measured.births = births::Measured::of([8000.0, 8000.0, 8105.0, 8104.0], 11);
        let failures = failures(&measured);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures[0].starts_with("tek ps") && failures[1].contains("preloaded"));
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let mut measured = measured();
        measured.calls.calls.clear();
        let failures = failures(&measured);
        assert_eq!(failures.len(), CALLS.len());
        assert!(failures[0].contains("not measured"), "{failures:?}");
    }

    #[test]
    fn a_short_run_is_reported_as_one() {
        let mut measured = measured();
        measured.births = births::Measured::of([7000.0; 4], 5);
        assert!(failures(&measured)[0].ends_with("this run had 5"));
    }
}
