// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table files, written by hand.
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tek_abi::*;
use zerocopy::{FromZeros, IntoBytes};

/// A valid header.
pub fn header(chunks: u32, slots: u32) -> TableHeader {
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

pub fn record_at(slot: u32) -> u64 {
    u64::from(TABLE_HEADER_BYTES + slot / CHUNK_SLOTS * TABLE_CHUNK_BYTES)
        + u64::from(slot % CHUNK_SLOTS) * size_of::<Record>() as u64
}

pub fn side_at(slot: u32) -> u64 {
    u64::from(TABLE_HEADER_BYTES + slot / CHUNK_SLOTS * TABLE_CHUNK_BYTES + CHUNK_SIDE_OFFSET)
        + u64::from(slot % CHUNK_SLOTS) * size_of::<Side>() as u64
}

/// Writes a table with these threads and returns its file, to be damaged.
pub fn write(path: &Path, header: &TableHeader, threads: &[(u32, Record, Side)]) -> std::fs::File {
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
