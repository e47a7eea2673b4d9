// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hogs of the row user-hogs: they belong to another user than the program, which counts their
//! work in a file.

use crate::ground::FIRST_USER;
use anyhow::{ensure, Context};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::NamedTempFile;

/// More than the program needs.
const BYTES: u64 = 4096;

/// A file in memory. On a disk it might be written while a cell is measured.
const MEMORY: &str = "/dev/shm";

/// They are killed when this is dropped.
pub struct OtherHogs {
    child: Child,
    counters: NamedTempFile,
}

impl OtherHogs {
    /// Starts them by a command of the program, without these options.
    pub fn start(mut command: Command, count: usize) -> anyhow::Result<Self> {
        let prefixed = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix("tek-bench-").permissions(Permissions::from_mode(0o600));
            builder
        };
        let counters = prefixed().tempfile_in(MEMORY).or_else(|_| prefixed().tempfile());
        let counters = counters.context("cannot make a file for counters")?;
        counters.as_file().set_len(BYTES)?;
        // The user of the column tekd writes there, too.
        fs::set_permissions(counters.path(), Permissions::from_mode(0o666))?;
        command.args(["--only-hogs", "--hogs", &count.to_string()]);
        command.args(["--hogs-user", &FIRST_USER.to_string(), "--counters"]).arg(counters.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().context("cannot start hogs of another user")?;
        Ok(Self { child, counters })
    }

    /// Their counters.
    pub fn counters(&self) -> &Path {
        self.counters.path()
    }

    /// Verifies that all of them still run, and ends them.
    pub fn end(mut self) -> anyhow::Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "a hog of another user ended early");
        Ok(())
    }
}

impl Drop for OtherHogs {
    fn drop(&mut self) {
        // Its children end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
