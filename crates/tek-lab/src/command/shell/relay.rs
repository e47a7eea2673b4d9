// SPDX-License-Identifier: MIT OR Apache-2.0
//! Relays between this terminal and the one in the guest, in a thread of its own.
//!
//! It has the signals too, so that the terminal is restored before tek ends, whatever ends it. QEMU
//! then ends with tek.
use super::super::output::Output;
use super::terminal::{self, Mode};
use crate::is_passing;
use crate::terminal::Message;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{raise, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use tek_command::entry::before_panic;

/// Bytes read at once.
const CHUNK: usize = 1 << 14;

/// Ctrl-D, which ends a shell.
const END: u8 = 4;

/// The signals that end tek.
const DEADLY: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// A running relay. However it ends, the terminal is restored.
pub struct Running {
    thread: Option<JoinHandle<()>>,
    mode: Mode,
}

impl Running {
    /// Waits until it has forwarded all input and output, which must have come to an end.
    pub fn end(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.mode.restore();
    }
}

/// Starts it, with our end of the guest's port. Threads that begin later have the signals blocked.
pub fn start(port: UnixStream) -> anyhow::Result<Running> {
    let mut mask: SigSet = DEADLY.into_iter().collect();
    mask.extend([Signal::SIGWINCH, Signal::SIGCONT, Signal::SIGTSTP]);
    mask.thread_block()?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    port.set_nonblocking(true)?;
    let mode = Mode::default();
    let at_panic = mode.clone();
    before_panic(move || at_panic.restore());
    let mut relay = Relay {
        port,
        signals,
        input: Some(io::stdin().as_fd().try_clone_to_owned()?.into()),
        output: Output::stdout()?,
        unsent: Vec::new(),
        mode: mode.clone(),
        is_up: false,
    };
    relay.describe_size();
    let thread = std::thread::spawn(move || {
        let result = relay.run();
        relay.mode.restore();
        if let Err(error) = result {
            // No user is left to type or to read.
            super::report(&format!("the terminal is gone: {error}"));
            std::process::exit(125);
        }
    });
    Ok(Running { thread: Some(thread), mode })
}

struct Relay {
    port: UnixStream,
    signals: SignalFd,
    /// Until it comes to an end.
    input: Option<File>,
    output: Output,
    unsent: Vec<u8>,
    mode: Mode,
    /// The guest has sent output, so the keys can go to it.
    is_up: bool,
}

impl Relay {
    /// Relays until the port is closed.
    fn run(&mut self) -> io::Result<()> {
        loop {
            let [port, signal, input] = self.wait()?;
            if signal {
                self.take_signals()?;
            }
            if input {
                self.read_input()?;
            }
            self.send()?;
            if port && !self.show()? {
                return Ok(());
            }
        }
    }

    /// Waits; returns whether port, signals and input are readable.
    fn wait(&self) -> io::Result<[bool; 3]> {
        let mut asked = PollFlags::POLLIN;
        asked.set(PollFlags::POLLOUT, !self.unsent.is_empty());
        let mut all = vec![
            PollFd::new(self.port.as_fd(), asked),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        // Earlier input is sent first.
        if let (Some(input), true) = (&self.input, self.unsent.is_empty()) {
            all.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut all, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let readable = PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR;
        let is = |at: usize| {
            let flags = all.get(at).and_then(PollFd::revents);
            flags.is_some_and(|flags| flags.intersects(readable))
        };
        Ok([is(0), is(1), is(2)])
    }

    fn read_input(&mut self) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let mut bytes = [0; CHUNK];
        let typed = match input.read(&mut bytes) {
            Ok(0) => {
                self.input = None;
                vec![END]
            }
            Ok(length) => bytes[..length].to_vec(),
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.unsent.extend(Message::Input(typed).to_bytes());
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        match self.port.write(&self.unsent) {
            Ok(length) => drop(self.unsent.drain(..length)),
            Err(error) if is_passing(&error) => {}
            // The guest is gone, which the next read reports.
            Err(_) => self.unsent.clear(),
        }
        Ok(())
    }

    /// Shows the guest's output; false at the end.
    fn show(&mut self) -> io::Result<bool> {
        let mut bytes = [0; CHUNK];
        match self.port.read(&mut bytes) {
            Ok(0) => Ok(false),
            Ok(length) => {
                self.is_up = true;
                self.enter();
                self.output.write(&bytes[..length]).map(|()| true)
            }
            Err(error) if is_passing(&error) => Ok(true),
            Err(_) => Ok(false),
        }
    }

    fn describe_size(&mut self) {
        if let Some((rows, columns)) = terminal::size() {
            self.unsent.extend(Message::Window { rows, columns }.to_bytes());
        }
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(info) = self.signals.read_signal()? {
            match Signal::try_from(info.ssi_signo as i32)? {
                Signal::SIGWINCH => self.describe_size(),
                Signal::SIGTSTP => {
                    self.mode.restore();
                    raise(Signal::SIGSTOP)?;
                }
                Signal::SIGCONT => {
                    self.enter();
                    self.describe_size();
                }
                signal => self.die(signal)?,
            }
        }
        Ok(())
    }

    /// Dies of a signal, as tek would have done without blocking it.
    fn die(&self, signal: Signal) -> io::Result<()> {
        self.mode.restore();
        SigSet::from(signal).thread_unblock()?;
        raise(signal)?;
        // The signal is ignored, so this process goes on.
        SigSet::from(signal).thread_block()?;
        self.enter();
        Ok(())
    }

    fn enter(&self) {
        if self.is_up {
            self.mode.make_raw();
        }
    }
}
