// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of processes as values.
use serde::{Deserialize, Serialize};

/// A limit that can be changed: RLIMIT_*.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The highest real-time priority that threads may give themselves.
    Rtprio,
    /// CPU time between two waits of a real-time thread, in µs.
    Rttime,
    /// 20 - the lowest nice value that threads may give themselves.
    Nice,
    /// Bytes that may be locked in memory.
    Memlock,
    /// File descriptors.
    Nofile,
}

impl Resource {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Rtprio => libc::RLIMIT_RTPRIO,
            Self::Rttime => libc::RLIMIT_RTTIME,
            Self::Nice => libc::RLIMIT_NICE,
            Self::Memlock => libc::RLIMIT_MEMLOCK,
            Self::Nofile => libc::RLIMIT_NOFILE,
        }
    }

    /// How its line in /proc/PID/limits begins.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Rtprio => "Max realtime priority",
            Self::Rttime => "Max realtime timeout",
            Self::Nice => "Max nice priority",
            Self::Memlock => "Max locked memory",
            Self::Nofile => "Max open files",
        }
    }
}

/// Soft and hard limit; `u64::MAX` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The limit in force.
    pub soft: u64,
    /// The highest value to which the process may raise it.
    pub hard: u64,
}
