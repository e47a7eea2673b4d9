// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the part that follows waiters starts with.
use crate::domain::Domain;
use std::path::PathBuf;
use tek_policy::kthread::KthreadSettings;
use tek_policy::Configuration;

/// The parameters of [`Kthreads::start`](super::Kthreads::start).
pub struct Wanted {
    pub configuration: Configuration,
    pub state: PathBuf,
    pub domain: Domain,
    /// Fast threads have weights, and no real-time policy.
    pub is_fair: bool,
    /// Real-time priority of the thread for hot paths: below tekd's main thread.
    pub attaching_priority: u32,
}

impl Wanted {
    /// The settings for kernel threads. Without [kthreads] no program reports any.
    pub fn settings(&self) -> KthreadSettings {
        self.configuration.kthreads.clone().unwrap_or_default()
    }

    pub fn inherits(&self) -> bool {
        self.configuration.inherit.is_on() && !self.configuration.grants.is_empty()
    }
}
