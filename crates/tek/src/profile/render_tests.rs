// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile made by hand, and its output.
use super::*;
use crate::profile::read::tests::header;
use crate::profile::read::{Raw, RawThread};
use crate::profile::report::Known;
use tek_abi::{ProfileObject, ProfileThread, ProfileWait, PROFILE_MUTEX};

const MS: u64 = 1_000_000;

fn profile() -> Profile {
    let mut header = header(2);
    header.start_ticks = 1;
    header.end_ticks = 1 + 1000 * MS;
    let main = ProfileThread {
        begin_ticks: 1,
        ticks: [0, 500 * MS, 20 * MS, 30 * MS, 0],
        run_ns: 500 * MS,
        serial_ticks: 100 * MS,
        ..Default::default()
    };
    let worker = ProfileThread {
        creator: 1,
        created_ticks: 1 + 100 * MS,
        begin_ticks: 1 + 101 * MS,
        end_ticks: 1 + 600 * MS,
        routine: 0x1234,
        run_ns: 499 * MS,
        ..Default::default()
    };
    let wait = ProfileWait {
        begin_ticks: 1 + 101 * MS,
        end_ticks: 1 + 601 * MS,
        released_ticks: 1 + 600 * MS,
        waker: 2,
        kind: PROFILE_MUTEX,
        ..Default::default()
    };
    let object = ProfileObject {
        object: 0xffff_ffff_ffff,
        site: 0xffff_ffff_fff0,
        kind: PROFILE_MUTEX,
        count: 150_000,
        contended: 1,
        wait_ticks: 500 * MS,
        wait_most: 500 * MS,
        ..Default::default()
    };
    let threads = vec![
        RawThread { thread: main, objects: vec![object], waits: vec![wait] },
        RawThread { thread: worker, ..Default::default() },
    ];
    Profile::of(&Raw { header, modules: Vec::new(), threads }, &Known::default())
}

#[test]
fn a_report_fits_eighty_columns_and_has_colours_only_where_they_are_asked_for() {
    for all in [false, true] {
        let plain = text(&profile(), Display { all, unicode: true, ..Display::default() });
        for line in plain.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(!plain.contains('\x1b'), "{plain}");
    }
    assert!(text(&profile(), Display { colours: true, ..Display::default() }).contains('\x1b'));
}

#[test]
fn names_are_whole_where_there_is_room_and_numbers_always() {
    let mut profile = profile();
    let long = "a_function_with_a_name_that_is_longer_than_its_column::{lambda()#1}";
    let path = profile.critical_path.as_mut().unwrap();
    path.phases[1].role = long.to_owned();
    path.phases[2].changes = 1234;
    profile.roles[1].name = long.to_owned();
    let shown = text(&profile, Display::default());
    assert!(shown.contains(" 2 ..") && !shown.contains(long), "{shown}");
    assert!(shown.contains("(several, 1234 changes)"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let whole = text(&profile, Display { whole: true, ..Display::default() });
    assert_eq!(whole.matches(long).count(), 2, "{whole}");
    profile.critical_path.as_mut().unwrap().phases[2].changes = 1;
    assert!(text(&profile, Display::default()).contains("(several, 1 change)"));
}

#[test]
fn a_wait_that_did_not_end_is_shown_with_its_object() {
    let mut header = header(1);
    header.start_ticks = 1;
    header.end_ticks = 1 + 100 * MS;
    let thread = ProfileThread {
        begin_ticks: 1,
        inside: tek_abi::PROFILE_SYNC,
        is_waiting: 1,
        since_ticks: 1 + 40 * MS,
        waits_for: 0x1000,
        waits_at: 0x2000,
        wait_kind: tek_abi::PROFILE_COND,
        ..Default::default()
    };
    let threads = vec![RawThread { thread, ..Default::default() }];
    let profile = Profile::of(&Raw { header, modules: Vec::new(), threads }, &Known::default());
    let uses = profile.objects[0].uses;
    assert_eq!((uses.count, uses.wait_ns, profile.still_waiting), (1, 60 * MS, 1));
    assert!(text(&profile, Display::default()).contains("had not ended"));
}

#[test]
fn a_program_that_became_another_one_did_not_just_stop() {
    let mut header = header(0);
    header.replaced = 1;
    let raw = Raw { header, modules: Vec::new(), threads: Vec::new() };
    let profile = Profile::of(&raw, &Known::default());
    assert!(profile.ended && profile.became_another);
    assert!(text(&profile, Display::default()).contains("became another program"));
}

#[test]
fn idle_time_on_the_path_is_not_shown_as_waiting_for_other_threads() {
    let text = text(&profile(), Display { all: true, ..Display::default() });
    assert!(text.contains("  SYNC DELAY  IDLE\n"), "{text}");
}

#[test]
fn it_is_shown_where_the_scheduler_reports_nothing() {
    let mut profile = profile();
    assert!(text(&profile, Display::default()).contains("schedstat"));
    profile.scheduler = true;
    assert!(!text(&profile, Display::default()).contains("schedstat"));
}

#[test]
fn numbers_that_cannot_be_do_not_stop_the_report() {
    let mut header = header(2);
    header.end_ticks = u64::MAX;
    let thread = ProfileThread {
        begin_ticks: 1,
        ticks: [u64::MAX; 5],
        sampled: [u64::MAX; 5],
        sampled_delay: [u64::MAX; 5],
        long_ticks: [u64::MAX; 5],
        serial_ticks: u64::MAX,
        run_ns: u64::MAX,
        delay_ns: u64::MAX,
        scheduler_ticks: 1,
        ..Default::default()
    };
    let threads = vec![RawThread { thread, ..Default::default() }; 2];
    let raw = Raw { header, modules: Vec::new(), threads };
    let profile = Profile::of(&raw, &Known::default());
    assert!(
        text(&profile, Display::default()).contains("CRITICAL") || profile.critical_path.is_none()
    );
}

#[test]
fn the_path_goes_through_the_thread_that_the_other_threads_waited_for() {
    let profile = profile();
    let path = profile.critical_path.unwrap();
    assert_eq!(path.length_ns, 1000 * MS);
    assert_eq!(path.roles, [("0x1234".to_owned(), 500 * MS), ("main".to_owned(), 500 * MS)]);
    let threads: Vec<_> = path.phases.iter().map(|phase| phase.thread).collect();
    assert_eq!(threads, [1, 2, 1]);
}

#[test]
fn parts_sum_to_the_lives() {
    let profile = profile();
    assert!(profile.parts.sum().abs_diff(profile.threads_ns) < 100);
    assert_eq!(profile.threads_ns, 1499 * MS);
}

#[test]
fn folded_stacks_name_the_lock_that_was_waited_for() {
    let mut out = Vec::new();
    crate::profile::folded::write(&profile(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(";sync;mutex 0xffffffffffff;0xffffffffffef 500000"), "{text}");
    for line in text.lines() {
        assert!(line.rsplit_once(' ').unwrap().1.parse::<u64>().is_ok(), "{line}");
    }
}
