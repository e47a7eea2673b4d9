// SPDX-License-Identifier: MIT OR Apache-2.0
//! The samples of waiting threads while an answer was late.
use serde::{Deserialize, Serialize};

/// One sample of the waiting threads while an answer was late.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// When the answer was due, since the beginning.
    pub due_ns: u64,
    /// The time from `due_ns` to the sample.
    pub after_ns: u64,
    /// The first one is the task.
    pub threads: Vec<Waiting>,
}

/// A thread that waited inside the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Waiting {
    pub tid: i32,
    pub name: String,
    pub state: char,
    pub policy: u32,
    pub priority: u32,
    pub cpu: i32,
    /// Functions of the kernel, the innermost first.
    pub stack: Vec<String>,
}
