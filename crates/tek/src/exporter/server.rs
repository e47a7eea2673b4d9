// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves up to 64 clients in one thread that waits for none of them. When all places are taken, a
//! new client replaces the oldest one that has not sent its request, else the oldest. Another
//! thread queries the device, at most once at a time.
use super::client::Client;
use super::examine::Looker;
use super::host::Hosts;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clients at a time. A scraper has one connection; the rest is for clients that block the way.
const MOST_CLIENTS: usize = 64;

/// Clients that are accepted before the present ones are served.
const AT_ONCE: usize = 16;

/// If the kernel has no descriptor or memory for another client, none is accepted for so long.
const REST: Duration = Duration::from_millis(200);

/// The signals that end it; to be created before any thread.
pub struct Ends(SignalFd);

impl Ends {
    /// From now on SIGINT and SIGTERM have no other effect.
    pub fn new() -> nix::Result<Self> {
        let mut ends = SigSet::empty();
        ends.add(Signal::SIGINT);
        ends.add(Signal::SIGTERM);
        ends.thread_block()?;
        Ok(Self(SignalFd::with_flags(&ends, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }
}

/// Serves by these names until a signal ends it.
pub fn serve(
    listener: TcpListener,
    hosts: Hosts,
    ends: &Ends,
    looker: Looker,
) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let pages = Pages::by(looker)?;
    let mut server = Server { listener, hosts, clients: Vec::new(), pages, rests_until: None };
    while server.run_once(ends)? {}
    Ok(())
}

struct Server {
    listener: TcpListener,
    hosts: Hosts,
    /// The oldest first.
    clients: Vec<Client>,
    pages: Pages,
    rests_until: Option<Instant>,
}

impl Server {
    /// Waits for an event, and handles it. False at the end.
    fn run_once(&mut self, ends: &Ends) -> anyhow::Result<bool> {
        self.rests_until = self.rests_until.filter(|until| *until > Instant::now());
        let has_room =
            if self.rests_until.is_none() { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut ready = vec![
            PollFd::new(ends.0.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.pages.wake.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.as_fd(), has_room),
        ];
        ready.extend(self.clients.iter().map(|client| PollFd::new(client.fd(), client.wants())));
        let next = self.clients.iter().map(Client::until).chain(self.rests_until).min();
        match poll(&mut ready, timeout(next)) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        let what: Vec<_> =
            ready.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        drop(ready);
        if !what[0].is_empty() {
            return Ok(false);
        }
        for (client, what) in self.clients.iter_mut().zip(&what[3..]) {
            if !what.is_empty() {
                client.go_on(*what, &self.hosts);
            }
        }
        if !what[1].is_empty() {
            let page = self.pages.take()?;
            self.clients.iter_mut().for_each(|client| client.answer(&page));
        }
        if !what[2].is_empty() {
            self.let_in();
        }
        let now = Instant::now();
        self.clients.retain(|client| !client.has_ended() && client.until() > now);
        if self.clients.iter().any(Client::is_waiting) {
            self.pages.ask();
        }
        Ok(true)
    }

    fn let_in(&mut self) {
        for _ in 0..AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.make_room();
                    self.clients.extend(Client::new(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It hung up meanwhile.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.rests_until = Some(Instant::now() + REST);
                    return;
                }
            }
        }
    }

    /// Removes the oldest client that has not sent its request: an honest client sends it at once.
    fn make_room(&mut self) {
        if self.clients.len() >= MOST_CLIENTS {
            let idle = self.clients.iter().position(|client| !client.has_asked());
            self.clients.remove(idle.unwrap_or(0));
        }
    }
}

/// Rounded up, so as not to wake too early and poll once more for the rest.
fn timeout(until: Option<Instant>) -> PollTimeout {
    let Some(until) = until else { return PollTimeout::NONE };
    let left_ms = until.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
    PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)
}

/// The thread that queries the device.
struct Pages {
    ask: Sender<()>,
    reported: Receiver<Arc<str>>,
    /// Readable when a page is there.
    wake: UnixStream,
    is_asked: bool,
}

impl Pages {
    fn by(mut looker: Looker) -> io::Result<Self> {
        let ((ask, asked), (announce, reported)) = (channel(), channel());
        let (wake, mut waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        std::thread::Builder::new().name("look".into()).spawn(move || {
            while asked.recv().is_ok() {
                if announce.send(looker.page()).is_err() || waker.write_all(&[0]).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { ask, reported, wake, is_asked: false })
    }

    /// Asks for a page, unless one is being made: a client that connects meanwhile gets that one.
    fn ask(&mut self) {
        if !std::mem::replace(&mut self.is_asked, true) {
            // If the thread is gone, its end of the pair is closed, and the poll reports that.
            let _ = self.ask.send(());
        }
    }

    fn take(&mut self) -> anyhow::Result<Arc<str>> {
        let _ = self.wake.read(&mut [0; 8]);
        self.is_asked = false;
        self.reported.try_recv().map_err(|_| anyhow::anyhow!("the thread that looks has ended"))
    }
}
