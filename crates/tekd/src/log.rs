// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines on standard error: what happened, once each, and never so many that they do harm.
use crate::sys;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::io::{stderr, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use tek_policy::Bucket;

/// Lines a second, and so many at once.
const RATE: u32 = 10;
const BURST: u32 = 50;

struct Log {
    account: Bucket,
    left_out: u32,
    for_journal: Option<bool>,
}

static LOG: Mutex<Log> = Mutex::new(Log { account: Bucket::new(), left_out: 0, for_journal: None });

/// Between two warnings of one kind that would come again and again.
const SELDOM_NS: u64 = 60_000_000_000;

/// Warns of something that happens often, but only now and then.
#[derive(Default)]
pub struct Seldom {
    told_ns: Option<u64>,
}

impl Seldom {
    /// A warning, unless the last one was a short while ago.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.is_due(sys::monotonic_ns()) {
            warning(&line());
        }
    }

    fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = self.told_ns.is_none_or(|at| now_ns.saturating_sub(at) > SELDOM_NS);
        if is_due {
            self.told_ns = Some(now_ns);
        }
        is_due
    }
}

/// How much a line matters, as in syslog(3).
#[derive(Clone, Copy)]
pub enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// Something cannot be done, and tekd ends or does without.
pub fn error(line: &str) {
    write(Level::Error, line);
}

/// Somebody should know.
pub fn warning(line: &str) {
    write(Level::Warning, line);
}

/// What was done.
pub fn info(line: &str) {
    write(Level::Info, line);
}

fn write(level: Level, line: &str) {
    let Ok(mut log) = LOG.lock() else { return };
    if !log.account.take(RATE, BURST, sys::monotonic_ns()) || !has_room() {
        log.left_out = log.left_out.saturating_add(1);
        return;
    }
    let for_journal = *log.for_journal.get_or_insert_with(is_journal);
    let left_out = std::mem::take(&mut log.left_out);
    if left_out > 0 {
        let told = format!("{left_out} lines were left out here");
        put(for_journal, Level::Warning, &told);
    }
    put(for_journal, level, line);
}

fn put(for_journal: bool, level: Level, line: &str) {
    // What clients chose, names of programs, must not begin a line of its own.
    let line = tek_abi::printable(line.as_bytes());
    let text = match for_journal {
        true => format!("<{}>{line}\n", level as u8),
        false => format!("tekd: {line}\n"),
    };
    let _ = stderr().write_all(text.as_bytes());
}

/// Whether a line can be written without waiting for who reads it.
fn has_room() -> bool {
    let stderr = stderr();
    let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    poll(&mut ready, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Whether standard error is systemd's journal: $JOURNAL_STREAM is its device and inode.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let stderr = std::fs::metadata("/proc/self/fd/2");
    stderr.is_ok_and(|stderr| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_told_once_a_minute() {
        let mut seldom = Seldom::default();
        assert!(seldom.is_due(0));
        assert!(!seldom.is_due(SELDOM_NS));
        assert!(seldom.is_due(SELDOM_NS + 1));
        assert!(!seldom.is_due(SELDOM_NS + 2));
    }
}
