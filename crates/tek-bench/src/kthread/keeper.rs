// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of the machine that a part changes. The program `keeper` changes and restores them,
//! also if the benchmark is killed.

use crate::ground::Ground;
use crate::programs::Program;
use anyhow::bail;
use std::path::PathBuf;

/// The changes. They are undone when this is dropped.
pub struct Keeper(Program);

impl Keeper {
    pub fn start(ground: &Ground) -> anyhow::Result<Keeper> {
        // The end of the benchmark closes its input, and then it restores everything.
        Ok(Keeper(Program::start(ground.surviving_command("keeper"))?))
    }

    /// Registers a file that other programs change, so that it is restored.
    pub fn keep(&mut self, path: &str) -> anyhow::Result<()> {
        self.ask(&format!("keep {path}\n"))
    }

    /// Writes a value to a file.
    pub fn write(&mut self, path: &str, value: &str) -> anyhow::Result<()> {
        self.ask(&format!("write {path} {value}\n"))
    }

    /// Gives this real-time priority to the kernel threads that work for other threads.
    pub fn make_static(&mut self, priority: i32) -> anyhow::Result<()> {
        self.ask(&format!("static {priority}\n"))
    }

    /// Makes an instance of the kernel's tracing, and returns its directory.
    pub fn trace(&mut self, name: &str) -> anyhow::Result<PathBuf> {
        self.ask(&format!("trace {name}\n"))?;
        let root = PathBuf::from(format!("/proc/{}/root", self.0.pid()));
        Ok(root.join("sys/kernel/tracing/instances").join(name))
    }

    /// Puts everything back.
    pub fn undo(&mut self) -> anyhow::Result<()> {
        self.ask("undo\n")
    }

    fn ask(&mut self, line: &str) -> anyhow::Result<()> {
        self.0.announce(line)?;
        let answer = self.0.line()?;
        match answer.trim().strip_prefix("no: ") {
            Some(reason) => bail!("{}: {reason}", line.trim()),
            None => Ok(()),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.let_go();
    }
}
