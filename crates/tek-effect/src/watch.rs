// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are changed so often that /proc would be too slow.
use crate::identity::Identity;
use crate::{sys, Error, PiMutex};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// By id and start time. Real-time threads of different priorities share it: a holder must not
/// wait for a CPU while a more urgent one waits for it.
fn watched() -> &'static PiMutex<BTreeMap<(i32, u64), OwnedFd>> {
    static WATCHED: OnceLock<PiMutex<BTreeMap<(i32, u64), OwnedFd>>> = OnceLock::new();
    WATCHED.get_or_init(|| PiMutex::new(BTreeMap::new()))
}

/// Until it is dropped, checks of a thread's existence poll a descriptor (pidfd_open(2)), which
/// takes a tenth of the time of /proc; each change checks three times. For threads of the kernel
/// and first threads of processes: not every kernel has such descriptors for other threads.
///
/// Any thread may make and drop it. Two watches of the same thread are one: it ends with the first
/// that is dropped.
#[derive(Debug)]
pub struct Watch(Identity);

impl Watch {
    /// Begins. [`Error::Gone`]: the thread has ended.
    pub fn of(who: Identity) -> Result<Self, Error> {
        let failed = |source| Error::thread(who.tid, "watch", source);
        let fd = sys::open_pidfd(who.tid).map_err(failed)?;
        who.check()?; // so that it is this thread's
        watched().lock().insert((who.tid, who.start_ticks), fd);
        Ok(Self(who))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let removed = watched().lock().remove(&(self.0.tid, self.0.start_ticks));
        drop(removed); // without the lock
    }
}

/// Whether a thread is watched, and there.
pub(crate) fn is_there(who: Identity) -> bool {
    let watched = watched().lock();
    let Some(fd) = watched.get(&(who.tid, who.start_ticks)) else { return false };
    let mut ready = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut ready, PollTimeout::ZERO) == Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn one_that_is_watched_is_there_until_it_ends() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let who = Identity::of(child.id() as i32).unwrap();
        assert!(!is_there(who));
        let watch = Watch::of(who).unwrap();
        assert!(is_there(who) && who.is_there());
        child.kill().unwrap();
        while who.is_there() {
            std::thread::yield_now();
        }
        assert!(!is_there(who));
        child.wait().unwrap();
        drop(watch);
        assert!(matches!(Watch::of(who), Err(Error::Gone { .. })));
    }

    #[test]
    fn another_one_with_the_id_is_not_watched() {
        let own = Identity::of(std::process::id() as i32).unwrap();
        let _watch = Watch::of(own).unwrap();
        assert!(!is_there(Identity { start_ticks: own.start_ticks + 1, ..own }));
        assert!(is_there(own));
    }
}
