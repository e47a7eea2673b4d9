// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the event file of a run while the program's processes append to it.
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tek_abi::{Event, EventError, EVENT_MAGIC};

/// Read bytes are given back to the file system in pieces of this size.
const RELEASE_BYTES: u64 = 1 << 20;

/// The unread part of an event file.
pub struct EventReader<'a> {
    file: &'a File,
    offset: u64,
    released: u64,
    pending: Vec<u8>,
    watch: Option<Inotify>,
}

impl<'a> EventReader<'a> {
    /// Starts at the beginning of the file.
    pub fn new(file: &'a File, path: &Path) -> Self {
        // Without inotify (a limit of instances was reached) events are reported at the end.
        let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
            .and_then(|inotify| {
                inotify.add_watch(path, AddWatchFlags::IN_MODIFY)?;
                Ok(inotify)
            })
            .ok();
        Self { file, offset: 0, released: 0, pending: Vec::new(), watch }
    }

    /// Makes [`Self::watch`] readable also when a file gets a name in this directory.
    pub fn watch_names(&self, directory: &Path) {
        if let Some(watch) = &self.watch {
            // Without it a waiter for files has to poll.
            let _ = watch.add_watch(directory, AddWatchFlags::IN_MOVED_TO);
        }
    }

    /// Becomes readable when events arrive.
    pub fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// All events that have arrived since the last call.
    pub fn read(&mut self) -> io::Result<Vec<Event>> {
        if let Some(watch) = &self.watch {
            while watch.read_events().is_ok() {}
        }
        let mut events = Vec::new();
        let mut block = [0; 64 * Event::BYTES];
        loop {
            let read = self.file.read_at(&mut block, self.offset)?;
            if read == 0 {
                break;
            }
            self.offset += read as u64;
            self.pending.extend_from_slice(&block[..read]);
            take_events(&mut self.pending, &mut events);
        }
        self.release();
        Ok(events)
    }

    /// Punches out the read part: a run may last for months and its file lies in memory (tmpfs).
    fn release(&mut self) {
        if self.offset - self.released < RELEASE_BYTES {
            return;
        }
        let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (from, length) = (self.released as i64, (self.offset - self.released) as i64);
        // If the file system cannot do it, the file only stays longer. nix's fallocate() ends at 2
        // GiB where addresses have 32 bits.
        // SAFETY: the call takes plain numbers, and the file is open.
        let _ = unsafe { libc::fallocate64(self.file.as_raw_fd(), flags, from, length) };
        self.released = self.offset;
    }
}

/// Moves whole events from the bytes. Bytes that are no event, such as a write that a full disk cut
/// short, are skipped up to the next event; so are kinds that this tek does not know.
fn take_events(bytes: &mut Vec<u8>, events: &mut Vec<Event>) {
    let mut at = 0;
    while let Some(candidate) = bytes.get(at..at + Event::BYTES) {
        // An event that begins inside this one shows that this one was cut short.
        let next = (1..Event::BYTES).find(|next| begins_event(&bytes[at + next..]));
        at += match (next, Event::decode(candidate)) {
            (Some(next), _) => next,
            (None, Ok(event)) => {
                events.push(event);
                Event::BYTES
            }
            (None, Err(EventError::Kind(_))) => Event::BYTES,
            // The next event's first bytes may be the last ones here.
            (None, Err(_)) => Event::BYTES - (HEADER_BYTES - 1),
        };
    }
    bytes.drain(..at);
}

/// Magic, size and kind, with which every event begins.
const HEADER_BYTES: usize = 8;

/// Whether an event begins here. The magic alone is ambiguous: a thread, a program or an option may
/// be called `TEKV`.
fn begins_event(bytes: &[u8]) -> bool {
    let Some((magic, rest)) = bytes.split_first_chunk() else { return false };
    let Some((&[size @ .., kind_low, kind_high], _)) = rest.split_first_chunk::<4>() else {
        return false;
    };
    *magic == EVENT_MAGIC.to_ne_bytes()
        && usize::from(u16::from_ne_bytes(size)) == Event::BYTES
        // Room for the kinds of later versions.
        && (1..=u16::from(u8::MAX)).contains(&u16::from_ne_bytes([kind_low, kind_high]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    #[test]
    fn events_are_found_again_behind_a_write_that_was_cut_short() {
        let event = Event { pid: 7, ..Event::blank(tek_abi::EVENT_REFUSED) };
        let unknown = Event { kind: 99, ..event };
        let mut bytes = event.as_bytes()[..100].to_vec();
        bytes.extend_from_slice(unknown.as_bytes());
        bytes.extend_from_slice(event.as_bytes());
        bytes.extend_from_slice(&event.as_bytes()[..100]);
        let mut events = Vec::new();
        take_events(&mut bytes, &mut events);
        assert_eq!(events, [event]);
        // The rest of the last one is still to come.
        bytes.extend_from_slice(&event.as_bytes()[100..]);
        take_events(&mut bytes, &mut events);
        assert_eq!(events, [event, event]);
        assert!(bytes.is_empty());
    }

    #[test]
    fn an_event_about_something_called_like_the_magic_is_an_event() {
        let mut event = Event::blank(tek_abi::EVENT_OVERRAN);
        event.thread[..4].copy_from_slice(b"TEKV");
        event.program[..9].copy_from_slice(b"/bin/TEKV");
        event.text[107..111].copy_from_slice(b"TEKV");
        let mut bytes = event.as_bytes().repeat(2);
        let mut events = Vec::new();
        take_events(&mut bytes, &mut events);
        assert_eq!(events, [event, event]);
    }

    #[test]
    fn an_event_is_found_behind_one_that_lacks_its_last_bytes() {
        for missing in 1..8 {
            let event = Event { pid: 7, ..Event::blank(tek_abi::EVENT_REFUSED) };
            let mut bytes = event.as_bytes()[..Event::BYTES - missing].to_vec();
            bytes.extend_from_slice(event.as_bytes());
            let mut events = Vec::new();
            take_events(&mut bytes, &mut events);
            assert_eq!(events, [event], "{missing}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            noise in proptest::collection::vec(any::<u8>(), 0..1500),
        ) {
            let mut bytes = noise;
            let mut events = Vec::new();
            take_events(&mut bytes, &mut events);
            prop_assert!(bytes.len() < Event::BYTES);
        }

        #[test]
        fn events_arrive_whole_whatever_the_pieces(
            cuts in proptest::collection::vec(1usize..300, 1..20),
        ) {
            let event = Event { tid: 9, ..Event::blank(tek_abi::EVENT_SUMMARY) };
            let all = event.as_bytes().repeat(8);
            let (mut pending, mut events, mut at) = (Vec::new(), Vec::new(), 0);
            for cut in cuts.into_iter().chain([all.len()]) {
                let end = (at + cut).min(all.len());
                pending.extend_from_slice(&all[at..end]);
                take_events(&mut pending, &mut events);
                at = end;
            }
            prop_assert_eq!(events, vec![event; 8]);
        }
    }
}
