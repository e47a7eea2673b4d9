// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's events: a process executes another program, changes its user, or has a child.
//!
//! They come from the proc connector (linux/cn_proc.h), which needs CAP_NET_ADMIN. tekd listens
//! only while they matter, and the kernel filters them. Births have a socket of their own, so that
//! a request waits for none of them. Without the connector, polls and each request compare the
//! program instead.
use crate::sys::{self, Wanted};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An acknowledgement of a message to the connector, by any process.
const ANSWER: u32 = 0;
const FORK: u32 = 1;
const EXEC: u32 = 2;
const UID: u32 = 4;
const GID: u32 = 0x40;
const LISTEN: u32 = 1;
const IGNORE: u32 = 2;

/// Offsets in a message. Behind the headers of netlink and of the connector, which has a number, an
/// event has its kind, CPU and time. Then follow the ids of a process, or the error of an
/// acknowledgement.
const NUMBER_AT: usize = 28;
const ERROR_AT: usize = 52;
const KIND_AT: usize = 36;
const TIME_AT: usize = 44;
const PROCESS_AT: usize = 56;
/// Of a birth: the parent, the child, and the process that the child is of.
const PARENT_AT: usize = 52;
const CHILD_AT: usize = 60;
const CHILDS_PROCESS_AT: usize = 64;

/// Room for some thousand events.
const BUFFER_BYTES: usize = 4 << 20;

/// Executed programs of all processes, until the processes that matter are known.
const ALL_CHANGES: Wanted = Wanted { always: &[ANSWER, EXEC], some: &[], processes: &[] };
const BIRTHS: Wanted = Wanted { always: &[ANSWER, FORK], some: &[], processes: &[] };

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The process executed a program at this time of [`sys::monotonic_ns`].
    Executed(i32, u64),
    /// It has other users or groups.
    Became(i32),
    /// A thread or a process was born.
    Born(Birth),
    /// Some events were lost.
    Lost,
}

/// The birth of a thread or a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The thread that made a process; of a thread, and of a sibling (CLONE_PARENT), a thread of
    /// the parent of the process that made it.
    pub parent_thread: i32,
    pub parent: i32,
    pub thread: i32,
    /// Itself, unless it is a new thread of a process.
    pub process: i32,
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
}

/// The socket for the kernel's events.
pub struct ExecWatch {
    socket: OwnedFd,
    listening: bool,
    /// Events that came before an acknowledgement.
    early: VecDeque<News>,
}

impl ExecWatch {
    /// Opens the socket for changes; it does not listen yet.
    pub fn of_changes() -> io::Result<Self> {
        Self::open(ALL_CHANGES)
    }

    /// Opens the socket for births; it does not listen yet.
    pub fn of_births() -> io::Result<Self> {
        Self::open(BIRTHS)
    }

    fn open(wanted: Wanted) -> io::Result<Self> {
        let socket = sys::process_events(wanted)?;
        // If that is refused, events are lost sooner.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES);
        Ok(Self { socket, listening: false, early: VecDeque::new() })
    }

    /// Changes of these processes arrive from now on, and the executed programs of all processes if
    /// `all` is true. If the kernel's filter has no room for them, changes of all processes arrive.
    pub fn watch_changes_of(&mut self, processes: &[i32], all: bool) -> io::Result<()> {
        let changes = [EXEC, UID, GID];
        let always: &[u32] = if all { &[ANSWER, EXEC] } else { &[ANSWER] };
        let some = Wanted { always, some: &changes, processes };
        let any = Wanted { always: &[ANSWER, EXEC, UID, GID], some: &[], processes: &[] };
        let fd = self.socket.as_fd();
        sys::want_events(fd, some).or_else(|_| sys::want_events(fd, any))
    }

    /// The descriptor for epoll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether it listens.
    pub fn listens(&self) -> bool {
        self.listening
    }

