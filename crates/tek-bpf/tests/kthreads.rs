// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs tell of critical threads that do ordinary things.
#![cfg(loads)]
mod common;

use common::{at_priority, events_until, gettid, of_task, set_priority, wakes, watch};
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, unlockpt};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tek_bpf::{Event, Follow, Kthreads, What};

/// On a file system with writeback, which /tmp is not everywhere.
fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// Writes to a file that stays dirty for a while.
fn write_a_page(path: &Path) {
    File::create(path).unwrap().write_all(&[1; 4096]).unwrap();
}

/// Writing to a terminal's master queues the work that hands the text to its other side.
fn write_to_a_terminal() {
    let mut master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    assert!(master.as_raw_fd() > 0);
    master.write_all(b"text\n").unwrap();
    thread::sleep(Duration::from_millis(5));
}

/// The inodes that a task made dirty, with their bdi_writeback: its file, and the disk's own inode where
/// the file system had to change something there.
fn dirtied(events: &[Event], tid: i32) -> Vec<(u64, u64)> {
    let inode = |what: &What| match what {
        What::InodeDirtied { inode, wb, .. } => Some((*inode, *wb)),
        _ => None,
    };
    of_task(events, tid).iter().filter_map(inode).collect()
}

#[test]
#[ignore = "needs root"]
fn all_dependencies_work_on_this_kernel_or_say_why_not() {
    let kthreads = Kthreads::open().unwrap();
    for dependency in kthreads.dependencies() {
        assert!(dependency.is_on(), "{dependency:?}");
    }
    assert!(kthreads.lost().unwrap().iter().all(|(_, lost)| *lost == 0));
}

#[test]
#[ignore = "needs root"]
fn a_work_that_a_critical_thread_queues_is_told_until_it_has_run() {
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, write_to_a_terminal);
    let ended = |event: &What| matches!(event, What::WorkEnded { .. });
    let events = events_until(&mut kthreads, |events| of_task(events, tid).iter().any(ended));
    let told = of_task(&events, tid);
    let (queued, first) = told
        .iter()
        .find_map(|what| match what {
            What::WorkQueued { work, worker, member } if member.priority == 20 => {
                Some((*work, *worker))
            }
            _ => None,
        })
        .expect("a work is queued");
    assert!(first.is_none_or(|worker| worker.name.as_bytes().starts_with(b"kworker/")), "{told:?}");
    let of_work = |what: &&What| match what {
        What::WorkStarted { work, .. } | What::WorkEnded { work, .. } => *work == queued,
        _ => false,
    };
    let later: Vec<&What> = told.iter().filter(of_work).collect();
    assert!(matches!(later[0], What::WorkStarted { worker, .. } if worker.tid > 0), "{told:?}");
    assert!(matches!(later[1], What::WorkEnded { .. }), "{told:?}");
}

