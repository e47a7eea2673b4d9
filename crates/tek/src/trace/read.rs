// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file that the engine wrote, `abi/tek_trace.h`: the records of each process in the order of
//! their times, merged over all workers.
//!
//! The program could write to it, too, so each value that could do harm here is checked.
use super::Error;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use tek_abi::{
    text, TraceBlock, TraceHeader, TraceRecord, TRACE_BLOCK_BYTES, TRACE_BLOCK_MAGIC,
    TRACE_HEADER_BYTES, TRACE_MAGIC, TRACE_VERSION,
};
use zerocopy::FromBytes;

/// A larger file is no trace: 1 TiB of blocks.
const MOST_BLOCKS: u64 = 1 << 20;

/// Records that are read at once.
const AT_ONCE: usize = 2048;

const RECORDS: usize = (TRACE_BLOCK_BYTES as usize - size_of::<TraceBlock>()) / TraceRecord::BYTES;

/// A trace.
pub struct Trace<'a> {
    file: &'a File,
    engines: Vec<Engine>,
}

/// One run of the engine: a process has another one after fork or exec.
#[derive(Debug)]
pub struct Engine {
    /// Its process.
    pub pid: u32,
    /// When it started, in ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Name of the program.
    pub program: String,
    /// Records that are missing.
    pub lost: u64,
    /// Where the records of each worker lie, in order.
    blocks: BTreeMap<u32, Vec<u64>>,
}

impl<'a> Trace<'a> {
    /// Reads the headers of the blocks of a file.
    pub fn open(file: &'a File) -> Result<Self, Error> {
        let bytes = file.metadata()?.len();
        if bytes == 0 {
            return Err(Error::Empty);
        }
        let header: TraceHeader = read_at(file, 0)?.ok_or(Error::NotATrace)?;
        if header.magic != TRACE_MAGIC {
            return Err(Error::NotATrace);
        }
        if header.version != TRACE_VERSION {
            return Err(Error::Version);
        }
        let mut found: BTreeMap<(u64, u32), Engine> = BTreeMap::new();
        let mut blocks = Vec::new();
        let most =
            bytes.saturating_sub(u64::from(TRACE_HEADER_BYTES)) / u64::from(TRACE_BLOCK_BYTES);
        for number in 0..most.min(MOST_BLOCKS) {
            let offset = u64::from(TRACE_HEADER_BYTES) + number * u64::from(TRACE_BLOCK_BYTES);
            let Some(block) = read_at::<TraceBlock>(file, offset)? else { break };
            if block.magic == TRACE_BLOCK_MAGIC {
                blocks.push((block.sequence, offset, block));
            }
        }
        tek_sort::by_key(&mut blocks, |&(sequence, offset, _)| (sequence, offset));
        let mut lost: BTreeMap<(u64, u32, u32), u64> = BTreeMap::new();
        for (_, offset, block) in blocks {
            let key = (block.start_ns, block.pid);
            let engine = found.entry(key).or_insert_with(|| Engine {
                pid: block.pid,
                start_ns: block.start_ns,
                program: text(&block.program),
                lost: 0,
                blocks: BTreeMap::new(),
            });
            engine.blocks.entry(block.worker).or_default().push(offset);
            // The count of each block is the total of its worker so far.
            let of_worker = lost.entry((key.0, key.1, block.worker)).or_default();
            *of_worker = block.lost.max(*of_worker);
        }
        for ((start_ns, pid, _), lost) in lost {
            if let Some(engine) = found.get_mut(&(start_ns, pid)) {
                engine.lost = engine.lost.saturating_add(lost);
            }
        }
        if found.is_empty() {
            return Err(Error::Empty);
        }
        Ok(Self { file, engines: found.into_values().collect() })
    }

    /// The engines in the file, by the times of their starts.
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// The records of one, each with its worker, by time.
    pub fn records(&self, engine: &Engine) -> io::Result<Records<'a>> {
        let mut records = Records { streams: Vec::new(), next: BinaryHeap::new() };
        for (&worker, blocks) in &engine.blocks {
            let blocks = blocks.clone().into_iter();
            let stream =
                Stream { file: self.file, worker, blocks, offset: 0, left: 0, read: Vec::new() };
            records.streams.push(stream);
            records.advance(records.streams.len() - 1)?;
        }
        Ok(records)
    }
}

fn read_at<T: FromBytes>(file: &File, offset: u64) -> io::Result<Option<T>> {
    let mut bytes = vec![0; size_of::<T>()];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(T::read_from_bytes(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Records of several workers, merged.
pub struct Records<'a> {
    streams: Vec<Stream<'a>>,
    /// The next one of each stream, by time.
    next: BinaryHeap<Reverse<Next>>,
}

struct Next {
    stream: usize,
    record: TraceRecord,
}

impl Next {
    fn key(&self) -> (u64, usize) {
        (self.record.time_ns, self.stream)
    }
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Next {}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Records<'_> {
    fn advance(&mut self, stream: usize) -> io::Result<()> {
        if let Some(record) = self.streams[stream].read_next()? {
            self.next.push(Reverse(Next { stream, record }));
        }
        Ok(())
    }
}

impl Iterator for Records<'_> {
    type Item = io::Result<(u32, TraceRecord)>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse(Next { stream, record }) = self.next.pop()?;
        Some(self.advance(stream).map(|()| (self.streams[stream].worker, record)))
    }
}

/// The records of one worker.
struct Stream<'a> {
    file: &'a File,
    worker: u32,
    /// The begins of the blocks that are still unread.
    blocks: std::vec::IntoIter<u64>,
    /// The offset of the next records of this block, and the most that there can be.
    offset: u64,
    left: usize,
    /// The records that were read, the next one last.
    read: Vec<TraceRecord>,
}

