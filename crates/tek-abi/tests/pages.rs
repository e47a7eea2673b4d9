// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each kind of abi/tek_options.h is described in its manual page.
use tek_abi::options::{
    Kind, ALLOC_KINDS, BARRIER_KINDS, ENGINE_LOCKS, GROUP_NAMES, LOCK_KINDS, PREEMPT_MODES,
    RWLOCK_KINDS, SCHEDULERS, STACK_MODES, STACK_SWITCHES,
};

const SYNC: &str = include_str!("../../../docs/man/libtek-sync.7");
const UTHREAD: &str = include_str!("../../../docs/man/libtek-uthread.7");
const RULES: &str = include_str!("../../../docs/man/tek-rules.5");
const LIBTEK: &str = include_str!("../../../docs/man/libtek.7");

/// The text of a page from a heading to the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(heading).unwrap_or_else(|| panic!("no {heading}"));
    let rest = &page[start + heading.len()..];
    let end = [".Sh ", ".Ss "].into_iter().filter_map(|next| rest.find(&format!("\n{next}"))).min();
    &rest[..end.unwrap_or(rest.len())]
}

/// The items of its list, `.It Cm NAME`, in alphabetical order, are the kinds.
fn assert_describes(page: &str, heading: &str, kinds: &[Kind]) {
    let items = section(page, heading).lines().filter_map(|line| line.strip_prefix(".It Cm "));
    let mut items: Vec<_> = items.collect();
    let mut names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
    items.sort_unstable();
    names.sort_unstable();
    assert_eq!(items, names, "{heading}");
}

#[test]
fn each_lock_is_described() {
    assert_describes(SYNC, ".Ss Kinds of locks", &LOCK_KINDS);
    assert_describes(SYNC, ".Ss Kinds of read-write locks", &RWLOCK_KINDS);
    assert_describes(SYNC, ".Ss Kinds of barriers", &BARRIER_KINDS);
}

#[test]
fn each_scheduler_and_way_of_preemption_is_described() {
    assert_describes(UTHREAD, ".Ss Schedulers", &SCHEDULERS);
    assert_describes(UTHREAD, ".Ss Preemption", &PREEMPT_MODES);
    let names = ENGINE_LOCKS.map(|kind| kind.name).join(" Ns | Ns Cm ");
    assert!(UTHREAD.contains(&format!("\n.It Cm lock={names}\n")));
}

#[test]
fn each_word_about_stacks_is_described() {
    let (_, section) = LIBTEK.split_once("\n.It Ev TEK_STACK\n").unwrap();
    for Kind { name, .. } in STACK_MODES.iter().chain(&STACK_SWITCHES) {
        assert!(section.contains(&format!("\n.It Cm {name}\n")), "{name}");
    }
}

#[test]
fn each_group_is_described() {
    for Kind { name, .. } in GROUP_NAMES {
        assert!(RULES.contains(&format!("\n.Ql {name}")), "{name}");
    }
}

#[test]
fn each_allocator_of_ours_is_described() {
    let section = section(LIBTEK, ".Sh ALLOCATORS");
    for Kind { name, .. } in ALLOC_KINDS {
        let begin = format!("\n.Cm {name}");
        let is_described = section.match_indices(&begin).any(|(at, _)| {
            matches!(section.as_bytes().get(at + begin.len()), Some(b'\n' | b'=' | b' '))
        });
        assert!(is_described, "{name}");
    }
}
