// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes of the guest: process 1 is the parent of all that lost theirs.
use super::error::{Doing, Error};
use super::state;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{kill, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long processes may take to end after SIGKILL.
const DIE_WITHIN: Duration = Duration::from_secs(3);

/// Reports the ends of processes.
pub(super) struct Children {
    ends: SignalFd,
}

/// The result of [`Children::reap`].
#[derive(Default)]
pub(super) struct Reaped {
    /// How the process of interest ended, if it did.
    pub(super) leader: Option<WaitStatus>,
    /// No process is left.
    pub(super) alone: bool,
}

impl Children {
    /// Blocks SIGCHLD, so that a poll can wait for it.
    pub(super) fn watch() -> Result<Self, Error> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block().doing("block a signal")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let ends = SignalFd::with_flags(&mask, flags).doing("watch for processes that end")?;
        Ok(Self { ends })
    }

    /// Reaps all processes that have ended, and returns how the leader did.
    pub(super) fn reap(&self, leader: Option<Pid>) -> Reaped {
        while let Ok(Some(_)) = self.ends.read_signal() {}
        let mut reaped = Reaped::default();
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return reaped,
                Ok(status) if status.pid() == leader => reaped.leader = Some(status),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => {
                    reaped.alone = true;
                    return reaped;
                }
            }
        }
    }

    /// Kills all processes, and waits until they are gone. Returns how the leader ended, if it only
    /// ended now. False: some live on.
    pub(super) fn kill_all(&self, leader: Option<Pid>) -> (Option<WaitStatus>, bool) {
        let start = Instant::now();
        let mut ended = None;
        loop {
            state::thaw();
            // All but this one, process 1, and the kernel's threads. ESRCH: there are none.
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
            let reaped = self.reap(leader);
            ended = ended.or(reaped.leader);
            if reaped.alone || start.elapsed() > DIE_WITHIN {
                return (ended, reaped.alone);
            }
            let _ =
                poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], PollTimeout::from(20u8));
        }
    }
}

impl AsFd for Children {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ends.as_fd()
    }
}
