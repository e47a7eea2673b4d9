// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of thread of a table, copied while their process goes on writing them: each has a seq
//! of its own, to be read as that of a record.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{fence, Ordering};
use tek_abi::{Kind, KINDS_OFFSET};
use zerocopy::{FromZeros, IntoBytes};

/// Reads of kinds that are being written before they are given up.
const TRIES: u32 = 32;
const SPINS: u32 = 24;

/// The first `count` kinds with their numbers, from 1. A kind that is being written at every read
/// is left out: its writer may have been stopped, or killed, in mid-write.
pub(crate) fn read(file: &File, count: usize) -> io::Result<Vec<(u16, Kind)>> {
    let mut found: Vec<Option<Kind>> = vec![None; count];
    for attempt in 0..TRIES {
        if found.iter().all(Option::is_some) {
            break;
        }
        if attempt >= SPINS {
            std::thread::yield_now();
        }
        let copy = || -> io::Result<Vec<Kind>> {
            let mut kinds = vec![Kind::new_zeroed(); count];
            file.read_exact_at(kinds.as_mut_bytes(), KINDS_OFFSET.into())?;
            Ok(kinds)
        };
        let before = copy()?;
        fence(Ordering::Acquire);
        let middle = copy()?;
        fence(Ordering::Acquire);
        let after = copy()?;
        for (at, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
            let seq = middle[at].seq;
            if seq.is_multiple_of(2) && seq == before[at].seq && seq == after[at].seq {
                *found = Some(middle[at]);
            }
        }
    }
    Ok((1..).zip(found).filter_map(|(number, kind)| Some((number, kind?))).collect())
}
