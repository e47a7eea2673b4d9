// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of the backends.

/// The backend in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// SCHED_RR.
    Rt,
    /// The group of the Fast Region.
    Fair,
}

impl Backend {
    /// As in tekd.toml.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rt => "rt",
            Self::Fair => "fair",
        }
    }
}
