// SPDX-License-Identifier: MIT OR Apache-2.0
//! bpf/kthreads.h and this crate have the same definitions.
use regex::Regex;
use tek_bpf::{RawEvent, What, LAYOUT};
use zerocopy::FromZeros;

const HEADER: &str = include_str!("../../../bpf/kthreads.h");

/// The numbers of the enum of kinds, with their names.
fn kinds() -> Vec<(String, u16)> {
    let (_, rest) = HEADER.split_once("enum tek_kthread_kind {").unwrap();
    let (inside, _) = rest.split_once("};").unwrap();
    let line = Regex::new(r"TEK_KTHREAD_(\w+) = (\d+),").unwrap();
    line.captures_iter(inside).map(|c| (c[1].to_owned(), c[2].parse().unwrap())).collect()
}

/// `WORK_QUEUED` for `WorkQueued { ... }`.
fn name(what: What) -> String {
    let debug = format!("{what:?}");
    let word = debug.split(' ').next().unwrap();
    let hump = Regex::new(r"([a-z])([A-Z])").unwrap();
    hump.replace_all(word, "${1}_$2").to_uppercase()
}

#[test]
fn every_kind_of_event_has_the_same_name_in_c_and_rust() {
    let kinds = kinds();
    assert!(kinds.len() > 20, "{kinds:?}");
    for kind in 0..=u16::MAX {
        let mut raw = RawEvent::new_zeroed();
        raw.kind = kind;
        let in_rust = raw.typed().map(|event| name(event.what));
        let in_c = kinds.iter().find(|(_, number)| *number == kind).map(|(name, _)| name.clone());
        assert_eq!(in_rust, in_c, "{kind}");
    }
}

#[test]
fn the_fields_of_an_event_lie_in_memory_as_c_has_them() {
    let (_, rest) = HEADER.split_once("struct tek_kthread_event {").unwrap();
    let (inside, _) = rest.split_once("};").unwrap();
    let field =
        Regex::new(r"(?m)^\t((?:unsigned )?(?:long long|short|char|int)) (\w+)(\[|;)").unwrap();
    let mut offset = 0;
    let mut in_c = Vec::new();
    for found in field.captures_iter(inside) {
        in_c.push((found[2].to_owned(), offset));
        offset += match (&found[1], &found[3]) {
            (_, "[") => 16,
            ("unsigned long long", _) => 8,
            ("int" | "unsigned int", _) => 4,
            ("unsigned short", _) => 2,
            ("unsigned char", _) => 1,
            other => panic!("teach this test {other:?}"),
        };
    }
    let in_rust: Vec<(String, usize)> =
        LAYOUT.iter().map(|(name, offset)| ((*name).to_owned(), *offset)).collect();
    assert_eq!(in_c, in_rust);
    assert_eq!(offset, size_of::<RawEvent>());
}
