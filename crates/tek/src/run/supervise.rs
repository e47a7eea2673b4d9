// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lives beside the program until it ends: forwards signals and stops, and reports events.
use super::child::{Change, Child, End};
use super::events::EventReader;
use super::forward::{self, Origin};
use super::group::Placing;
use super::inherited;
use super::relay::Relay;
use crate::message;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use tek_abi::Event;

/// Why the program did not run to its end under tek.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be executed.
    #[error("{0}")]
    Start(io::Error),
    /// tek cannot watch it.
    #[error("cannot watch the program: {0}")]
    Watch(#[from] Errno),
}

/// Runs a program to its end: its process and how it ended. `examine` is called after each event,
/// and again after the time that it returned.
pub fn supervise(
    program: &[OsString],
    placing: Option<Placing>,
    relay: Option<Relay>,
    events: &mut EventReader<'_>,
    mut announce: impl FnMut(Vec<Event>),
    mut examine: impl FnMut(i32) -> PollTimeout,
) -> Result<(i32, End), Error> {
    // Every signal waits in the signalfd from now on, so none is lost while the program starts.
    let everything = SigSet::all();
    let mask = everything.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    // If SIGCHLD were ignored, the kernel would not keep the program's exit status.
    inherited::set_action(libc::SIGCHLD, libc::SIG_DFL);
    let signals =
        SignalFd::with_flags(&everything, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let asker = placing.as_ref().map(Placing::asker);
    let child = Child::start(program, mask, asker).map_err(Error::Start)?;
    if let Some(Err(problem)) = placing.map(Placing::outcome) {
        message::print(&problem);
    }
    let mut supervisor = Supervisor { child, signals, relay, resumed: false };
    loop {
        let timeout = examine(supervisor.child.pid());
        supervisor.wait(events, timeout)?;
        announce(events.read().unwrap_or_default());
        supervisor.pass_on_notifications();
        if let Some(end) = supervisor.handle_signals()? {
            // The last events of the program's threads arrived before its end did.
            announce(events.read().unwrap_or_default());
            supervisor.pass_on_notifications();
            return Ok((supervisor.child.pid(), end));
        }
    }
}

struct Supervisor {
    child: Child,
    signals: SignalFd,
    relay: Option<Relay>,
    /// tek was just continued, and the SIGCONT for that is still unread.
    resumed: bool,
}

impl Supervisor {
    /// Sleeps until a signal, an event or a notification arrives, or the time is over.
    fn wait(&self, events: &EventReader<'_>, timeout: PollTimeout) -> Result<(), Errno> {
        let mut watched = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if let Some(watch) = events.watch() {
            watched.push(PollFd::new(watch, PollFlags::POLLIN));
        }
        if let Some(relay) = &self.relay {
            watched.push(PollFd::new(relay.watch(), PollFlags::POLLIN));
        }
        match poll(&mut watched, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn pass_on_notifications(&self) {
        self.relay.as_ref().inspect(|relay| relay.pass_on(self.child.pid()));
    }

    fn handle_signals(&mut self) -> Result<Option<End>, Errno> {
        while let Some(info) = self.signals.read_signal()? {
            self.forward(&info);
            if info.ssi_signo as i32 != libc::SIGCHLD {
                continue;
            }
            while let Some(change) = self.child.next_change() {
                match change {
                    Change::Ended(end) => return Ok(Some(end)),
                    Change::Stopped => self.stop_too(),
                    Change::Continued => {}
                }
            }
        }
        Ok(None)
    }

    fn forward(&mut self, info: &libc::signalfd_siginfo) {
        let signal = info.ssi_signo as i32;
        if signal == libc::SIGCONT && std::mem::take(&mut self.resumed) {
            return;
        }
        let origin = forward::origin(info, self.child.pid());
        let leads_session = nix::unistd::getsid(None) == Ok(nix::unistd::getpid());
        if !forward::is_for_the_program(signal, origin, leads_session) {
            return;
        }
        match (origin, info.ssi_code) {
            (Origin::Outside, libc::SI_QUEUE) => {
                self.child.signal_with(signal, info.ssi_ptr as usize);
            }
            _ => self.child.signal(signal),
        }
    }

    /// Stops tek as the program is stopped, so that the shell sees it. Continuing tek then
    /// continues the program.
    fn stop_too(&mut self) {
        // SAFETY: raise takes any number. It returns when tek has been continued.
        unsafe { libc::raise(libc::SIGSTOP) };
        self.resumed = true;
        // A shell continues the whole group; a second SIGCONT would run the program's handler
        // twice.
        if forward::is_stopped(self.child.pid()) {
            self.child.signal(libc::SIGCONT);
        }
    }
}
