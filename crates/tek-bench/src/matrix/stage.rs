// SPDX-License-Identifier: MIT OR Apache-2.0
//! The column tekd: a daemon of this benchmark, and a user that has no rights without it.

use crate::daemon::{Backend, Daemon, Settings};
use crate::ground::{Ground, User};
use anyhow::Context;
use nix::unistd::geteuid;
use std::fs;
use std::path::Path;
use std::process::Command;
use tek_command::system::library;

/// The daemon serves as long as this exists.
pub struct Stage {
    // It ends before its directory is cleared.
    _daemon: Daemon,
    ground: Ground,
}

impl Stage {
    /// Starts the daemon. An error is why the column is empty.
    pub fn prepare(tek: &Path) -> Result<Self, String> {
        if !geteuid().is_root() {
            return Err("tekd can lend nothing without root".to_owned());
        }
        Self::start(tek).map_err(|error| format!("{error:#}"))
    }

    fn start(tek: &Path) -> anyhow::Result<Self> {
        let ground = Ground::prepare(&[("matrix", "dependencies", "dependencies")], None)?;
        fs::copy(tek, ground.path("tek")).context("cannot copy tek")?;
        let daemon = Daemon::start(&ground, Settings::of(Backend::Rt))?;
        Ok(Self { _daemon: daemon, ground })
    }

    /// `tek run` with the program for that user, and a critical thread of this name; options of the
    /// program are to be added.
    pub fn command(&self, critical: &str) -> Command {
        let mut command = self.ground.command("tek", User::Number(0), false);
        command.env("TEK_LIBRARY", self.ground.path(library::TEK));
        command.args(["run", "--critical", critical, "--"]).arg(self.ground.path("dependencies"));
        command
    }
}
