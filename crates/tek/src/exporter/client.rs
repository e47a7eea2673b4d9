// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client: one request, one answer, and the end. The server never waits for one client.
use super::host::Hosts;
use super::request::{Answer, Request, MOST_BYTES};
use nix::poll::PollFlags;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So long may a request take, byte by byte,
const TO_ASK: Duration = Duration::from_secs(5);
/// and so long the whole exchange: a client that does not read its answer is disconnected.
const TO_END: Duration = Duration::from_secs(20);

/// At most so many bytes that come after a request are read and dropped. Unread bytes would make
/// the end of the connection discard an answer that is still on its way.
const MOST_IDLE_BYTES: usize = 64 << 10;

enum State {
    Asking(Vec<u8>),
    Waiting { is_head: bool },
    Answered { answer: Answer, sent: usize },
    Ending { left: usize },
    Ended,
}

/// A connection.
pub struct Client {
    stream: TcpStream,
    since: Instant,
    state: State,
}

impl Client {
    /// Takes it over.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, since: Instant::now(), state: State::Asking(Vec::new()) })
    }

    /// The connection.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The events for which it waits. Errors always count.
    pub fn wants(&self) -> PollFlags {
        match self.state {
            State::Asking(_) | State::Ending { .. } => PollFlags::POLLIN,
            State::Answered { .. } => PollFlags::POLLOUT,
            State::Waiting { .. } | State::Ended => PollFlags::empty(),
        }
    }

    /// When it is disconnected.
    pub fn until(&self) -> Instant {
        match self.state {
            State::Asking(_) => self.since + TO_ASK,
            _ => self.since + TO_END,
        }
    }

    /// Whether it waits for the metrics.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Whether its whole request has arrived.
    pub fn has_asked(&self) -> bool {
        matches!(self.state, State::Waiting { .. } | State::Answered { .. })
    }

    /// Whether nothing is left to do.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Sends it the page.
    pub fn answer(&mut self, page: &Arc<str>) {
        if let State::Waiting { is_head } = self.state {
            self.begin(Answer::metrics(page, is_head));
        }
    }

    /// After an event: does what can be done now, for an exporter of these names.
    pub fn go_on(&mut self, what: PollFlags, hosts: &Hosts) {
        let is_broken = what.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL)
            || self.wants().is_empty() && what.contains(PollFlags::POLLHUP);
        if is_broken {
            self.state = State::Ended;
            return;
        }
        match &mut self.state {
            State::Asking(_) => self.receive(hosts),
            State::Answered { .. } => self.send(),
            State::Ending { left } => match read(&self.stream, (*left).min(4096)) {
                Some(bytes) if bytes.is_empty() => self.state = State::Ended,
                Some(bytes) => *left -= bytes.len(),
                None => {}
            },
            State::Waiting { .. } | State::Ended => {}
        }
    }

    fn receive(&mut self, hosts: &Hosts) {
        let State::Asking(received) = &mut self.state else { return };
        match read(&self.stream, MOST_BYTES - received.len()) {
            Some(bytes) if bytes.is_empty() => self.state = State::Ended,
            Some(bytes) => {
                received.extend(bytes);
                match Request::read(received, hosts) {
                    Request::Unfinished => {}
                    Request::Metrics { is_head } => self.state = State::Waiting { is_head },
                    Request::Other(refusal) => self.begin(Answer::refusal(refusal)),
                }
            }
            None => {}
        }
    }

    fn begin(&mut self, answer: Answer) {
        self.state = State::Answered { answer, sent: 0 };
        self.send();
    }

    fn send(&mut self) {
        let State::Answered { answer, sent } = &mut self.state else { return };
        loop {
            let left = answer.after(*sent);
            if left.is_empty() {
                let _ = self.stream.shutdown(Shutdown::Write);
                self.state = State::Ending { left: MOST_IDLE_BYTES };
                return;
            }
            match (&self.stream).write(left) {
                Ok(count) => *sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.state = State::Ended;
                    return;
                }
            }
        }
    }
}

/// The bytes that have come, at most so many; empty at its end or on an error, `None` if none came.
fn read(mut stream: &TcpStream, most: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; most];
    match stream.read(&mut bytes) {
        Ok(count) => {
            bytes.truncate(count);
            Some(bytes)
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            None
        }
        Err(_) => Some(Vec::new()),
    }
}
