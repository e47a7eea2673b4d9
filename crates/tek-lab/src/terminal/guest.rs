// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's end: a program at a pseudo terminal with the port at its other side.
use super::{Decoder, Message, Unknown, PORT};
use crate::ports;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::pty::{openpty, OpenptyResult, Winsize};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

/// Bytes read at once.
const CHUNK: usize = 4096;

/// Why there is no terminal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No port.
    #[error("there is no port of the name {PORT}; is this a guest of `tek lab shell`?")]
    NoPort,
    /// The host's fault.
    #[error("the host sent {0}")]
    Unknown(#[from] Unknown),
    /// The system refused.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

fn cannot<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::System(what, error.into())
}

/// Runs a program at a terminal until it ends; how it did.
pub fn run(program: &str, arguments: &[String]) -> Result<ExitStatus, Error> {
    let path = ports::find(PORT).ok_or(Error::NoPort)?;
    let port = OpenOptions::new().read(true).write(true).open(path);
    let mut port = port.map_err(cannot("open the host's port"))?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block().map_err(cannot("block a signal"))?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let ends = SignalFd::with_flags(&mask, flags).map_err(cannot("watch for the program's end"))?;
    // This process also keeps the other side open: with no process there, poll() returns at once.
    let OpenptyResult { master, slave } = openpty(None, None).map_err(cannot("make a terminal"))?;
    let master = File::from(master);
    set_nonblocking(&master).map_err(cannot("make a terminal"))?;
    let mut child = start(program, arguments, &slave)?;
    let mut relay = Relay { master, decoder: Decoder::default(), typed: Vec::new() };
    loop {
        relay.wait(&port, &ends)?;
        relay.output(&mut port)?;
        if let Some(status) = child.try_wait().map_err(cannot("wait for the program"))? {
            // An error is an end too: the program closed its terminal.
            while let Ok(true) = relay.output(&mut port) {}
            return Ok(status);
        }
        relay.input(&mut port)?;
    }
}

/// Starts the program as the leader of a session at a terminal.
fn start(program: &str, arguments: &[String], terminal: &OwnedFd) -> Result<Child, Error> {
    let copy = || terminal.try_clone().map_err(cannot("make a terminal"));
    let mut command = Command::new(program);
    command.args(arguments).stdin(copy()?).stdout(copy()?).stderr(copy()?);
    // SAFETY: between fork and exec it only makes system calls and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            Errno::result(libc::setsid())?;
            Errno::result(libc::ioctl(0, libc::TIOCSCTTY, 0))?;
            Ok(())
        });
    }
    command.spawn().map_err(cannot("start the program"))
}

fn set_nonblocking(file: &File) -> nix::Result<()> {
    use nix::fcntl::{fcntl, FcntlArg, OFlag};
    fcntl(file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
}

struct Relay {
    master: File,
    decoder: Decoder,
    /// Input that the terminal has not taken yet: programs need not read.
    typed: Vec<u8>,
}

impl Relay {
    fn wait(&self, port: &File, ends: &SignalFd) -> Result<(), Error> {
        let asked = |yes: bool, flag| if yes { flag } else { PollFlags::empty() };
        let full = !self.typed.is_empty();
        let mut all = [
            PollFd::new(ends.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.master.as_fd(), PollFlags::POLLIN | asked(full, PollFlags::POLLOUT)),
            PollFd::new(port.as_fd(), asked(!full, PollFlags::POLLIN)),
        ];
        match poll(&mut all, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(cannot("wait for the terminal")(error)),
        }
        while let Ok(Some(_)) = ends.read_signal() {}
        Ok(())
    }

    /// Passes on a piece of the program's output; false if there is none. The host reads, so the
    /// wait for the port is short. Only one piece at a time: input must not wait behind output.
    fn output(&mut self, port: &mut File) -> Result<bool, Error> {
        let mut bytes = [0; CHUNK];
        match self.master.read(&mut bytes) {
            Ok(length) => {
                port.write_all(&bytes[..length]).map_err(cannot("write to the host"))?;
                Ok(length > 0)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(cannot("read from the terminal")(error)),
        }
    }

    /// Passes on input, as much as the terminal takes.
    fn input(&mut self, port: &mut File) -> Result<(), Error> {
        if self.typed.is_empty() && is_readable(port)? {
            let mut bytes = [0; CHUNK];
            let length = port.read(&mut bytes).map_err(cannot("read from the host"))?;
            self.decoder.push(&bytes[..length]);
        }
        while self.typed.is_empty() {
            match self.decoder.take()? {
                Some(Message::Input(bytes)) => self.typed = bytes,
                Some(Message::Window { rows, columns }) => self.resize(rows, columns)?,
                None => return Ok(()),
            }
            self.type_in();
        }
        self.type_in();
        Ok(())
    }

    fn type_in(&mut self) {
        // An error: the terminal takes no more now, or never again.
        if let Ok(length) = self.master.write(&self.typed) {
            self.typed.drain(..length);
        }
    }

    fn resize(&self, rows: u16, columns: u16) -> Result<(), Error> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: it reads `size` and nothing else.
        let set = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        Errno::result(set).map(drop).map_err(cannot("set the window's size"))
    }
}

fn is_readable(file: &File) -> Result<bool, Error> {
    let mut one = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    let ready = poll(&mut one, PollTimeout::ZERO).map_err(cannot("look for input"))?;
    Ok(ready > 0)
}
