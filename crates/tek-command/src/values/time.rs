// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a thread's time in the profiles of `tek profile`.

/// Their names, in the order of tables and figures.
pub const PARTS: [&str; 8] =
    ["work", "serial", "sync", "file", "allocator", "delay", "idle", "other"];
