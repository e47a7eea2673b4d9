// SPDX-License-Identifier: MIT OR Apache-2.0
use super::held::{read, Content, Held};
use super::line::{Line, VERSION};
use super::what::{Value, What};
use crate::scheduling::SchedulingChange;
use crate::{Identity, Scheduling};
use proptest::prelude::*;

fn scheduling() -> impl Strategy<Value = Scheduling> {
    (-20..=19, 1u32..=99, any::<bool>(), any::<bool>()).prop_map(|(nice, priority, fair, flag)| {
        let (policy, priority) = if fair { (0, 0) } else { (2, priority) };
        Scheduling { policy, nice, priority, reset_on_fork: flag }
    })
}

fn what() -> impl Strategy<Value = What> {
    (1..5, 0u64..3, scheduling(), scheduling()).prop_map(|(tid, start_ticks, was, set)| {
        let thread_id = Identity { tid, start_ticks };
        What::Scheduling(SchedulingChange {
            thread_id,
            was,
            ours: vec![set],
            right: Default::default(),
            program: None,
            slice_ns: None,
            births: None,
        })
    })
}

/// Lines that a journal may have, and lines that it may not have.
fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        4 => (1u64..20, what()).prop_map(|(change, what)| Line::Note { change, what }),
        2 => (1u64..20, scheduling()).prop_map(|(change, value)| {
            Line::Again { change, value: Value::Scheduling(value) }
        }),
        1 => (1u64..20).prop_map(|change| Line::Done { change }),
    ]
}

fn beginning() -> Line {
    Line::Journal { version: VERSION, boot: "b".into() }
}

fn text(lines: &[Line]) -> Vec<u8> {
    [beginning()].iter().chain(lines).flat_map(Line::encode).collect()
}

fn held(bytes: &[u8]) -> Vec<(u64, What)> {
    let held = read(bytes).held;
    held.all().map(|(change, what)| (change, what.clone())).collect()
}

/// A change of the bytes, as by a disk or by a writer.
fn mutate(bytes: &mut Vec<u8>, (kind, at, byte): (u8, usize, u8)) {
    let at = at % (bytes.len() + 1);
    match kind % 6 {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, byte),
        2 if at < bytes.len() => drop(bytes.remove(at)),
        3 if at < bytes.len() => bytes[at] ^= byte | 1,
        // A digit that becomes another leaves the line one that can be read.
        4 => {
            if let Some(digit) = bytes.iter_mut().skip(at).find(|byte| byte.is_ascii_digit()) {
                *digit = b'0' + byte % 10;
            }
        }
        _ => bytes.rotate_left(at),
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_and_hold_no_change(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        prop_assert!(read(&bytes).held.is_empty());
    }

    #[test]
    fn a_line_comes_back_as_it_was_written(line in line()) {
        let text = line.encode();
        prop_assert_eq!(Line::decode(&text[..text.len() - 1]), Some(line));
    }

    #[test]
    fn mutated_lines_never_hold_a_change_that_was_not_written(
        lines in prop::collection::vec(line(), 1..12),
        mutations in prop::collection::vec((any::<u8>(), any::<usize>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = text(&lines);
        for mutation in mutations {
            mutate(&mut bytes, mutation);
        }
        for decoded in bytes.split(|&byte| byte == b'\n').filter_map(Line::decode) {
            prop_assert!(decoded == beginning() || lines.contains(&decoded), "{decoded:?}");
        }
        for (change, what) in held(&bytes) {
            let noted = |line: &Line| {
                matches!(line, Line::Note { change: noted, .. } if *noted == change)
            };
            prop_assert!(lines.iter().any(noted), "{change}: {what:?}");
        }
    }

    #[test]
    fn a_journal_cut_off_anywhere_holds_what_its_whole_lines_hold(
        lines in prop::collection::vec(line(), 1..12),
        at in any::<usize>(),
    ) {
        let bytes = text(&lines);
        let cut = &bytes[..at % bytes.len()];
        let whole = cut.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        prop_assert_eq!(read(cut).length, whole);
        prop_assert_eq!(read(cut), read(&cut[..whole]));
    }

    #[test]
    fn whatever_is_noted_and_done_the_first_value_is_the_one_to_give_back(
        steps in prop::collection::vec(
            (any::<bool>(), scheduling(), any::<prop::sample::Index>()),
            1..40,
        ),
        first in scheduling(),
    ) {
        let thread_id = Identity { tid: 1, start_ticks: 1 };
        let (mut held, mut present, mut lines) = (Held::default(), first, Vec::new());
        for (note, set, which) in steps {
            let numbers: Vec<u64> = held.all().map(|(change, _)| change).collect();
            let line = if note || numbers.is_empty() {
                let what = SchedulingChange {
                    thread_id,
                    was: present,
                    ours: vec![set],
                    right: Default::default(),
                    program: None,
                    slice_ns: None,
                    births: None,
                };
                present = set;
                Line::Note { change: held.next(), what: What::Scheduling(what) }
            } else {
                let change = *which.get(&numbers);
                if let (None, Some(What::Scheduling(what))) =
                    (held.next_of_same_thing(change), held.get(change))
                {
                    present = what.was;
                }
                Line::Done { change }
            };
            prop_assert!(held.take(line.clone()));
            lines.push(line);
        }
        prop_assert_eq!(&read(&text(&lines)).held, &held);
        // Undone, the last first, it ends at the first value.
        for (change, what) in held.clone().all().rev() {
            let What::Scheduling(what) = what else { unreachable!() };
            prop_assert!(what.ours.contains(&present), "{change}: {what:?} but {present:?}");
            present = what.was;
        }
        prop_assert_eq!(present, first);
    }
}

fn noted(change: u64, tid: i32) -> Line {
    let usual = Scheduling { policy: 0, nice: 0, priority: 0, reset_on_fork: false };
    let thread_id = Identity { tid, start_ticks: 1 };
    Line::Note {
        change,
        what: What::Scheduling(SchedulingChange {
            thread_id,
            was: usual,
            ours: vec![usual],
            right: Default::default(),
            program: None,
            slice_ns: None,
            births: None,
        }),
    }
}

#[test]
fn without_its_beginning_a_journal_holds_no_change() {
    let bytes = noted(1, 1).encode();
    assert_eq!(
        read(&bytes),
        Content { damaged: vec![1], length: bytes.len(), ..Content::default() }
    );
}

#[test]
fn a_journal_of_another_version_holds_no_change() {
    let mut bytes = Line::Journal { version: VERSION + 1, boot: "b".into() }.encode();
    bytes.extend(noted(1, 1).encode());
    assert!(read(&bytes).held.is_empty());
}

#[test]
fn nonsense_is_skipped_and_reported_even_if_it_is_well_formed() {
    let lines = [
        noted(2, 7),
        noted(1, 8),              // numbers rise
        noted(3, -1),             // no thread
        Line::Done { change: 9 }, // never noted
        beginning(),              // only once
        noted(4, 9),
    ];
    let content = read(&text(&lines));
    let numbers: Vec<u64> = content.held.all().map(|(change, _)| change).collect();
    assert_eq!(numbers, [2, 4]);
    assert_eq!(content.damaged, [3, 4, 5, 6]);
}
