// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports for which tasks other threads work, with the BPF programs of `bpf/`.
//!
//! [`Kthreads::open`] loads and attaches the programs. From then on they report relations between
//! critical tasks and kernel threads as [`Event`]s. Userland sets in maps which tasks it follows,
//! and which relations change nothing any more and need not wake it.
//!
//! A feature that the kernel lacks switches off one [`Dependency`], with the reason in words.
//! [`probe`] checks the kernel without loading programs.
#![forbid(unsafe_code)]
#![cfg_attr(not(loads), allow(dead_code))] // parts that only the loader uses

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
pub use event::{Device, Event, Evidence, Member, RawEvent, Thread, What, Work, LAYOUT};
#[cfg(loads)]
pub use kthreads::Kthreads;
pub use name::Name;
pub use probe::{probe, Probe};
pub use watch::{Packets, Watch};
#[cfg(loads)]
pub use watcher::Watcher;
#[cfg(not(loads))]
pub use without::{Kthreads, Watcher};

/// Whether the events of a task are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// The programs report them.
    Follow,
    /// The programs suppress them.
    Ignore,
}
