// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file that libtek-profile.so wrote, `abi/tek_profile.h`.
//!
//! The program could write to it, too, so each value that could do harm here is checked.
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use tek_abi::{
    Module, ProfileBlock, ProfileHeader, ProfileObject, ProfileThread, ProfileWait,
    PROFILE_BLOCKS_OFFSET, PROFILE_BLOCK_BYTES, PROFILE_BLOCK_MAGIC, PROFILE_MAGIC,
    PROFILE_MAX_BLOCKS, PROFILE_MAX_MODULES, PROFILE_MAX_THREADS, PROFILE_MODULES_OFFSET,
    PROFILE_OBJECTS, PROFILE_OBJECTS_OFFSET, PROFILE_THREADS_OFFSET, PROFILE_THREAD_BYTES,
    PROFILE_VERSION,
};
use zerocopy::FromBytes;

/// Why a file is not readable as a profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is no profile, or nothing was written to it")]
    NotAProfile,
    #[error(
        "it was written by another version of TEK: install the same version of tek and \
         libtek-profile.so"
    )]
    Version,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A raw profile.
#[derive(Clone, Debug)]
pub struct Raw {
    pub header: ProfileHeader,
    pub modules: Vec<Module>,
    /// By their numbers, from 1.
    pub threads: Vec<RawThread>,
}

/// A raw thread.
#[derive(Clone, Debug, Default)]
pub struct RawThread {
    pub thread: ProfileThread,
    pub objects: Vec<ProfileObject>,
    /// In their order.
    pub waits: Vec<ProfileWait>,
}

/// Opens a file in a directory that the program can write to: without waiting or following links.
pub fn open(path: &Path) -> Result<File, Error> {
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(Error::NotAProfile)
    }
}

/// Reads a file.
pub fn read(file: &File) -> Result<Raw, Error> {
    let header: ProfileHeader = read_at(file, 0)?.ok_or(Error::NotAProfile)?;
    if header.magic != PROFILE_MAGIC {
        return Err(Error::NotAProfile);
    }
    if header.version != PROFILE_VERSION {
        return Err(Error::Version);
    }
    let modules = (0..header.modules.min(PROFILE_MAX_MODULES))
        .map(|number| {
            let offset = u64::from(PROFILE_MODULES_OFFSET);
            read_at(file, offset + u64::from(number) * size_of::<Module>() as u64)
        })
        .collect::<io::Result<Vec<_>>>()?;
    let mut threads = Vec::new();
    for number in 0..header.threads.min(PROFILE_MAX_THREADS) {
        threads.push(read_thread(file, number)?);
    }
    read_waits(file, header.blocks, &mut threads)?;
    Ok(Raw { header, modules: modules.into_iter().flatten().collect(), threads })
}

fn read_thread(file: &File, number: u32) -> io::Result<RawThread> {
    let offset =
        u64::from(PROFILE_THREADS_OFFSET) + u64::from(number) * u64::from(PROFILE_THREAD_BYTES);
    let thread: ProfileThread = read_at(file, offset)?.unwrap_or_default();
    let mut objects = Vec::new();
    if thread.begin_ticks != 0 {
        let mut bytes = vec![0; PROFILE_OBJECTS as usize * size_of::<ProfileObject>()];
        if read_all(file, &mut bytes, offset + u64::from(PROFILE_OBJECTS_OFFSET))? {
            objects = structs::<ProfileObject>(&bytes).filter(|object| object.kind != 0).collect();
        }
    }
    Ok(RawThread { thread, objects, waits: Vec::new() })
}

fn read_waits(file: &File, blocks: u32, threads: &mut [RawThread]) -> io::Result<()> {
    let most =
        (PROFILE_BLOCK_BYTES as usize - size_of::<ProfileBlock>()) / size_of::<ProfileWait>();
    let mut found = Vec::new();
    for number in 0..blocks.min(PROFILE_MAX_BLOCKS) {
        let offset =
            u64::from(PROFILE_BLOCKS_OFFSET) + u64::from(number) * u64::from(PROFILE_BLOCK_BYTES);
        match read_at::<ProfileBlock>(file, offset)? {
            Some(block) if block.magic == PROFILE_BLOCK_MAGIC => found.push((block, offset)),
            _ => {}
        }
    }
    tek_sort::by_key(&mut found, |&(block, offset)| (block.sequence, offset));
    for (block, offset) in found {
        let Some(thread) =
            (block.thread as usize).checked_sub(1).and_then(|at| threads.get_mut(at))
        else {
            continue;
        };
        let count = (block.waits as usize).min(most);
        let mut bytes = vec![0; count * size_of::<ProfileWait>()];
        if read_all(file, &mut bytes, offset + size_of::<ProfileBlock>() as u64)? {
            thread.waits.extend(structs::<ProfileWait>(&bytes));
        }
    }
    Ok(())
}

