// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agent's end of the line to the host.
use super::error::{Doing, Error};
use crate::ports;
use crate::protocol::{Decoder, Frame, PORT};
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

/// How long the port may take to appear: its driver requests its name from the host.
const APPEARS_WITHIN: Duration = Duration::from_secs(20);

/// Bytes to be sent at which no more output is read from the job.
const ENOUGH: usize = 1 << 18;

/// Frames from and to the host. A function waits only if its comment states it.
pub(super) struct Port {
    file: File,
    decoder: Decoder,
    unsent: VecDeque<u8>,
}

impl Port {
    /// Waits for the port, and opens it. Only one process can have it open.
    pub(super) fn open() -> Result<Self, Error> {
        let start = Instant::now();
        loop {
            if let Some(path) = ports::find(PORT) {
                let mut options = OpenOptions::new();
                options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
                let file = options.open(&path).doing(format!("open {}", path.display()))?;
                return Ok(Self { file, decoder: Decoder::default(), unsent: VecDeque::new() });
            }
            if start.elapsed() > APPEARS_WITHIN {
                return Err(Error::NoPort);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Has a frame sent as soon as the host takes it.
    pub(super) fn send(&mut self, frame: &Frame) {
        self.unsent.extend(frame.to_bytes());
    }

    /// Whether so many bytes are to be sent that no more should be added.
    pub(super) fn is_full(&self) -> bool {
        self.unsent.len() >= ENOUGH
    }

    /// The descriptor and the events to poll for.
    pub(super) fn events(&self) -> PollFlags {
        match self.unsent.is_empty() {
            true => PollFlags::POLLIN,
            false => PollFlags::POLLIN | PollFlags::POLLOUT,
        }
    }

    /// Sends and receives without waiting, and returns the next frame, if there is one.
    pub(super) fn run_once(&mut self) -> Result<Option<Frame>, Error> {
        self.push()?;
        self.pull()?;
        Ok(self.decoder.next()?)
    }

    /// Sends all pending bytes, and waits for the next frame.
    pub(super) fn wait(&mut self) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.run_once()? {
                return Ok(frame);
            }
            self.poll()?;
        }
    }

    /// Waits until there is room for more; frames that come meanwhile are kept.
    pub(super) fn make_room(&mut self) -> Result<(), Error> {
        while self.is_full() {
            self.push()?;
            self.pull()?;
            if self.is_full() {
                self.poll()?;
            }
        }
        Ok(())
    }

    fn poll(&self) -> Result<(), Error> {
        match poll(&mut [PollFd::new(self.as_fd(), self.events())], PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error).doing("wait for the host"),
        }
    }

    fn push(&mut self) -> Result<(), Error> {
        while !self.unsent.is_empty() {
            match self.file.write(self.unsent.as_slices().0) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).doing("write to the host"),
            }
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<(), Error> {
        let mut bytes = [0; 4096];
        loop {
            match self.file.read(&mut bytes) {
                Ok(0) => return Err(Error::HostGone),
                Ok(count) => self.decoder.push(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).doing("read from the host"),
            }
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
