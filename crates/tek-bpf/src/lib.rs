// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whom the kernel's threads work for, as the BPF programs of `bpf/` see it.
//!
//! [`Kthreads::open`] loads and attaches them. From then on they tell of relations between critical
//! tasks and kernel threads, as [`Event`]s; userland tells them by maps which tasks it wants to hear
//! of, and which relations change nothing any more and so need not wake it.
//!
//! What a kernel lacks switches off one [`Dependency`], with the reason in words. [`probe`] looks
//! without loading anything.
#![forbid(unsafe_code)]
#![cfg_attr(not(loads), allow(dead_code))] // what only the loader uses

mod btf;
#[cfg(loads)]
mod completers;
mod dependency;
mod error;
mod event;
#[cfg(loads)]
mod kthreads;
#[cfg(loads)]
mod load;
#[cfg(loads)]
mod maps;
mod name;
mod probe;
mod watch;
#[cfg(loads)]
mod watcher;
#[cfg(not(loads))]
mod without;

pub use dependency::{Dependency, Kind, State};
pub use error::Error;
pub use event::{Device, Event, Member, RawEvent, Thread, What, Work, LAYOUT};
#[cfg(loads)]
pub use kthreads::Kthreads;
pub use name::Name;
pub use probe::{probe, Probe};
pub use watch::{Packets, Watch};
#[cfg(loads)]
pub use watcher::Watcher;
#[cfg(not(loads))]
pub use without::{Kthreads, Watcher};

/// Whether events of a task are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// They are.
    Follow,
    /// They are not: the programs keep them back.
    Ignore,
}
