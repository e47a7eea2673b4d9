// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a program runs without TEK's library, `abi/tek_targets.h`. The build script makes these
//! lists of the header.
use crate::options::Kind;

include!(concat!(env!("OUT_DIR"), "/targets.rs"));
