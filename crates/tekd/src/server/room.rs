// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who makes room when tekd has as many connections as it serves: else some users could keep all
//! others away.
use super::Server;
use std::collections::{HashMap, HashSet};

impl Server {
    /// Closes a connection of a user who has more than another one who has so many: one without a
    /// grant if there is one, and of the user who has most. Who was given something keeps it. False:
    /// there is none to be closed.
    pub(super) fn make_room(&mut self, for_one_with: usize) -> bool {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for connection in self.connections.values() {
            *counts.entry(connection.uid()).or_default() += 1;
        }
        let members = || self.region.members();
        let of_members = members().map(|member| member.target.process.tid);
        let who_asked = members().flat_map(|member| member.asks().map(|ask| ask.pid));
        let with_something: HashSet<i32> = of_members.chain(who_asked).collect();
        let mut those = Vec::new();
        for (&id, connection) in &self.connections {
            let count = counts.get(&connection.uid()).copied().unwrap_or(0);
            let peer = self.peers.get(&connection.pid());
            let has_limit = peer.is_some_and(|peer| peer.limit.is_some());
            if count > for_one_with && !has_limit && !with_something.contains(&connection.pid()) {
                let has_grant = peer.is_some_and(|peer| peer.grant().is_ok());
                those.push((!has_grant, count, id));
            }
        }
        let Some(&(_, _, id)) = those.iter().max() else { return false };
        self.close(id);
        true
    }
}
