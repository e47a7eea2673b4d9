// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names and limits of options, `abi/tek_options.h`. The build script makes them of the header.

/// A kind of lock, allocator, scheduler and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// As options have it. In [`crate::targets`] as tests or the search have it.
    pub name: &'static str,
    /// A few words for `--help`, in lower case. In [`crate::targets`] a predicate.
    pub about: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/options.rs"));
