// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of waits.

/// Why a waiter waits for a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Because {
    /// The holder works for the waiter: a kernel thread, or a thread inside a file system.
    Work,
    /// The holder owns a lock, or the waiter waits for its end: then the kernel clears a word, as
    /// the owner of a lock does.
    Lock,
    /// The holder receives what the waiter has sent, and is to answer.
    Answer,
}

impl Because {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Work, Self::Lock, Self::Answer];

    pub(super) fn index(self) -> usize {
        match self {
            Self::Work => 0,
            Self::Lock => 1,
            Self::Answer => 2,
        }
    }
}
