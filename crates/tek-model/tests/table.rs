// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables that are good, damaged, hostile, growing, and written while they are read.
mod common;

use common::{header, record_at, side_at, write};
use memmap2::MmapRaw;
use proptest::prelude::*;
use std::error::Error as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{fence, AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tek_abi::*;
use tek_model::{Error, Snapshot, Table};
use zerocopy::{FromZeros, IntoBytes};

fn read(path: &Path) -> Result<Snapshot, Error> {
    Table::open(path)?.snapshot()
}

#[test]
fn threads_are_found_wherever_they_stand_and_free_slots_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let threads: Vec<_> = [0, 1, 511, 512, 1023]
        .map(|slot| {
            let record = Record { tid: slot + 100, start_ns: 7, ..Default::default() };
            (slot, record, Side { stays: slot, ..Default::default() })
        })
        .into();
    write(&path, &header(2, 1024), &threads);
    let read = read(&path).unwrap().threads.into_iter();
    assert_eq!(read.map(|t| (t.slot, t.record, t.side)).collect::<Vec<_>>(), threads);
}

#[test]
fn a_table_that_grew_since_it_was_opened_is_read_to_its_new_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let thread = |slot| (slot, Record { tid: slot + 1, ..Default::default() }, Side::default());
    let file = write(&path, &header(1, 1), &[thread(0)]);
    let mut table = Table::open(&path).unwrap();
    assert_eq!(table.snapshot().unwrap().threads.len(), 1);
    let (slot, record, _) = thread(1600);
    file.set_len(u64::from(TABLE_HEADER_BYTES + 4 * TABLE_CHUNK_BYTES)).unwrap();
    file.write_all_at(record.as_bytes(), record_at(slot)).unwrap();
    file.write_all_at(header(4, 1601).as_bytes(), 0).unwrap();
    assert_eq!(table.snapshot().unwrap().threads.len(), 2);
}

#[test]
fn what_is_no_table_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let refused = |what: &str| {
        let error = read(&path).unwrap_err();
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        let error = format!("{error}: {cause}");
        assert!(error.contains(what), "{error:?} does not say {what:?}");
        assert!(error.contains(path.to_str().unwrap()), "{error:?} does not name the file");
    };
    refused("No such file");
    let good = header(1, 1);
    write(&path, &TableHeader { magic: 1, ..good }, &[]);
    refused("is not a thread table");
    let file = write(&path, &TableHeader { magic: 0, ..good }, &[]);
    refused("not finished");
    file.set_len(0).unwrap();
    refused("not finished");
    write(&path, &TableHeader { version: 99, ..good }, &[]);
    refused("version 99");
    write(&path, &TableHeader { record_bytes: 48, ..good }, &[]);
    refused("damaged");
    write(&path, &TableHeader { page_bytes: 0, ..good }, &[]);
    refused("damaged");
    write(&path, &TableHeader { slots: 513, ..good }, &[]);
    refused("damaged");
    write(&path, &TableHeader { modules: 65, ..good }, &[]);
    refused("damaged");
    write(&path, &TableHeader { workers: MAX_WORKERS + 1, ..good }, &[]);
    refused("257 workers");
    write(&path, &TableHeader { chunks: u32::MAX, slots: u32::MAX, ..good }, &[]);
    refused("damaged");
    let file = write(&path, &header(3, 1536), &[]);
    file.set_len(u64::from(TABLE_HEADER_BYTES + TABLE_CHUNK_BYTES) + 17).unwrap();
    refused("damaged");
    file.set_len(100).unwrap();
    refused("is not a thread table");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    refused("symbolic links");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused("not a regular file");
    std::fs::remove_dir(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused("not a regular file");
    std::fs::remove_file(&path).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    refused("cannot read");
}

#[test]
fn a_record_whose_writer_stopped_in_mid_write_is_named_and_the_other_records_still_come() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let record = |seq, tid| Record { seq, tid, ..Default::default() };
    let side = Side::default();
    write(&path, &header(1, 2), &[(0, record(3, 9), side), (1, record(4, 10), side)]);
    let snapshot = read(&path).unwrap();
    assert_eq!(snapshot.changing, [0]);
    assert_eq!(snapshot.threads.iter().map(|t| t.record.tid).collect::<Vec<_>>(), [10]);
}

