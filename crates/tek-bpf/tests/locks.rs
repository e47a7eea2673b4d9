// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events for critical threads that sleep in futex(2).
#![cfg(loads)]
mod common;

use common::locks::{Mutex, RwLock};
use common::waits::{all_ended, finds_processes, has_ended, holders, start_waiter, Holder};
use common::{
    at_priority, events_for_a_while, events_until, gettid, of_task, set_priority_of,
    wait_until_asleep, watch, watching, PATIENCE,
};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};
use tek_bpf::{Event, Evidence, Kthreads, Member, Watch, What};

/// Within this time the test's own thread sleeps.
const A_MOMENT: Duration = Duration::from_millis(100);

/// The events of some moments in which the test's own thread sleeps.
fn events_after_all_sleep(kthreads: &mut Kthreads) -> Vec<Event> {
    thread::sleep(5 * A_MOMENT);
    events_for_a_while(kthreads)
}

/// Checks that the waiter is reported to wait for the holder until it has what it waits for.
fn check(
    take: impl FnOnce() + Send + 'static,
    give: impl FnOnce() + Send + 'static,
    wait: impl FnOnce() + Send + 'static,
) {
    let (mut kthreads, _watcher) = watching();
    let holder = Holder::start(take, give);
    let (tid, waiter) = start_waiter(30, wait);
    let mut events = events_until(&mut kthreads, |e| !holders(e, tid).is_empty());
    let expected = (holder.tid, Some(process::id() as i32), Evidence::Found);
    assert_eq!(holders(&events, tid), [expected], "{events:?}");
    assert!(!has_ended(&events, tid), "{events:?}");
    let member = of_task(&events, tid)[0].member().unwrap();
    assert_eq!((member.priority, member.via), (30, false));
    holder.release();
    waiter.join().unwrap();
    events.extend(events_until(&mut kthreads, |new| has_ended(new, tid)));
    assert!(all_ended(&events, tid), "{events:?}");
}

fn check_mutex(kind: i32, robust: bool) {
    let mutex: Arc<Box<Mutex>> = Arc::new(Mutex::new(kind, robust));
    let (taken, given, awaited) = (mutex.clone(), mutex.clone(), mutex.clone());
    check(
        move || taken.lock(),
        move || given.unlock(),
        move || {
            awaited.lock();
            awaited.unlock();
        },
    );
}

#[test]
#[ignore = "needs root"]
fn the_holder_of_a_mutex_is_reported_until_the_waiter_is_woken() {
    check_mutex(libc::PTHREAD_MUTEX_NORMAL, false);
}

#[test]
#[ignore = "needs root"]
fn the_holder_of_a_recursive_mutex_is_reported() {
    check_mutex(libc::PTHREAD_MUTEX_RECURSIVE, false);
}

#[test]
#[ignore = "needs root"]
fn the_holder_of_a_mutex_that_checks_for_errors_is_reported() {
    check_mutex(libc::PTHREAD_MUTEX_ERRORCHECK, false);
}

#[test]
#[ignore = "needs root"]
fn the_holder_of_an_adaptive_mutex_is_reported() {
    const ADAPTIVE: i32 = 3;
    check_mutex(ADAPTIVE, false);
}

#[test]
#[ignore = "needs root"]
fn the_holder_of_a_robust_mutex_is_reported() {
    check_mutex(libc::PTHREAD_MUTEX_NORMAL, true);
}

#[test]
#[ignore = "needs root"]
fn a_reader_waits_for_the_writer_of_a_lock() {
    let lock = Arc::new(RwLock::new());
    let (taken, given, awaited) = (lock.clone(), lock.clone(), lock);
    let wait = move || {
        awaited.read();
        awaited.unlock();
    };
    check(move || taken.write(), move || given.unlock(), wait);
}

#[test]
#[ignore = "needs root"]
fn a_writer_waits_for_the_writer_of_a_lock() {
    let lock = Arc::new(RwLock::new());
    let (taken, given, awaited) = (lock.clone(), lock.clone(), lock);
    let wait = move || {
        awaited.write();
        awaited.unlock();
    };
    check(move || taken.write(), move || given.unlock(), wait);
}

