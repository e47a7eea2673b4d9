// SPDX-License-Identifier: MIT OR Apache-2.0
//! `abi/tek_abi.h` and its parts for Rust: the thread information table, the event file, and the
//! messages of the daemon's socket. `abi/tek_trace.h`: the trace of user-level threads.
//! `abi/tek_profile.h`: where the time of threads goes. `abi/tek_options.h`: names and limits of
//! options. `abi/tek_targets.h`: why programs run without TEK. Beside them, what all readers need:
//! text fit to be shown, and the clocks of a time namespace.
//!
//! The C headers are the reference: they define each field, and how a reader works without a lock.
//! This crate repeats them; `tests/c_header.rs` fails when they differ. [`options`] and [`targets`]
//! are made of their headers when the crate is built.
#![forbid(unsafe_code)]

mod event;
mod inversions;
mod message;
pub mod options;
mod profile;
mod table;
pub mod targets;
mod text;
mod time_namespace;
mod trace;

pub use event::{
    Event, EventError, AT_CALL, AT_OBJECT, AT_RELEASE, EVENT_BAD_OPTION, EVENT_FRAME, EVENT_HOLDER,
    EVENT_INVERSION, EVENT_INVERSIONS, EVENT_INVERSION_PLACE, EVENT_LOCK, EVENT_LOCKS, EVENT_MAGIC,
    EVENT_NOT_COVERED, EVENT_NOT_PLACED, EVENT_OVERFLOW, EVENT_OVERRAN, EVENT_REFUSED,
    EVENT_STACK_HIGH, EVENT_SUMMARY,
};
pub use inversions::*;
pub use message::*;
pub use profile::*;
pub use table::*;
pub use text::{is_printable, printable, printable_lines, text, until_nul};
pub use time_namespace::TimeOffsets;
pub use trace::*;

/// Asserts at compile time that a struct has the layout of the C header. It keeps the numbers for
/// the test that compares them with the header.
macro_rules! layout {
    ($type:ident, $c_name:literal, $size:literal, { $($field:ident: $offset:literal),* $(,)? }) => {
        const _: () = {
            assert!(core::mem::size_of::<$type>() == $size);
            $(assert!(core::mem::offset_of!($type, $field) == $offset);)*
        };
        impl $type {
            /// The struct's name in the header, its size and its fields' offsets.
            pub const LAYOUT: $crate::Layout =
                ($c_name, $size, &[$((stringify!($field), $offset)),*]);
        }
    };
}
pub(crate) use layout;

/// A struct's name in C, its size in bytes, and its fields with their offsets.
pub type Layout = (&'static str, usize, &'static [(&'static str, usize)]);
