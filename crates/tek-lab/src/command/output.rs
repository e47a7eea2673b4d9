// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command's own standard output and error.
use crate::is_passing;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::time::{Duration, Instant};
use tek_abi::printable;

/// A line of this many bytes is shown before its end.
const LONG: usize = 4096;

/// How long a message of ours waits for a reader.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most bytes that a pipe or socket takes without waiting when poll(2) reports it writable.
const PIECE: usize = 4096;

/// Standard output or error, without the buffer that Rust keeps before it. Its reader may be as
/// slow as it likes, until a time that can be set.
pub struct Output {
    file: File,
    name: &'static str,
    /// Most bytes that are written at once.
    piece: usize,
    until: Option<Instant>,
    is_cut: bool,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> io::Result<Self> {
        Self::new(io::stdout().as_fd(), "standard output")
    }

    /// Standard error.
    pub fn stderr() -> io::Result<Self> {
        Self::new(io::stderr().as_fd(), "standard error")
    }

    fn new(fd: BorrowedFd, name: &'static str) -> io::Result<Self> {
        let own = File::from(fd.try_clone_to_owned()?);
        let (file, piece) = match opened_anew(&own)? {
            Some(file) => (file, usize::MAX),
            None if own.metadata()?.is_file() => (own, usize::MAX),
            None => (own, PIECE),
        };
        Ok(Self { file, name, piece, until: None, is_cut: false })
    }

