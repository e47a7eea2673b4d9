// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs as a whole, the works of critical threads, and the tasks that count as critical.
#![cfg(loads)]
mod common;

use common::disk::{disk, write_a_page};
use common::terminal::write_to_a_terminal;
use common::{at_priority, events_for_a_while, events_until, gettid, of_task, set_priority};
use std::sync::mpsc;
use std::thread;
use tek_bpf::{Event, Follow, Kthreads, What};

#[test]
#[ignore = "needs root"]
fn all_dependencies_work_on_this_kernel() {
    let kthreads = Kthreads::open().unwrap();
    for dependency in kthreads.dependencies() {
        assert!(dependency.is_on(), "{dependency:?}");
    }
    assert!(kthreads.lost().unwrap().iter().all(|(_, lost)| *lost == 0));
}

#[test]
#[ignore = "needs root"]
fn a_work_that_a_critical_thread_queues_is_reported_until_it_has_run() {
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, write_to_a_terminal);
    let queued = |reported: &[What]| {
        reported.iter().find_map(|what| match what {
            What::WorkQueued { work, worker, member } if member.priority == 20 => {
                Some((*work, *worker))
            }
            _ => None,
        })
    };
    let events = events_until(&mut kthreads, |events| {
        let reported = of_task(events, tid);
        let mine = queued(&reported).map(|(work, _)| work);
        reported
            .iter()
            .any(|what| matches!(what, What::WorkEnded { work, .. } if Some(*work) == mine))
    });
    let reported = of_task(&events, tid);
    let (queued, first) = queued(&reported).expect("a work is queued");
    assert!(
        first.is_none_or(|worker| worker.name.as_bytes().starts_with(b"kworker/")),
        "{reported:?}"
    );
    let of_work = |what: &&What| match what {
        What::WorkStarted { work, .. } | What::WorkEnded { work, .. } => *work == queued,
        _ => false,
    };
    let later: Vec<&What> = reported.iter().filter(of_work).collect();
    assert!(matches!(later[0], What::WorkStarted { worker, .. } if worker.tid > 0), "{reported:?}");
    assert!(matches!(later[1], What::WorkEnded { .. }), "{reported:?}");
}

#[test]
#[ignore = "needs root"]
fn an_ordinary_thread_causes_no_event() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    write_a_page(&path);
    write_to_a_terminal();
    let mine = gettid();
    let events = events_for_a_while(&mut kthreads);
    assert!(of_task(&events, mine).is_empty(), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn an_ordinary_thread_that_is_fast_counts_with_the_priority_that_it_was_given() {
    let mut kthreads = Kthreads::open().unwrap();
    kthreads.set_fast(gettid(), Some(33)).unwrap();
    write_to_a_terminal();
    kthreads.set_fast(gettid(), None).unwrap();
    let mine = gettid();
    let events = events_until(&mut kthreads, |events| !of_task(events, mine).is_empty());
    assert!(
        events.iter().any(|e| common::member(e).is_some_and(|m| m.priority == 33)),
        "{events:?}"
    );
    write_to_a_terminal();
    let events = events_for_a_while(&mut kthreads);
    let queued = |what: &What| matches!(what, What::WorkQueued { .. });
    assert!(!of_task(&events, mine).iter().any(queued), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_task_that_is_ignored_causes_no_event() {
    let mut kthreads = Kthreads::open().unwrap();
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        sender.send(gettid()).unwrap();
        wait.recv().unwrap();
        set_priority(20);
        write_to_a_terminal();
        set_priority(0);
    });
    let tid = receiver.recv().unwrap();
    kthreads.set_follow(tid, Some(Follow::Ignore)).unwrap();
    go.send(()).unwrap();
    thread.join().unwrap();
    let events = events_for_a_while(&mut kthreads);
    assert!(of_task(&events, tid).is_empty(), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_task_that_exits_is_reported() {
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, write_to_a_terminal);
    let exited = |events: &[Event]| {
        events.iter().any(|e| matches!(e.what, What::TaskExited { tid: task, .. } if task == tid))
    };
    let events = events_until(&mut kthreads, exited);
    assert!(exited(&events), "{events:?}");
}
