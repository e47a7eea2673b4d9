// SPDX-License-Identifier: MIT OR Apache-2.0
//! Use of the stack of another process's thread, seen from outside.
//!
//! The lowest present page is the bound: memory below it was never touched. From that page up, the
//! lowest byte that is not zero is the peak. Absent pages are not read, since the read would make
//! them present. A reused stack may hold an earlier thread's traces, which only the process itself
//! can distinguish. Unlike process.rs, this takes the lock of the target's address space for a
//! moment, so it waits while the target changes its mappings.
use crate::process::Process;
use nix::unistd::{sysconf, SysconfVar};
use std::fs::File;
use std::os::unix::fs::FileExt;
use tek_abi::Record;

/// Largest stack that is measured: a table may contain any size.
const MOST_STACK: u64 = 1 << 30;
/// Pages of all stacks of a process whose presence is queried.
const MOST_PAGES: u64 = 32 << 20;
/// Pages of them that are read, in search of bytes other than zero.
const MOST_READ: u64 = 64 << 10;
/// Pages of one stack that are read.
const MOST_READ_OF_ONE: u64 = 2048;

/// Entries of pagemap in one read.
const ENTRIES: usize = 512;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// Use of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackUse {
    /// Bytes certainly used, by this thread or an earlier one; `None` if it may not be read.
    pub peak_bytes: Option<u64>,
    /// Most bytes that can have been used.
    pub bound_bytes: u64,
}

impl StackUse {
    /// The measurement of the thread's own process; `None` if it did not measure the stack.
    pub fn of(record: &Record, page_bytes: u32) -> Option<Self> {
        let pages = |count: u32| u64::from(count) * u64::from(page_bytes);
        let bound_bytes = match record.bound_pages {
            0 => return None,
            // The largest count that the record can hold: that many pages, or all of the stack.
            u16::MAX => pages(record.stack_pages.max(u16::MAX.into())),
            count => pages(count.into()),
        };
        let peak = u64::from(record.peak_bytes);
        Some(Self { peak_bytes: (peak != 0).then_some(peak), bound_bytes })
    }
}

/// Measures the stacks of one process.
pub(crate) struct Stacks {
    pagemap: File,
    memory: Option<File>,
    page: u64,
    pages_left: u64,
    reads_left: u64,
}

impl Stacks {
    /// `None` if this user may not read its memory.
    pub fn open(process: &Process) -> Option<Self> {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten()?;
        Some(Self {
            pagemap: process.open_file("pagemap")?,
            memory: process.open_file("mem"),
            page: u64::try_from(page).ok().filter(|&page| page > 0)?,
            pages_left: MOST_PAGES,
            reads_left: MOST_READ,
        })
    }

    /// The stack of so many bytes below `end`; `None` if no page of it is present, or it is none.
    pub fn measure(&mut self, end: u64, bytes: u64) -> Option<StackUse> {
        let low = end.checked_sub(bytes)?.div_ceil(self.page);
        let high = end.div_ceil(self.page);
        if bytes == 0 || bytes > MOST_STACK {
            return None;
        }
        self.pages_left = self.pages_left.checked_sub(high - low)?;
        let mut bound = None;
        let mut peak = None;
        let mut reads = MOST_READ_OF_ONE.min(self.reads_left);
        let mut entries = [0; ENTRIES * 8];
        let mut number = low;
        'pages: while number < high {
            let count = (high - number).min(ENTRIES as u64);
            let entries = &mut entries[..count as usize * 8];
            self.pagemap.read_exact_at(entries, number * 8).ok()?;
            for (at, entry) in (number..).zip(entries.chunks_exact(8)) {
                let entry = u64::from_ne_bytes(entry.try_into().expect("eight bytes"));
                if entry & (PRESENT | SWAPPED) == 0 {
                    continue;
                }
                bound.get_or_insert(at);
                // A read of swapped-out pages would bring them back.
                if entry & PRESENT == 0 {
                    continue;
                }
                let Some(left) = reads.checked_sub(1) else { break 'pages };
                (reads, self.reads_left) = (left, self.reads_left - 1);
                match self.lowest_not_zero(at) {
                    Read::At(address) => {
                        peak = Some(address);
                        break 'pages;
                    }
                    Read::AllZero => {}
                    Read::Refused => break 'pages,
                }
            }
            number += count;
        }
        let bound = bound? * self.page;
        Some(StackUse {
            peak_bytes: peak.and_then(|address| end.checked_sub(address)),
            bound_bytes: end.checked_sub(bound)?.min(bytes),
        })
    }

