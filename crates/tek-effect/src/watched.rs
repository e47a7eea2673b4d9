// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of the threads that are watched by a descriptor.
use crate::PiMutex;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// The id and the start time of a thread.
pub(crate) type Key = (i32, u64);

/// Real-time threads of different priorities share it: a holder must not
/// wait for a CPU while a more urgent one waits for it.
fn watched() -> &'static PiMutex<BTreeMap<Key, OwnedFd>> {
    static WATCHED: OnceLock<PiMutex<BTreeMap<Key, OwnedFd>>> = OnceLock::new();
    WATCHED.get_or_init(|| PiMutex::new(BTreeMap::new()))
}

/// Adds a thread with its pidfd.
pub(crate) fn insert(key: Key, fd: OwnedFd) {
    watched().lock().insert(key, fd);
}

pub(crate) fn remove(key: Key) {
    let removed = watched().lock().remove(&key);
    drop(removed); // without the lock
}

/// Whether a thread is watched, and there.
pub(crate) fn is_there(key: Key) -> bool {
    let watched = watched().lock();
    let Some(fd) = watched.get(&key) else { return false };
    let mut ready = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut ready, PollTimeout::ZERO) == Ok(0)
}
