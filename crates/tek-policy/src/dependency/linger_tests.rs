// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the tasks that linger, against a list of all events.
use super::*;
use crate::dependency::RtPriority;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn priority(priority: u32) -> RtPriority {
    RtPriority::new(priority).unwrap()
}

#[test]
fn a_task_that_comes_and_goes_each_250_us_changes_nothing() {
    let mut all = Lingering::new(20 * MS);
    all.begin('b', priority(10));
    assert!(all.begin('a', priority(40)));
    let first = all.dependants().clone();
    let mut alarms = 0;
    for now in (0..1000 * MS).step_by(250_000) {
        if all.next_ns().is_some_and(|at| at <= now) {
            alarms += 1;
            assert!(!all.expire(now), "at {now}");
        }
        assert!(!all.end('a', now) && !all.begin('a', priority(40)), "at {now}");
        assert_eq!(all.dependants(), &first);
        assert!(all.alarms.len() <= 1);
    }
    // One check each 20 ms, not one an event.
    assert!(alarms <= 50, "{alarms}");
}

#[test]
fn a_thread_that_does_not_come_back_leaves_when_the_time_is_over() {
    let mut all = Lingering::new(20 * MS);
    all.begin('a', priority(40));
    all.end('a', 5 * MS);
    assert_eq!((all.next_ns(), all.dependants().times_of('a')), (Some(25 * MS), 1));
    assert!(!all.expire(25 * MS - 1) && all.expire(25 * MS));
    assert_eq!((all.next_ns(), all.dependants().is_empty(), all.tasks.len()), (None, true, 0));
}

#[test]
fn files_that_were_written_back_leave_though_the_task_writes_on() {
    let mut all = Lingering::new(20 * MS);
    for _ in 0..3 {
        all.begin('a', priority(40));
    }
    for _ in 0..3 {
        all.end('a', 0);
    }
    for now in (0..20).map(|ms| ms * MS) {
        all.begin('a', priority(40));
        all.end('a', now);
        assert!(!all.expire(now));
        assert_eq!(all.dependants().times_of('a'), 3);
    }
    assert!(all.expire(20 * MS));
    assert_eq!((all.dependants().times_of('a'), all.next_ns()), (1, Some(39 * MS)));
}

#[test]
fn unrelated_work_ends_what_lingers_and_nothing_else() {
    let mut all = Lingering::new(20 * MS);
    all.begin('a', priority(40));
    all.begin('b', priority(50));
    all.begin('b', priority(50));
    all.end('a', 0);
    all.end('b', 0);
    assert!(all.drop_now() && !all.drop_now());
    assert_eq!((all.dependants().times_of('a'), all.dependants().times_of('b')), (0, 1));
    assert_eq!(all.next_ns(), None);
    all.end('b', MS);
    assert_eq!(all.next_ns(), Some(21 * MS));
    assert!(all.expire(21 * MS) && all.dependants().is_empty());
}

#[test]
fn a_thread_that_exits_leaves_at_once() {
    let mut all = Lingering::new(20 * MS);
    all.begin('a', priority(40));
    all.begin('a', priority(40));
    all.end('a', 0);
    assert!(all.remove_all_of('a') && !all.remove_all_of('a'));
    assert!(all.dependants().is_empty() && !all.end('a', 1));
    // The alarm of the ended task has no effect on a later task with the same id.
    all.begin('a', priority(7));
    assert!(!all.expire(20 * MS));
    assert_eq!(all.dependants().times_of('a'), 1);
}

#[test]
fn without_a_linger_time_no_thread_lingers() {
    let mut all = Lingering::new(0);
    all.begin('a', priority(40));
    assert!(all.end('a', 0) && all.dependants().is_empty() && all.tasks.is_empty());
    assert!(!all.end('a', 0) && !all.end_now('a'));
}

#[test]
fn after_lost_events_everything_ends_and_what_goes_on_begins_anew() {
    let mut all = Lingering::new(20 * MS);
    all.begin('a', priority(40));
    all.begin('b', priority(50));
    assert!(!all.end_all(0) && !all.begin('b', priority(50)));
    assert!(all.expire(20 * MS));
    assert_eq!((all.dependants().times_of('a'), all.dependants().times_of('b')), (0, 1));
    assert!(all.clear() && !all.clear());
}

#[derive(Clone, Debug)]
enum Event {
    Begin(usize),
    End(usize),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0usize..3).prop_map(Event::Begin),
        (0usize..3).prop_map(Event::End),
        (0u64..8).prop_map(Event::Wait),
    ]
}

proptest! {
    #[test]
    fn a_task_is_in_it_as_often_as_at_most_within_the_linger_time(
        linger in 1u64..30,
        events in prop::collection::vec(event(), 0..200),
    ) {
        let mut all = Lingering::new(linger);
        // For each task: its numbers of relations, each with its begin.
        let mut history = vec![vec![(0u64, 0u64)]; 3];
        let mut now = 0;
        for event in events {
            match event {
                Event::Begin(waiter) => {
                    all.begin(waiter, priority(10));
                    let active = history[waiter].last().unwrap().1;
                    history[waiter].push((now, active + 1));
                }
                Event::End(waiter) => {
                    all.end(waiter, now);
                    let active = history[waiter].last().unwrap().1;
                    history[waiter].push((now, active.saturating_sub(1)));
                }
                Event::Wait(time) => now += time,
            }
            // The caller is never late.
            if all.next_ns().is_some_and(|at| at <= now) {
                all.expire(now);
            }
            for (waiter, history) in history.iter().enumerate() {
                // A number that is valid until after now - linger counts.
                let until = history.iter().skip(1).map(|it| it.0).chain([u64::MAX]);
                let lately = history
                    .iter()
                    .zip(until)
                    .filter(|(_, until)| until.saturating_add(linger) > now);
                let most = lately.map(|(it, _)| it.1).max().unwrap();
                prop_assert_eq!(all.dependants().times_of(waiter), most, "{} at {}", waiter, now);
            }
            prop_assert!(all.alarms.len() <= 3);
        }
        all.expire(now + linger);
        all.end_all(now + linger);
        all.expire(now + 2 * linger);
        prop_assert!(all.dependants().is_empty() && all.tasks.is_empty() && all.alarms.is_empty());
    }

    #[test]
    fn a_thread_that_comes_back_within_the_linger_time_changes_nothing(
        times in prop::collection::vec((1u64..1000, 0u64..1000), 1..100), remaining in 0u32..5,
    ) {
        let mut all = Lingering::new(1000);
        for other in 1..=remaining {
            all.begin(other, priority(other));
        }
        all.begin(0, priority(40));
        let (first, mut now) = (all.dependants().clone(), 0);
        for (busy, away) in times {
            now += busy;
            prop_assert!(!all.expire(now) && !all.end(0, now));
            now += away;
            prop_assert!(!all.expire(now) && !all.begin(0, priority(40)));
            prop_assert_eq!(all.dependants(), &first);
        }
    }
}
