// SPDX-License-Identifier: MIT OR Apache-2.0
//! How undoing went.

/// How one change was undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undone {
    /// The previous value is restored.
    Undone,
    /// The thread ended, or the file or directory no longer exists.
    Gone,
    /// A process with a right of its own changed it since, and that stays.
    Changed,
}

/// How many were undone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// The previous value is restored.
    pub undone: usize,
    /// Threads that ended, removed files and directories, and all changes of an earlier boot.
    pub gone: usize,
    /// Things that another process has changed since, which stay.
    pub changed: usize,
    /// A sentence for each change that could not be undone, which the next owner of the journal
    /// tries again, and for each damaged line of the journal.
    pub failed: Vec<String>,
}

impl Restored {
    pub(crate) fn count(&mut self, undone: Undone) {
        match undone {
            Undone::Undone => self.undone += 1,
            Undone::Gone => self.gone += 1,
            Undone::Changed => self.changed += 1,
        }
    }
}