    /// Discards from now on all output that is still unread at `until`.
    pub fn until(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// Whether something was left out.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Writes all of it, or what can be written until that time.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_in_pieces(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => error,
            kind => io::Error::new(kind, format!("cannot write to {}: {error}", self.name)),
        })
    }

    fn write_in_pieces(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if !self.is_ready()? {
                self.is_cut = true;
                return Ok(());
            }
            match self.file.write(&bytes[..bytes.len().min(self.piece)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => bytes = &bytes[length..],
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until something can be written; false when the time is up.
    fn is_ready(&self) -> io::Result<bool> {
        loop {
            let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout = match left {
                None => PollTimeout::NONE,
                Some(Duration::ZERO) => PollTimeout::ZERO,
                // Rounded up; otherwise the last millisecond is spent polling.
                Some(left) => PollTimeout::try_from(left.as_millis().saturating_add(1))
                    .unwrap_or(PollTimeout::MAX),
            };
            match poll(&mut [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)], timeout) {
                Ok(0) if left == Some(Duration::ZERO) => return Ok(false),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A pipe or terminal, so that writing to it never waits. It is opened once more, because another
/// process that has it open may rely on waiting. `None` for other kinds, or without permission.
fn opened_anew(file: &File) -> io::Result<Option<File>> {
    if !file.metadata()?.file_type().is_fifo() && !file.is_terminal() {
        return Ok(None);
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    Ok(File::options().write(true).custom_flags(flags).open(path).ok())
}

/// Writes to standard error. A missing reader is no reason to stop, nor to wait for long.
pub fn to_stderr(bytes: &[u8]) {
    if let Ok(mut output) = Output::stderr() {
        output.until(Instant::now() + PATIENCE);
        let _ = output.write(bytes);
    }
}

/// Prints a message that contains text of the guest: names of its files, lines of its console.
pub fn report_of_guest(what: &str) {
    to_stderr(format!("tek: {}\n", shown(what.as_bytes())).as_bytes());
}

/// A line of the guest's, made printable for a terminal.
fn shown(line: &[u8]) -> String {
    let line: Vec<u8> =
        line.iter().map(|byte| if matches!(byte, b'\t' | 0) { b' ' } else { *byte }).collect();
    printable(&line)
}

/// The guest's console as it runs, on standard error: its whole lines, made printable.
pub struct Watched {
    /// None, if it is not to be shown.
    output: Option<Output>,
    /// The line that is still incomplete.
    line: Vec<u8>,
}

impl Watched {
    /// Shows it only if wanted.
    pub fn new(is_wanted: bool) -> io::Result<Self> {
        let output = if is_wanted { Some(Output::stderr()?) } else { None };
        Ok(Self { output, line: Vec::new() })
    }

    /// Discards from now on all output that is still unread at `until`.
    pub fn until(&mut self, until: Instant) {
        if let Some(output) = &mut self.output {
            output.until(until);
        }
    }

    /// Takes the bytes that came. A missing reader is no reason to stop.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.output.is_some() {
            let lines = self.lines(bytes);
            self.show(&lines);
        }
    }

    fn show(&mut self, lines: &str) {
        if let Some(output) = &mut self.output {
            let _ = output.write(lines.as_bytes());
        }
    }

    fn lines(&mut self, bytes: &[u8]) -> String {
        let mut lines = String::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend(piece);
            if piece.ends_with(b"\n") || self.line.len() >= LONG {
                lines += &self.take_line();
            }
        }
        lines
    }

    fn take_line(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        shown(line.trim_ascii_end()) + "\n"
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            let line = self.take_line();
            self.show(&line);
        }
    }
}

/// Reports to a user at a terminal that a guest's processor is emulated although this machine's own
/// would fit; scripts do not need that.
pub fn describe_emulation(why: &str) {
    if io::stderr().is_terminal() {
        report_of_guest(&format!("emulating the processor, for KVM does not work here: {why}"));
    }
}

/// Prints the last lines of the guest's console, if there are any.
pub fn describe_console(lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let mut text = String::from("tek: the last lines of the guest's console:\n");
    for line in lines {
        text += &format!("    {}\n", shown(line.as_bytes()));
    }
    to_stderr(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_guest_writes_escapes_to_the_terminal() {
        let mut watched = Watched::new(false).unwrap();
        assert_eq!(watched.lines(b"[ 0.0] a\tb\r\n\x1b[2J\xc3"), "[ 0.0] a b\n");
        assert_eq!(watched.lines(b"\xa4\0c\n\nd"), "\\u{1b}[2Jä c\n\n");
        assert_eq!(watched.lines(&[b'x'; LONG]).len(), LONG + 2);
        assert_eq!(watched.line, b"");
        assert_eq!(shown(b"\x1b]0;title\x07"), "\\u{1b}]0;title\\u{7}");
    }

    /// An output to a pipe that is never read, with so long to wait.
    fn unread(wait: Duration) -> (io::PipeReader, Output) {
        let (reader, writer) = io::pipe().unwrap();
        let mut output = Output::new(writer.as_fd(), "the pipe").unwrap();
        output.until(Instant::now() + wait);
        (reader, output)
    }

    #[test]
    fn what_is_not_read_in_time_is_left_out() {
        let begun = Instant::now();
        let (reader, mut output) = unread(Duration::from_millis(50));
        for _ in 0..10 {
            output.write(&[b'x'; 60_000]).unwrap();
        }
        assert!(output.is_cut());
        assert!((50..5000).contains(&begun.elapsed().as_millis()));
        drop(reader);
        assert_eq!(output.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_slow_reader_gets_all_of_it() {
        let (mut reader, mut output) = unread(Duration::from_secs(20));
        let slow = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            let mut all = Vec::new();
            io::Read::read_to_end(&mut reader, &mut all).map(|_| all.len())
        });
        output.write(&[b'x'; 600_000]).unwrap();
        assert!(!output.is_cut());
        drop(output);
        assert_eq!(slow.join().unwrap().unwrap(), 600_000);
    }

    #[test]
    fn a_socket_is_not_waited_for_either() {
        let (_reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut output = Output::new(writer.as_fd(), "the socket").unwrap();
        output.until(Instant::now());
        output.write(&[b'x'; 10_000_000]).unwrap();
        assert!(output.is_cut());
    }
}
