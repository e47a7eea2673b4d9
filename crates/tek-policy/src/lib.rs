// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about threads, as data: which threads they mean, and what they set of them.
//!
//! [`parse`] reads the TOML of a rules file (tek-rules(5)) and says where it is wrong, [`to_toml`]
//! writes it. [`to_environment`] writes what libtek.so follows, the variable `TEK_RULES`
//! (libtek(7)), and [`from_environment`] reads it. [`decide`] is what libtek.so makes of rules and
//! a thread. [`read_configuration`] reads tekd.toml (tekd.toml(5)), and a [`Grant`] permits a
//! process to have critical threads. [`dependency`] has the threads that wait for each other, and
//! [`kthread`] what is special about threads of the kernel.
//! This crate does no I/O.

mod budget;
mod cut;
mod decide;
pub mod dependency;
mod environment;
mod error;
mod file;
mod glob;
mod grant;
mod grant_file;
mod grant_rate;
mod grant_subject;
pub mod kthread;
mod number;
mod placing;
mod rule;
mod size;
mod source;
mod stack;
mod value;
mod weights;

pub use budget::Budget;
pub use decide::{decide, Decision, Facts, Given};
pub use environment::{from_environment, to_environment, EnvironmentError};
pub use error::{Error, Reason};
pub use file::{parse, read, to_toml, Contents};
pub use glob::{Glob, Subject};
pub use grant::{Counts, Grant, RealTime, Refusal, Requester, Terms};
pub use grant_file::{read_configuration, Configuration};
pub use grant_rate::Bucket;
pub use grant_subject::{Group as SystemGroup, Pattern, User};
pub use placing::{Backend, GroupSettings, Placing, Resident};
pub use rule::{Group, Match, Rule, Set, MOST_RULES};
pub use size::{InvalidSize, Size};
pub use stack::{InvalidStack, Margin, Percent, StackSettings, StackSize, StackZones};
pub use value::{Invalid, Priority, Role};
pub use weights::{Floor, InvalidWeight, Weight, Weights};