    /// Starts or stops listening.
    pub fn listen(&mut self, listen: bool) -> io::Result<()> {
        if self.listening == listen {
            return Ok(());
        }
        self.early.clear();
        let number = sys::monotonic_ns() as u32;
        nix::unistd::write(&self.socket, &order(if listen { LISTEN } else { IGNORE }, number))?;
        if listen {
            self.receive_answer(number)?;
        }
        self.listening = listen;
        Ok(())
    }

    /// Waits for an acknowledgement, which the kernel sends at once. In another pid or user
    /// namespace the socket opens, but the kernel sends neither an acknowledgement nor events.
    fn receive_answer(&mut self, number: u32) -> io::Result<()> {
        let mut buffer = [0; 1024];
        loop {
            match sys::receive_from_kernel(self.socket.as_fd(), &mut buffer) {
                Ok(length) => {
                    let message = &buffer[..length];
                    match answer(message, number) {
                        Some(0) => return Ok(()),
                        Some(error) => return Err(io::Error::from_raw_os_error(error)),
                        None => self.early.extend(parse(message)),
                    }
                }
                // The acknowledgement may be among the lost messages.
                Err(Errno::ENOBUFS) => {
                    self.early.push_back(News::Lost);
                    return Ok(());
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Err(Errno::EPERM.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next event; `None`: no more for now.
    pub fn next(&mut self) -> Option<News> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        let mut buffer = [0; 1024];
        loop {
            return match sys::receive_from_kernel(self.socket.as_fd(), &mut buffer) {
                Ok(length) => match parse(&buffer[..length]) {
                    Some(news) => Some(news),
                    None => continue,
                },
                Err(Errno::ENOBUFS) => Some(News::Lost),
                Err(Errno::EINTR) => continue,
                Err(_) => None,
            };
        }
    }
}

/// The message that starts or stops the connector; its acknowledgement has the next number.
fn order(operation: u32, number: u32) -> Vec<u8> {
    const DONE: u16 = 3;
    let mut message = Vec::with_capacity(40);
    message.extend(40u32.to_ne_bytes());
    message.extend(DONE.to_ne_bytes());
    message.extend([0; 2]); // flags
    message.extend([0; 4]); // sequence
    message.extend(std::process::id().to_ne_bytes());
    // The connector: index and value of the proc connector, sequence, acknowledgement, length.
    message.extend([1, 1, 0, number].into_iter().flat_map(u32::to_ne_bytes));
    message.extend(4u16.to_ne_bytes());
    message.extend([0; 2]);
    message.extend(operation.to_ne_bytes());
    message
}

fn word_in(message: &[u8], at: usize) -> Option<u32> {
    let bytes = message.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// The error in the acknowledgement of the message with this number; 0 is none.
fn answer(message: &[u8], number: u32) -> Option<i32> {
    let reported = (word_in(message, KIND_AT)?, word_in(message, NUMBER_AT)?);
    let is_answer = reported == (ANSWER, number.wrapping_add(1));
    is_answer.then(|| word_in(message, ERROR_AT)).flatten().map(|error| error as i32)
}

fn parse(message: &[u8]) -> Option<News> {
    let word = |at: usize| word_in(message, at);
    let time = u64::from_ne_bytes(message.get(TIME_AT..TIME_AT + 8)?.try_into().ok()?);
    // Thread first, then its process.
    let process = i32::try_from(word(PROCESS_AT)?).ok()?;
    match word(KIND_AT)? {
        FORK => Some(News::Born(Birth {
            parent_thread: i32::try_from(word(PARENT_AT)?).ok()?,
            parent: process,
            thread: i32::try_from(word(CHILD_AT)?).ok()?,
            process: i32::try_from(word(CHILDS_PROCESS_AT)?).ok()?,
            at_ns: time,
        })),
        EXEC => Some(News::Executed(process, time)),
        UID | GID => Some(News::Became(process)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_no_news_is_passed_over() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[0; 59]), None);
        assert_eq!(parse(&[0; 76]), None);
        assert_eq!(parse(&[0xff; 76]), None);
    }

    #[test]
    fn only_the_answer_to_its_own_order_counts() {
        let message = |kind: u32, number: u32, error: u32| {
            let mut message = vec![0; 76];
            for (at, word) in [(KIND_AT, kind), (NUMBER_AT, number), (ERROR_AT, error)] {
                message[at..at + 4].copy_from_slice(&word.to_ne_bytes());
            }
            message
        };
        assert_eq!(answer(&message(ANSWER, 8, 0), 7), Some(0));
        assert_eq!(answer(&message(ANSWER, 8, libc::EPERM as u32), 7), Some(libc::EPERM));
        assert_eq!(answer(&message(ANSWER, 7, 0), 7), None);
        assert_eq!(answer(&message(EXEC, 8, 0), 7), None);
        assert_eq!(answer(&[0; 40], 0), None);
        assert_eq!(parse(&message(ANSWER, 7, 0)), None);
    }

    #[test]
    fn a_birth_is_news_with_its_parent() {
        let words = [FORK, 0, 5, 0, 7, 8, 10, 9];
        let mut message = vec![0; KIND_AT];
        message.extend(words.into_iter().flat_map(u32::to_ne_bytes));
        let birth = Birth { parent_thread: 7, parent: 8, thread: 10, process: 9, at_ns: 5 };
        assert_eq!(parse(&message), Some(News::Born(birth)));
    }

    #[test]
    #[ignore = "needs root, and the first network namespace"]
    fn a_process_that_executes_a_program_is_noticed() {
        let mut watch = ExecWatch::of_changes().unwrap();
        watch.listen(true).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        // Events of other processes may crowd out this one: then another process is started.
        while !is_received(&mut watch, end) {
            assert!(Instant::now() < end, "nothing was heard");
        }
        watch.listen(false).unwrap();
    }

    #[test]
    #[ignore = "needs root, and the first network namespace"]
    fn what_other_processes_execute_does_not_arrive() {
        let mut watch = ExecWatch::of_changes().unwrap();
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", "read x; exec true"]).stdin(std::process::Stdio::piped());
        let mut wanted = shell.spawn().unwrap();
        let pid = i32::try_from(wanted.id()).unwrap();
        watch.watch_changes_of(&[1_000_000_000, pid], false).unwrap();
        watch.listen(true).unwrap();
        // If another program listens, earlier events arrive.
        while watch.next().is_some() {}
        assert!(Command::new("true").status().unwrap().success());
        drop(wanted.stdin.take());
        wanted.wait().unwrap();
        let received: Vec<News> = std::iter::from_fn(|| watch.next()).collect();
        // The event of the shell itself may come late.
        let is_its = |news: &News| matches!(news, News::Executed(its, _) if *its == pid);
        assert!(!received.is_empty() && received.iter().all(is_its), "{received:?}");
        watch.watch_changes_of(&[], true).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while !is_received(&mut watch, end) {
            assert!(Instant::now() < end, "nothing was heard");
        }
    }

    /// Executes a program; whether its event arrives before events are lost and before `end`.
    fn is_received(watch: &mut ExecWatch, end: Instant) -> bool {
        let before = sys::monotonic_ns();
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        let after = sys::monotonic_ns();
        loop {
            match watch.next() {
                Some(News::Executed(its, at)) if its == pid => {
                    assert!((before..=after).contains(&at), "{at} is not in {before}..={after}");
                    return true;
                }
                Some(News::Lost) => return false,
                Some(_) => continue,
                None => {}
            }
            let left = end.saturating_duration_since(Instant::now());
            let Ok(patience) = PollTimeout::try_from(left) else { return false };
            if poll(&mut [PollFd::new(watch.fd(), PollFlags::POLLIN)], patience).unwrap() == 0 {
                return false;
            }
        }
    }
}
