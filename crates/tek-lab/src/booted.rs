// SPDX-License-Identifier: MIT OR Apache-2.0
//! A booted guest, from the host's side: its frames, its console and QEMU's messages.
use crate::console::Console;
use crate::listener::Listener;
use crate::machine::Machine;
use crate::outcome::signal_name;
use crate::protocol::{self, Decoder, Frame};
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Bytes read at once.
const CHUNK: usize = 1 << 16;

/// An event of a guest.
pub enum Event {
    /// The guest sent a frame.
    Frame(Frame),
    /// The guest sent bytes that are no frame.
    Nonsense(protocol::Error),
    /// QEMU closed the port, as it is ending, or cannot let the guest run any more.
    Ended,
    /// The deadline passed without an event, or the kernel panicked and QEMU did not end.
    Deadline,
}

/// How QEMU ended.
pub enum End {
    /// The guest powered off or rebooted.
    Off,
    /// The guest's kernel panicked before.
    Panicked(String),
    /// QEMU ended by itself, or another process ended it.
    Died(String),
}

/// A guest, from its first instruction to the end of QEMU.
pub struct Booted {
    /// Output of the guest's kernel.
    pub console: Console,
    machine: Machine,
    decoder: Decoder,
    /// Output of QEMU itself.
    words: Console,
    /// Bytes to be sent to the guest.
    outgoing: Vec<u8>,
    console_is_open: bool,
    words_are_open: bool,
    panicked: Option<Instant>,
    /// How long QEMU may take to end after it has closed the port.
    grace: Duration,
    /// How long a kernel that panics may take to report the reason and to reboot.
    panic: Duration,
}

impl Booted {
    /// A started guest; the times bound how long QEMU, and a kernel that panics, may take to end.
    pub fn new(machine: Machine, grace: Duration, panic: Duration) -> Self {
        for socket in [&machine.port, &machine.console, &machine.words] {
            socket.set_nonblocking(true).expect("FIONBIO works on sockets");
        }
        Self {
            console: Console::default(),
            machine,
            decoder: Decoder::default(),
            words: Console::default(),
            outgoing: Vec::new(),
            console_is_open: true,
            words_are_open: true,
            panicked: None,
            grace,
            panic,
        }
    }

    /// Sends a frame to the guest as soon as it reads.
    pub fn send(&mut self, frame: &Frame) {
        self.outgoing.extend(frame.to_bytes());
    }

