// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events wake the reader: those that need something done.
#![cfg(loads)]
mod common;

use common::terminal::write_to_a_terminal;
use common::{events_until, gettid, of_task, set_priority, wait_until_asleep, wakes};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use tek_bpf::{Event, Follow, Kthreads, What};

/// Queues a work at this priority, and returns whether that woke the reader of the events.
fn wakes_for(kthreads: &mut Kthreads, priority: i32) -> (bool, Vec<What>) {
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        set_priority(priority);
        sender.send(gettid()).unwrap();
        wait.recv().unwrap();
        write_to_a_terminal();
        set_priority(0);
    });
    let tid = receiver.recv().unwrap();
    kthreads.set_follow(tid, Some(Follow::Follow)).unwrap();
    let mut events = Vec::new();
    kthreads.drain(|_| ()).unwrap();
    go.send(()).unwrap();
    thread.join().unwrap();
    kthreads.drain(|event| events.push(event)).unwrap();
    let woke = events.iter().any(|e| e.woke && common::member(e).is_some_and(|m| m.tid == tid));
    (woke, of_task(&events, tid))
}

#[test]
#[ignore = "needs root"]
fn a_relation_that_the_boost_covers_already_wakes_no_thread() {
    let mut kthreads = Kthreads::open().unwrap();
    let mut boosted = HashSet::new();
    let (woke, reported) = until_boosted(|| {
        boost_workers(&mut kthreads, &mut boosted, 1 << 20 | 1 << 99);
        let (woke, reported) = wakes_for(&mut kthreads, 20);
        (are_workers_in(&reported, &boosted), (woke, reported))
    });
    assert!(reported.iter().any(|what| matches!(what, What::WorkQueued { .. })), "{reported:?}");
    assert!(!woke, "{reported:?}");
    let (woke, reported) = wakes_for(&mut kthreads, 21);
    assert!(woke, "{reported:?}");
}

fn procfs_kernel_workers() -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let tids = processes.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    tids.filter(|tid| {
        std::fs::read_to_string(format!("/proc/{tid}/comm"))
            .is_ok_and(|n| n.starts_with("kworker/"))
    })
    .collect()
}

/// Boosts all existing workers, because any of them may run the work.
fn boost_workers(kthreads: &mut Kthreads, boosted: &mut HashSet<i32>, covered: u128) {
    for worker in procfs_kernel_workers() {
        if boosted.insert(worker) {
            kthreads.set_boosted(worker, Some(covered)).unwrap();
        }
    }
}

/// Whether a thread's works waited only for these workers. The kernel creates workers on demand.
fn are_workers_in(reported: &[What], boosted: &HashSet<i32>) -> bool {
    reported.iter().all(|what| match what {
        What::WorkQueued { worker, .. } => worker.is_some_and(|w| boosted.contains(&w.tid)),
        What::WorkAhead { worker, .. } | What::WorkStarted { worker, .. } => {
            boosted.contains(&worker.tid)
        }
        _ => true,
    })
}

/// Repeats an attempt until all its workers had a boost, and returns its result.
fn until_boosted<T>(mut attempt: impl FnMut() -> (bool, T)) -> T {
    for _ in 0..50 {
        if let (true, result) = attempt() {
            return result;
        }
    }
    panic!("there is a new worker each time");
}

#[test]
#[ignore = "needs root"]
fn a_thread_that_sleeps_is_not_woken_by_events_that_need_nothing_done() {
    let mut kthreads = Kthreads::open().unwrap();
    let mut boosted = HashSet::new();
    for _ in 0..50 {
        let slept = until_boosted(|| {
            // All priorities, because other critical threads must not wake this one.
            boost_workers(&mut kthreads, &mut boosted, u128::MAX);
            let slept = sleep_beside_a_work(&mut kthreads);
            (are_workers_in(&of_task(&slept.events, slept.tid), &boosted), slept)
        });
        let Slept { events, tid, .. } = &slept;
        let queued = |what: &What| matches!(what, What::WorkQueued { .. });
        assert!(of_task(events, *tid).iter().any(queued), "{events:?}");
        let is_mine = |e: &Event| common::member(e).is_some_and(|m| m.tid == *tid);
        assert!(!events.iter().any(|e| e.woke && is_mine(e)), "{events:?}");
        // Other critical threads may wake this thread, and events of these workers may wake them.
        if slept.all_the_time && !events.iter().any(|event| event.woke) {
            assert!(!slept.woken, "{events:?}");
            return;
        }
    }
    println!("other threads woke this thread each time");
}

/// The sleep of this thread while another thread queued a work, which ran.
struct Slept {
    /// The sleep covers the whole work.
    all_the_time: bool,
    /// An event woke this thread.
    woken: bool,
    events: Vec<Event>,
    /// The id of the other thread.
    tid: i32,
}

fn sleep_beside_a_work(kthreads: &mut Kthreads) -> Slept {
    let sleeper = gettid();
    let (begins, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (has_begun, has_ended) = (begins.clone(), ends.clone());
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        set_priority(20);
        sender.send(gettid()).unwrap();
        wait.recv().unwrap();
        wait_until_asleep(sleeper);
        begins.store(true, Ordering::SeqCst);
        write_to_a_terminal();
        ends.store(true, Ordering::SeqCst);
        set_priority(0);
    });
    let tid = receiver.recv().unwrap();
    kthreads.set_follow(tid, Some(Follow::Follow)).unwrap();
    kthreads.drain(|_| ()).unwrap();
    go.send(()).unwrap();
    let woken = loop {
        let woken = wakes(kthreads, 100);
        if has_begun.load(Ordering::SeqCst) {
            break woken;
        }
        // An event was there before the sleep.
        kthreads.drain(|_| ()).unwrap();
    };
    let all_the_time = woken || has_ended.load(Ordering::SeqCst);
    thread.join().unwrap();
    let mut events = Vec::new();
    kthreads.drain(|event| events.push(event)).unwrap();
    Slept { all_the_time, woken, events, tid }
}

#[test]
#[ignore = "needs root"]
fn a_boosted_worker_that_begins_unrelated_work_is_reported_at_once() {
    let mut kthreads = Kthreads::open().unwrap();
    for worker in procfs_kernel_workers() {
        kthreads.set_boosted(worker, Some(u128::MAX)).unwrap();
    }
    write_to_a_terminal();
    let unrelated = |events: &[Event]| {
        events.iter().any(|e| matches!(e.what, What::Unrelated { .. }) && e.woke)
    };
    assert!(unrelated(&events_until(&mut kthreads, unrelated)));
}
