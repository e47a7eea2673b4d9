// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines on standard error: each event once, and within a rate limit.
use crate::sys;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::VecDeque;
use std::io::{stderr, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, OnceLock};
use std::thread::{sleep, Builder};
use std::time::{Duration, Instant};
use tek_effect::PiMutex;
use tek_policy::Bucket;

/// The most lines a second, and at once.
const RATE: u32 = 10;
const BURST: u32 = 50;
const STACK_BYTES: usize = 64 * 1024;

/// The most lines that wait for the writer.
const MOST_LINES: usize = 128;
/// The longest wait for the writer at the end.
const PATIENCE: Duration = Duration::from_secs(1);

struct Log {
    account: Bucket,
    left_out: u32,
    lines: VecDeque<(Level, String)>,
    /// The writer has a line that is not in the queue.
    is_writing: bool,
}

/// A real-time thread must not wait for standard error, which may be on a disk or have a slow
/// reader. So lines are queued, and an ordinary thread writes them. The lock inherits priorities.
fn log() -> &'static PiMutex<Log> {
    static LOG: OnceLock<PiMutex<Log>> = OnceLock::new();
    LOG.get_or_init(|| {
        let (account, lines) = (Bucket::new(), VecDeque::new());
        PiMutex::new(Log { account, left_out: 0, lines, is_writing: false })
    })
}

/// Wakes the writer; without a writer each line is written at once.
static BELL: OnceLock<Arc<EventFd>> = OnceLock::new();

/// Starts the writer, an ordinary thread. The caller must be an ordinary thread.
pub fn start_writer() -> std::io::Result<()> {
    let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?);
    let named = Builder::new().name("tekd-log".to_owned()).stack_size(STACK_BYTES);
    let rung = Arc::clone(&bell);
    named.spawn(move || {
        while rung.read().is_ok() {
            write_all();
        }
    })?;
    let _ = BELL.set(bell);
    Ok(())
}

/// Waits until all lines are written, for a limited time.
pub fn flush() {
    let end = Instant::now() + PATIENCE;
    let is_idle = || {
        let log = log().lock();
        log.lines.is_empty() && !log.is_writing
    };
    while !is_idle() && Instant::now() < end {
        sleep(Duration::from_millis(1));
    }
}

/// The shortest interval between two warnings of one recurring kind.
const SELDOM_NS: u64 = 60_000_000_000;

/// Warns of a frequent event at a low rate.
#[derive(Default)]
pub struct Seldom {
    reported_ns: Option<u64>,
}

impl Seldom {
    /// Logs a warning, unless the last one was a short while ago.
    pub fn announce(&mut self, line: impl FnOnce() -> String) {
        if self.is_due(sys::monotonic_ns()) {
            warning(&line());
        }
    }

    fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = self.reported_ns.is_none_or(|at| now_ns.saturating_sub(at) > SELDOM_NS);
        if is_due {
            self.reported_ns = Some(now_ns);
        }
        is_due
    }
}

/// The severity of a line, as in syslog(3).
#[derive(Clone, Copy)]
pub enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// A failure: tekd ends, or goes on without a function.
pub fn error(line: &str) {
    write(Level::Error, line);
}

/// A condition that the administrator should know.
pub fn warning(line: &str) {
    write(Level::Warning, line);
}

/// A completed step.
pub fn info(line: &str) {
    write(Level::Info, line);
}

fn write(level: Level, line: &str) {
    let mut log = log().lock();
    let has_room = log.lines.len() < MOST_LINES;
    if !has_room || !log.account.take(RATE, BURST, sys::monotonic_ns()) {
        log.left_out = log.left_out.saturating_add(1);
        return;
    }
    log.lines.push_back((level, line.to_owned()));
    drop(log);
    match BELL.get() {
        Some(bell) => drop(bell.write(1)),
        None => write_all(),
    }
}

/// Writes the queued lines, as long as standard error has room.
fn write_all() {
    static FOR_JOURNAL: OnceLock<bool> = OnceLock::new();
    let for_journal = *FOR_JOURNAL.get_or_init(is_journal);
    loop {
        let (left_out, line) = {
            let mut log = log().lock();
            let line = log.lines.pop_front();
            log.is_writing = line.is_some();
            if line.is_some() && !has_room() {
                log.left_out = log.left_out.saturating_add(1);
                continue;
            }
            (line.as_ref().map_or(0, |_| std::mem::take(&mut log.left_out)), line)
        };
        let Some((level, line)) = line else { return };
        if left_out > 0 {
            let reported = format!("{left_out} lines were left out here");
            put(for_journal, Level::Warning, &reported);
        }
        put(for_journal, level, &line);
    }
}

fn put(for_journal: bool, level: Level, line: &str) {
    // Text that clients chose, such as names of programs, must not begin a line of its own.
    let line = tek_abi::printable(line.as_bytes());
    let text = match for_journal {
        true => format!("<{}>{line}\n", level as u8),
        false => format!("tekd: {line}\n"),
    };
    let _ = stderr().write_all(text.as_bytes());
}

/// Whether a line can be written without a wait for the reader.
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
    fn what_happens_often_is_logged_once_a_minute() {
        let mut seldom = Seldom::default();
        assert!(seldom.is_due(0));
        assert!(!seldom.is_due(SELDOM_NS));
        assert!(seldom.is_due(SELDOM_NS + 1));
        assert!(!seldom.is_due(SELDOM_NS + 2));
    }
}
