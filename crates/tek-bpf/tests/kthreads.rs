// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events for critical threads that do ordinary things.
#![cfg(loads)]
mod common;

use common::{
    at_priority, events_for_a_while, events_until, events_within, gettid, of_task, set_priority,
    wait_until_asleep, wakes, watch, PATIENCE,
};
use nix::pty::openpty;
use nix::sys::termios::{tcgetattr, tcsetattr, LocalFlags, SetArg};
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};
use tek_bpf::{Event, Follow, Kthreads, What};

/// A directory on a file system with writeback: /tmp may lack it.
fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// Writes to a file, which stays dirty for a while.
fn write_a_page(path: &Path) {
    File::create(path).unwrap().write_all(&[1; 4096]).unwrap();
}

/// Writing to a terminal's master queues the work that delivers the text to the slave. The work has
/// run when the text arrives; closing the terminal earlier would cancel it. No other work is
/// queued: there is no echo, and no thread waits in poll() or read(), which would run the work at
/// once.
fn write_to_a_terminal() {
    let terminal = openpty(None, None).unwrap();
    let mut settings = tcgetattr(&terminal.slave).unwrap();
    settings.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&terminal.slave, SetArg::TCSANOW, &settings).unwrap();
    nix::unistd::write(&terminal.master, b"text\n").unwrap();
    let limit = Instant::now() + PATIENCE;
    while waiting_in(&terminal.slave) < 5 {
        assert!(Instant::now() < limit, "the text did not arrive");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The number of bytes that can be read.
fn waiting_in(terminal: &OwnedFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: the kernel writes one int.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    bytes
}

/// The inodes that a task made dirty, with their bdi_writeback: its file, and the disk's own inode
/// if the file system changed something there.
fn dirtied(events: &[Event], tid: i32) -> Vec<(u64, u64)> {
    let inode = |what: &What| match what {
        What::InodeDirtied { inode, wb, .. } => Some((*inode, *wb)),
        _ => None,
    };
    of_task(events, tid).iter().filter_map(inode).collect()
}

fn was_cleaned(events: &[Event], mine: u64) -> bool {
    events.iter().any(|e| matches!(e.what, What::InodeCleaned { inode, .. } if inode == mine))
}

fn was_deleted(events: &[Event], mine: u64) -> bool {
    events.iter().any(|e| matches!(e.what, What::InodeGone { inode, .. } if inode == mine))
}

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
fn an_inode_that_a_critical_thread_makes_dirty_is_reported_until_it_is_written_back() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let written = path.clone();
    let tid = at_priority(20, move || write_a_page(&written));
    let mut events = events_for_a_while(&mut kthreads);
    let mine = dirtied(&events, tid);
    assert!(!mine.is_empty(), "{events:?}");
    let its_wb = mine[0].1;

    let clean = |events: &[Event]| mine.iter().all(|(inode, _)| was_cleaned(events, *inode));
    // Another task may make the disk's own inode dirty again before one sync() has finished.
    for _ in 0..20 {
        nix::unistd::sync();
        let reported = events_within(&mut kthreads, Duration::from_secs(2), |new| {
            mine.iter().all(|(inode, _)| was_cleaned(&events, *inode) || was_cleaned(new, *inode))
        });
        events.extend(reported);
        if clean(&events) {
            break;
        }
    }
    assert!(clean(&events), "{events:?}");
    let started = events.iter().any(|event| {
        matches!(event.what, What::WbStarted { wb, worker, .. }
            if wb == its_wb && worker.name.as_bytes().starts_with(b"kworker/"))
    });
    assert!(started, "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_dirty_inode_that_is_deleted_is_reported_as_gone() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let _watcher = watch(&mut kthreads);
    for _ in 0..10 {
        let path = path.clone();
        let tid = at_priority(20, move || {
            write_a_page(&path);
            std::fs::remove_file(&path).unwrap();
        });
        let mine = |events: &[Event]| dirtied(events, tid).into_iter().map(|(inode, _)| inode);
        let gone = |events: &[Event]| mine(events).any(|inode| was_deleted(events, inode));
        let cleaned = |events: &[Event]| mine(events).any(|inode| was_cleaned(events, inode));
        let events = events_until(&mut kthreads, |events| gone(events) || cleaned(events));
        if gone(&events) {
            return;
        }
        // The inode was written back before it was deleted.
        assert!(cleaned(&events), "{events:?}");
    }
    panic!("it was always written back before it was deleted");
}

#[test]
#[ignore = "needs root"]
fn a_second_write_to_the_same_dirty_inode_is_not_reported_again() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, move || {
        let mut file = File::create(path).unwrap();
        for _ in 0..20 {
            file.write_all(&[1; 4096]).unwrap();
        }
    });
    let events = events_for_a_while(&mut kthreads);
    let mut dirty = HashSet::new();
    for event in &events {
        match event.what {
            What::InodeDirtied { member, inode, .. } if member.tid == tid => {
                assert!(dirty.insert(inode), "{events:?}");
            }
            // The inode was written back meanwhile, so it is reported again.
            What::InodeCleaned { inode, .. } => drop(dirty.remove(&inode)),
            _ => {}
        }
    }
    assert!(!dirtied(&events, tid).is_empty(), "{events:?}");
}

