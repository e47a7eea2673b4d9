// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priorities of kernel threads, computed from the tasks that wait for them.
//!
//! After D. Kang, W. Lee, C. Park, "Kernel Thread Scheduling in Real-Time Linux for Wearable
//! Computers" (2007). A kernel thread k has a multiset R(k) of critical tasks that depend on it
//! ([`Dependants`]). Each stays in R(k) for a while after its wait ends ([`Lingering`]). [`Method`]
//! computes a priority from R(k) and the [`Weight`] of the thread's [`Class`]. [`plan`] keeps
//! ksoftirqd beneath RCU, [`Changes`] counts changes, and [`KthreadSettings`] is the table of
//! tekd.toml. This module has no I/O and no clock.

mod changes;
mod class;
mod dependants;
mod file;
mod linger;
mod method;
mod rt_priority;
mod safe_order;
mod weight;

pub use changes::{Changes, Direction};
pub use class::{Class, ClassGroup};
pub use dependants::{Dependant, Dependants, Summary};
pub(crate) use file::{table, KthreadsTable};
pub use file::{ClassWeights, KthreadSettings};
pub use linger::Lingering;
pub use method::Method;
pub use rt_priority::RtPriority;
pub use safe_order::{plan, plan_without_raises, Demand, Held, Ordered, Plan, Rank, Step};
pub use weight::{InvalidWeight, Ratio, Weight};

#[cfg(test)]
mod method_tests;
#[cfg(test)]
mod safe_order_tests;
