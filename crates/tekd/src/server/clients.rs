// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients: accepted, served, and ended.
use super::{Server, LISTENER, PROCESS};
use crate::connection::{Connection, Packet};
use crate::log;
use crate::peer::{Accounts, Peer};
use crate::region::Refused;
use crate::sys;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::resource::{getrlimit, Resource};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use tek_abi::{Reply, Request, ASK_EXPLAIN, ASK_STATUS, TELL_REFUSED};
use tek_effect::Identity;

/// The most connections of all users, and of one user.
const MOST_CONNECTIONS: usize = 512;
const MOST_OF_A_USER: usize = 64;
/// Descriptors that are reserved for the replies to clients.
const SPARE_DESCRIPTORS: libc::rlim_t = 4;
/// The pause after a failure for lack of memory.
const PAUSE_NS: u64 = 10_000_000;
/// Full accounts of processes that are not connected are removed when there are more.
pub(super) const MANY_ACCOUNTS: usize = 256;

impl Server {
    /// Accepts a client, unless new connections have used too much time lately.
    pub(super) fn let_in(&mut self) {
        let before = sys::cpu_ns();
        self.accept_one();
        let now = sys::monotonic_ns();
        self.load.door.charge(sys::cpu_ns().saturating_sub(before), now);
        if let Some(until) = self.load.door.exhausted_until(now) {
            if self.epoll.delete(self.listener.fd()).is_ok() {
                self.door_at_ns = Some(until);
            }
        }
    }

