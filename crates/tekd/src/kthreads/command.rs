// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of other threads to the reactor.
use super::maps::Question;
use std::collections::HashMap;
use tek_bpf::{Packets, Watch};
use tek_policy::kthread::KthreadSettings;
use tek_policy::Configuration;

/// A command of another thread.
pub enum Command {
    /// Makes an ordinary thread critical with this priority; `None` ends that.
    Fast(i32, Option<u8>),
    /// New settings, and the addresses of functions that they name.
    Settings(Box<KthreadSettings>, HashMap<u64, String>),
    /// Another configuration: grants and `[inherit]`.
    Configuration(Box<Configuration>),
    /// The programs for this watch are attached now, and all others on hot paths are detached.
    Watched(Watch, Packets),
    /// Whether both processes of the question map the same memory.
    Shares(Question, bool),
    Stop,
}
