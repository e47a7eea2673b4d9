// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fuzzer of the table reader: good tables, damaged in many ways.
//!
//! libFuzzer for Rust needs a nightly compiler, so this mutates with proptest: whole words, most of
//! them in the parts that steer the reader, with values that are likely to do harm.
mod common;

use common::{header, record_at, write};
use proptest::prelude::*;
use std::os::unix::fs::FileExt;
use tek_abi::*;
use tek_model::{Device, Table, Wanted};
use zerocopy::IntoBytes;

/// The part in which a word is damaged: the header, the modules, a record, or anywhere.
fn place() -> impl Strategy<Value = u64> {
    let word = |words: u64| (0..words).prop_map(|word| word * 4);
    prop_oneof![
        4 => word(size_of::<TableHeader>() as u64 / 4),
        1 => word(2048).prop_map(|at| u64::from(MODULES_OFFSET) + at),
        3 => word(100).prop_map(|at| record_at(0) + at),
        1 => word(600).prop_map(|at| u64::from(KINDS_OFFSET) + at),
        1 => word(20).prop_map(|at| u64::from(WORKERS_OFFSET) + at),
        1 => word(80_000),
    ]
}

/// The damaged word.
fn harm() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        Just(0),
        Just(u32::MAX),
        (0u32..32).prop_map(|bit| 1 << bit),
        0u32..2000,
        Just(std::process::id()),
    ]
}

/// Takes some seconds, unless PROPTEST_CASES sets another number.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..Default::default() })]

    /// Whatever the damage, a table is read or refused. Each record that is read has a tid and was
    /// not being written; there are at most as many as slots.
    #[test]
    fn a_damaged_table_is_read_or_refused(
        damage in proptest::collection::vec((place(), harm()), 0..12),
        length in prop_oneof![3 => Just(None), 1 => (0u64..400_000).prop_map(Some)],
        slots in 0u32..1100,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let path = dir.path().join(format!("{pid}.table"));
        let thread = |slot| {
            let flags = if slot == 1 { FLAG_USER } else { 0 };
            let record = Record {
                tid: pid,
                start_ns: u64::MAX,
                stack_pages: 2048,
                flags,
                ..Default::default()
            };
            let stack_end = &record as *const _ as u64;
            let side = Side {
                name: [b'x'; 16],
                role: [b'y'; 64],
                stack_end,
                worker: slot as u16,
                ..Default::default()
            };
            (slot, record, side)
        };
        let good = TableHeader { pid, modules: 3, kinds: 4, workers: 2, ..header(3, slots) };
        let file = write(&path, &good, &[thread(0), thread(1), thread(600)]);
        for (at, word) in damage {
            file.write_all_at(word.as_bytes(), at).unwrap();
        }
        if let Some(length) = length {
            file.set_len(length).unwrap();
        }
        if let Ok(mut table) = Table::open(&path) {
            let _ = table.modules();
            let _ = table.kinds();
            let _ = table.inversions();
            if let Ok(workers) = table.workers() {
                prop_assert!(workers.len() <= MAX_WORKERS as usize);
            }
            if let Ok(snapshot) = table.snapshot() {
                let count = snapshot.threads.len() + snapshot.changing.len();
                prop_assert!(count <= MAX_SLOTS as usize);
                for thread in snapshot.threads {
                    prop_assert!(thread.record.tid != 0 && thread.record.seq % 2 == 0);
                }
            }
        }
        let directories = vec![dir.path().to_owned()];
        let wanted = Wanted {
            pids: vec![pid],
            directories,
            modules: true,
            kinds: true,
            held_up: true,
            stacks: true,
            uthreads: true,
            ..Wanted::default()
        };
        let device = Device::examine(&wanted).unwrap();
        prop_assert!(device.programs[0].tasks.iter().any(|task| task.stat.tid == pid));
        let user = |task: &tek_model::Task| task.record.is_some_and(|own| own.record.is_user());
        prop_assert!(!device.programs[0].tasks.iter().any(user));
        prop_assert!(device.programs[0].uthreads.iter().all(|uthread| uthread.number() != 0));
    }
}
