// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of `tek top`: keys, signals, the time.
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::crossterm::event::{self, KeyEvent, KeyEventKind};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// An event.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The time came.
    Time,
    /// Keys were pressed; perhaps no useful one.
    Keys(Vec<KeyEvent>),
    /// It shall end.
    End,
    /// It shall stop.
    Stop,
    /// It was stopped, and goes on.
    Continued,
    /// The terminal has another size.
    Resized,
}

/// Waits for them.
pub struct Events {
    signals: SignalFd,
}

impl Events {
    /// From now on these signals have no other effect. Threads made later have them blocked too.
    pub fn new() -> anyhow::Result<Self> {
        use Signal::*;
        let mut set = SigSet::empty();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH] {
            set.add(signal);
        }
        set.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self { signals: SignalFd::with_flags(&set, flags)? })
    }

    /// The next event; without `until` the time never comes.
    pub fn wait(&mut self, until: Option<Instant>) -> anyhow::Result<Event> {
        loop {
            let stdin = io::stdin();
            let mut ready = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut ready, timeout(until, Instant::now())) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let typed = ready[1].revents().unwrap_or(PollFlags::empty());
            if let Some(event) = self.signals.read_signal()?.and_then(|got| meaning(got.ssi_signo))
            {
                return Ok(event);
            }
            if typed.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
                return Ok(Event::End);
            }
            if typed.contains(PollFlags::POLLIN) {
                return Ok(Event::Keys(keys()?));
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Event::Time);
            }
        }
    }
}

fn timeout(until: Option<Instant>, now: Instant) -> PollTimeout {
    let Some(until) = until else { return PollTimeout::NONE };
    // Rounded up, so as not to wake too early and poll once more for the rest.
    let left_ms = until.saturating_duration_since(now).as_micros().div_ceil(1000);
    PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)
}

fn meaning(signal: u32) -> Option<Event> {
    match i32::try_from(signal).ok().and_then(|number| Signal::try_from(number).ok())? {
        Signal::SIGTSTP => Some(Event::Stop),
        Signal::SIGCONT => Some(Event::Continued),
        Signal::SIGWINCH => Some(Event::Resized),
        _ => Some(Event::End),
    }
}

/// The keys that were pressed.
fn keys() -> io::Result<Vec<KeyEvent>> {
    let mut keys = Vec::new();
    let (mut events, before) = (0, Instant::now());
    // Limits the time, so that a long paste does not stop the screen.
    while before.elapsed() < Duration::from_millis(100) && event::poll(Duration::ZERO)? {
        events += 1;
        match event::read()? {
            event::Event::Key(key) if key.kind != KeyEventKind::Release => keys.push(key),
            _ => {}
        }
    }
    if events == 0 {
        drain()?;
    }
    Ok(keys)
}

/// crossterm polls again only when new input came: input that it left unread would be announced for
/// ever.
fn drain() -> io::Result<()> {
    let stdin = io::stdin();
    let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    if poll(&mut ready, PollTimeout::ZERO)? > 0 {
        let _ = stdin.lock().read(&mut [0; 4096])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_has_a_meaning() {
        let of = |signal: Signal| meaning(signal as u32);
        assert_eq!(of(Signal::SIGTERM), Some(Event::End));
        assert_eq!(of(Signal::SIGTSTP), Some(Event::Stop));
        assert_eq!(of(Signal::SIGCONT), Some(Event::Continued));
        assert_eq!(of(Signal::SIGWINCH), Some(Event::Resized));
    }

    #[test]
    fn the_wait_is_as_long_as_is_left() {
        let now = Instant::now();
        assert_eq!(timeout(None, now), PollTimeout::NONE);
        assert_eq!(timeout(Some(now), now), PollTimeout::ZERO);
        assert_eq!(timeout(Some(now), now + Duration::from_secs(1)), PollTimeout::ZERO);
        let in_a_second = Some(now + Duration::from_secs(1));
        assert_eq!(timeout(in_a_second, now).as_millis(), Some(1000));
        assert_eq!(timeout(in_a_second, now + Duration::from_micros(1)).as_millis(), Some(1000));
    }
}