impl Stream<'_> {
    fn read_next(&mut self) -> io::Result<Option<TraceRecord>> {
        loop {
            match self.read.pop() {
                Some(record) if record.time_ns != 0 => return Ok(Some(record)),
                // The rest of the block was not written.
                Some(_) => {
                    self.read.clear();
                    self.left = 0;
                }
                None if self.left > 0 => self.fill()?,
                None => match self.blocks.next() {
                    Some(block) => {
                        self.offset = block + size_of::<TraceBlock>() as u64;
                        self.left = RECORDS;
                    }
                    None => return Ok(None),
                },
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let count = self.left.min(AT_ONCE);
        let mut bytes = vec![0; count * TraceRecord::BYTES];
        match self.file.read_exact_at(&mut bytes, self.offset) {
            Ok(()) => {}
            // It was made shorter.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.left = 0;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let records = bytes.chunks_exact(TraceRecord::BYTES).rev();
        self.read.extend(records.filter_map(|bytes| TraceRecord::read_from_bytes(bytes).ok()));
        self.offset += bytes.len() as u64;
        self.left -= count;
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::Write;
    use tek_abi::TRACE_SWITCH;
    use zerocopy::IntoBytes;

    /// A trace of these blocks.
    pub fn trace(blocks: &[(TraceBlock, Vec<TraceRecord>)]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        let header = TraceHeader {
            magic: TRACE_MAGIC,
            version: TRACE_VERSION,
            reserved: 0,
            blocks: blocks.len() as u64,
        };
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(TRACE_HEADER_BYTES as usize, 0);
        for (block, records) in blocks {
            let end = bytes.len() + TRACE_BLOCK_BYTES as usize;
            bytes.extend_from_slice(block.as_bytes());
            records.iter().for_each(|record| bytes.extend_from_slice(record.as_bytes()));
            bytes.resize(end, 0);
        }
        file.write_all(&bytes).unwrap();
        file
    }

    pub fn block(pid: u32, worker: u32, sequence: u32) -> TraceBlock {
        let mut program = [0; 32];
        program[..6].copy_from_slice(b"fridge");
        let magic = TRACE_BLOCK_MAGIC;
        TraceBlock { magic, worker, pid, sequence, start_ns: 100, lost: 0, program }
    }

    pub fn switch(time_ns: u64, thread: u64, reason: u8, other: u64) -> TraceRecord {
        TraceRecord { time_ns, thread, other, tid: 9, kind: TRACE_SWITCH, reason, reserved: 0 }
    }

    fn times(trace: &Trace<'_>, engine: usize) -> Vec<(u32, u64)> {
        let records = trace.records(&trace.engines()[engine]).unwrap();
        records
            .map(|record| record.map(|(worker, record)| (worker, record.time_ns)).unwrap())
            .collect()
    }

    fn at(times: &[u64]) -> Vec<TraceRecord> {
        times.iter().map(|&time| switch(time, 0, 0, 1)).collect()
    }

    #[test]
    fn records_of_all_workers_come_by_time_and_blocks_by_sequence() {
        let full: Vec<u64> = (0..RECORDS as u64).map(|n| 1000 + 2 * n).collect();
        let after = full[RECORDS - 1] + 5;
        let file = trace(&[
            (block(8, 0, 1), at(&[after])),
            (block(8, 1, 0), at(&[1001, after + 1])),
            (block(8, 0, 0), at(&full)),
        ]);
        let trace = Trace::open(&file).unwrap();
        let times = times(&trace, 0);
        assert_eq!(times.len(), RECORDS + 3);
        assert!(times.is_sorted_by_key(|&(_, time)| time));
        assert_eq!(times[..3], [(0, 1000), (1, 1001), (0, 1002)]);
        assert_eq!(times[RECORDS + 1..], [(0, after), (1, after + 1)]);
    }

    #[test]
    fn processes_are_distinguished_and_their_losses_counted_once() {
        let lost = |block: TraceBlock, lost| TraceBlock { lost, ..block };
        let file = trace(&[
            (lost(block(8, 0, 0), 2), at(&[200])),
            (lost(block(8, 0, 1), 5), at(&[400])),
            (lost(block(8, 1, 0), 1), at(&[])),
            (TraceBlock { start_ns: 300, ..block(9, 0, 0) }, at(&[350])),
        ]);
        let trace = Trace::open(&file).unwrap();
        let found: Vec<_> = trace.engines().iter().map(|e| (e.pid, e.lost)).collect();
        assert_eq!(found, [(8, 6), (9, 0)]);
        assert_eq!(trace.engines()[0].program, "fridge");
        assert_eq!(times(&trace, 1), [(0, 350)]);
    }

    #[test]
    fn what_is_no_trace_is_refused_and_what_is_cut_short_is_read_to_its_end() {
        assert!(matches!(Trace::open(&tempfile::tempfile().unwrap()), Err(Error::Empty)));
        let mut other = tempfile::tempfile().unwrap();
        other.write_all(&[7; 100_000]).unwrap();
        assert!(matches!(Trace::open(&other), Err(Error::NotATrace)));
        let file = trace(&[(block(8, 0, 0), at(&[200])), (block(8, 0, 1), at(&[300]))]);
        file.set_len(file.metadata().unwrap().len() - 10).unwrap();
        let trace = Trace::open(&file).unwrap();
        assert_eq!(times(&trace, 0), [(0, 200)]);
    }
}
