// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small session with round numbers, for the tests of its evaluations.

use super::load::{Had, Hog};
use super::rounds::{Run, Session};
use super::setup::{Setup, Variant, TWENTY, TWO_HUNDRED};
use crate::appliance::Measured;
use std::collections::BTreeMap;

fn run(response_ms: u64, stall_ms: Option<u64>) -> Run {
    let appliance = Measured {
        events_phase_ns: 1_000_000_000,
        load_from_ns: 0,
        load_to_ns: 0,
        responses_ns: vec![response_ms * 1_000_000; 25],
        threads: Vec::new(),
        switch_ns: BTreeMap::new(),
        delays_ns: BTreeMap::new(),
    };
    let hog = |ms| Hog { cpu: -1, cpu_ns: 1, stall_ns: ms * 1_000_000 };
    let load = Had { hogs: stall_ms.map(hog).into_iter().collect(), idle_late_ns: 0 };
    Run { appliance, load, tekd_ns: Some((1_000_000, 1_000_000_000)) }
}

/// Nine rounds of 25 events of alone, alone-2 and, with 20 and 200 hogs, all but fair.
pub fn session() -> Session {
    let mut runs = BTreeMap::new();
    let mut add = |setup, ms, stall| {
        runs.insert(setup, (0..9).map(|_| run(ms, stall)).collect());
    };
    add(Setup::ALONE, 20, None);
    add(Setup::ALONE_AGAIN, 20, None);
    for load in [TWENTY, TWO_HUNDRED] {
        add(Setup::under(load, Variant::Conventional), 200, Some(100));
        add(Setup::under(load, Variant::Groups), 180, Some(120));
        add(Setup::under(load, Variant::Rt), 20, Some(140));
    }
    Session { runs, ..Session::default() }
}
