// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small session with round numbers, for the tests of its evaluations.

use super::rounds::Session;
use super::variant::{Variant, CRITICAL, ORDINARY};
use crate::appliance::{Kind, Measured, Scheduling, Thread};
use std::collections::BTreeMap;

fn thread(name: &str, kind: Kind, switches: u64, stall_ms: u64) -> Thread {
    let scheduling = Scheduling { policy: libc::SCHED_OTHER, priority: 0, nice: 0, flags: 0 };
    Thread {
        name: name.to_owned(),
        group: "urgent".to_owned(),
        kind,
        voluntary: 6,
        involuntary: switches - 6,
        cpu_ns: 1_000_000_000,
        run_delay_ns: None,
        periods: 1,
        stall_ns: stall_ms * 1_000_000,
        before: scheduling,
        during: scheduling,
        after: scheduling,
    }
}

fn measured(responses_ms: [u64; 3], switches: u64, switch_ns: f64, stalls: &[u64]) -> Measured {
    let critical = CRITICAL.map(|name| thread(name, Kind::Event, switches, 0));
    let mut times = BTreeMap::from(CRITICAL.map(|name| (name.to_owned(), switch_ns)));
    times.insert(ORDINARY.to_owned(), 2000.0);
    let hogs = stalls.iter().map(|ms| thread("indexer0", Kind::Hog, 60, *ms));
    Measured {
        events_phase_ns: 1_000_000_000,
        load_from_ns: 0,
        load_to_ns: 0,
        responses_ns: responses_ms.map(|ms| ms * 1_000_000).to_vec(),
        threads: critical.into_iter().chain(hogs).collect(),
        switch_ns: times,
        delays_ns: BTreeMap::new(),
    }
}

/// Two rounds of three events of alone, alone-2, conventional and tek-name.
pub fn session() -> Session {
    Session {
        runs: BTreeMap::from([
            (
                Variant::Alone,
                vec![
                    measured([20, 20, 20], 6, 1800.0, &[]),
                    measured([20, 20, 20], 6, 1800.0, &[]),
                ],
            ),
            (
                Variant::AloneAgain,
                vec![
                    measured([20, 20, 20], 6, 1800.0, &[]),
                    measured([20, 20, 22], 6, 1800.0, &[]),
                ],
            ),
            (
                Variant::Conventional,
                vec![
                    measured([190, 200, 210], 12, 1900.0, &[90, 100]),
                    measured([180, 220, 240], 12, 1900.0, &[90, 100]),
                ],
            ),
            (
                Variant::TekName,
                vec![
                    measured([19, 20, 20], 6, 1330.0, &[80, 70]),
                    measured([20, 20, 21], 6, 1330.0, &[80, 150]),
                ],
            ),
        ]),
        not_run: Vec::new(),
        failed: Vec::new(),
    }
}
