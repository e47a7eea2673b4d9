// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process's thread information table.
//!
//! Its writer is not trusted: it may be stopped, forge every field, and shrink or replace the file
//! during a read. So the file is read by pread into memory of our own, never mapped: an access to a
//! mapped page that its owner removed kills the reader (SIGBUS).
use crate::sequenced;
use crate::snapshot::Snapshot;
use crate::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{fence, Ordering};
use tek_abi::{
    HeldUp, Inversion, Kind, Module, Record, Side, TableHeader, TimeOffsets, WorkerPlace,
    ABI_VERSION, CHUNK_SLOTS, HELD_UP_OFFSET, INVERSIONS_OFFSET, KINDS_OFFSET, MAX_CHUNKS,
    MAX_HELD_UP, MAX_INVERSIONS, MAX_KINDS, MAX_MODULES, MAX_WORKERS, MODULES_OFFSET,
    TABLE_HEADER_BYTES, TABLE_MAGIC, WAITS_NO, WORKERS_OFFSET,
};
use zerocopy::{FromZeros, IntoBytes};

/// An open table. It may go on being written; a table whose process is gone stays readable.
pub struct Table {
    path: PathBuf,
    file: File,
    owner: u32,
    retries: u64,
}

impl Table {
    /// Opens a table file after a check that it is one.
    pub fn open(path: &Path) -> Result<Self, Error> {
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
        if metadata.len() == 0 {
            return Err(Error::Unfinished { path: path.to_owned() });
        }
        if metadata.len() < u64::from(TABLE_HEADER_BYTES) {
            return Err(Error::NotATable { path: path.to_owned() });
        }
        let table = Self { path: path.to_owned(), file, owner: metadata.uid(), retries: 0 };
        table.header()?;
        Ok(table)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user that the file belongs to.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Number of repeated reads of records that were being written.
    pub fn retries(&self) -> u64 {
        self.retries
    }

    /// The present header. Its counters change one by one, so they need not be consistent.
    pub fn header(&self) -> Result<TableHeader, Error> {
        // The writer's last store is the magic: a reader that has seen it sees the rest after the
        // fence.
        let mut magic = 0u64;
        self.read(magic.as_mut_bytes(), 0)?;
        match magic {
            TABLE_MAGIC => {}
            0 => return Err(Error::Unfinished { path: self.path.clone() }),
            _ => return Err(Error::NotATable { path: self.path.clone() }),
        }
        fence(Ordering::Acquire);
        let mut header = TableHeader::new_zeroed();
        self.read(header.as_mut_bytes(), 0)?;
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
        if header.modules > MAX_MODULES {
            return Err(self.damaged(format!("{} modules, at most {MAX_MODULES}", header.modules)));
        }
        if header.kinds > MAX_KINDS {
            return Err(self.damaged(format!("{} kinds, at most {MAX_KINDS}", header.kinds)));
        }
        if header.workers > MAX_WORKERS {
            return Err(self.damaged(format!("{} workers, at most {MAX_WORKERS}", header.workers)));
        }
        if !header.page_bytes.is_power_of_two() {
            return Err(self.damaged(format!("pages of {} bytes", header.page_bytes)));
        }
        Ok(())
    }

    /// The present threads of the table, with times of this process's clock. A thread that starts
    /// or ends meanwhile may or may not be among them.
    pub fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let header = self.header()?;
        let mut snapshot = Snapshot::read(&self.file, header.slots, &mut self.retries)
            .map_err(|error| self.failed(error))?;
        snapshot.shift_times(clock_shift(&header));
        Ok(snapshot)
    }

    /// The files that contain start routines.
    pub fn modules(&self) -> Result<Vec<Module>, Error> {
        let mut modules = vec![Module::new_zeroed(); self.header()?.modules as usize];
        fence(Ordering::Acquire);
        self.read(modules.as_mut_bytes(), MODULES_OFFSET.into())?;
        Ok(modules)
    }

    /// The workers of user-level threads, from 0.
    pub fn workers(&self) -> Result<Vec<WorkerPlace>, Error> {
        let mut workers = vec![WorkerPlace::new_zeroed(); self.header()?.workers as usize];
        fence(Ordering::Acquire);
        self.read(workers.as_mut_bytes(), WORKERS_OFFSET.into())?;
        Ok(workers)
    }

    /// The kinds of thread that were measured, with their numbers.
    pub fn kinds(&self) -> Result<Vec<(u16, Kind)>, Error> {
        let count = self.header()?.kinds as usize;
        fence(Ordering::Acquire);
        sequenced::read(&self.file, KINDS_OFFSET, count).map_err(|error| self.failed(error))
    }

    /// The places where Fast threads waited longest for threads that were not Fast.
    pub fn inversions(&self) -> Result<Vec<Inversion>, Error> {
        let read = sequenced::read(&self.file, INVERSIONS_OFFSET, MAX_INVERSIONS as usize);
        let all = read.map_err(|error| self.failed(error))?.into_iter().map(|(_, one)| one);
        Ok(all.filter(|one: &Inversion| one.kind != WAITS_NO.into()).collect())
    }

    /// The Fast threads that wait at present for threads that are not Fast, with times of this
    /// process's clock.
    pub fn held_up(&self) -> Result<Vec<HeldUp>, Error> {
        let shift = clock_shift(&self.header()?);
        let read = sequenced::read(&self.file, HELD_UP_OFFSET, MAX_HELD_UP as usize);
        let all = read.map_err(|error| self.failed(error))?.into_iter().map(|(_, one)| one);
        let shifted = all
            .map(|one: HeldUp| HeldUp { since_ns: one.since_ns.wrapping_add_signed(shift), ..one });
        Ok(shifted.filter(|one| one.tid != 0).collect())
    }

    fn read(&self, to: &mut [u8], at: u64) -> Result<(), Error> {
        self.file.read_exact_at(to, at).map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it is shorter than it says".into()),
            _ => Error::Io { path: self.path.clone(), source },
        }
    }

    fn damaged(&self, what: String) -> Error {
        Error::Damaged { path: self.path.clone(), what }
    }
}

/// From the clock of a table's process, which may be in another time namespace, to ours.
fn clock_shift(header: &TableHeader) -> i64 {
    let own = TimeOffsets::own().unwrap_or_default().boottime_ns;
    own.wrapping_sub(header.boot_offset_ns)
}
