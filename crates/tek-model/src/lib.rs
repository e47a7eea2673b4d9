// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of the device, as TEK's tables tell them.
//!
//! [`Table::open`] takes a table file, [`Table::threads`] reads its records while the process
//! goes on writing them.
#![deny(unsafe_code)]

mod error;
mod process;
mod source;
mod table;

pub use error::Error;
pub use process::{boot_time_ns, processes, Process, SchedStat, Stat, Switches};
pub use table::{Table, Thread, Threads};