    fn lowest_not_zero(&self, number: u64) -> Read {
        let Some(memory) = &self.memory else { return Read::Refused };
        let mut bytes = vec![0; self.page as usize];
        let address = number * self.page;
        match memory.read_exact_at(&mut bytes, address) {
            Ok(()) => match bytes.iter().position(|&byte| byte != 0) {
                Some(at) => Read::At(address + at as u64),
                None => Read::AllZero,
            },
            Err(_) => Read::Refused,
        }
    }
}

enum Read {
    At(u64),
    AllZero,
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// This thread's stack: end and size.
    fn own_area() -> (u64, u64) {
        let maps = std::fs::read_to_string("/proc/thread-self/maps").unwrap();
        let here = &maps as *const _ as u64;
        let areas = maps.lines().map(|line| {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split(' ').next().unwrap();
            let hex = |text| u64::from_str_radix(text, 16).unwrap();
            (hex(start), hex(end))
        });
        let (start, end) = areas.into_iter().find(|&(s, e)| (s..e).contains(&here)).unwrap();
        (end, end - start)
    }

    #[inline(never)]
    fn use_up(bytes: usize) -> u8 {
        let block = [1u8; 4096];
        let block = std::hint::black_box(&block);
        block[0] + if bytes > 4096 { use_up(bytes - 4096) } else { 0 }
    }

    #[test]
    fn what_a_thread_used_lies_between_peak_and_bound_and_looking_adds_nothing() {
        let (report, reported) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().stack_size(4 << 20).spawn(move || {
            std::hint::black_box(use_up(300_000));
            report.send(own_area()).unwrap();
            let _ = ended.recv();
        });
        let (stack_end, bytes) = reported.recv().unwrap();
        let process = Process::open(std::process::id()).unwrap();
        let mut stacks = Stacks::open(&process).unwrap();
        let first = stacks.measure(stack_end, bytes).unwrap();
        let peak = first.peak_bytes.unwrap();
        assert!(peak <= first.bound_bytes && first.bound_bytes - peak < 8192, "{first:?}");
        assert!(peak > 300_000 && first.bound_bytes < 2 << 20, "{first:?}");
        assert_eq!(stacks.measure(stack_end, bytes), Some(first));
        drop(end);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn what_a_record_has_no_room_for_may_be_all_of_the_stack() {
        let of = |bound_pages, stack_pages| {
            let record = Record { bound_pages, stack_pages, peak_bytes: 9, ..Record::default() };
            StackUse::of(&record, 4096).map(|used| used.bound_bytes)
        };
        assert_eq!([of(0, 2048), of(3, 2048)], [None, Some(12_288)]);
        assert_eq!([of(u16::MAX, 1 << 18), of(u16::MAX, 0)], [Some(1 << 30), Some(268_431_360)]);
    }

    #[test]
    fn what_is_no_stack_is_not_measured() {
        let process = Process::open(std::process::id()).unwrap();
        let mut stacks = Stacks::open(&process).unwrap();
        for (end, bytes) in [
            (0, 4096),
            (4096, 4096),
            (u64::MAX, 8 << 20),
            (u64::MAX - 4095, 4096),
            (1 << 47, 0),
            (1 << 47, 2 << 30),
            (1 << 40, 1 << 20),
        ] {
            assert_eq!(stacks.measure(end, bytes), None, "{end:#x} {bytes}");
        }
    }
}
