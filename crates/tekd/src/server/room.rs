// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes room when tekd has its maximum of connections or critical threads: else a few users could
//! keep all other users out.
use super::Server;
use crate::member::{Member, Reason};
use crate::region::Refused;
use std::collections::{HashMap, HashSet};
use tek_effect::Identity;

/// The most critical threads of the device.
pub const MOST_MEMBERS: usize = 1024;

impl Server {
    /// Closes a connection of a user that has more than `for_one_with`, the number of the user that
    /// needs room; one more for a process that tekd gave something. It closes those of processes
    /// that tekd gave nothing first, then those without a grant, then those of the user with most
    /// connections. `false`: none can be closed.
    pub(super) fn make_room(&mut self, for_one_with: usize) -> bool {
        let members = || self.region.members();
        let of_members = members().map(|member| member.target.process.tid);
        let askers = members().flat_map(|member| member.asks().map(|ask| ask.pid));
        let with_something: HashSet<i32> = of_members.chain(askers).collect();
        let mut those = Vec::new();
        for (&id, connection) in &self.connections {
            let count = self.connections_of.get(&connection.user).copied().unwrap_or(0);
            let peer = self.peers.get(&connection.pid());
            let has_limit = peer.is_some_and(|peer| peer.limit.is_some());
            let has_something = has_limit || with_something.contains(&connection.pid());
            if count > for_one_with + usize::from(has_something) {
                let has_grant = peer.is_some_and(|peer| peer.grant().is_ok());
                those.push((!has_something, !has_grant, count, id));
            }
        }
        let Some(&(.., id)) = those.iter().max() else { return false };
        self.close(id);
        true
    }

    /// Makes room for more critical threads of a user. The user with most threads loses its latest
    /// one, if it would still have as many as `user`; for root, in any case. Threads of root stay,
    /// and so do threads that two users requested.
    pub fn make_room_for(&mut self, user: u32, more: usize) -> Result<(), Refused> {
        let mut too_many = (self.region.members().count() + more).saturating_sub(MOST_MEMBERS);
        while too_many > 0 {
            let mut counts: HashMap<u32, usize> = HashMap::new();
            for ask in self.region.members().filter_map(|member| member.best()) {
                *counts.entry(ask.uid).or_default() += 1;
            }
            let own = counts.get(&user).copied().unwrap_or(0) + more;
            let has_too_many = |uid, count| uid != 0 && uid != user && (user == 0 || count > own);
            let rest = counts.into_iter().filter(|(uid, count)| has_too_many(*uid, *count));
            let last = rest.filter_map(|(uid, count)| Some((count, self.region.last_of(uid)?)));
            let Some((_, tid)) = last.max() else {
                let why = "the whole device has too many critical threads";
                return Err(Refused::new(libc::EAGAIN, why));
            };
            let why = "another user needs the place of this thread".to_owned();
            let left = self.region.left(tid, libc::EAGAIN, [0, 0], why);
            for reason in [Reason::Own, Reason::ByHand] {
                self.region.leave(&mut self.backends, tid, reason);
            }
            left.iter().for_each(|left| self.inform(left));
            too_many -= 1;
        }
        Ok(())
    }

    /// Ends the latest lift of a user, or of one of its processes: a thread that is critical by
    /// itself needs the place. `false`: there is no lift.
    pub fn end_a_lift(&mut self, user: u32, of: Option<Identity>) -> bool {
        let is_meant = |member: &&Member| {
            member.is_lifted_only() && of.is_none_or(|process| member.target.process == process)
        };
        let lifts = self.region.members().filter(is_meant).filter_map(|member| {
            let lift = member.own.as_ref().filter(|lift| lift.uid == user)?;
            Some((lift.since_ns, member.target.thread.tid))
        });
        let Some((_, tid)) = lifts.max() else { return false };
        let why = "a critical thread needs the place of this lifted one".to_owned();
        let left = self.region.left(tid, libc::EAGAIN, [0, 0], why);
        self.region.leave(&mut self.backends, tid, Reason::Own);
        left.iter().for_each(|left| self.inform(left));
        true
    }
}
