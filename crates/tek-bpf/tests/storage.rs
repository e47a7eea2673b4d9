// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events for critical threads that use files and disks.
#![cfg(loads)]
mod common;

use common::disk::{disk, write_a_page};
use common::{
    at_priority, events_for_a_while, events_until, events_within, gettid, of_task, set_priority,
    watching,
};
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Duration;
use tek_bpf::{Event, Kthreads, What};

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
    let (mut kthreads, _watcher) = watching();
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
    let (mut kthreads, _watcher) = watching();
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
    let (mut kthreads, _watcher) = watching();
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

#[test]
#[ignore = "needs root"]
fn pages_that_a_critical_thread_brings_in_are_counted_until_they_leave() {
    let directory = disk();
    let path = directory.path().join("file");
    let (kthreads, _watcher) = watching();
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
