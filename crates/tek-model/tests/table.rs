// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables that are good, damaged, hostile, growing, and written while they are read.
use memmap2::MmapRaw;
use proptest::prelude::*;
use std::error::Error as _;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{fence, AtomicBool, AtomicU32, Ordering};
use tek_abi::*;
use tek_model::{Error, Table, Thread};
use zerocopy::{FromZeros, IntoBytes};

fn header(chunks: u32, slots: u32) -> TableHeader {
    TableHeader {
        magic: TABLE_MAGIC,
        version: ABI_VERSION,
        pid: 1,
        record_bytes: size_of::<Record>() as u32,
        side_bytes: size_of::<Side>() as u32,
        page_bytes: 4096,
        chunks,
        slots,
        ..TableHeader::new_zeroed()
    }
}

fn record_at(slot: u32) -> u64 {
    u64::from(TABLE_HEADER_BYTES + slot / CHUNK_SLOTS * TABLE_CHUNK_BYTES)
        + u64::from(slot % CHUNK_SLOTS) * size_of::<Record>() as u64
}

fn side_at(slot: u32) -> u64 {
    u64::from(TABLE_HEADER_BYTES + slot / CHUNK_SLOTS * TABLE_CHUNK_BYTES + CHUNK_SIDE_OFFSET)
        + u64::from(slot % CHUNK_SLOTS) * size_of::<Side>() as u64
}

/// Writes a table with these threads and returns its file for further harm.
fn write(path: &Path, header: &TableHeader, threads: &[(u32, Record, Side)]) -> std::fs::File {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.set_len(u64::from(TABLE_HEADER_BYTES + header.chunks.min(64) * TABLE_CHUNK_BYTES))
        .unwrap();
    for (slot, record, side) in threads {
        file.write_all_at(record.as_bytes(), record_at(*slot)).unwrap();
        file.write_all_at(side.as_bytes(), side_at(*slot)).unwrap();
    }
    file.write_all_at(header.as_bytes(), 0).unwrap();
    file
}

/// What both ways of reading, mapped and by system call, make of a table.
fn read_both(path: &Path) -> [Result<Vec<Thread>, Error>; 2] {
    [Table::open, Table::open_unmapped].map(|open| open(path)?.threads()?.collect())
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
    for read in read_both(&path) {
        let read: Vec<_> = read.unwrap().into_iter().map(|t| (t.slot, t.record, t.side)).collect();
        assert_eq!(read, threads);
    }
}

#[test]
fn a_table_that_grew_since_it_was_opened_is_read_to_its_new_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let thread = |slot| (slot, Record { tid: slot + 1, ..Default::default() }, Side::default());
    let file = write(&path, &header(1, 1), &[thread(0)]);
    for open in [Table::open, Table::open_unmapped] {
        file.write_all_at(header(1, 1).as_bytes(), 0).unwrap();
        let mut table = open(&path).unwrap();
        assert_eq!(table.threads().unwrap().count(), 1);
        let (slot, record, _) = thread(1600);
        file.set_len(u64::from(TABLE_HEADER_BYTES + 4 * TABLE_CHUNK_BYTES)).unwrap();
        file.write_all_at(record.as_bytes(), record_at(slot)).unwrap();
        file.write_all_at(header(4, 1601).as_bytes(), 0).unwrap();
        assert_eq!(table.threads().unwrap().count(), 2);
    }
}

#[test]
fn what_is_no_table_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let refused = |what: &str| {
        for result in read_both(&path) {
            let error = result.unwrap_err();
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            let error = format!("{error}: {cause}");
            assert!(error.contains(what), "{error:?} does not say {what:?}");
            assert!(error.contains(path.to_str().unwrap()), "{error:?} does not name the file");
        }
    };
    refused("No such file");
    let good = header(1, 1);
    write(&path, &TableHeader { magic: 0, ..good }, &[]);
    refused("is not a thread table");
    write(&path, &TableHeader { version: 99, ..good }, &[]);
    refused("version 99");
    write(&path, &TableHeader { record_bytes: 48, ..good }, &[]);
    refused("damaged");
    write(&path, &TableHeader { page_bytes: 0, ..good }, &[]);
    refused("damaged");
    write(&path, &TableHeader { slots: 513, ..good }, &[]);
    refused("damaged");
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
}

#[test]
fn a_record_whose_writer_stopped_in_mid_write_is_named_and_the_others_still_come() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.table");
    let record = |seq, tid| Record { seq, tid, ..Default::default() };
    let side = Side::default();
    write(&path, &header(1, 2), &[(0, record(3, 9), side), (1, record(4, 10), side)]);
    for open in [Table::open, Table::open_unmapped] {
        let mut table = open(&path).unwrap();
        let read: Vec<_> = table.threads().unwrap().collect();
        assert!(matches!(read[0], Err(Error::Changing { slot: 0, .. })));
        assert_eq!(read[1].as_ref().unwrap().record.tid, 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    /// Whatever the bytes are, the reader ends, and every thread it gives has a tid and an even
    /// seq.
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
        for open in [Table::open, Table::open_unmapped] {
            let Ok(mut table) = open(&path) else { continue };
            let Ok(threads) = table.threads() else { continue };
            for thread in threads.flatten() {
                prop_assert!(thread.record.tid != 0);
                prop_assert!(thread.record.seq % 2 == 0);
            }
        }
    }
}

/// Writes one record over and over as the protocol demands, all of its words from one counter.
fn hammer(map: &MmapRaw, stop: &AtomicBool) {
    let word = |offset: u64| {
        // SAFETY: the offsets are those of slot 0 in a map of at least one chunk, aligned to 4;
        // the map outlives the writer and everybody uses atomics on it.
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
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }
}

/// Tells the writer to stop, when a test fails too.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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
        for open in [Table::open, Table::open_unmapped] {
            let mut table = open(&path).unwrap();
            let (mut read, mut changing) = (0u32, 0u32);
            let until = std::time::Instant::now() + std::time::Duration::from_millis(700);
            while std::time::Instant::now() < until {
                for thread in table.threads().unwrap() {
                    let Ok(thread) = thread else {
                        changing += 1;
                        continue;
                    };
                    read += 1;
                    let tid = thread.record.tid.to_ne_bytes();
                    let words = thread.record.as_bytes()[4..].chunks(4);
                    let torn = words.chain(thread.side.as_bytes().chunks(4)).any(|w| w != tid);
                    assert!(!torn, "torn: {thread:?}");
                }
            }
            assert!(read > 100, "only {read} records read, {changing} given up");
        }
    });
}