/// Writes to a file and waits until the disk has the data, 20 times.
fn write_and_sync(path: &Path) {
    let mut file = File::create(path).unwrap();
    for _ in 0..20 {
        file.write_all(&[1; 65536]).unwrap();
        file.sync_data().unwrap();
    }
}

#[test]
#[ignore = "needs root"]
fn a_critical_thread_that_sleeps_in_the_kernel_is_reported_with_the_storage_workers() {
    let directory = disk();
    let (path, remaining) = (directory.path().join("file"), directory.path().join("others"));
    let mut kthreads = Kthreads::open().unwrap();
    let _watcher = watch(&mut kthreads);
    let over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&over);
    // Works and requests of another thread.
    let other = thread::spawn(move || {
        while !until.load(Ordering::Relaxed) {
            write_and_sync(&remaining);
        }
    });
    let tid = at_priority(20, move || write_and_sync(&path));
    over.store(true, Ordering::Relaxed);
    other.join().unwrap();
    let events = events_for_a_while(&mut kthreads);
    let reported = of_task(&events, tid);
    let awaited =
        reported.iter().filter(|what| matches!(what, What::StorageAwaited { .. })).count();
    let ended = reported.iter().filter(|what| matches!(what, What::StorageEnded { .. })).count();
    assert!(ended > 0, "of {} events", reported.len());
    // Where the file system and the disk work without threads no thread is reported.
    let is_work = |event: &Event| matches!(event.what, What::WorkQueued { .. });
    assert!(awaited > 0 || !events.iter().any(is_work), "{reported:?}");
    assert!(
        !matches!(reported.last(), Some(What::StorageAwaited { .. })),
        "the task sleeps no more: {reported:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn programs_that_have_forgotten_all_relations_count_none() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let _watcher = watch(&mut kthreads);
    at_priority(20, move || write_a_page(&path));
    let inodes = |kthreads: &Kthreads| {
        kthreads.entries().unwrap().iter().find(|(name, _)| *name == "inodes").unwrap().1
    };
    assert!(inodes(&kthreads) > 0, "{:?}", kthreads.entries());
    kthreads.forget().unwrap();
    assert_eq!(inodes(&kthreads), 0);
    // The next inode is counted as before.
    let path = directory.path().join("other");
    at_priority(20, move || write_a_page(&path));
    assert!(inodes(&kthreads) > 0, "{:?}", kthreads.entries());
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

#[test]
#[ignore = "needs root"]
fn a_block_request_of_a_critical_thread_is_reported_until_it_is_complete() {
    let directory = disk();
    let path = directory.path().join("file");
    write_a_page(&path);
    nix::unistd::sync();
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, move || {
        // O_DIRECT needs memory at an address that is a multiple of the block size.
        let mut room = vec![0u8; 8192];
        let skip = room.as_ptr().align_offset(4096);
        let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
        file.read_exact_at(&mut room[skip..skip + 4096], 0).unwrap();
    });
    let first = |reported: &[What]| {
        reported.iter().find_map(|what| match what {
            What::RequestBegan { request, disk, .. } => Some((*request, *disk)),
            _ => None,
        })
    };
    let has_ended = |reported: &[What], mine: u64| {
        reported
            .iter()
            .any(|what| matches!(what, What::RequestEnded { request, .. } if *request == mine))
    };
    let events = events_until(&mut kthreads, |events| {
        let reported = of_task(events, tid);
        first(&reported).is_some_and(|(mine, _)| has_ended(&reported, mine))
    });
    let reported = of_task(&events, tid);
    let (mine, disk) = first(&reported).expect("a request begins");
    assert!(disk.major > 0, "{reported:?}");
    assert!(has_ended(&reported, mine), "{reported:?}");
}

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
        drop(file); // an open file keeps its pages
        sender.send(gettid()).unwrap();
        wait.recv().unwrap();
    });
    let tid = receiver.recv().unwrap();
    let brought = kthreads.pages(tid).unwrap();
    // The file system may also read data of its own for the task: inodes, free blocks.
    assert!(brought >= 64, "{brought}");
    std::fs::remove_file(path).unwrap();
    let left = kthreads.pages(tid).unwrap();
    assert!(left + 64 <= brought, "{left} of {brought}");
    go.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
#[ignore = "needs root"]
fn the_end_of_a_forgotten_inode_is_not_reported() {
    let directory = disk();
    let path = directory.path().join("file");
    let mut kthreads = Kthreads::open().unwrap();
    let tid = at_priority(20, move || write_a_page(&path));
    let events = events_for_a_while(&mut kthreads);
    let mine = dirtied(&events, tid);
    assert!(!mine.is_empty(), "{events:?}");
    kthreads.forget().unwrap();
    nix::unistd::sync();
    let events = events_for_a_while(&mut kthreads);
    // Another critical task may have made the disk's inode dirty again.
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
