// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of the options of `tek run`, which `tek bench` reads and writes too.
pub mod alloc;
pub mod kind;
pub mod lock;
pub mod place;
pub mod time;