#[test]
fn a_full_table_in_which_every_write_stopped_half_way_costs_bounded_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let torn = Record { seq: 1, tid: 1, ..Default::default() };
    let threads: Vec<_> = (0..MAX_SLOTS).map(|slot| (slot, torn, Side::default())).collect();
    write(&path, &header(MAX_CHUNKS, MAX_SLOTS), &threads);
    let begin = Instant::now();
    let snapshot = read(&path).unwrap();
    assert_eq!((snapshot.threads.len(), snapshot.changing.len()), (0, MAX_SLOTS as usize));
    assert!(begin.elapsed() < Duration::from_secs(10), "it took {:?}", begin.elapsed());
}

#[test]
fn modules_are_read_as_many_as_the_header_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let file = write(&path, &TableHeader { modules: 2, ..header(1, 0) }, &[]);
    let mut module = Module::new_zeroed();
    module.path[..8].copy_from_slice(b"/bin/gas");
    let second = u64::from(MODULES_OFFSET) + size_of::<Module>() as u64;
    file.write_all_at(module.as_bytes(), second).unwrap();
    assert_eq!(Table::open(&path).unwrap().modules().unwrap(), [Module::new_zeroed(), module]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    /// Whatever the bytes are, the reader ends, and every thread that it returns has a tid and an
    /// even seq.
    #[test]
    fn no_bytes_make_the_reader_crash_or_give_a_torn_record(
        noise in proptest::collection::vec(any::<u8>(), 0..2048),
        at in 0u64..70_000,
        length in 0u64..200_000,
        slots in 0u32..600,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.table");
        let file = write(&path, &header(2, slots), &[]);
        file.write_all_at(&noise, at).unwrap();
        file.set_len(length).unwrap();
        for thread in read(&path).unwrap_or_default().threads {
            prop_assert!(thread.record.tid != 0);
            prop_assert!(thread.record.seq % 2 == 0);
        }
    }
}

/// Writes one record over and over as the protocol demands, all of its words from one counter.
fn hammer(map: &MmapRaw, stop: &AtomicBool) {
    let word = |offset: u64| {
        // SAFETY: the offsets are those of slot 0 in a map of at least one chunk, aligned to 4;
        // the map outlives the writer and all accesses to it are atomic.
        unsafe { AtomicU32::from_ptr(map.as_mut_ptr().add(offset as usize).cast()) }
    };
    let seq = word(record_at(0));
    let mut count = 1u32;
    while !stop.load(Ordering::Relaxed) {
        seq.store(seq.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for offset in (4..size_of::<Record>() as u64).step_by(4) {
            word(record_at(0) + offset).store(count, Ordering::Relaxed);
        }
        for offset in (0..size_of::<Side>() as u64).step_by(4) {
            word(side_at(0) + offset).store(count, Ordering::Relaxed);
        }
        seq.store(seq.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        count = count.wrapping_add(1).max(1);
        // Writers of real tables are idle nearly always; without pauses, of lengths from nothing to
        // some reads, a reader that makes system calls could lose for ever on a busy machine.
        for _ in 0..count % 64 {
            std::hint::spin_loop();
        }
        if count.is_multiple_of(256) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Stops the writer, also when a test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Least number of reads of a table while it is written.
const ENOUGH: usize = 100;

/// Whether to read on: for a least time and until there were enough reads, within a minute.
fn goes_on(begun: Instant, read: usize) -> bool {
    let least = Duration::from_millis(700);
    begun.elapsed() < least || (read <= ENOUGH && begun.elapsed() < Duration::from_secs(60))
}

#[test]
fn no_record_is_torn_however_fast_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let file = write(&path, &header(1, 1), &[]);
    let map = MmapRaw::map_raw(&file).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| hammer(&map, &stop));
        let mut table = Table::open(&path).unwrap();
        let (mut read, mut changing) = (0, 0);
        let begun = Instant::now();
        while goes_on(begun, read) {
            let snapshot = table.snapshot().unwrap();
            read += snapshot.threads.len();
            changing += snapshot.changing.len();
            for thread in snapshot.threads {
                let tid = thread.record.tid.to_ne_bytes();
                let words = thread.record.as_bytes()[4..].chunks(4);
                let torn = words.chain(thread.side.as_bytes().chunks(4)).any(|w| w != tid);
                assert!(!torn, "torn: {thread:?}");
            }
        }
        assert!(read > ENOUGH, "only {read} records read, {changing} given up");
    });
}

