// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events for locks whose words name threads of other processes, or no thread.
#![cfg(loads)]
mod common;

use common::locks::{futex_wait, shared, Mutex};
use common::waits::{all_ended, entries, finds_processes, has_ended, holders};
use common::{
    at_priority, events_for_a_while, events_until, gettid, set_priority, watching, PATIENCE,
};
use std::os::unix::process::parent_id;
use std::thread;
use std::time::{Duration, Instant};
use tek_bpf::{Event, Evidence};

/// The words of a contended mutex that names this owner.
fn forged(owner: i32) -> [u32; 6] {
    [2, 0, owner as u32, 1, 0, 0]
}

/// The events, the waiter, and whether the programs find other processes.
fn wait_for_forged(owner: i32, private: bool) -> (Vec<Event>, i32, bool) {
    let (mut kthreads, _watcher) = watching();
    let tid = at_priority(30, move || futex_wait(&forged(owner), 2, private, 100_000_000));
    (events_for_a_while(&mut kthreads), tid, finds_processes(&kthreads))
}

#[test]
#[ignore = "needs root"]
fn a_private_lock_that_names_a_thread_of_another_process_is_not_reported() {
    let (events, tid, _) = wait_for_forged(parent_id() as i32, true);
    assert_eq!(holders(&events, tid), [], "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_shared_lock_that_names_a_thread_of_another_process_has_a_mark() {
    let other = parent_id() as i32;
    let (events, tid, finds) = wait_for_forged(other, false);
    let reported = holders(&events, tid);
    let process = Some(other).filter(|_| finds);
    assert_eq!(reported, [(other, process, Evidence::Foreign)], "{events:?}");
    assert!(all_ended(&events, tid), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_lock_that_names_its_waiter_or_no_thread_is_not_reported() {
    let (mut kthreads, _watcher) = watching();
    let mut tids = Vec::new();
    for private in [true, false] {
        let own = move || futex_wait(&forged(gettid()), 2, private, 10_000_000);
        tids.push(at_priority(30, own));
        for owner in [i32::MAX, -1, 0] {
            let wait = move || futex_wait(&forged(owner), 2, private, 10_000_000);
            let tid = at_priority(30, wait);
            // Without a way to find it, userland must find out that there is no such thread.
            if private || owner <= 0 || finds_processes(&kthreads) {
                tids.push(tid);
            }
        }
    }
    let events = events_for_a_while(&mut kthreads);
    for tid in tids {
        assert_eq!(holders(&events, tid), [], "{events:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn the_holder_of_a_shared_mutex_in_another_process_is_reported_with_a_mark() {
    let (mut kthreads, _watcher) = watching();
    let mutex = shared::<Mutex>();
    mutex.init(libc::PTHREAD_MUTEX_NORMAL, false, true);
    let mut pipe = [0; 2];
    // SAFETY: the child calls functions that are safe after fork() only, and then exits.
    let child = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        match libc::fork() {
            0 => {
                mutex.lock();
                libc::write(pipe[1], [1u8].as_ptr().cast(), 1);
                libc::usleep(500_000);
                mutex.unlock();
                libc::_exit(0);
            }
            child => child,
        }
    };
    // SAFETY: the kernel writes one byte.
    assert_eq!(unsafe { libc::read(pipe[0], [0u8].as_mut_ptr().cast(), 1) }, 1);
    let tid = at_priority(30, move || {
        mutex.lock();
        mutex.unlock();
    });
    // SAFETY: the kernel writes one int.
    assert_eq!(unsafe { libc::waitpid(child, &mut 0, 0) }, child);
    let events = events_until(&mut kthreads, |events| has_ended(events, tid));
    let process = Some(child).filter(|_| finds_processes(&kthreads));
    let expected = (child, process, Evidence::Foreign);
    assert_eq!(holders(&events, tid), [expected], "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_waiter_that_is_killed_leaves_no_entry() {
    let (mut kthreads, _watcher) = watching();
    let mutex = shared::<Mutex>();
    mutex.init(libc::PTHREAD_MUTEX_NORMAL, false, true);
    mutex.lock();
    // SAFETY: the child calls functions that are safe after fork() only, and is killed.
    let child = match unsafe { libc::fork() } {
        0 => {
            set_priority(30);
            mutex.lock();
            // SAFETY: the child ends here if it is not killed.
            unsafe { libc::_exit(1) };
        }
        child => child,
    };
    let begun = events_until(&mut kthreads, |e| !holders(e, child).is_empty());
    assert_eq!(holders(&begun, child).len(), 1, "{begun:?}");
    // SAFETY: the child has not been waited for.
    unsafe {
        assert_eq!(libc::kill(child, libc::SIGKILL), 0);
        assert_eq!(libc::waitpid(child, &mut 0, 0), child);
    }
    let events = events_until(&mut kthreads, |events| has_ended(events, child));
    assert!(has_ended(&events, child), "{events:?}");
    // Other tests of this program wait too, each for a while only.
    let limit = Instant::now() + PATIENCE;
    for map in ["lock_waits", "awaited"] {
        while entries(&kthreads, map) != 0 {
            assert!(Instant::now() < limit, "{:?}", kthreads.entries());
            thread::sleep(Duration::from_millis(1));
        }
    }
    mutex.unlock();
}
