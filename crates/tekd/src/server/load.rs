// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each user costs. tekd outranks nearly everybody, so nobody may keep it busy: who asks for
//! more than his share of its time is not listened to for a while. Root may have all of it.
use super::{Server, LISTENER};
use crate::sys;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use std::collections::HashMap;
use std::os::fd::AsFd;
use tek_policy::Bucket;

/// A user may have one part of so many of a CPU.
const SHARE: u64 = 10;
/// So much at once. Then he waits until half of it is made up for.
const BURST_NS: u64 = 50_000_000;
/// A file with a reply costs so much more: it takes memory until the client, who may be in no hurry,
/// has read it.
const FILE_NS: u64 = 4_000_000;
/// Connections a second, and at once. What is left waits in the kernel.
const ACCEPTS: u32 = 5000;
const ACCEPTS_AT_ONCE: u32 = 256;
const PAUSE_NS: u64 = 10_000_000;
/// Users are looked through when there are more.
const MANY_USERS: usize = 64;

/// The accounts of all users, and who is not listened to.
#[derive(Default)]
pub struct Load {
    /// When a user has made up for what he has had.
    even_at_ns: HashMap<u32, u64>,
    /// Until when; by their numbers in epoll.
    paused: HashMap<u64, u64>,
    accepts: Bucket,
}

impl Load {
    /// So much CPU time was spent on a user.
    fn note(&mut self, uid: u32, ns: u64, now_ns: u64) {
        if uid == 0 {
            return;
        }
        if self.even_at_ns.len() > MANY_USERS {
            self.even_at_ns.retain(|_, at| *at > now_ns);
        }
        let even = self.even_at_ns.entry(uid).or_insert(0);
        *even = now_ns.max(*even) + ns.saturating_mul(SHARE);
    }

    /// Until when a user has had too much.
    fn too_much(&self, uid: u32, now_ns: u64) -> Option<u64> {
        let even = *self.even_at_ns.get(&uid)?;
        (even > now_ns + BURST_NS * SHARE).then(|| even - BURST_NS * SHARE / 2)
    }

    /// When somebody is listened to again.
    pub fn next_ns(&self) -> Option<u64> {
        self.paused.values().min().copied()
    }
}

impl Server {
    /// Does something for a user, and puts it on his account.
    pub(super) fn work_for<T>(&mut self, uid: u32, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = sys::cpu_ns();
        let done = work(self);
        self.load.note(uid, sys::cpu_ns().saturating_sub(before), sys::monotonic_ns());
        done
    }

    /// Puts a file that a user was given on his account.
    pub(super) fn note_file_of(&mut self, uid: u32) {
        self.load.note(uid, FILE_NS, sys::monotonic_ns());
    }

    /// Whether a user has had too much.
    pub(super) fn is_tired_of(&self, uid: u32) -> bool {
        self.load.too_much(uid, sys::monotonic_ns()).is_some()
    }

    /// A connection of a user who has had too much is not read for a while. It is out of epoll: a
    /// hang-up would be told again and again.
    pub(super) fn pause(&mut self, id: u64) -> bool {
        let Some(connection) = self.connections.get(&id) else { return false };
        let until = self.load.too_much(connection.uid(), sys::monotonic_ns());
        let Some(until) = until else { return false };
        if self.epoll.delete(connection.fd()).is_err() {
            return false;
        }
        self.load.paused.insert(id, until);
        true
    }

    /// Whether one more client may be accepted. If not the socket is left alone for a while.
    pub(super) fn may_accept(&mut self) -> bool {
        let now = sys::monotonic_ns();
        let may = self.load.accepts.take(ACCEPTS, ACCEPTS_AT_ONCE, now);
        if !may && self.epoll.delete(self.listener.fd()).is_ok() {
            self.load.paused.insert(LISTENER, now + PAUSE_NS);
        }
        may
    }

    /// Listens again to those whose time has come.
    pub(super) fn resume(&mut self, now_ns: u64) {
        if self.load.next_ns().is_none_or(|next| next > now_ns) {
            return;
        }
        let Self { load, connections, listener, epoll, .. } = self;
        load.paused.retain(|&id, until| {
            let fd = match id {
                LISTENER => Some(listener.fd()),
                id => connections.get(&id).map(|connection| connection.fd()),
            };
            let Some(fd) = fd.filter(|_| *until <= now_ns) else { return fd.is_some() };
            let added = epoll.add(fd.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, id));
            // Where there is no memory for it, later.
            *until = now_ns + PAUSE_NS;
            added.is_err()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn who_costs_a_tenth_of_a_cpu_is_listened_to_and_who_costs_more_is_not() {
        let (mut load, mut paused) = (Load::default(), 0);
        for n in 1..1000 {
            load.note(1, 90_000, n * MS);
            assert_eq!(load.too_much(1, n * MS), None);
            if load.too_much(2, n * MS).is_none() {
                load.note(2, MS, n * MS);
            } else {
                paused += 1;
            }
        }
        assert!((800..900).contains(&paused), "{paused}");
    }

    #[test]
    fn who_has_caused_much_at_once_waits_for_ten_times_as_long_and_root_never_does() {
        let mut load = Load::default();
        load.note(1, 200 * MS, MS);
        assert!(load.too_much(1, 1400 * MS).is_some());
        assert_eq!(load.too_much(1, 1600 * MS), None);
        (0..1000).for_each(|_| load.note(0, MS, MS));
        assert_eq!(load.too_much(0, MS), None);
    }
}
