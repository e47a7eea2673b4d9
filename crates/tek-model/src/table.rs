// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process's thread information table.
use crate::source::Source;
use crate::Error;
use std::fs::{File, Metadata, OpenOptions};
use std::hint::spin_loop;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{fence, Ordering};
use tek_abi::{
    Record, Side, TableHeader, ABI_VERSION, CHUNK_SIDE_OFFSET, CHUNK_SLOTS, MAX_CHUNKS,
    TABLE_CHUNK_BYTES, TABLE_HEADER_BYTES, TABLE_MAGIC,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// How often a record that is being written is looked at again before it is given up. A write
/// takes well under a microsecond, unless the writer was taken off its CPU in the middle: from
/// `SPINS` on each further look first lets somebody else run.
const TRIES: u32 = 256;
const SPINS: u32 = 64;

/// One thread, as its process describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Where it stands in the table.
    pub slot: u32,
    /// The record.
    pub record: Record,
    /// The side record of the same moment.
    pub side: Side,
}

/// An open table. It may go on being written; a table whose process is gone stays readable.
pub struct Table {
    path: PathBuf,
    file: File,
    source: Source,
    retries: u64,
}

impl Table {
    /// Opens a table file after making sure that it is one.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_as(path, true)
    }

    /// As `open`, but reads by system calls even where a mapping would be safe.
    pub fn open_unmapped(path: &Path) -> Result<Self, Error> {
        Self::open_as(path, false)
    }

    fn open_as(path: &Path, may_map: bool) -> Result<Self, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        // O_NONBLOCK: opening a FIFO must not wait for a writer.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY)
            .open(path)
            .map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(Error::NotAFile { path: path.to_owned() });
        }
        if metadata.len() < u64::from(TABLE_HEADER_BYTES) {
            return Err(Error::NotATable { path: path.to_owned() });
        }
        let source = source_of(&file, &metadata, may_map).map_err(io)?;
        let table = Self { path: path.to_owned(), file, source, retries: 0 };
        table.header()?;
        Ok(table)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How often a record was looked at again because it was being written.
    pub fn retries(&self) -> u64 {
        self.retries
    }

    /// The header as it is now. Its counters change one by one, so they need not fit together.
    pub fn header(&self) -> Result<TableHeader, Error> {
        let copy = |to: &mut [u8]| {
            match self.source.copy(0, to) {
                // In a table that is read by pread the counters may never stand still for two
                // copies, and they need not: one copy is as good.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                other => other,
            }
            .map_err(|source| self.io(source))
        };
        // The writer's last store is the magic: who has seen it sees the rest after the fence.
        let mut magic = [0; size_of::<u64>()];
        copy(&mut magic)?;
        if u64::from_ne_bytes(magic) != TABLE_MAGIC {
            return Err(Error::NotATable { path: self.path.clone() });
        }
        fence(Ordering::Acquire);
        let mut header = TableHeader::new_zeroed();
        copy(header.as_mut_bytes())?;
        self.check(&header)?;
        Ok(header)
    }

    fn check(&self, header: &TableHeader) -> Result<(), Error> {
        if header.version != ABI_VERSION {
            return Err(Error::Version {
                path: self.path.clone(),
                found: header.version,
                expected: ABI_VERSION,
            });
        }
        let sizes = (header.record_bytes as usize, header.side_bytes as usize);
        if sizes != (size_of::<Record>(), size_of::<Side>()) {
            return Err(self.damaged(format!(
                "its records have {} and {} bytes instead of {} and {}",
                sizes.0,
                sizes.1,
                size_of::<Record>(),
                size_of::<Side>()
            )));
        }
        if header.chunks > MAX_CHUNKS {
            return Err(self.damaged(format!("{} chunks, at most {MAX_CHUNKS}", header.chunks)));
        }
        if header.slots > header.chunks * CHUNK_SLOTS {
            return Err(self.damaged(format!(
                "{} slots in {} chunks of {CHUNK_SLOTS}",
                header.slots, header.chunks
            )));
        }
        if !header.page_bytes.is_power_of_two() {
            return Err(self.damaged(format!("pages of {} bytes", header.page_bytes)));
        }
        Ok(())
    }

    /// The threads that the table tells of now, slot by slot.
    ///
    /// A thread that starts or ends meanwhile may or may not be among them. A record that could
    /// not be read is an `Err` in its place; the ones after it still come.
    pub fn threads(&mut self) -> Result<Threads<'_>, Error> {
        let slots = self.header()?.slots;
        self.reach(slots)?;
        Ok(Threads { table: self, next: 0, slots })
    }

    /// Makes sure that this many slots can be read: the table may have grown since it was mapped.
    fn reach(&mut self, slots: u32) -> Result<(), Error> {
        let need = end_of(slots);
        if self.source.len() >= need {
            return Ok(());
        }
        let metadata = self.file.metadata().map_err(|source| self.io(source))?;
        if metadata.len() < need as u64 {
            let has = metadata.len();
            return Err(self.damaged(format!("{slots} slots need {need} bytes, it has {has}")));
        }
        let may_map = matches!(self.source, Source::Mapped(_));
        self.source =
            source_of(&self.file, &metadata, may_map).map_err(|source| self.io(source))?;
        Ok(())
    }

    /// The thread in a slot now; `None` when the slot is free.
    fn read(&mut self, slot: u32) -> Result<Option<Thread>, Error> {
        self.reach(slot + 1)?;
        let (record_at, side_at) = places_of(slot);
        let mut record = [0; size_of::<Record>()];
        let mut side = [0; size_of::<Side>()];
        for attempt in 0..TRIES {
            if attempt > 0 {
                self.retries += 1;
                if attempt < SPINS {
                    spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
            // The protocol of abi/tek_abi.h. The acquire keeps the copies after this load ...
            let before = self.source.acquire(record_at).map_err(|e| self.io(e))?;
            if before % 2 == 1 {
                continue;
            }
            let copied = self
                .source
                .copy(record_at, &mut record)
                .and_then(|()| self.source.copy(side_at, &mut side));
            match copied {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                other => other.map_err(|e| self.io(e))?,
            }
            // ... and the fence keeps them before this one.
            fence(Ordering::Acquire);
            let after = self.source.acquire(record_at).map_err(|e| self.io(e))?;
            if before != after {
                continue;
            }
            let record = Record::read_from_bytes(&record).expect("the size is the type's");
            let side = Side::read_from_bytes(&side).expect("the size is the type's");
            return Ok((record.tid != 0).then_some(Thread { slot, record, side }));
        }
        Err(Error::Changing { path: self.path.clone(), slot })
    }

    fn io(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    fn damaged(&self, what: String) -> Error {
        Error::Damaged { path: self.path.clone(), what }
    }
}

/// The threads of a table: see [`Table::threads`].
pub struct Threads<'a> {
    table: &'a mut Table,
    next: u32,
    slots: u32,
}

impl Iterator for Threads<'_> {
    type Item = Result<Thread, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.next < self.slots {
            let slot = self.next;
            self.next += 1;
            if let Some(found) = self.table.read(slot).transpose() {
                return Some(found);
            }
        }
        None
    }
}

