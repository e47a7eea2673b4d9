// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a table, copied while their process goes on writing them: the protocol of
//! abi/tek_table.h for readers by system calls.
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{fence, Ordering};
use tek_abi::{
    Record, Side, CHUNK_SIDE_OFFSET, CHUNK_SLOTS, TABLE_CHUNK_BYTES, TABLE_HEADER_BYTES,
};
use zerocopy::{FromZeros, IntoBytes};

/// Reads of records that are being written before they are given up. A write takes well under a
/// microsecond, unless the writer was preempted in the middle: from `SPINS` on, each further read
/// yields the CPU first.
const TRIES: u32 = 32;
const SPINS: u32 = 24;

/// Repeated reads of records of one table, each counted. A writer writes one record at a time: a
/// table with many records in mid-write for ever is broken, and not worth the time.
const MOST_RETRIES: usize = 65_536;

/// One thread, as its process describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its slot in the table.
    pub slot: u32,
    /// The record.
    pub record: Record,
    /// The side record of the same time.
    pub side: Side,
}

/// The result of one pass over a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The threads, in the order of their slots. Each record is consistent; different records may
    /// be of different times.
    pub threads: Vec<Thread>,
    /// Slots that were being written at every read; the writer may have been stopped or killed in
    /// mid-write.
    pub changing: Vec<u32>,
}

impl Snapshot {
    /// Reads the first slots of a table; adds to `retries` how many it had to read again.
    pub(crate) fn read(file: &File, slots: u32, retries: &mut u64) -> io::Result<Self> {
        let mut snapshot = Self::default();
        let mut retries_left = MOST_RETRIES;
        for first in (0..slots).step_by(CHUNK_SLOTS as usize) {
            let end = slots.min(first + CHUNK_SLOTS);
            let mut pending: Vec<u32> = (first..end).collect();
            for attempt in 0..TRIES {
                let (Some(&low), Some(&high)) = (pending.first(), pending.last()) else { break };
                if attempt > 0 {
                    let Some(left) = retries_left.checked_sub(pending.len()) else { break };
                    retries_left = left;
                    *retries += pending.len() as u64;
                }
                if attempt >= SPINS {
                    std::thread::yield_now();
                }
                let examine = Sample::take(file, low..high + 1)?;
                pending.retain(|&slot| match examine.at(slot) {
                    Some(thread) => {
                        snapshot.threads.extend((thread.record.tid != 0).then_some(thread));
                        false
                    }
                    None => true,
                });
            }
            snapshot.changing.extend(pending);
        }
        tek_sort::by_key(&mut snapshot.threads, |thread| thread.slot);
        Ok(snapshot)
    }

    /// Adds this to all times that are known.
    pub(crate) fn shift_times(&mut self, by_ns: i64) {
        for Thread { record, side, .. } in &mut self.threads {
            for time in [&mut record.start_ns, &mut side.fast_since_ns] {
                if *time != 0 {
                    *time = time.wrapping_add_signed(by_ns);
                }
            }
        }
    }
}

/// Three copies of the records of some slots of one chunk; the middle one with the side records.
struct Sample {
    first: u32,
    before: Vec<Record>,
    records: Vec<Record>,
    sides: Vec<Side>,
    after: Vec<Record>,
}

impl Sample {
    fn take(file: &File, slots: Range<u32>) -> io::Result<Self> {
        let (record_at, side_at) = places_of(slots.start);
        let records = || -> io::Result<Vec<Record>> {
            let mut records = vec![Record::default(); slots.len()];
            file.read_exact_at(records.as_mut_bytes(), record_at)?;
            Ok(records)
        };
        let before = records()?;
        // The fences keep the three copies, which the kernel makes on this thread's behalf, in
        // their order.
        fence(Ordering::Acquire);
        let middle = records()?;
        let mut sides = vec![Side::new_zeroed(); slots.len()];
        file.read_exact_at(sides.as_mut_bytes(), side_at)?;
        fence(Ordering::Acquire);
        Ok(Self { first: slots.start, before, records: middle, sides, after: records()? })
    }

    /// The content of a slot; `None` while it is being written.
    fn at(&self, slot: u32) -> Option<Thread> {
        let index = (slot - self.first) as usize;
        let record = self.records[index];
        let stable = record.seq.is_multiple_of(2)
            && record.seq == self.before[index].seq
            && record.seq == self.after[index].seq;
        stable.then_some(Thread { slot, record, side: self.sides[index] })
    }
}

/// Offsets of the record and the side record of a slot.
fn places_of(slot: u32) -> (u64, u64) {
    let chunk = TABLE_HEADER_BYTES + slot / CHUNK_SLOTS * TABLE_CHUNK_BYTES;
    let index = slot % CHUNK_SLOTS;
    let side = chunk + CHUNK_SIDE_OFFSET + index * size_of::<Side>() as u32;
    ((chunk + index * size_of::<Record>() as u32).into(), side.into())
}
