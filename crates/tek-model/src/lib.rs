// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of the device: /proc, joined with TEK's tables.
//!
//! [`Device::look`] reads all of them once, [`Watch`] again and again. Below it [`Process`] reads
//! the threads of one process from /proc, and [`Table`] a table file while its process writes it.
#![forbid(unsafe_code)]

mod detail;
mod device;
mod elf;
mod error;
mod files;
mod functions;
mod group;
mod lines;
mod process;
mod sequenced;
mod sleepers;
mod snapshot;
mod stack;
mod table;
mod task;
mod uthread;
mod wait;
mod watch;

pub use detail::{environment, Detail};
pub use device::{Device, Program};
pub use error::Error;
pub use files::directories;
pub use functions::{place_of, Functions};
pub use process::{boot_time_ns, processes, Process, SchedStat, Stat, Switches};
pub use sleepers::ROUND;
pub use snapshot::{Snapshot, Thread};
pub use stack::StackUse;
pub use table::Table;
pub use task::{Task, Wanted};
pub use uthread::{Uthread, Worker};
pub use wait::{End, Wait};
pub use watch::Watch;