/// Maps or reads a table: see source.rs. Whole chunks only, and no more than a table may have.
fn source_of(file: &File, metadata: &Metadata, may_map: bool) -> io::Result<Source> {
    let header = u64::from(TABLE_HEADER_BYTES);
    let chunk = u64::from(TABLE_CHUNK_BYTES);
    let chunks = (metadata.len().saturating_sub(header) / chunk).min(u64::from(MAX_CHUNKS));
    let len = (header + chunks * chunk) as usize;
    let trusted = metadata.uid() == 0 || metadata.uid() == nix::unistd::geteuid().as_raw();
    if may_map && trusted {
        Source::map(file, len)
    } else {
        Source::read(file, len)
    }
}

/// Bytes that a table with this many slots has at least.
fn end_of(slots: u32) -> usize {
    (TABLE_HEADER_BYTES + slots.div_ceil(CHUNK_SLOTS) * TABLE_CHUNK_BYTES) as usize
}

/// Where the record and the side record of a slot lie.
fn places_of(slot: u32) -> (usize, usize) {
    let chunk = (TABLE_HEADER_BYTES + slot / CHUNK_SLOTS * TABLE_CHUNK_BYTES) as usize;
    let index = (slot % CHUNK_SLOTS) as usize;
    let side = chunk + CHUNK_SIDE_OFFSET as usize + index * size_of::<Side>();
    (chunk + index * size_of::<Record>(), side)
}
