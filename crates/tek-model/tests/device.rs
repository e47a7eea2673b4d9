// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables written by hand, joined with the threads of this very process.
mod common;

use common::{header, write};
use std::os::unix::fs::{symlink, FileExt};
use std::path::Path;
use std::time::{Duration, Instant};
use tek_abi::*;
use tek_model::{boot_time_ns, Device, Error, Program, Wanted, Worker};
use tempfile::TempDir;
use zerocopy::IntoBytes;

fn own_pid() -> u32 {
    std::process::id()
}

fn own_tid() -> u32 {
    nix::unistd::gettid().as_raw() as u32
}

/// A header of this process's own table.
fn own_header(slots: u32) -> TableHeader {
    let mut own = TableHeader { pid: own_pid(), ..header(64, slots) };
    own.program[..6].copy_from_slice(b"fridge");
    own
}

fn record(tid: u32, start_ns: u64) -> (u32, Record, Side) {
    let mut side = Side::default();
    side.role[..3].copy_from_slice(b"gas");
    (tid % 512, Record { tid, start_ns, role_bytes: 3, ..Default::default() }, side)
}

/// The look at this process with this table beside it.
fn examine(table: impl FnOnce(&Path)) -> (Program, Vec<Error>) {
    let dir = TempDir::new().unwrap();
    table(&dir.path().join(format!("{}.table", own_pid())));
    let wanted = Wanted {
        pids: vec![own_pid()],
        directories: vec![dir.path().to_owned()],
        modules: true,
        uthreads: true,
        ..Wanted::default()
    };
    let mut device = Device::examine(&wanted).unwrap();
    assert_eq!(device.programs.len(), 1);
    (device.programs.remove(0), device.problems)
}

fn role_of(program: &Program, tid: u32) -> Option<String> {
    let task = program.tasks.iter().find(|task| task.stat.tid == tid).unwrap();
    task.record.map(|own| printable(&own.side.role))
}

#[test]
fn a_thread_has_the_record_that_is_its_own() {
    let (program, problems) = examine(|path| {
        write(path, &own_header(512), &[record(own_tid(), boot_time_ns())]);
    });
    assert_eq!(problems.len(), 0, "{problems:?}");
    assert_eq!(program.name, "fridge");
    assert_eq!(role_of(&program, own_tid()).as_deref(), Some("gas"));
}

#[test]
fn a_thread_whose_policy_somebody_else_set_is_not_fast() {
    let fast_at = |rt_priority| {
        let (program, _) = examine(|path| {
            let mut own = record(own_tid(), boot_time_ns());
            own.1.place = REGION_FAST << PLACE_REGION_SHIFT;
            own.2.rt_priority = rt_priority;
            write(path, &own_header(512), &[own]);
        });
        let task = program.tasks.iter().find(|task| task.stat.tid == own_tid()).unwrap();
        (task.is_fast(), task.is_overridden())
    };
    // This thread is not real-time: with a priority of TEK's, its policy was overridden.
    assert_eq!(fast_at(29), (false, true));
    assert_eq!(fast_at(0), (true, false));
}

/// A user-level thread.
fn user(number: u32, worker: u16, waits: u8) -> (u32, Record, Side) {
    let (slot, own, side) = record(number, 1);
    (slot, Record { flags: FLAG_USER, ..own }, Side { worker, waits, ..side })
}

#[test]
fn user_level_threads_are_reported_in_their_order_with_their_workers() {
    let (program, problems) = examine(|path| {
        let threads = [user(9, 0, 0), user(700, 3, 1), user(20, 2, 0)];
        let file = write(path, &TableHeader { workers: 2, ..own_header(512) }, &threads);
        let place = WorkerPlace { tid: own_tid(), reserved: 0 };
        let second = u64::from(WORKERS_OFFSET) + size_of::<WorkerPlace>() as u64;
        file.write_all_at(place.as_bytes(), second).unwrap();
    });
    assert_eq!(problems.len(), 0, "{problems:?}");
    let reported: Vec<_> =
        program.uthreads.iter().map(|user| (user.number(), user.state(), user.worker)).collect();
    assert_eq!(
        reported,
        [
            (9, 'R', None),
            (20, 'R', Some(Worker { number: 1, tid: Some(own_tid()) })),
            (700, 'S', Some(Worker { number: 2, tid: None })),
        ]
    );
}

