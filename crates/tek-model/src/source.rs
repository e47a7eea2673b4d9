// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a table file, while somebody else writes them.
//!
//! A file of our own user or of root is mapped: a look costs no system call. A table only ever
//! grows, so its own writer cannot take mapped pages away. The owner of any other file might
//! shrink it on purpose, and to touch a page that is gone kills a process (SIGBUS): such a file
//! is read by pread, into memory of our own.
#![allow(unsafe_code)]

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{fence, AtomicU32, Ordering};

/// Where the bytes come from.
pub(crate) enum Source {
    /// A shared mapping.
    Mapped(MmapRaw),
    /// System calls, limited to this many bytes.
    Read(File, usize),
}

impl Source {
    /// Maps the first `len` bytes of a file that has at least as many.
    pub(crate) fn map(file: &File, len: usize) -> io::Result<Self> {
        MmapOptions::new().len(len).map_raw_read_only(file).map(Self::Mapped)
    }

    /// Reads the first `len` bytes of a file by system calls.
    pub(crate) fn read(file: &File, len: usize) -> io::Result<Self> {
        Ok(Self::Read(file.try_clone()?, len))
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Mapped(map) => map.len(),
            Self::Read(_, len) => *len,
        }
    }

    /// Copies bytes; offset and length are multiples of 4. What is being written meanwhile may
    /// come out half old and half new: the caller finds out by the record's seq.
    pub(crate) fn copy(&self, offset: usize, to: &mut [u8]) -> io::Result<()> {
        assert!(
            offset.is_multiple_of(4) && to.len().is_multiple_of(4),
            "a table is made of 4-byte words"
        );
        if offset.checked_add(to.len()).is_none_or(|end| end > self.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match self {
            Self::Mapped(map) => {
                for (index, word) in to.chunks_exact_mut(4).enumerate() {
                    let word_offset = offset + index * 4;
                    let value = word_at(map, word_offset).load(Ordering::Relaxed);
                    word.copy_from_slice(&value.to_ne_bytes());
                }
                Ok(())
            }
            Self::Read(file, _) => {
                file.read_exact_at(to, offset as u64)?;
                // A record may change while the kernel copies it. Its seq changes too, but the
                // kernel promises no order within one copy: two equal copies stand in for it.
                let mut again = vec![0; to.len()];
                for _ in 0..COPIES {
                    file.read_exact_at(&mut again, offset as u64)?;
                    if again == to {
                        return Ok(());
                    }
                    to.copy_from_slice(&again);
                }
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    /// A word, read before everything that is read after it.
    pub(crate) fn acquire(&self, offset: usize) -> io::Result<u32> {
        match self {
            Self::Mapped(map) if offset.is_multiple_of(4) && offset + 4 <= map.len() => {
                // Of atomic loads only the relaxed one is defined on read-only memory (Rust's
                // std::sync::atomic, "Atomic accesses to read-only memory"); with the fence it
                // orders like an acquire load.
                let word = word_at(map, offset).load(Ordering::Relaxed);
                fence(Ordering::Acquire);
                Ok(word)
            }
            _ => {
                let mut word = [0; 4];
                self.copy(offset, &mut word)?;
                Ok(u32::from_ne_bytes(word))
            }
        }
    }
}

/// How often two copies may differ.
const COPIES: usize = 16;

/// A word of the mapping. Panics when it lies outside, which the callers have excluded.
fn word_at(map: &MmapRaw, offset: usize) -> &AtomicU32 {
    assert!(offset.is_multiple_of(4) && offset + 4 <= map.len());
    // SAFETY: the word lies in the mapping (asserted), which lives as long as the reference and
    // begins on a page, so it is aligned. Other processes write it, hence the atomic; nobody in
    // this process holds a plain reference to it. A load does not write the read-only page.
    unsafe { AtomicU32::from_ptr(map.as_mut_ptr().add(offset).cast()) }
}