fn structs<T: FromBytes>(bytes: &[u8]) -> impl Iterator<Item = T> + '_ {
    bytes.chunks_exact(size_of::<T>()).filter_map(|bytes| T::read_from_bytes(bytes).ok())
}

/// Whether the file has that many bytes.
fn read_all(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn read_at<T: FromBytes>(file: &File, offset: u64) -> io::Result<Option<T>> {
    let mut bytes = vec![0; size_of::<T>()];
    Ok(read_all(file, &mut bytes, offset)?.then(|| T::read_from_bytes(&bytes).ok()).flatten())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;
    use tek_abi::PROFILE_CLOCK_MONOTONIC;
    use zerocopy::{FromZeros, IntoBytes};

    pub fn header(threads: u32) -> ProfileHeader {
        let mut header = ProfileHeader::new_zeroed();
        header.magic = PROFILE_MAGIC;
        header.version = PROFILE_VERSION;
        header.clock = PROFILE_CLOCK_MONOTONIC;
        header.threads = threads;
        header
    }

    fn file(raw: &Raw, blocks: &[(ProfileBlock, Vec<ProfileWait>)]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(raw.header.as_bytes(), 0).unwrap();
        for (number, thread) in raw.threads.iter().enumerate() {
            let at =
                u64::from(PROFILE_THREADS_OFFSET) + number as u64 * u64::from(PROFILE_THREAD_BYTES);
            file.write_all_at(thread.thread.as_bytes(), at).unwrap();
            let at = at + u64::from(PROFILE_OBJECTS_OFFSET);
            file.write_all_at(thread.objects.as_bytes(), at).unwrap();
        }
        for (number, (block, waits)) in blocks.iter().enumerate() {
            let at =
                u64::from(PROFILE_BLOCKS_OFFSET) + number as u64 * u64::from(PROFILE_BLOCK_BYTES);
            file.write_all_at(block.as_bytes(), at).unwrap();
            file.write_all_at(waits.as_bytes(), at + 64).unwrap();
        }
        file.set_len(
            u64::from(PROFILE_BLOCKS_OFFSET)
                + u64::from(PROFILE_MAX_BLOCKS) * u64::from(PROFILE_BLOCK_BYTES),
        )
        .unwrap();
        file
    }

    fn block(thread: u32, sequence: u32, waits: u32) -> ProfileBlock {
        ProfileBlock { magic: PROFILE_BLOCK_MAGIC, thread, sequence, waits, reserved: [0; 6] }
    }

    #[test]
    fn a_threads_waits_are_in_their_order_wherever_their_blocks_lie() {
        let mut header = header(2);
        header.blocks = 3;
        let thread = ProfileThread { begin_ticks: 1, ..Default::default() };
        let object = ProfileObject { kind: 1, count: 7, ..Default::default() };
        let first = RawThread { thread, objects: vec![object], waits: Vec::new() };
        let raw = Raw { header, modules: Vec::new(), threads: vec![first, RawThread::default()] };
        let wait = |begin_ticks| ProfileWait { begin_ticks, ..Default::default() };
        let blocks = [
            (block(1, 1, 1), vec![wait(30)]),
            (block(9, 0, 1), vec![wait(99)]),
            (block(1, 0, 2), vec![wait(10), wait(20), wait(25)]),
        ];
        let read = read(&file(&raw, &blocks)).unwrap();
        let begins: Vec<_> = read.threads[0].waits.iter().map(|wait| wait.begin_ticks).collect();
        assert_eq!(begins, [10, 20, 30]);
        assert_eq!(read.threads[0].objects, [object]);
        assert!(read.threads[1].waits.is_empty());
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        assert!(matches!(read(&tempfile::tempfile().unwrap()), Err(Error::NotAProfile)));
        let mut raw = Raw { header: header(0), modules: Vec::new(), threads: Vec::new() };
        raw.header.version += 1;
        assert!(matches!(read(&file(&raw, &[])), Err(Error::Version)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..Default::default() })]

        #[test]
        fn no_bytes_make_the_reader_panic(
            damage in proptest::collection::vec((0u64..4000, any::<u64>()), 1..40),
            words in proptest::collection::vec(any::<u64>(), 200),
            length in 0u64..200_000,
        ) {
            let raw = Raw { header: header(3), modules: Vec::new(), threads: Vec::new() };
            let file = file(&raw, &[(block(1, 0, 9), Vec::new())]);
            let threads = u64::from(PROFILE_THREADS_OFFSET);
            file.write_all_at(words.as_bytes(), threads).unwrap();
            file.write_all_at(words.as_bytes(), u64::from(PROFILE_BLOCKS_OFFSET) + 8).unwrap();
            for (at, word) in damage {
                // After the magic and the version.
                file.write_all_at(word.as_bytes(), 12 + at).unwrap();
            }
            if let Ok(raw) = read(&file) {
                let known = crate::profile::report::Known::default();
                let _ = crate::profile::report::Profile::of(&raw, &known);
            }
            file.set_len(length).unwrap();
            let _ = read(&file);
        }
    }
}
