// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a table that have a seq of their own, copied while their process goes on writing them:
//! kinds of thread, inversions, and threads that are held up. The seq is to be read as that of a
//! record.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{fence, Ordering};
use tek_abi::{HeldUp, Inversion, Kind};
use zerocopy::{FromBytes, IntoBytes};

/// Reads of parts that are being written before they are given up.
const TRIES: u32 = 32;
const SPINS: u32 = 24;

/// A part with a seq.
pub(crate) trait Sequenced: Clone + Copy + FromBytes + IntoBytes {
    /// Even: stable; odd: being written.
    fn seq(&self) -> u32;
}

impl Sequenced for Kind {
    fn seq(&self) -> u32 {
        self.seq
    }
}

impl Sequenced for Inversion {
    fn seq(&self) -> u32 {
        self.seq
    }
}

impl Sequenced for HeldUp {
    fn seq(&self) -> u32 {
        self.seq
    }
}

/// `count` parts from an offset of the file on, with their numbers, from 1. A part that is being
/// written at every read is left out: its writer may have been stopped, or killed, in mid-write.
pub(crate) fn read<T: Sequenced>(
    file: &File,
    offset: u32,
    count: usize,
) -> io::Result<Vec<(u16, T)>> {
    let mut found: Vec<Option<T>> = vec![None; count];
    for attempt in 0..TRIES {
        if found.iter().all(Option::is_some) {
            break;
        }
        if attempt >= SPINS {
            std::thread::yield_now();
        }
        let copy = || -> io::Result<Vec<T>> {
            let mut parts = vec![T::new_zeroed(); count];
            file.read_exact_at(parts.as_mut_bytes(), offset.into())?;
            Ok(parts)
        };
        let before = copy()?;
        fence(Ordering::Acquire);
        let middle = copy()?;
        fence(Ordering::Acquire);
        let after = copy()?;
        for (at, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
            let seq = middle[at].seq();
            if seq.is_multiple_of(2) && seq == before[at].seq() && seq == after[at].seq() {
                *found = Some(middle[at]);
            }
        }
    }
    Ok((1..).zip(found).filter_map(|(number, part)| Some((number, part?))).collect())
}