#[test]
#[ignore = "needs root"]
fn a_thread_that_a_critical_thread_joins_is_reported_until_it_has_ended() {
    let (mut kthreads, _watcher) = watching();
    let joined = Holder::start(|| (), || ());
    let (tid, go) = (joined.tid, joined.go);
    let (waiter, thread) = start_waiter(30, move || joined.thread.join().unwrap());
    let mut events = events_until(&mut kthreads, |e| !holders(e, waiter).is_empty());
    let expected = (tid, Some(process::id() as i32), Evidence::Found);
    assert_eq!(holders(&events, waiter), [expected], "{events:?}");
    go.send(()).unwrap();
    thread.join().unwrap();
    events.extend(events_until(&mut kthreads, |new| has_ended(new, waiter)));
    assert!(all_ended(&events, waiter), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_lock_without_an_owner_leads_to_the_thread_that_woke_a_waiter_last() {
    let (mut kthreads, _watcher) = watching();
    let lock = Arc::new(std::sync::Mutex::new(0u64));
    let (ask, asked) = mpsc::channel::<mpsc::Sender<(i32, mpsc::Sender<()>)>>();
    let held = lock.clone();
    // It holds the lock from each request until the message that ends it.
    let holder = thread::spawn(move || {
        for reply in asked {
            let (go, gone) = mpsc::channel();
            let guard = held.lock().unwrap();
            reply.send((gettid(), go)).unwrap();
            gone.recv().unwrap();
            drop(guard);
        }
    });
    for round in 0..2 {
        let (reply, replied) = mpsc::channel();
        ask.send(reply).unwrap();
        let (holder_tid, go) = replied.recv().unwrap();
        wait_until_asleep(holder_tid);
        let mine = lock.clone();
        let (tid, waiter) = start_waiter(30, move || {
            thread::sleep(A_MOMENT);
            *mine.lock().unwrap() += 1;
        });
        let events = match round {
            0 => events_after_all_sleep(&mut kthreads),
            _ => events_until(&mut kthreads, |e| !holders(e, tid).is_empty()),
        };
        let expected = (holder_tid, Some(process::id() as i32), Evidence::Guessed);
        let expected = if round == 0 { vec![] } else { vec![expected] };
        assert_eq!(holders(&events, tid), expected);
        go.send(()).unwrap();
        waiter.join().unwrap();
    }
    drop(ask);
    holder.join().unwrap();
}

/// A critical thread waits for a lock for the first time, while the holder of the lock and `hogs`
/// other threads compute. Returns the reported holders, and the id of the real one.
fn holders_at_first_wait(hogs: usize) -> (Vec<(i32, Option<i32>, Evidence)>, i32) {
    let (mut kthreads, _watcher) = watching();
    let lock = Arc::new(std::sync::Mutex::new(0u64));
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, held) = (is_over.clone(), lock.clone());
    let (sender, receiver) = mpsc::channel();
    let holder = thread::spawn(move || {
        let guard = held.lock().unwrap();
        sender.send(gettid()).unwrap();
        compute_until(&over);
        drop(guard);
    });
    let holder_tid = receiver.recv().unwrap();
    let hogs: Vec<_> = (0..hogs)
        .map(|_| {
            let over = is_over.clone();
            thread::spawn(move || compute_until(&over))
        })
        .collect();
    let (tid, waiter) = start_waiter(30, move || {
        thread::sleep(A_MOMENT);
        *lock.lock().unwrap() += 1;
    });
    let events = events_after_all_sleep(&mut kthreads);
    is_over.store(true, Ordering::Relaxed);
    for thread in hogs.into_iter().chain([holder, waiter]) {
        thread.join().unwrap();
    }
    (holders(&events, tid), holder_tid)
}

fn compute_until(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

#[test]
#[ignore = "needs root"]
fn before_a_waiter_was_woken_it_leads_to_the_only_other_thread_that_does_not_sleep() {
    const ROUNDS: usize = 20;
    // Beside load the test's own thread may be awake, too.
    let mut rounds = (0..ROUNDS).map(|_| holders_at_first_wait(0));
    let (found, holder) = rounds.find(|(found, _)| !found.is_empty()).unwrap();
    assert_eq!(found, [(holder, Some(process::id() as i32), Evidence::Guessed)]);
}

#[test]
#[ignore = "needs root"]
fn of_two_threads_that_do_not_sleep_none_is_guessed() {
    assert_eq!(holders_at_first_wait(1).0, []);
}

/// A waits for B, and B waits for C. B may become critical by itself in its sleep.
fn check_chain(b_sleeps_first: bool, b_priority: Option<i32>) {
    let mut kthreads = Kthreads::open().unwrap();
    if b_sleeps_first && !finds_processes(&kthreads) {
        println!("skipped: {:?}", kthreads.dependencies());
        return;
    }
    let _watcher = watch(&mut kthreads);
    let new = || Arc::new(Mutex::new(libc::PTHREAD_MUTEX_NORMAL, false));
    let (first, second) = (new(), new());
    let (taken, given) = (second.clone(), second.clone());
    let c = Holder::start(move || taken.lock(), move || given.unlock());
    let (held, awaited) = (first.clone(), second.clone());
    let (sender, receiver) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let b = thread::spawn(move || {
        held.lock();
        sender.send(gettid()).unwrap();
        gone.recv().unwrap();
        awaited.lock();
        awaited.unlock();
        held.unlock();
    });
    let b_tid = receiver.recv().unwrap();
    if b_sleeps_first {
        go.send(()).unwrap();
        // Its call is futex(2) in both of its sleeps.
        let call = format!("/proc/self/task/{b_tid}/syscall");
        let address = format!("{:#x}", second.address());
        let limit = Instant::now() + PATIENCE;
        while !std::fs::read_to_string(&call).unwrap().contains(&address) {
            assert!(Instant::now() < limit);
            thread::sleep(Duration::from_millis(1));
        }
    }
    if let Some(priority) = b_priority {
        set_priority_of(b_tid, priority);
    }
    let (a_tid, a) = start_waiter(30, move || {
        first.lock();
        first.unlock();
    });
    let mut events = events_until(&mut kthreads, |e| !holders(e, a_tid).is_empty());
    if !b_sleeps_first {
        go.send(()).unwrap();
    }
    events.extend(events_until(&mut kthreads, |new| {
        !holders(&events, b_tid).is_empty() || !holders(new, b_tid).is_empty()
    }));
    let own = Some(process::id() as i32);
    assert_eq!(holders(&events, a_tid), [(b_tid, own, Evidence::Found)], "{events:?}");
    let of_b = holders(&events, b_tid);
    assert_eq!(of_b.last(), Some(&(c.tid, own, Evidence::Found)), "{events:?}");
    let is_right = |b: Member| match b_priority {
        Some(priority) => !b.via && i32::from(b.priority) == priority,
        None => b.via,
    };
    let of_b = of_task(&events, b_tid);
    assert!(of_b.iter().all(|what| what.member().is_some_and(is_right)), "{events:?}");
    c.release();
    a.join().unwrap();
    b.join().unwrap();
    events.extend(events_until(&mut kthreads, |new| has_ended(new, a_tid)));
    assert!(all_ended(&events, a_tid) && all_ended(&events, b_tid), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_holder_that_begins_to_wait_for_a_further_lock_is_a_member() {
    check_chain(false, None);
}

#[test]
#[ignore = "needs root"]
fn a_holder_that_already_sleeps_for_a_further_lock_is_followed() {
    check_chain(true, None);
}

#[test]
#[ignore = "needs root"]
fn a_holder_that_is_critical_by_itself_is_a_member_by_itself() {
    check_chain(true, Some(20));
}

#[test]
#[ignore = "needs root"]
fn a_wait_that_times_out_ends() {
    let (mut kthreads, _watcher) = watching();
    let mutex = Arc::new(Mutex::new(libc::PTHREAD_MUTEX_NORMAL, false));
    let (taken, given, awaited) = (mutex.clone(), mutex.clone(), mutex.clone());
    let holder = Holder::start(move || taken.lock(), move || given.unlock());
    let tid = at_priority(30, move || {
        assert_eq!(awaited.lock_for(20_000_000), libc::ETIMEDOUT);
    });
    let events = events_until(&mut kthreads, |events| has_ended(events, tid));
    assert_eq!(holders(&events, tid).len(), 1, "{events:?}");
    assert!(all_ended(&events, tid), "{events:?}");
    holder.release();
}

#[test]
#[ignore = "needs root"]
fn waits_of_ordinary_threads_are_not_reported() {
    let (mut kthreads, _watcher) = watching();
    let mutex = Arc::new(Mutex::new(libc::PTHREAD_MUTEX_NORMAL, false));
    let (taken, given, awaited) = (mutex.clone(), mutex.clone(), mutex.clone());
    let holder = Holder::start(move || taken.lock(), move || given.unlock());
    let (tid, waiter) = start_waiter(0, move || {
        awaited.lock();
        awaited.unlock();
    });
    let events = events_for_a_while(&mut kthreads);
    holder.release();
    waiter.join().unwrap();
    assert_eq!(of_task(&events, tid), [], "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn an_ordinary_thread_that_userland_calls_critical_is_reported() {
    let (mut kthreads, _watcher) = watching();
    let mutex = Arc::new(Mutex::new(libc::PTHREAD_MUTEX_NORMAL, false));
    let (taken, given, awaited) = (mutex.clone(), mutex.clone(), mutex.clone());
    let holder = Holder::start(move || taken.lock(), move || given.unlock());
    let (go, gone) = mpsc::channel::<()>();
    let (tid, waiter) = start_waiter(0, move || {
        gone.recv().unwrap();
        awaited.lock();
        awaited.unlock();
    });
    kthreads.set_fast(tid, Some(40)).unwrap();
    go.send(()).unwrap();
    let events = events_until(&mut kthreads, |e| {
        holders(e, tid).iter().any(|(reported, ..)| *reported == holder.tid)
    });
    let member = of_task(&events, tid).last().and_then(What::member).unwrap();
    assert_eq!(member.priority, 40, "{events:?}");
    holder.release();
    waiter.join().unwrap();
}

#[test]
#[ignore = "needs root"]
fn nothing_is_reported_while_no_program_for_locks_is_attached() {
    let mut kthreads = Kthreads::open().unwrap();
    let mut watcher = kthreads.watcher().unwrap();
    let attached = |watcher: &tek_bpf::Watcher| {
        let of_waits = ["lock_slept", "lock_woken", "sender_slept", "receiver_woken"];
        watcher.attached().iter().filter(|name| of_waits.contains(name)).count()
    };
    watcher.watch(Watch { pages: true, storage: true, ..Watch::default() }).unwrap();
    assert_eq!(attached(&watcher), 0);
    let mutex = Arc::new(Mutex::new(libc::PTHREAD_MUTEX_NORMAL, false));
    let (taken, given, awaited) = (mutex.clone(), mutex.clone(), mutex.clone());
    let holder = Holder::start(move || taken.lock(), move || given.unlock());
    let tid = at_priority(30, move || {
        assert_eq!(awaited.lock_for(20_000_000), libc::ETIMEDOUT);
    });
    holder.release();
    let events = events_for_a_while(&mut kthreads);
    assert_eq!(holders(&events, tid), [], "{events:?}");
    watcher.watch(Watch { locks: true, ..Watch::default() }).unwrap();
    assert_eq!(attached(&watcher), 2);
    watcher.watch(Watch::default()).unwrap();
    assert!(watcher.attached().is_empty(), "{:?}", watcher.attached());
}

#[test]
#[ignore = "needs root"]
fn many_waiters_of_one_holder_cause_one_begin_and_one_end_each() {
    const WAITERS: usize = 300;
    let (mut kthreads, _watcher) = watching();
    let mutex = Arc::new(Mutex::new(libc::PTHREAD_MUTEX_NORMAL, false));
    let (taken, given) = (mutex.clone(), mutex.clone());
    let holder = Holder::start(move || taken.lock(), move || given.unlock());
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let awaited = mutex.clone();
            start_waiter(10, move || assert_eq!(awaited.lock_for(900_000_000), libc::ETIMEDOUT))
        })
        .collect();
    let tids: Vec<i32> = waiters.iter().map(|(tid, _)| *tid).collect();
    for (_, thread) in waiters {
        thread.join().unwrap();
    }
    holder.release();
    let ended = |events: &[Event]| tids.iter().all(|tid| has_ended(events, *tid));
    let events = events_until(&mut kthreads, ended);
    assert!(ended(&events));
    for tid in tids {
        let its = of_task(&events, tid);
        // One that waits for a lock of the C library, which names no owner, may take this one for
        // its holder. At the moment in which this one wakes, that begins and ends its wait again.
        assert!((1..=2).contains(&holders(&events, tid).len()), "{its:?}");
        assert!(its.iter().all(|what| what.member().is_some_and(|it| !it.via)), "{its:?}");
        assert!(all_ended(&events, tid), "{its:?}");
    }
    assert!(kthreads.lost().unwrap().iter().all(|(_, lost)| *lost == 0));
}
