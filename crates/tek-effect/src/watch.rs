// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are changed so often that /proc would be too slow.
use crate::identity::Identity;
use crate::{sys, watched, Error};

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
    pub fn of(thread_id: Identity) -> Result<Self, Error> {
        let failed = |source| Error::thread(thread_id.tid, "watch", source);
        let fd = sys::open_pidfd(thread_id.tid).map_err(failed)?;
        thread_id.check()?; // so that it is this thread's
        watched::insert(thread_id.key(), fd);
        Ok(Self(thread_id))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        watched::remove(self.0.key());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn one_that_is_watched_is_there_until_it_ends() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let thread_id = Identity::of(child.id() as i32).unwrap();
        assert!(!watched::is_there(thread_id.key()));
        let watch = Watch::of(thread_id).unwrap();
        assert!(watched::is_there(thread_id.key()) && thread_id.is_there());
        child.kill().unwrap();
        while thread_id.is_there() {
            std::thread::yield_now();
        }
        assert!(!watched::is_there(thread_id.key()));
        child.wait().unwrap();
        drop(watch);
        assert!(matches!(Watch::of(thread_id), Err(Error::Gone { .. })));
    }

    #[test]
    fn another_one_with_the_id_is_not_watched() {
        let own = Identity::of(std::process::id() as i32).unwrap();
        let _watch = Watch::of(own).unwrap();
        assert!(!watched::is_there((own.tid, own.start_ticks + 1)));
        assert!(watched::is_there(own.key()));
    }
}
