// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the commands share: `tek`, and the programs of `tek bench` and `tek lab`.
//!
//! [`entry`] is the common part of their `main`. [`companion`] has the commands that are programs
//! of their own. [`daemon`] sends requests to tekd, [`system`] reads facts about the machine.
//! [`message`] and [`json`] are for the output, [`suggested`] and [`values`] for options.
pub mod companion;
pub mod daemon;
pub mod entry;
pub mod json;
pub mod message;
pub mod suggested;
pub mod system;
pub mod values;
