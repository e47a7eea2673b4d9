// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes a running job's output to the host, until the job ends or the host ends it.
use super::children::Children;
use super::error::{Doing, Error};
use super::port::Port;
use super::spawn::Started;
use crate::protocol::{Frame, How, MOST_BYTES};
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::wait::WaitStatus;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long output of a job is gathered before it is sent.
const GATHER: Duration = Duration::from_millis(5);

/// One of the pipes that a job writes to.
struct Stream {
    pipe: Option<File>,
    frame: fn(Vec<u8>) -> Frame,
}

/// Relays until the job's first process has ended or the host requests the end, then kills all
/// processes and reports how the first one ended. False: a process is left.
pub(super) fn run(port: &mut Port, children: &Children, job: Started) -> Result<bool, Error> {
    let mut streams = [
        Stream { pipe: Some(job.output), frame: Frame::Output },
        Stream { pipe: Some(job.error), frame: Frame::Error },
    ];
    let mut ended = None;
    let mut gathered_at = Instant::now();
    while ended.is_none() {
        // Output is gathered: to wake for each small piece would disturb the job.
        let gather = GATHER.saturating_sub(gathered_at.elapsed());
        wait(port, children, &streams, gather)?;
        match port.run_once()? {
            Some(Frame::End) => break,
            Some(other) => return Err(Error::Unexpected(other)),
            None => {}
        }
        if gathered_at.elapsed() >= GATHER {
            for stream in &mut streams {
                while !port.is_full() && stream.relay(port) {
                    gathered_at = Instant::now();
                }
            }
        }
        ended = children.reap(Some(job.leader)).leader;
    }
    let (killed, alone) = children.kill_all(Some(job.leader));
    // Before operations that may take long, whose time must not count as the job's.
    port.send(&Frame::Over(match ended.or(killed) {
        Some(WaitStatus::Exited(_, status)) => How::Exited(status as u8),
        Some(WaitStatus::Signaled(_, signal, _)) => How::Killed(signal as i32),
        _ => How::Killed(libc::SIGKILL),
    }));
    // All writers of the pipes are gone, so this ends.
    for stream in &mut streams {
        while stream.pipe.is_some() && stream.relay(port) {
            port.make_room()?;
        }
    }
    Ok(alone)
}

/// Waits until there is something to do. The job's pipes are polled only after a while.
fn wait(
    port: &Port,
    children: &Children,
    streams: &[Stream],
    mut after: Duration,
) -> Result<(), Error> {
    loop {
        let mut wanted = vec![
            PollFd::new(port.as_fd(), port.events()),
            PollFd::new(children.as_fd(), PollFlags::POLLIN),
        ];
        if after.is_zero() && !port.is_full() {
            let pipes = streams.iter().filter_map(|stream| stream.pipe.as_ref());
            wanted.extend(pipes.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        }
        let timeout = match after.is_zero() {
            true => PollTimeout::NONE,
            false => PollTimeout::from(after.as_millis().max(1) as u16),
        };
        match poll(&mut wanted, timeout) {
            Ok(0) => after = Duration::ZERO,
            Ok(_) | Err(Errno::EINTR) => return Ok(()),
            Err(error) => return Err(error).doing("wait for the job"),
        }
    }
}

impl Stream {
    /// Sends a piece of the pipe's data; false at its end, or if there is none now.
    fn relay(&mut self, port: &mut Port) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut bytes = vec![0; MOST_BYTES];
        match pipe.read(&mut bytes) {
            Ok(0) => {
                self.pipe = None;
                false
            }
            Ok(count) => {
                bytes.truncate(count);
                port.send(&(self.frame)(bytes));
                true
            }
            Err(error) => error.kind() == ErrorKind::Interrupted,
        }
    }
}
