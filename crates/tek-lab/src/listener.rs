// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiver of a session's events.
use crate::{Ended, Job};
use std::io;
use std::time::Instant;

/// Receives the events of a session as they happen. An error ends the session.
pub trait Listener {
    /// Time until which later events may keep the listener busy. After it, the listener takes only
    /// what it can take without waiting and drops the rest: otherwise no limit would hold.
    fn until(&mut self, _until: Instant) {}
    /// A guest is being booted: its number, from 1.
    fn booting(&mut self, _boot: u32) -> io::Result<()> {
        Ok(())
    }
    /// The first guest did not come up on this machine's own processor; it and all later guests are
    /// emulated.
    fn emulating(&mut self, _why: &str) -> io::Result<()> {
        Ok(())
    }
    /// A part of a job's standard output.
    fn output(&mut self, _job: &Job, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
    /// A part of a job's standard error.
    fn error(&mut self, _job: &Job, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
    /// A piece of the tar archive of the job's `$OUT`.
    fn files(&mut self, _job: &Job, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
    /// Output of the guest's kernel on its console.
    fn console(&mut self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
    /// A job is over, and all of its output was passed to the listener.
    fn ended(&mut self, _job: &Job, _ended: &Ended) -> io::Result<()> {
        Ok(())
    }
}
