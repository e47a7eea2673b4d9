// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priorities of kernel threads, computed from the tasks that wait for them.
//!
//! After D. Kang, W. Lee, C. Park, "Kernel Thread Scheduling in Real-Time Linux for Wearable
//! Computers" (2007). Which tasks depend on a thread, and what follows from them, is the business
//! of [`dependency`](crate::dependency). Here a kernel thread has a [`Class`], whose
//! [`Weight`](crate::dependency::Weight) the priority depends on. [`plan`] keeps ksoftirqd beneath
//! RCU, [`Changes`] counts changes, and [`KthreadSettings`] is the table of tekd.toml. This module
//! has no I/O and no clock.

mod changes;
mod class;
mod file;
mod safe_order;

pub use changes::{Changes, Direction};
pub use class::{Class, ClassGroup};
pub(crate) use file::{table, KthreadsTable};
pub use file::{ClassWeights, KthreadSettings};
pub use safe_order::{plan, plan_without_raises, Demand, Held, Ordered, Plan, Rank, Step};

#[cfg(test)]
mod safe_order_tests;