#[test]
fn a_writer_that_truncates_grows_and_scribbles_meanwhile_gets_no_reader_down() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let good = header(2, 1000);
    let thread = (900, Record { tid: 7, ..Default::default() }, Side::default());
    let file = write(&path, &good, &[thread]);
    let whole = file.metadata().unwrap().len();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| {
            let lengths = [whole, 0, whole, 100, 70_000, whole, 200_000, 3 * whole];
            for (round, &length) in lengths.iter().cycle().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                file.set_len(length).unwrap();
                let lie = TableHeader { slots: (round as u32 * 37) % 1100, ..good };
                file.write_all_at(lie.as_bytes(), 0).unwrap();
                let torn = Record { seq: round as u32, tid: 7, ..Default::default() };
                file.write_all_at(torn.as_bytes(), record_at(900)).unwrap();
            }
        });
        let (mut read_well, mut refused) = (0, 0);
        let begun = Instant::now();
        while goes_on(begun, read_well + refused) {
            match read(&path) {
                Ok(snapshot) => read_well += usize::from(!snapshot.threads.is_empty()),
                Err(Error::Damaged { .. } | Error::NotATable { .. } | Error::Unfinished { .. }) => {
                    refused += 1
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(read_well + refused > ENOUGH, "{read_well} read, {refused} refused");
    });
}

#[test]
fn kinds_are_read_with_their_numbers_and_one_that_is_being_written_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let file = write(&path, &TableHeader { kinds: 3, ..header(64, 0) }, &[]);
    for (number, seq) in [(0u32, 2), (1, 3), (2, 4)] {
        let kind = Kind { seq, threads: number + 10, ..Kind::new_zeroed() };
        file.write_all_at(kind.as_bytes(), u64::from(KINDS_OFFSET + number * 128)).unwrap();
    }
    let kinds = Table::open(&path).unwrap().kinds().unwrap();
    let reported: Vec<_> = kinds.iter().map(|(number, kind)| (*number, kind.threads)).collect();
    assert_eq!(reported, [(1, 10), (3, 12)]);
}

#[test]
fn inversions_and_threads_that_are_held_up_are_read_but_free_slots_and_half_written_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let file = write(&path, &header(64, 0), &[]);
    for (slot, kind, seq) in [(0u32, WAITS_MUTEX, 2), (1, WAITS_NO, 2), (3, WAITS_JOIN, 3)] {
        let one = Inversion { seq, kind: kind.into(), waits: 7, ..Inversion::new_zeroed() };
        file.write_all_at(one.as_bytes(), u64::from(INVERSIONS_OFFSET + slot * 120)).unwrap();
    }
    for (slot, tid, seq) in [(0u32, 0, 2), (2, 39, 4), (3, 40, 5)] {
        let one = HeldUp { seq, tid, since_ns: 1000, ..HeldUp::default() };
        file.write_all_at(one.as_bytes(), u64::from(HELD_UP_OFFSET + slot * 40)).unwrap();
    }
    let table = Table::open(&path).unwrap();
    let inversions = table.inversions().unwrap();
    assert_eq!(inversions.iter().map(|one| (one.kind, one.waits)).collect::<Vec<_>>(), [(2, 7)]);
    let held_up = table.held_up().unwrap();
    assert_eq!(held_up.iter().map(|one| one.tid).collect::<Vec<_>>(), [39]);
}

#[test]
fn a_table_with_more_kinds_than_there_is_room_for_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    write(&path, &TableHeader { kinds: MAX_KINDS + 1, ..header(64, 0) }, &[]);
    let error = Table::open(&path).err().unwrap().to_string();
    assert!(error.ends_with("513 kinds, at most 512"), "{error}");
}
