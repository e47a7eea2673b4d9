// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priorities of the kernel's threads, from the tasks that wait on them.
//!
//! After D. Kang, W. Lee, C. Park, "Kernel Thread Scheduling in Real-Time Linux for Wearable
//! Computers" (2007): a kernel thread k has a multiset R(k) of critical tasks that depend on it now
//! ([`Dependants`]), each of which stays in it for a while after it has what it waited for
//! ([`Lingering`]); [`Method`] makes a priority of R(k) and of a [`Weight`] that the kernel
//! thread's [`Class`] has. [`plan`] keeps ksoftirqd beneath RCU, [`Changes`] counts what is
//! changed, and [`KthreadSettings`] is its table of tekd.toml. There is no I/O here, and no clock.

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
pub use safe_order::{plan, plan_without_raises, Held, Ordered, Plan, Rank, Step, Wish};
pub use weight::{InvalidWeight, Ratio, Weight};

#[cfg(test)]
mod method_tests;
#[cfg(test)]
mod safe_order_tests;
