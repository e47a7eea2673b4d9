// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel lab: boots real kernels in QEMU and runs commands and tests in them.
//!
//! A [`Kind`] defines the machine to boot. [`kernel::obtain`] gets its kernel from a Debian archive
//! into the [`Cache`]; [`initramfs`] packs the guest's files; [`machine`] boots it. [`session`] has
//! [`Job`]s run in it and reports the outcome of each, whatever happens inside. [`agent`] is the
//! guest's process 1; it and the host exchange the frames of [`protocol`]. `command` is `tek lab`.

pub mod acceleration;
mod added;
pub mod agent;
pub mod archive;
mod booted;
pub mod cache;
mod checksum;
mod command;
mod console;
pub mod files;
mod frame;
mod guest;
pub mod initramfs;
pub mod job;
pub mod kernel;
mod kinds;
mod libraries;
mod listener;
pub mod machine;
pub mod manifest;
pub mod needs;
mod outcome;
mod packages;
mod ports;
mod programs;
pub mod protocol;
pub mod session;
pub mod size;
pub mod sysroot;
pub mod terminal;
mod tree;

pub use booted::is_passing;
pub use cache::Cache;
pub use command::{definition, lab};
pub use guest::check_own;
pub use job::Job;
pub use kinds::{Kernel, Kind, Kinds, NoKind, Sysroot};
pub use outcome::{Ended, Outcome};
