// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients: let in, served, and ended.
use super::{Server, PROCESS};
use crate::connection::{Connection, Packet};
use crate::log;
use crate::peer::{Accounts, Peer};
use crate::region::Refused;
use crate::requests;
use crate::sys;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use std::os::fd::AsFd;
use tek_abi::{Reply, Request, ASK_EXPLAIN, ASK_STATUS, TELL_REFUSED};
use tek_effect::Identity;

/// Connections of all users, and of one.
const MOST_CONNECTIONS: usize = 512;
const MOST_OF_A_USER: usize = 64;
/// So many clients are let in before others are served.
const CLIENTS_AT_ONCE: usize = 16;
/// Accounts of processes that are not connected are looked through when there are more.
pub(super) const MANY_ACCOUNTS: usize = 256;

impl Server {
    pub(super) fn let_in(&mut self) {
        for _ in 0..CLIENTS_AT_ONCE {
            if !self.may_accept() {
                return;
            }
            let Some(socket) = self.listener.accept() else { return };
            let Some(connection) = Connection::new(socket) else { continue };
            let uid = connection.uid();
            if self.is_tired_of(uid) {
                continue; // without a word, which would be more to do
            }
            let admitted = self.work_for(uid, |server| server.admit(connection));
            if let Err(refused) = admitted {
                // Who has no rights must not fill the log.
                self.sent_away.tell(|| format!("a client was sent away: {}", refused.why));
            }
        }
    }

    pub(super) fn admit(&mut self, connection: Connection) -> Result<(), Refused> {
        let (pid, uid) = (connection.pid(), connection.uid());
        let of_user = self.connections.values().filter(|other| other.uid() == uid).count();
        let mut reply = Reply::to(&Request::new(TELL_REFUSED, 0));
        let result = if of_user >= MOST_OF_A_USER {
            Err(Refused::new(libc::EAGAIN, format!("user {uid} has too many connections")))
        } else if self.connections.len() >= MOST_CONNECTIONS && !self.make_room(of_user) {
            Err(Refused::new(libc::EAGAIN, "tekd has too many connections"))
        } else {
            self.know_peer(&connection)
        };
        let id = self.next_connection;
        if let Err(refused) = &result {
            reply = reply.refused(refused.errno, &refused.why);
            let _ = connection.send(&reply, None);
            return result;
        }
        let event = EpollEvent::new(EpollFlags::EPOLLIN, id);
        if self.epoll.add(connection.fd(), event).is_err() {
            return Err(Refused::new(libc::ENOMEM, "no memory for another client"));
        }
        self.next_connection += 1;
        self.connections.insert(id, connection);
        if let Some(peer) = self.peers.get_mut(&pid) {
            peer.connections.push(id);
        }
        Ok(())
    }

    /// The process of a new connection.
    pub(super) fn know_peer(&mut self, connection: &Connection) -> Result<(), Refused> {
        let pid = connection.pid();
        let ended = || Refused::new(libc::ESRCH, "the process has ended");
        let pidfd = sys::peer_pidfd(connection.fd(), pid).map_err(|_| ended())?;
        let process = Identity::of_process(pid)?;
        // If who connected is there still, that was his start. Else it may be another's, who has his id
        // by now: while the connection waited, or was somebody's who inherited it.
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
        let who = (connection.uid(), connection.gid());
        let now = sys::monotonic_ns();
        let accounts = self.spent_accounts(process, who.0, now);
        self.peers.insert(pid, Peer::new(process, pidfd, now, who, accounts));
        Ok(())
    }

    pub(super) fn serve(&mut self, id: u64) {
        let Some(uid) = self.connections.get(&id).map(Connection::uid) else { return };
        if !self.pause(id) {
            self.work_for(uid, |server| server.serve_one(id));
        }
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
                let (uid, is_behind) = (connection.uid(), connection.is_behind());
                let wants_file = [ASK_STATUS, ASK_EXPLAIN].contains(&request.kind);
                if wants_file && is_behind {
                    let why = "read what was answered before";
                    let reply = Reply::to(&request).refused(libc::EBUSY, why);
                    return self.send(id, &reply, None);
                }
                let (reply, file) = requests::answer(self, pid, &request);
                if file.is_some() {
                    self.note_file_of(uid);
                }
                self.send(id, &reply, file.as_ref());
            }
        }
    }

    pub(super) fn close(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let Some(peer) = self.peers.get_mut(&connection.pid()) else { return };
        peer.connections.retain(|other| *other != id);
        if peer.connections.is_empty() {
            let process = peer.process;
            self.end_process(process, false);
        }
    }

    pub(super) fn process_ended(&mut self, number: u64) {
        let pid = i32::try_from(number & !PROCESS).unwrap_or(0);
        if let Some(peer) = self.peers.get(&pid).filter(|peer| peer.has_ended()) {
            let process = peer.process;
            self.end_process(process, true);
        }
    }

    /// Everything that a process was given is taken back, and its connections closed.
    pub(super) fn end_process(&mut self, process: Identity, also_others: bool) {
        let is_this = |peer: &&Peer| peer.process == process;
        let has_limit =
            self.peers.get(&process.tid).filter(is_this).is_some_and(|peer| peer.limit.is_some());
        // A policy that its thread set by the raised limit must not be what a request gives back
        // later.
        self.region.leave_process(&mut self.means, process, also_others || has_limit);
        // A later process may have its id.
        if self.peers.get(&process.tid).is_none_or(|peer| peer.process != process) {
            return;
        }
        let Some(peer) = self.peers.remove(&process.tid) else { return };
        if let Some(Err(error)) = peer.limit.map(|change| self.means.effect.give_back(change)) {
            log::warning(&error.to_string());
        }
        if peer.limit.is_some() {
            self.watch_births(false);
        }
        self.keep_accounts(&peer);
        for id in peer.connections {
            self.connections.remove(&id);
        }
    }

    /// A process that connects anew finds its accounts as it left them. Another one takes over the
    /// worst that processes of its user have left: else a new process would clear them.
    fn spent_accounts(&mut self, process: Identity, uid: u32, now_ns: u64) -> Accounts {
        let of_user = self.spent.iter().filter(|(_, (its, _))| *its == uid);
        let worst = of_user.max_by_key(|(_, (_, accounts))| accounts.missing_ns(now_ns));
        let whose = match self.spent.contains_key(&process) {
            true => Some(process),
            false => worst.map(|(process, _)| *process),
        };
        let spent = whose.and_then(|whose| self.spent.remove(&whose));
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