#[test]
fn the_number_of_a_user_level_thread_is_no_kernel_threads_tid() {
    let (program, _) = examine(|path| {
        let (slot, own, side) = user(own_tid(), 1, 0);
        let own = Record { start_ns: boot_time_ns(), ..own };
        write(path, &own_header(512), &[(slot, own, side)]);
    });
    assert_eq!(role_of(&program, own_tid()), None);
    assert_eq!(program.uthreads.len(), 1);
}

#[test]
fn a_record_of_a_thread_that_had_the_tid_before_does_not_count() {
    let (program, problems) = examine(|path| {
        write(path, &own_header(512), &[record(own_tid(), 1)]);
    });
    assert_eq!((role_of(&program, own_tid()), problems.len()), (None, 0));
}

#[test]
fn a_record_of_a_thread_of_another_process_does_not_count() {
    let (program, _) = examine(|path| {
        write(path, &own_header(512), &[record(1, boot_time_ns())]);
    });
    assert!(program.tasks.iter().all(|task| task.record.is_none() && task.stat.tid != 1));
}

#[test]
fn a_table_that_a_process_with_this_pid_left_behind_is_passed_over_in_silence() {
    let (program, problems) = examine(|path| {
        let before = TableHeader { start_ns: 1, ..own_header(512) };
        write(path, &before, &[record(own_tid(), boot_time_ns())]);
    });
    assert_eq!((role_of(&program, own_tid()), problems.len()), (None, 0));
}

/// The threads are shown from /proc, and the problem names this reason.
fn is_named(what: &str, table: impl FnOnce(&Path)) {
    let (program, problems) = examine(table);
    assert_eq!(role_of(&program, own_tid()), None);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = format!("{} {:?}", problems[0], problems[0]);
    assert!(problem.contains(what), "{problem} does not say {what}");
}

#[test]
fn a_hostile_table_is_named_with_the_reason() {
    let good = own_header(512);
    let own = [record(own_tid(), boot_time_ns())];
    is_named("its header names process 1", |path| {
        write(path, &TableHeader { pid: 1, ..good }, &own);
    });
    is_named("another pid namespace", |path| {
        write(path, &TableHeader { pid_namespace: 1, ..good }, &own);
    });
    is_named("is not a thread table", |path| {
        std::fs::write(path, vec![0xa5; 200_000]).unwrap();
    });
    is_named("shorter than it says", |path| {
        write(path, &good, &own).set_len(140_000).unwrap();
    });
    is_named("symbolic links", |path| {
        let target = path.with_extension("target");
        write(&target, &good, &own);
        symlink(target, path).unwrap();
    });
    is_named("not a regular file", |path| {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    });
    is_named("not a regular file", |path| std::fs::create_dir(path).unwrap());
    is_named("being written", |path| {
        let mut torn = own[0];
        torn.1.seq = 7;
        write(path, &good, &[torn]);
    });
}

#[test]
fn a_full_table_of_a_stopped_writer_does_not_hold_up_the_reader() {
    let begin = Instant::now();
    is_named("being written", |path| {
        let torn =
            |slot| (slot, Record { seq: 1, tid: slot + 1, ..Default::default() }, Side::default());
        let threads: Vec<_> = (0..MAX_SLOTS).map(torn).collect();
        write(path, &own_header(MAX_SLOTS), &threads);
    });
    assert!(begin.elapsed() < Duration::from_secs(10), "it took {:?}", begin.elapsed());
}

#[test]
fn a_process_is_seen_once_and_only_by_its_own_pid() {
    // The thread of a test is not the first one.
    let pids = vec![own_tid(), own_pid(), own_pid()];
    let device = Device::examine(&Wanted { pids, ..Wanted::default() }).unwrap();
    let seen: Vec<_> = device.programs.iter().map(|program| program.pid).collect();
    assert_eq!(seen, [own_pid()]);
}

#[test]
fn every_thread_of_the_device_is_seen_the_kernels_marked() {
    let device = Device::examine(&Wanted::default()).unwrap();
    let own = device.programs.iter().find(|program| program.pid == own_pid()).unwrap();
    assert!(own.tasks.iter().any(|task| task.stat.tid == own_tid() && !task.stat.kernel));
    // A container may not show the kernel's threads.
    if let Some(kthreadd) = device.programs.iter().find(|program| program.name == "kthreadd") {
        assert!(kthreadd.tasks[0].stat.kernel);
    }
}
