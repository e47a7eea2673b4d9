// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the guest between jobs: recorded once at boot, and restored after each job, so that
//! the next one finds the same guest. The agent reports the rest, and then the host boots anew.
//!
//! A job's mounts, IPC objects and names need no care, because each job has its own (spawn.rs); nor
//! do its files (room.rs). The rest belongs to the kernel, and all jobs share it.

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

/// All state that a job could change.
pub(super) struct State {
    settings: Settings,
    groups: Groups,
    kernel_threads: KernelThreads,
    files: Files,
    clock: Clock,
    facts: Facts,
}

impl State {
    /// The present state. No job may be running.
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

    /// Restores all that it can, and reports the rest.
    pub(super) fn restore(&mut self) -> Vec<String> {
        protect_root();
        let mut left = self.groups.restore();
        // CPUs that went offline took settings and threads with them.
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

/// Makes the root file system read-only again; a failure shows among the mounts.
fn protect_root() {
    let none = None::<&str>;
    let _ = mount(none, "/", none, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none);
}
