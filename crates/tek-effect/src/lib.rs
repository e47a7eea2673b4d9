// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only code of TEK that changes the system outside of its own process.
//!
//! An [`Effect`] owns a journal. Each change is written into it before it is made, with what was
//! there, so that whoever opens the journal next can undo what a killed owner left. Undoing gives
//! back what was there and no default; what a process with a right to it has changed since is the
//! last word and stays. A change that a thread could make only by what it was lent ([`loan`]) is
//! undone as well.
//!
//! A thread is named by its id and its start time ([`Identity`]), so that one which got the id
//! later is left alone.
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
mod loan;
mod member;
#[allow(unsafe_code)] // the C library's lock
mod pi_mutex;
mod restore;
mod returned;
mod scheduling;
mod step;
#[allow(unsafe_code)] // the system calls that nix does not have
mod sys;
mod watch;

pub use effect::{Change, Effect};
pub use error::Error;
pub use groups::{Found, Groups, Moving, Place, Placed};
pub use hierarchy::{Hierarchy, Version};
pub use identity::{parent_of, stack_of, Identity};
pub use limit::{Limits, Resource};
pub use member::Heirs;
pub use pi_mutex::{PiGuard, PiMutex};
pub use restore::{Restored, Undone};
pub use scheduling::Scheduling;
pub use watch::Watch;
