// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns with tekd: a daemon of this benchmark, and a user that has no rights without it.

use crate::daemon::{Backend, Daemon, Settings};
use crate::ground::{Copied, Ground, User};
use crate::programs::output_within;
use anyhow::{ensure, Context};
use nix::unistd::geteuid;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tek_command::system::{library, line};

/// A program of a few milliseconds ends within this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs of those columns.
pub struct Stage {
    ground: Ground,
}

impl Stage {
    /// Copies tek and these programs. An error is why the columns are empty.
    pub fn prepare(tek: &Path, programs: &[Copied]) -> Result<Self, String> {
        if !geteuid().is_root() {
            return Err("tekd can lend nothing without root".to_owned());
        }
        let start = || {
            let ground = Ground::prepare(programs, None)?;
            fs::copy(tek, ground.path("tek")).context("cannot copy tek")?;
            anyhow::Ok(Self { ground })
        };
        start().map_err(|error| format!("{error:#}"))
    }

    /// The copy of a file.
    pub fn copy_of(&self, file: &Path) -> PathBuf {
        self.ground.path(&file.file_name().unwrap_or_default().to_string_lossy())
    }

    /// Starts a daemon. It serves only while a cell of its column is measured, because the backend
    /// fair moves this benchmark into a control group. `critical` is a short program with a
    /// critical thread, by [`Stage::command`].
    pub fn serve(&self, backend: Backend, critical: Command) -> anyhow::Result<Serving> {
        let cgroups_before = cgroups();
        let daemon = Daemon::start(&self.ground, Settings::of(backend))?;
        // On a device tekd has loaded its programs long ago: the first critical thread did it.
        output_within(critical, PATIENCE).context("before the measurement")?;
        daemon.wait_until_started("inherit")?;
        let granted_before = counted(&daemon.status()?, "granted");
        Ok(Serving { daemon, backend, granted_before, cgroups_before })
    }

    /// `tek run` with a copied program for that user, and a critical thread of this name; options
    /// of the program are to be added.
    pub fn command(&self, critical: &str, program: &Path) -> Command {
        // dbus-daemon needs a user with a name.
        let mut command = self.ground.command("tek", User::Nobody, false);
        command.env("TEK_LIBRARY", self.ground.path(library::TEK));
        command.args(["run", "--critical", critical, "--"]).arg(self.copy_of(program));
        command
    }
}

/// A daemon that serves.
pub struct Serving {
    daemon: Daemon,
    backend: Backend,
    granted_before: u64,
    cgroups_before: Option<String>,
}

impl Serving {
    /// Verifies that it made a thread critical, ends it, and verifies that nothing stays.
    pub fn end(self) -> anyhow::Result<()> {
        let status = self.daemon.status()?;
        let why = &status["backend_why"];
        ensure!(
            status["backend"] == self.backend.name(),
            "tekd has no backend {}: {why}",
            self.backend.name()
        );
        let granted = counted(&status, "granted");
        ensure!(granted > self.granted_before, "tekd was not asked to make a thread critical");
        ensure!(counted(&status, "expelled") == 0, "tekd withdrew what it had granted: {why}");
        self.daemon.stop()?;
        ensure!(
            cgroups() == self.cgroups_before,
            "tekd left this benchmark in other control groups: {:?} instead of {:?}",
            cgroups(),
            self.cgroups_before
        );
        Ok(())
    }
}

/// One of tekd's counters.
fn counted(status: &Value, name: &str) -> u64 {
    status["counts"][name].as_u64().unwrap_or(0)
}

/// The control groups of this process.
fn cgroups() -> Option<String> {
    line("/proc/self/cgroup")
}
