// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only code of TEK that changes the system outside of its own process.
//!
//! An [`Effect`] owns a journal. Each change is written into it, with the previous value, before it
//! is made. The next owner of the journal can so undo the changes of a killed owner.
//! Undoing restores the previous value, never a default. A later change by a process that has the
//! right to make it stays. A later change that needed a right lent by TEK ([`loan`]) is undone too.
//!
//! A thread is named by its id and its start time ([`Identity`]), so that a later thread with the
//! same id is left alone.
#![deny(unsafe_code)]

mod directory;
mod effect;
mod error;
#[cfg(test)]
#[allow(unsafe_code)] // its children are forked
mod fault;
mod file;
mod groups;
mod heirs;
mod hierarchy;
mod identity;
mod journal;
mod limit;
mod limits;
mod loan;
mod member;
#[allow(unsafe_code)] // the C library's lock
mod pi_mutex;
mod policy;
mod prlimit;
mod restore;
mod returned;
mod rule;
mod scheduling;
mod step;
#[allow(unsafe_code)] // the system calls that nix does not have
mod sys;
mod watch;
mod watched;

pub use effect::{Change, Effect};
pub use error::Error;
pub use groups::{Found, Groups, Moving, Place, Placed};
pub use hierarchy::{Hierarchy, Version};
pub use identity::{parent_of, stack_of, Identity};
pub use limits::{Limits, Resource};
pub use member::Heirs;
pub use pi_mutex::{PiGuard, PiMutex};
pub use restore::{Restored, Undone};
pub use rule::Scheduling;
pub use watch::Watch;
