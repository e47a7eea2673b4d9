// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the guest between jobs: taken once at boot, and put back after each job, so that the
//! next one finds the same guest. What cannot be put back is told, and then the host boots anew.
//!
//! Mounts, IPC objects and names of a job need no care, because it has its own (spawn.rs), nor do its
//! files (room.rs). The rest is the kernel's, which all jobs share.

mod clock;
mod facts;
mod files;
mod groups;
mod kernel_threads;
mod settings;

use clock::Clock;
use facts::Facts;
use files::Files;
use groups::Groups;
use kernel_threads::KernelThreads;
use nix::mount::{mount, MsFlags};
use settings::Settings;

pub(super) use groups::thaw;

/// All that a job could change.
pub(super) struct State {
    settings: Settings,
    groups: Groups,
    kernel_threads: KernelThreads,
    files: Files,
    clock: Clock,
    facts: Facts,
}

impl State {
    /// As it is now. No job may be running.
    pub(super) fn take() -> Self {
        Self {
            settings: Settings::take(),
            groups: Groups::take(),
            kernel_threads: KernelThreads::take(),
            files: Files::take(),
            clock: Clock::take(),
            facts: Facts::take(),
        }
    }

    /// Puts back what it can, and tells the rest.
    pub(super) fn restore(&mut self) -> Vec<String> {
        protect_root();
        let mut left = self.groups.restore();
        // CPUs that went away took settings and threads with them.
        left.extend(self.settings.restore());
        left.extend(self.kernel_threads.restore());
        left.extend(self.files.restore());
        left.extend(self.clock.restore());
        left.extend(self.facts.differing());
        // Workers come and go.
        self.kernel_threads = KernelThreads::take();
        left
    }
}

/// Makes the root file system read-only again; if that fails, it shows among the mounts.
fn protect_root() {
    let none = None::<&str>;
    let _ = mount(none, "/", none, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none);
}
