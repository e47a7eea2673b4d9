// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knowledge about the stacks of a program's threads.
//!
//! A [`Profile`] has it by kind of thread, as text in the form of tek-stack-profile(5). A [`Store`]
//! keeps the profiles of all programs, and lets several processes add to them at once. [`Rule`]
//! computes a stack's size from a profile, and [`Advice`] is the recommendation to users.
//! lib/stack follows the same rules in C.
#![forbid(unsafe_code)]

pub mod budget;
pub mod callgraph;
mod profile;
mod size;
mod store;
mod text;

pub use profile::{with_numbers_as, Key, Kind, Label, Place, Profile, Site, MOST_KINDS};
pub use size::{Advice, Costs, Mode, Rule, Zone, Zones, DEFAULT_TLS_BYTES};
pub use store::{Error as StoreError, Program, Store, Stored};
pub use text::{parse, Error as FormatError, Parsed, Problem, MOST_BYTES};
