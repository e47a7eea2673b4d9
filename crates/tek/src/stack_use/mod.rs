// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the stacks of threads have, use and need: learnt from tables, and as rows for people.
pub mod learn;
pub mod render;
