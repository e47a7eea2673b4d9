// SPDX-License-Identifier: MIT OR Apache-2.0
//! Noncritical RT threads follow the mode: see `others`.
use super::Server;
use crate::backend::Backend;
use crate::means::Means;
use crate::others::Scope;
use crate::peer::Peer;
use crate::region::Region;
use crate::table_files::has_table;
use crate::{domain::Domain, homes::Homes, sys};
use std::collections::HashMap;
use tek_effect::{Identity, Limits, Resource};
use tek_policy::Configuration;

/// The state that decides which threads are lowered.
struct View<'a> {
    region: &'a Region,
    peers: &'a HashMap<i32, Peer>,
    configuration: &'a Configuration,
    domain: &'a Domain,
    homes: &'a Homes,
}

impl Scope for View<'_> {
    fn holds(&self, pid: i32) -> bool {
        self.domain.check(pid, &self.configuration.protected, self.homes).is_ok()
    }

    fn is_critical(&self, thread: Identity) -> bool {
        self.region.member(thread).is_some()
    }

    fn switches_itself(&self, pid: i32) -> bool {
        let is_given = self.peers.get(&pid).is_some_and(|peer| peer.limit.is_some());
        is_given || (may_switch(pid) && has_table(pid))
    }
}

/// Whether a process has a right of its own, besides capabilities, to real-time policies. If that
/// cannot be read, its threads are not changed.
fn may_switch(pid: i32) -> bool {
    Limits::of(pid, Resource::Rtprio).is_ok_and(|limits| limits.soft > 0)
}

impl Server {
    /// Runs after each step that may have begun or ended responsiveness mode.
    pub(super) fn follow_mode(&mut self) {
        if self.means.backend != Backend::Rt {
            return;
        }
        let Self { means, region, peers, configuration, domain, .. } = self;
        let Means { effect, others, placement, range, .. } = means;
        if region.is_empty() {
            others.leave(effect);
            return;
        }
        let homes = &placement.homes;
        let view = View { region, peers, configuration, domain, homes };
        others.enter(effect, *range, &view);
    }

    /// Runs a slice of the scan of all threads.
    pub(super) fn look_at_others(&mut self, now_ns: u64) {
        let Self { means, region, peers, configuration, domain, .. } = self;
        let Means { effect, others, placement, range, .. } = means;
        let homes = &placement.homes;
        let view = View { region, peers, configuration, domain, homes };
        others.look(effect, now_ns, *range, &view);
    }

    /// Runs a whole scan, before the first client is served.
    pub(super) fn look_at_all_others(&mut self) {
        if self.means.backend != Backend::Rt {
            return;
        }
        let Self { means, region, peers, configuration, domain, .. } = self;
        let Means { others, placement, range, .. } = means;
        let homes = &placement.homes;
        let view = View { region, peers, configuration, domain, homes };
        others.look_at_all(sys::monotonic_ns(), *range, &view);
    }
}
