// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where there is no loader: nothing can be opened.
use crate::error::Error;
use std::convert::Infallible;

/// Never made in this build.
#[derive(Debug)]
pub struct Kthreads(#[allow(dead_code)] Infallible);

impl Kthreads {
    /// Says that this build cannot.
    pub fn open() -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }
}
