// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of the stacks of a program's threads.
#![forbid(unsafe_code)]

pub mod budget;
pub mod callgraph;
