// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that clears up after the benchmark, however it ends.

use anyhow::Context;
use nix::unistd::setsid;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The input ends with the benchmark.
const WAIT: &str = "trap '' INT TERM HUP\nwhile read -r _; do :; done\n";

/// Dropping this is an end, too: it returns when all is clear.
pub struct Guardian(Child);

impl Guardian {
    /// Starts a shell that runs `script` with these arguments at the end.
    pub fn start<A: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Guardian> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{WAIT}{script}"), "tek-bench-guardian"]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A signal that ends the session of the benchmark must not end it.
        let prepare = || setsid().map(|_| ()).map_err(io::Error::from);
        // SAFETY: one system call.
        unsafe { command.pre_exec(prepare) };
        Ok(Guardian(command.spawn().context("cannot start sh")?))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_script_runs_when_the_guardian_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let guardian = Guardian::start("rm \"$1\"", [&file]).unwrap();
        assert!(file.exists());
        drop(guardian);
        assert!(!file.exists());
    }
}
