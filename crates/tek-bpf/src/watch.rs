// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs on hot paths are to see.

/// What is to be seen.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// Pages that come into the page cache and leave it: without this a dirty inode that is deleted is not
    /// told as gone, and pages are not counted.
    pub pages: bool,
    /// Where network packets go: without this it is told only that a critical task has sent one that
    /// somebody has to carry on.
    pub packets: bool,
}

/// Whether packets of critical tasks are told: `enum tek_kthread_packets`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Packets {
    /// Their ends are not seen.
    #[default]
    NotWatched = 0,
    /// Whether a thread will carry one on is looked at when the call that sends it ends;
    AtEnd = 1,
    /// where that end cannot be seen, as soon as it waits.
    AtOnce = 2,
}
