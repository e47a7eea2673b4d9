// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of the programs on hot paths.

/// The events that these programs report.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// Pages that enter and leave the page cache. Without it pages are not counted, and the end of
    /// a deleted dirty inode is not reported.
    pub pages: bool,
    /// Tasks that sleep inside the kernel, and threads that work for storage meanwhile. Without
    /// it a task is known to wait for its own works and requests only.
    pub storage: bool,
    /// Critical tasks that sleep in futex(2), and the user threads that hold what they wait for.
    pub locks: bool,
    /// Critical tasks that send and then sleep, and the user threads that receive.
    pub answers: bool,
    /// The way of network packets. Without it the programs only report that a critical task has
    /// sent a packet that a thread must process.
    pub packets: bool,
}

/// When packets of critical tasks are reported: `enum tek_kthread_packets`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Packets {
    /// Never.
    #[default]
    NotWatched = 0,
    /// At the end of the call that sends them, if a thread must process one then.
    AtEnd = 1,
    /// As soon as a packet waits, where the end of the call cannot be seen.
    AtOnce = 2,
}