#[test]
#[ignore = "needs root"]
fn an_inode_that_a_critical_thread_makes_dirty_is_told_until_it_is_written_back() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let written = path.clone();
    let tid = at_priority(20, move || write_a_page(&written));
    let mut events = events_until(&mut kthreads, |_| false);
    let mine = dirtied(&events, tid);
    assert!(!mine.is_empty(), "{events:?}");
    let its_wb = mine[0].1;

    nix::unistd::sync();
    let ended = |events: &[Event], mine: u64| {
        events.iter().any(|e| matches!(e.what, What::InodeCleaned { inode, .. } if inode == mine))
    };
    let clean = |events: &[Event]| mine.iter().all(|(inode, _)| ended(events, *inode));
    events.extend(events_until(&mut kthreads, clean));
    assert!(clean(&events), "{events:?}");
    let started = events.iter().any(|event| {
        matches!(event.what, What::WbStarted { wb, worker, .. }
            if wb == its_wb && worker.name.as_bytes().starts_with(b"kworker/"))
    });
    assert!(started, "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_dirty_inode_that_is_deleted_is_told_as_gone() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let _watcher = watch(&mut kthreads);
    let tid = at_priority(20, move || {
        write_a_page(&path);
        std::fs::remove_file(&path).unwrap();
    });
    let events = events_until(&mut kthreads, |_| false);
    let mine = dirtied(&events, tid);
    let gone = |event: &Event| matches!(event.what, What::InodeGone { inode, .. } if mine.iter().any(|m| m.0 == inode));
    assert!(events.iter().any(gone), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_second_write_to_the_same_dirty_inode_is_not_told_again() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, move || {
        let mut file = File::create(path).unwrap();
        for _ in 0..20 {
            file.write_all(&[1; 4096]).unwrap();
        }
    });
    let events = events_until(&mut kthreads, |_| false);
    let mut mine = dirtied(&events, tid);
    let told = mine.len();
    mine.sort_unstable();
    mine.dedup();
    assert!(told > 0);
    assert_eq!(told, mine.len(), "{events:?}");
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
    let events = events_until(&mut kthreads, |_| false);
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
    let events = events_until(&mut kthreads, |_| false);
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
    kthreads.set_who(tid, Some(Follow::Ignore)).unwrap();
    go.send(()).unwrap();
    thread.join().unwrap();
    let events = events_until(&mut kthreads, |_| false);
    assert!(of_task(&events, tid).is_empty(), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_task_that_exits_is_told() {
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, write_to_a_terminal);
    let exited = |events: &[Event]| {
        events.iter().any(|e| matches!(e.what, What::TaskExited { tid: who, .. } if who == tid))
    };
    let events = events_until(&mut kthreads, exited);
    assert!(exited(&events), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_block_request_of_a_critical_thread_is_told_until_it_is_complete() {
    let directory = disk();
    let path = directory.path().join("file");
    write_a_page(&path);
    nix::unistd::sync();
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, move || {
        // The kernel wants memory that begins where a block would.
        let mut room = vec![0u8; 8192];
        let skip = room.as_ptr().align_offset(4096);
        let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
        file.read_exact_at(&mut room[skip..skip + 4096], 0).unwrap();
    });
    let ended = |what: &What| matches!(what, What::RequestEnded { .. });
    let events = events_until(&mut kthreads, |events| of_task(events, tid).iter().any(ended));
    let told = of_task(&events, tid);
    let begun = told.iter().find_map(|what| match what {
        What::RequestBegan { request, disk, .. } => Some((*request, *disk)),
        _ => None,
    });
    let (mine, disk) = begun.expect("a request begins");
    assert!(disk.major > 0, "{told:?}");
    let same = |what: &What| matches!(what, What::RequestEnded { request, .. } if *request == mine);
    assert!(told.iter().any(same), "{told:?}");
}

/// Queues a work at this priority, and says whether that woke us who follow the thread.
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
    kthreads.set_who(tid, Some(Follow::Follow)).unwrap();
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
fn a_relation_that_the_boost_covers_already_wakes_nobody() {
    let mut kthreads = Kthreads::open().unwrap();
    // Whichever worker will run it: as if all had their boost.
    let workers: Vec<i32> = procfs_kernel_workers();
    for &worker in &workers {
        kthreads.set_boosted(worker, Some(1 << 20 | 1 << 99)).unwrap();
    }
    let (woke, told) = wakes_for(&mut kthreads, 20);
    assert!(told.iter().any(|what| matches!(what, What::WorkQueued { .. })), "{told:?}");
    assert!(!woke, "{told:?}");
    let (woke, told) = wakes_for(&mut kthreads, 21);
    assert!(woke, "{told:?}");
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

#[test]
#[ignore = "needs root"]
fn who_sleeps_is_not_woken_by_events_that_need_nothing_done() {
    let mut kthreads = Kthreads::open().unwrap();
    for worker in procfs_kernel_workers() {
        // All priorities, because other critical threads of the machine must not wake us here.
        kthreads.set_boosted(worker, Some(u128::MAX)).unwrap();
    }
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        set_priority(20);
        sender.send(gettid()).unwrap();
        wait.recv().unwrap();
        thread::sleep(Duration::from_millis(50));
        write_to_a_terminal();
        set_priority(0);
    });
    let tid = receiver.recv().unwrap();
    kthreads.set_who(tid, Some(Follow::Follow)).unwrap();
    kthreads.drain(|_| ()).unwrap();
    go.send(()).unwrap();
    let woken = wakes(&kthreads, 200);
    thread.join().unwrap();
    let mut events = Vec::new();
    kthreads.drain(|event| events.push(event)).unwrap();
    assert!(!of_task(&events, tid).is_empty(), "{events:?}");
    let mine = events.iter().any(|e| e.woke && common::member(e).is_some_and(|m| m.tid == tid));
    assert!(!mine, "{events:?}");
    // Others of the machine may have woken us; nobody did if no event says so.
    assert!(!woken || events.iter().any(|event| event.woke), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_boosted_worker_that_begins_something_else_is_told_and_wakes() {
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

#[test]
#[ignore = "needs root"]
fn pages_that_a_critical_thread_brings_in_are_counted_until_they_leave() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let _watcher = watch(&mut kthreads);
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let mut file = File::create(&path).unwrap();
    let thread = thread::spawn(move || {
        set_priority(20);
        file.write_all(&[1; 64 * 4096]).unwrap();
        set_priority(0);
        drop(file); // or its pages stay
        sender.send(gettid()).unwrap();
        wait.recv().unwrap();
    });
    let tid = receiver.recv().unwrap();
    let brought = kthreads.pages(tid).unwrap();
    // The file system may read for it what it needs itself: inodes, which blocks are free.
    assert!(brought >= 64, "{brought}");
    std::fs::remove_file(path).unwrap();
    let left = kthreads.pages(tid).unwrap();
    assert!(left + 64 <= brought, "{left} of {brought}");
    go.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
#[ignore = "needs root"]
fn what_is_forgotten_is_not_told_to_end() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, move || write_a_page(&path));
    let events = events_until(&mut kthreads, |_| false);
    let mine = dirtied(&events, tid);
    assert!(!mine.is_empty(), "{events:?}");
    kthreads.forget().unwrap();
    nix::unistd::sync();
    let events = events_until(&mut kthreads, |_| false);
    // Another critical task of the machine can have made the disk's inode dirty again.
    let again = |inode: u64| {
        let same = |e: &Event| matches!(e.what, What::InodeDirtied { inode: i, .. } if i == inode);
        events.iter().any(same)
    };
    let clean = |e: &Event| match e.what {
        What::InodeCleaned { inode, .. } => mine.iter().any(|m| m.0 == inode) && !again(inode),
        _ => false,
    };
    assert!(!events.iter().any(clean), "{events:?}");
}
