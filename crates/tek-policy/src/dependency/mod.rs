// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which thread waits for which, and the priorities that follow: priority inheritance for all
//! kinds of waits.
//!
//! A [`Graph`] has an edge for each wait: a waiter waits for a holder because of a thing. The
//! holder of an edge is the owner of a lock, a server, or a kernel thread. A thread has a multiset
//! R of critical tasks that depend on it ([`Dependants`]), for each kind of wait ([`Because`]).
//! [`LiftEquation`] computes a priority from R: the highest of the waiters, or their weighted mean
//! ([`Method`], the equations of D. Kang, W. Lee, C. Park (2007) for kernel threads). Tasks of
//! kernel threads stay in R for a while after their wait ([`Lingering`]). [`Allowance`] bounds the
//! CPU time of a lifted thread, and [`InheritSettings`] is the table of tekd.toml. This module has
//! no I/O and no clock.

mod allowance;
mod because;
mod components;
mod dependants;
mod file;
mod graph;
mod lift_equation;
mod linger;
mod method;
mod rt_priority;
mod share;
mod summary;
mod weight;

pub use allowance::Allowance;
pub use because::Because;
pub use dependants::{Dependant, Dependants};
pub use file::InheritSettings;
pub(crate) use file::{table, InheritTable};
pub use graph::{Edge, Graph, Refused, MOST_EDGES};
pub use lift_equation::LiftEquation;
pub use linger::Lingering;
pub use method::Method;
pub use rt_priority::RtPriority;
pub use share::{Share, MOST_HOLDERS};
pub use summary::Summary;
pub use weight::{InvalidWeight, Ratio, Weight};

#[cfg(test)]
mod graph_tests;
#[cfg(test)]
mod method_tests;
