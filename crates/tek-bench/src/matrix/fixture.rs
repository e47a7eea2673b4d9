// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small session with round numbers, for the tests of its evaluations.

use super::column::Column;
use super::rounds::{Measured, Plan, Session};
use super::row::Row;

/// A run of an ordinary thread with these responses.
pub fn measured(responses_ms: &[u64], background: u64) -> Measured {
    Measured {
        responses_ns: responses_ms.iter().map(|ms| ms * 1_000_000).collect(),
        phase_ns: 1_000_000_000,
        background,
        hogs: 0,
        policy: libc::SCHED_OTHER,
        nice: 0,
    }
}

/// Two rounds of two events, of the row mutex.
pub fn session() -> Session {
    let mut session = Session::default();
    for (column, first, second, background) in [
        (Column::Alone, [2, 4], [2, 4], 100),
        (Column::Conventional, [20, 40], [20, 80], 50),
        (Column::Tek, [2, 4], [2, 5], 40),
    ] {
        let runs = [measured(&first, background), measured(&second, background)];
        session.runs.insert((Row::Mutex, column), runs.to_vec());
    }
    session.empty.insert((Row::Mutex, Column::Nice), "no <privilege>".to_owned());
    session
}

/// The plan of that session.
pub fn plan() -> Plan {
    Plan {
        rounds: 2,
        events: 2,
        hogs: 20,
        iterations_per_ms: 1,
        rows: vec![Row::Mutex],
        columns: vec![Column::Alone, Column::Conventional, Column::Nice, Column::Tek],
    }
}
