// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads with a recently restored policy, which are checked again.
//!
//! The kernel checks whether a caller may set a policy before it locks the thread. A call that was
//! checked while the thread was real-time by our change may be carried out after we undid that: at
//! once, or later if the caller lost its CPU in between. [`SchedulingChange::undo`] repeats itself
//! for the former, and this is for the latter.
//!
//! A process with a right of its own may have changed the policy while it was ours, and may set
//! later what it found then. So such threads are checked until they end. Belongs to an
//! [`crate::Effect`].
use crate::scheduling::SchedulingChange;
use crate::{sys, Identity, Undone};
use std::collections::HashMap;

/// The time until the first check, and the factor for each further one.
const FIRST_NS: u64 = 100_000_000;
const LONGER: u64 = 4;
const CHECKS: u32 = 4;
/// The longest time between two checks of a thread whose policy another process changed.
const LONGEST_NS: u64 = 60_000_000_000;
/// The most threads whose policy another process changed.
const MOST_CHANGED: usize = 1024;

/// The threads to check.
#[derive(Default)]
pub(crate) struct Returned(HashMap<Identity, Entry>);

struct Entry {
    change: SchedulingChange,
    next_ns: u64,
    wait_ns: u64,
    /// `None`: another process changed the policy, and the thread is checked until it ends.
    checks_left: Option<u32>,
}

impl Entry {
    fn new(change: SchedulingChange, checks_left: Option<u32>) -> Self {
        let next_ns = sys::monotonic_ns() + FIRST_NS;
        Self { change, next_ns, wait_ns: FIRST_NS, checks_left }
    }

    /// `false`: no further check is needed.
    fn examine(&mut self, is_changed: &impl Fn(Identity) -> bool) -> bool {
        if self.checks_left.is_none() {
            return match self.change.is_ours_again() {
                Ok(true) => self.change.undo().is_err() && self.wait_longer(),
                Ok(false) => self.wait_longer(),
                Err(_) => false,
            };
        }
        if matches!(self.change.is_unchanged(), Ok(false)) {
            return self.wait_longer();
        }
        // It has ended, or has become the first thread of its process.
        let heir = self.change.program.map(|program| program.process());
        if heir.is_some_and(is_changed) {
            return false;
        }
        match self.change.undo() {
            Ok(Undone::Gone) => false,
            Ok(_) => {
                *self = Self::new(self.change.clone(), Some(CHECKS));
                true
            }
            Err(_) => self.wait_longer(),
        }
    }

    fn wait_longer(&mut self) -> bool {
        self.wait_ns = (self.wait_ns * LONGER).min(LONGEST_NS);
        self.next_ns += self.wait_ns;
        self.checks_left = self.checks_left.map(|left| left - 1);
        self.checks_left != Some(0)
    }
}

impl Returned {
    /// A change was undone.
    pub(crate) fn note(&mut self, change: &SchedulingChange, undone: Undone) {
        let checks = match undone {
            Undone::Gone => return,
            Undone::Changed if self.0.len() < MOST_CHANGED => None,
            _ if change.lends_real_time() => Some(CHECKS),
            _ => return,
        };
        self.0.insert(change.thread_id, Entry::new(change.clone(), checks));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the next thread is to be checked, in ns of CLOCK_MONOTONIC.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.0.values().map(|entry| entry.next_ns).min()
    }

    /// Checks the threads that are due. A thread for which `is_changed` is true has been changed
    /// again, and is dropped. One for which `is_elsewhere` is true is checked later.
    pub(crate) fn examine(
        &mut self,
        now_ns: u64,
        is_changed: impl Fn(Identity) -> bool,
        is_elsewhere: impl Fn(Identity) -> bool,
    ) {
        let examine = |entry: &mut Entry| match entry.change.thread_id {
            thread_id if is_changed(thread_id) => false,
            thread_id if is_elsewhere(thread_id) => entry.wait_longer(),
            _ => entry.examine(&is_changed),
        };
        self.0.retain(|_, entry| entry.next_ns > now_ns || examine(entry));
    }

    /// Checks a thread for the last time: it is about to be changed again.
    pub(crate) fn settle(&mut self, thread_id: Identity) {
        if let Some(mut entry) = self.0.remove(&thread_id) {
            entry.examine(&|_| false);
        }
    }
}