    /// Accepts new clients again, if that is due.
    pub(super) fn open_door(&mut self, now_ns: u64) {
        if self.door_at_ns.is_some_and(|at| at <= now_ns) {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, LISTENER);
            let added = self.epoll.add(self.listener.fd(), event);
            // Without memory for it, tries again later.
            self.door_at_ns = added.is_err().then_some(now_ns + PAUSE_NS);
        }
    }

    fn accept_one(&mut self) {
        let Some(socket) = self.listener.accept() else { return };
        let Some(mut connection) = Connection::new(socket) else { return };
        connection.user = self.user_of(connection.uid());
        if self.load.is_exhausted(connection.user, sys::monotonic_ns()) {
            return; // without a reply, which would cost more time
        }
        if let Err(refused) = self.admit(connection) {
            // A client without rights must not fill the log.
            self.sent_away.announce(|| format!("a client was sent away: {}", refused.why));
        }
    }

    /// Admits a connection. Its process is checked at its first request, on its user's account.
    fn admit(&mut self, connection: Connection) -> Result<(), Refused> {
        let user = connection.user;
        let of_user = self.connections_of.get(&user).copied().unwrap_or(0);
        let result = if of_user >= MOST_OF_A_USER {
            Err(Refused::new(libc::EAGAIN, format!("user {user} has too many connections")))
        } else if self.connections.len() >= MOST_CONNECTIONS && !self.make_room(of_user) {
            Err(Refused::new(libc::EAGAIN, "tekd has too many connections"))
        } else if !has_spare_descriptors(&connection) {
            Err(Refused::new(libc::EAGAIN, "tekd has no descriptors for another client"))
        } else {
            Ok(())
        };
        if let Err(refused) = &result {
            let reply = Reply::to(&Request::new(TELL_REFUSED, 0));
            let _ = connection.send(&reply.refused(refused.errno, &refused.why), None);
            return result;
        }
        let id = self.next_connection;
        if self.epoll.add(connection.fd(), once(id)).is_err() {
            return Err(Refused::new(libc::ENOMEM, "no memory for another client"));
        }
        self.next_connection += 1;
        self.connections.insert(id, connection);
        *self.connections_of.entry(user).or_default() += 1;
        Ok(())
    }

    /// A connection has a message to be read, or its other end is closed.
    pub(super) fn arrived(&mut self, id: u64, flags: EpollFlags) {
        let Some(user) = self.connections.get(&id).map(|connection| connection.user) else {
            return;
        };
        if flags.contains(EpollFlags::EPOLLHUP) && !self.load.comes_first(user) {
            // The client cannot read a reply any more, and its slot is needed.
            let before = sys::cpu_ns();
            self.close(id);
            let spent_ns = sys::cpu_ns().saturating_sub(before);
            return self.load.door.charge(spent_ns, sys::monotonic_ns());
        }
        self.load.arrived(user, id);
    }

    /// Removes a connection.
    fn drop_connection(&mut self, id: u64) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        if let Some(count) = self.connections_of.get_mut(&connection.user) {
            *count -= 1;
            if *count == 0 {
                self.connections_of.remove(&connection.user);
            }
        }
        Some(connection)
    }

    /// Makes the process of a connection a peer.
    fn introduce(&mut self, id: u64) -> Result<(), Refused> {
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        let pid = connection.pid();
        if self.peers.get(&pid).is_some_and(|peer| peer.connections.contains(&id)) {
            return Ok(());
        }
        let (fd, credentials) = (connection.fd(), (connection.uid(), connection.gid()));
        let pidfd = sys::peer_pidfd(fd, pid).map_err(|_| ended())?;
        self.know_peer(pid, pidfd, credentials)?;
        if let Some(peer) = self.peers.get_mut(&pid) {
            peer.connections.push(id);
        }
        Ok(())
    }

    /// Makes the process of a new connection a peer, if it is none.
    fn know_peer(
        &mut self,
        pid: i32,
        pidfd: OwnedFd,
        credentials: (u32, u32),
    ) -> Result<(), Refused> {
        let process = Identity::of_process(pid)?;
        // If the process that connected is still there, this was its start. Else the id may be that
        // of a later process.
        if sys::has_ended(pidfd.as_fd()) {
            return Err(ended());
        }
        match self.peers.get(&pid) {
            Some(peer) if peer.process == process => return Ok(()),
            Some(peer) => self.ending.push((peer.process, "it ended")),
            None => {}
        }
        self.end_those_that_are_to();
        let number = PROCESS | u64::try_from(pid).unwrap_or(0);
        let event = EpollEvent::new(EpollFlags::EPOLLIN, number);
        self.epoll.add(&pidfd, event).map_err(|_| ended())?;
        let now = sys::monotonic_ns();
        let accounts = self.spent_accounts(process, credentials.0, now);
        self.peers.insert(pid, Peer::new(process, pidfd, now, credentials, accounts));
        Ok(())
    }

    /// Reads one message of a connection, and replies to it.
    pub(super) fn serve(&mut self, id: u64) {
        let Some(user) = self.connections.get(&id).map(|connection| connection.user) else {
            return;
        };
        self.work_for(user, |server| {
            server.serve_one(id);
            let Some(connection) = server.connections.get(&id) else { return };
            // Only then the next message arrives (EPOLLONESHOT).
            if server.epoll.modify(connection.fd(), &mut once(id)).is_err() {
                server.close(id);
            }
        });
    }

    fn serve_one(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else { return };
        let pid = connection.pid();
        match connection.receive() {
            Packet::Nothing => {}
            Packet::End => self.close(id),
            Packet::Bad(why) => {
                let reply = Reply::to(&Request::new(TELL_REFUSED, 0)).refused(libc::EPROTO, &why);
                self.send(id, &reply, None);
                self.close(id);
            }
            Packet::Request(request) => {
                if let Err(refused) = self.introduce(id) {
                    let reply = Reply::to(&request).refused(refused.errno, &refused.why);
                    self.send(id, &reply, None);
                    return self.close(id);
                }
                let Some(connection) = self.connections.get(&id) else { return };
                let (user, is_behind) = (connection.user, connection.is_behind());
                let wants_file = [ASK_STATUS, ASK_EXPLAIN].contains(&request.kind);
                if wants_file && is_behind {
                    let why = "read what was answered before";
                    let reply = Reply::to(&request).refused(libc::EBUSY, why);
                    return self.send(id, &reply, None);
                }
                let (reply, file) = (self.answer)(self, pid, &request);
                if file.is_some() {
                    self.note_file_of(user);
                }
                self.send(id, &reply, file.as_ref());
            }
        }
    }

    pub(super) fn close(&mut self, id: u64) {
        let Some(connection) = self.drop_connection(id) else { return };
        let pid = connection.pid();
        let Some(peer) = self.peers.get_mut(&pid) else { return };
        let there = peer.connections.len();
        peer.connections.retain(|other| *other != id);
        if there == 0 || !peer.connections.is_empty() {
            return;
        }
        let process = peer.process;
        // Other connections of the process may have had no request yet.
        let of_process = self.connections.iter().filter(|(_, other)| other.pid() == pid);
        let ids: Vec<u64> = of_process.map(|(id, _)| *id).collect();
        let is_connected = ids.into_iter().filter(|id| self.introduce(*id).is_ok()).count() > 0;
        if !is_connected {
            self.end_process(process, false);
        }
    }

    pub(super) fn process_ended(&mut self, number: u64) {
        let pid = i32::try_from(number & !PROCESS).unwrap_or(0);
        if let Some(peer) = self.peers.get(&pid).filter(|peer| peer.has_ended()) {
            let (process, uid) = (peer.process, peer.connected_uid());
            self.work_for(self.user_of(uid), |server| server.end_process(process, true));
        }
    }

    /// Takes back all that a process was given, and closes its connections.
    pub(super) fn end_process(&mut self, process: Identity, also_by_hand: bool) {
        let is_this = |peer: &&Peer| peer.process == process;
        let peer = self.peers.get(&process.tid).filter(is_this);
        let limit = peer.and_then(|peer| Some((peer.limit?, peer.connected_uid())));
        if let Some((limit, uid)) = limit {
            self.read_births_of(limit, uid);
        }
        // With the raised limit a thread may have set a policy itself. A later request must not
        // restore that policy.
        self.region.leave_process(&mut self.backends, process, also_by_hand || limit.is_some());
        // A later process may have its id.
        if self.peers.get(&process.tid).is_none_or(|peer| peer.process != process) {
            return;
        }
        let Some(peer) = self.peers.remove(&process.tid) else { return };
        if let Some(Err(error)) = peer.limit.map(|change| self.backends.effect.give_back(change)) {
            log::warning(&error.to_string());
        }
        if peer.has_ended() || !self.region.lineage.has(process.tid) {
            self.siblings.leave(process.tid);
        }
        if peer.limit.is_some() {
            self.watch_births(false);
        }
        self.keep_accounts(&peer);
        for id in peer.connections {
            self.drop_connection(id);
        }
    }

    /// A process that connects again gets its earlier accounts. Another process takes over the
    /// worst accounts of its user: else a new process would get full ones.
    fn spent_accounts(&mut self, process: Identity, uid: u32, now_ns: u64) -> Accounts {
        let of_user = self.spent.iter().filter(|(_, (its, _))| *its == uid);
        let worst = of_user.max_by_key(|(_, (_, accounts))| accounts.missing_ns(now_ns));
        let source = match self.spent.contains_key(&process) {
            true => Some(process),
            false => worst.map(|(process, _)| *process),
        };
        let spent = source.and_then(|source| self.spent.remove(&source));
        spent.map(|(_, accounts)| accounts).unwrap_or_default()
    }

    fn keep_accounts(&mut self, peer: &Peer) {
        let now = sys::monotonic_ns();
        let accounts = peer.accounts();
        if accounts.are_full(now) {
            return;
        }
        if self.spent.len() >= self.spent_most {
            self.spent.retain(|_, (_, accounts)| !accounts.are_full(now));
            self.spent_most = MANY_ACCOUNTS.max(2 * self.spent.len());
        }
        self.spent.insert(peer.process, (peer.connected_uid(), accounts));
    }

    pub(super) fn end_those_that_are_to(&mut self) {
        for (process, why) in std::mem::take(&mut self.ending) {
            let has_limit = self.peers.get(&process.tid).is_some_and(|peer| peer.limit.is_some());
            if has_limit || self.region.members().any(|member| member.target.process == process) {
                log::info(&format!("process {} loses what it was given: {why}", process.tid));
            }
            self.end_process(process, true);
        }
    }
}

/// Whether descriptors are left for replies. The kernel assigns the lowest free number.
fn has_spare_descriptors(last: &Connection) -> bool {
    let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    let number = libc::rlim_t::try_from(last.fd().as_raw_fd()).unwrap_or(0);
    number + SPARE_DESCRIPTORS < most
}

fn ended() -> Refused {
    Refused::new(libc::ESRCH, "the process has ended")
}

/// Reports once that a connection has a message to be read.
fn once(id: u64) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT, id)
}