    /// Waits for the next event. The deadline has precedence over pending input of the guest.
    pub fn next(&mut self, deadline: Instant, listener: &mut dyn Listener) -> io::Result<Event> {
        loop {
            let now = Instant::now();
            if self.console.panic().is_some() {
                self.panicked.get_or_insert(now);
            }
            let deadline =
                self.panicked.map_or(deadline, |panicked| deadline.min(panicked + self.panic));
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                return Ok(Event::Deadline);
            }
            match self.decoder.next() {
                Ok(Some(frame)) => return Ok(Event::Frame(frame)),
                Ok(None) if self.words.kvm_error().is_some() => return Ok(Event::Ended),
                Ok(None) => {}
                Err(error) => return Ok(Event::Nonsense(error)),
            }
            if !self.exchange(left, listener)? {
                return Ok(Event::Ended);
            }
        }
    }

    /// Whether the guest may have a processor of the machine's own and its kernel has written
    /// nothing yet.
    pub fn is_stuck(&self) -> bool {
        self.machine.accelerated && self.console.is_silent()
    }

    /// Whether the guest is alive and sends nothing, as it should between jobs.
    pub fn is_quiet(&mut self, listener: &mut dyn Listener) -> io::Result<bool> {
        let there = self.exchange(Duration::ZERO, listener)?;
        Ok(there && matches!(self.decoder.next(), Ok(None)) && self.console.panic().is_none())
    }

    /// Whether the kernel reports, within a time, that it lacked memory.
    pub fn lacked_memory(
        &mut self,
        within: Duration,
        listener: &mut dyn Listener,
    ) -> io::Result<bool> {
        let until = Instant::now() + within;
        loop {
            if self.console.take_out_of_memory() {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.exchange(left, listener)? {
                return Ok(self.console.take_out_of_memory());
            }
        }
    }

    /// Why QEMU ended.
    pub fn autopsy(&mut self, listener: &mut dyn Listener) -> io::Result<End> {
        if let Some(error) = self.words.kvm_error() {
            return Ok(End::Died(format!("QEMU stopped it: {error}")));
        }
        let status = self.machine.process.ended(self.grace);
        // Its last output is still in the sockets.
        let until = Instant::now() + self.grace;
        while (self.console_is_open || self.words_are_open) && Instant::now() < until {
            self.receive(until.saturating_duration_since(Instant::now()), false, listener)?;
        }
        if let Some(why) = self.console.panic() {
            return Ok(End::Panicked(why.to_owned()));
        }
        let how = match status {
            Some(status) if status.success() => return Ok(End::Off),
            Some(status) => log(status),
            None => "QEMU closed its port".to_owned(),
        };
        let words = self.words.since(0);
        let words = words.last().map(|last| format!(": {last}")).unwrap_or_default();
        Ok(End::Died(how + &words))
    }

    /// Waits for input from the guest or room to send; false when the port is closed.
    fn exchange(&mut self, within: Duration, listener: &mut dyn Listener) -> io::Result<bool> {
        let ready = self.receive(within, true, listener)?;
        if ready.intersects(PollFlags::POLLOUT) {
            match (&self.machine.port).write(&self.outgoing) {
                Ok(length) => drop(self.outgoing.drain(..length)),
                Err(error) if is_passing(&error) => {}
                Err(_) => return Ok(false),
            }
        }
        if ready.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
            let decoder = &mut self.decoder;
            return read(&self.machine.port, |bytes| {
                decoder.push(bytes);
                Ok(())
            });
        }
        Ok(true)
    }

    /// Waits, reads all of the console and of QEMU's output, and returns the port's poll events.
    fn receive(
        &mut self,
        within: Duration,
        port: bool,
        listener: &mut dyn Listener,
    ) -> io::Result<PollFlags> {
        let mut asked = PollFlags::empty();
        asked.set(PollFlags::POLLIN, port);
        asked.set(PollFlags::POLLOUT, port && !self.outgoing.is_empty());
        let machine = &self.machine;
        let mut sockets = Vec::with_capacity(3);
        for (socket, asked) in [
            (port.then_some(&machine.port), asked),
            (self.console_is_open.then_some(&machine.console), PollFlags::POLLIN),
            (self.words_are_open.then_some(&machine.words), PollFlags::POLLIN),
        ] {
            if let Some(socket) = socket {
                sockets.push(PollFd::new(socket.as_fd(), asked));
            }
        }
        // Rounded up: otherwise the last millisecond is a busy loop of polls.
        let milliseconds = within.as_millis().saturating_add(1).min(i32::MAX as u128) as i32;
        let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
        let timeout = if within.is_zero() { PollTimeout::ZERO } else { timeout };
        match poll(&mut sockets, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = sockets.iter().map(|socket| socket.revents().unwrap_or(PollFlags::empty()));
        let port = if port { ready.next() } else { None }.unwrap_or(PollFlags::empty());
        let console = self.console_is_open && !ready.next().is_none_or(|flags| flags.is_empty());
        let words = self.words_are_open && !ready.next().is_none_or(|flags| flags.is_empty());
        if console {
            let console = &mut self.console;
            self.console_is_open = read(&machine.console, |bytes| {
                console.push(bytes);
                listener.console(bytes)
            })?;
        }
        if words {
            let words = &mut self.words;
            self.words_are_open = read(&machine.words, |bytes| {
                words.push(bytes);
                Ok(())
            })?;
        }
        Ok(port)
    }
}

/// Reads once; false at the end.
fn read(
    mut socket: &UnixStream,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<bool> {
    let mut bytes = [0; CHUNK];
    match socket.read(&mut bytes) {
        Ok(0) => Ok(false),
        Ok(length) => take(&bytes[..length]).map(|()| true),
        Err(error) if is_passing(&error) => Ok(true),
        // The other end is gone and left bytes of ours unread.
        Err(_) => Ok(false),
    }
}

/// Whether reading or writing may succeed when it is tried again.
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn log(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("QEMU ended with status {code}"),
        (None, Some(signal)) => format!("QEMU was killed by {}", signal_name(signal)),
        (None, None) => "QEMU ended".to_owned(),
    }
}
