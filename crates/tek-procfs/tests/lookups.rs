// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups by a thread whose priority is above that of a thread that reaps processes.
use nix::sched::{sched_setaffinity, CpuSet};
use nix::unistd::{gettid, Pid};
use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tek_procfs::{path, thread_path};

/// Without the question whether a process exists, the loop began within 100 children.
const CHILDREN: usize = 600;
/// As many live at a time.
const GROUP: usize = 8;
/// A reader that opened nothing while the watcher, above it on its CPU, woke so often is stuck.
const STUCK_WAKES: u32 = 8;

/// The threads that read, the last children, and how often each has read.
#[derive(Default)]
struct Common {
    readers: [AtomicI32; 2],
    children: [AtomicI32; GROUP],
    reads: [AtomicU64; 2],
    is_over: AtomicBool,
}

/// Sets the priority of a thread; 0: it is ordinary.
fn set_priority(tid: i32, priority: i32) -> bool {
    let policy = if priority > 0 { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure is read only.
    unsafe { libc::sched_setscheduler(tid, policy, &param) == 0 }
}

fn stay_on_first_cpu() {
    let mut cpus = CpuSet::new();
    cpus.set(0).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
}

/// Starts children and reaps them, which removes their directories.
fn reap(common: &Common) {
    while common.reads.iter().any(|reads| reads.load(SeqCst) == 0) {
        thread::yield_now();
    }
    set_priority(0, 40);
    stay_on_first_cpu();
    for _ in 0..CHILDREN / GROUP {
        if common.is_over.load(SeqCst) {
            return;
        }
        let children: Vec<_> = (0..GROUP).map(|_| Command::new("true").spawn().unwrap()).collect();
        for (child, id) in children.iter().zip(&common.children) {
            id.store(child.id() as i32, SeqCst);
        }
        for mut child in children {
            child.wait().unwrap();
        }
    }
    common.is_over.store(true, SeqCst);
}

/// Interrupts the reaper, and opens files of what it reaps.
fn read(common: &Common) {
    common.readers[0].store(gettid().as_raw(), SeqCst);
    set_priority(0, 98);
    stay_on_first_cpu();
    while !common.is_over.load(SeqCst) {
        thread::sleep(Duration::from_micros(20));
        open_all(&common.children);
        common.reads[0].fetch_add(1, SeqCst);
    }
}

/// The same with a priority between theirs.
fn read_seldom(common: &Common) {
    common.readers[1].store(gettid().as_raw(), SeqCst);
    set_priority(0, 51);
    stay_on_first_cpu();
    while !common.is_over.load(SeqCst) {
        thread::sleep(Duration::from_micros(400));
        open_all(&common.children);
        common.reads[1].fetch_add(1, SeqCst);
    }
}

fn open_all(children: &[AtomicI32]) {
    for child in children {
        let child = child.load(SeqCst);
        let _ = thread_path(child, child, "stat").and_then(File::open);
        for file in ["stat", "status", "comm", "task"] {
            let _ = path(child, file).and_then(File::open);
        }
    }
}

/// Whether a reader is stuck. Both are made ordinary then, which ends the loop.
fn watch(common: &Common) -> bool {
    set_priority(0, 99);
    stay_on_first_cpu();
    let mut readers = [(0, 0); 2];
    while !common.is_over.load(SeqCst) {
        thread::sleep(Duration::from_millis(50));
        for ((seen, wakes), reads) in readers.iter_mut().zip(&common.reads) {
            let reads = reads.load(SeqCst);
            *wakes = if reads == *seen { *wakes + 1 } else { 0 };
            *seen = reads;
        }
        if readers.iter().any(|&(_, wakes)| wakes > STUCK_WAKES) {
            for reader in &common.readers {
                set_priority(reader.load(SeqCst), 0);
            }
            common.is_over.store(true, SeqCst);
            return true;
        }
    }
    false
}

#[test]
fn a_lookup_ends_where_its_caller_keeps_the_reaper_from_its_cpu() {
    if !set_priority(0, 1) || !set_priority(0, 0) {
        println!("skipped: needs real-time priorities");
        return;
    }
    let common = Arc::new(Common::default());
    let start = |run: fn(&Common)| {
        let common = Arc::clone(&common);
        thread::spawn(move || run(&common))
    };
    let guard = thread::spawn({
        let common = Arc::clone(&common);
        move || watch(&common)
    });
    let threads = [start(read), start(read_seldom), start(reap)];
    let is_stuck = guard.join().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(!is_stuck, "a lookup did not end within 400 ms");
}
