// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of the programs for locks and answers: for other programs, and until an event is read.
//! `cargo test -p tek-bpf --test waits_cost -- --ignored --nocapture` prints the measured values.
#![cfg(loads)]
mod common;

use common::locks::Mutex;
use common::objects::Connection;
use common::{gettid, set_priority, wait_until_asleep};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::time::{clock_gettime, ClockId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};
use tek_bpf::{Follow, Kthreads, Watch, What};

const ROUNDS: usize = 21;

const WAITS: Watch =
    Watch { pages: false, storage: false, packets: false, locks: true, answers: true };

/// ns for each call, in the fastest of 20 parts: other programs disturb some of them.
fn time_of(calls: u32, mut call: impl FnMut()) -> f64 {
    let part = calls / 20;
    let mut time_of_part = || {
        let begun = Instant::now();
        (0..part).for_each(|_| call());
        begun.elapsed().as_nanos() as f64 / f64::from(part)
    };
    (0..20).map(|_| time_of_part()).fold(f64::INFINITY, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn null_call() {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

fn wake_no_thread(word: &u32) {
    let command = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address only.
    unsafe { libc::syscall(libc::SYS_futex, word, command, 1) };
}

fn wait_for_another_value(word: &u32) {
    let command = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel reads one word, which has another value.
    unsafe { libc::syscall(libc::SYS_futex, word, command, 1, 0) };
}

/// What ordinary threads do: (name, ns for one).
fn measure() -> Vec<(&'static str, f64)> {
    let pipes = Connection::pipes();
    let sockets = Connection::sockets(libc::SOCK_STREAM);
    let word = 0;
    let alone = |connection: Connection| {
        time_of(20_000, || {
            connection.send_request();
            connection.receive_request();
        })
    };
    let between = |connection: Connection| {
        let server = thread::spawn(move || {
            (0..2_000).for_each(|_| {
                connection.receive_request();
                connection.send_answer();
            });
        });
        let time = time_of(2_000, || connection.call());
        server.join().unwrap();
        time
    };
    vec![
        ("null system call", time_of(100_000, null_call)),
        ("futex wake of no thread", time_of(50_000, || wake_no_thread(&word))),
        ("futex wait that does not sleep", time_of(50_000, || wait_for_another_value(&word))),
        ("pipe, write and read", alone(pipes)),
        ("UNIX socket, write and read", alone(sockets)),
        ("pipe, to another thread and back", between(pipes)),
        ("UNIX socket, to another thread and back", between(sockets)),
    ]
}

#[test]
#[ignore = "needs root"]
fn another_program_pays_little_while_a_critical_thread_waits() {
    let mut kthreads = Kthreads::open().unwrap();
    let mut watcher = kthreads.watcher().unwrap();
    watcher.watch(WAITS).unwrap();
    let names: Vec<&str> = measure().into_iter().map(|(name, _)| name).collect();
    let mutex = Arc::new(Mutex::new(libc::PTHREAD_MUTEX_NORMAL, false));
    // The thread that measures must not be awaited itself.
    let (held, awaited) = (mutex.clone(), mutex.clone());
    let (taken, is_taken) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let holder = thread::spawn(move || {
        held.lock();
        taken.send(()).unwrap();
        gone.recv().unwrap();
        held.unlock();
    });
    is_taken.recv().unwrap();
    let (sender, receiver) = mpsc::channel();
    let connection = Connection::pipes();
    // It has sent something, and sleeps for a lock.
    let waiter = thread::spawn(move || {
        set_priority(10);
        sender.send(gettid()).unwrap();
        connection.send_request();
        awaited.lock();
        awaited.unlock();
        set_priority(0);
    });
    let tid = receiver.recv().unwrap();
    wait_until_asleep(tid);
    kthreads.drain(|_| ()).unwrap();
    let mut rounds: [Vec<Vec<f64>>; 2] =
        [vec![Vec::new(); names.len()], vec![Vec::new(); names.len()]];
    for round in 0..2 * ROUNDS {
        let attached = round % 2;
        watcher.watch(if attached == 1 { WAITS } else { Watch::default() }).unwrap();
        for (index, (_, time)) in measure().into_iter().enumerate() {
            rounds[attached][index].push(time);
        }
        kthreads.drain(|_| ()).unwrap();
    }
    go.send(()).unwrap();
    holder.join().unwrap();
    waiter.join().unwrap();
    // The speed of the machine changes meanwhile, so each round is compared with its neighbour.
    let mut ratios = Vec::new();
    let [detached, attached] = rounds;
    for (index, name) in names.iter().enumerate() {
        let (without, with) = (&detached[index], &attached[index]);
        let ratio =
            median(with.iter().zip(without).map(|(with, without)| with / without).collect());
        println!("{name}: {:.0} ns, attached {ratio:.2} times", median(without.clone()));
        ratios.push(ratio);
    }
    assert!(ratios[0] <= 1.3, "no system call may become slower: {ratios:?}");
}

#[test]
#[ignore = "needs root"]
fn a_real_time_reader_receives_a_wait_soon() {
    let mut kthreads = Kthreads::open().unwrap();
    let mut watcher = kthreads.watcher().unwrap();
    watcher.watch(WAITS).unwrap();
    kthreads.set_follow(gettid(), Some(Follow::Ignore)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let its_stop = stop.clone();
    let mutex = Arc::new(Mutex::new(libc::PTHREAD_MUTEX_NORMAL, false));
    let held = mutex.clone();
    let holder = thread::spawn(move || {
        while !its_stop.load(Ordering::Relaxed) {
            held.lock();
            thread::sleep(Duration::from_micros(500));
            held.unlock();
            thread::sleep(Duration::from_micros(100));
        }
    });
    let its_stop = stop.clone();
    let waiter = thread::spawn(move || {
        set_priority(30);
        while !its_stop.load(Ordering::Relaxed) {
            mutex.lock();
            mutex.unlock();
            thread::sleep(Duration::from_micros(300));
        }
        set_priority(0);
    });
    let reader = thread::spawn(move || {
        set_priority(60);
        let mut times = Vec::new();
        let limit = Instant::now() + Duration::from_secs(20);
        while times.len() < 2_000 && Instant::now() < limit {
            let mut fds = [PollFd::new(kthreads.fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::from(100u16)).unwrap();
            kthreads
                .drain(|event| {
                    if matches!(event.what, What::LockAwaited { .. }) && event.woke {
                        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
                        let now = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
                        times.push((now - event.time) as f64 / 1e3);
                    }
                })
                .unwrap();
        }
        set_priority(0);
        times
    });
    let mut times = reader.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    holder.join().unwrap();
    waiter.join().unwrap();
    times.sort_by(f64::total_cmp);
    assert!(times.len() >= 100, "{times:?}");
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("{} waits, read after p50 {:.1} us, p99 {:.1} us", times.len(), at(50), at(99));
}
