// SPDX-License-Identifier: MIT OR Apache-2.0
//! The size of a frame between host and guest.

/// Most bytes after a frame's length.
pub const MOST_BYTES: usize = 1 << 16;
