// SPDX-License-Identifier: MIT OR Apache-2.0
//! Noncritical RT threads follow the mode: see `noncritical`.
use super::Server;
use crate::backend::Backend;
use crate::backends::Backends;
use crate::kthreads::Kthreads;
use crate::noncritical::Scope;
use crate::peer::Peer;
use crate::region::Region;
use crate::table_files::has_table;
use crate::{domain::Domain, originals::Originals, sys};
use std::collections::HashMap;
use tek_effect::{Identity, Limits, Resource};
use tek_policy::Configuration;

/// The state that decides which threads are lowered.
struct View<'a> {
    region: &'a Region,
    peers: &'a HashMap<i32, Peer>,
    configuration: &'a Configuration,
    domain: &'a Domain,
    originals: &'a Originals,
    kthreads: &'a Kthreads,
}

impl Scope for View<'_> {
    fn holds(&self, pid: i32) -> bool {
        self.domain.check(pid, &self.configuration.protected, self.originals).is_ok()
    }

    fn is_critical(&self, thread: Identity) -> bool {
        // A lifted thread has a real-time policy for a moment.
        self.region.member(thread).is_some() || self.kthreads.is_lifted(thread)
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
        if self.backends.backend != Backend::Rt {
            return;
        }
        let Self { backends, region, peers, configuration, domain, .. } = self;
        let Backends { effect, noncritical, placement, range, kthreads, .. } = backends;
        if region.is_empty() {
            noncritical.leave(effect);
            return;
        }
        let originals = &placement.originals;
        let view = View { region, peers, configuration, domain, originals, kthreads };
        noncritical.enter(effect, *range, &view);
    }

    /// Runs a slice of the scan of all threads.
    pub(super) fn examine_noncritical(&mut self, now_ns: u64) {
        let Self { backends, region, peers, configuration, domain, .. } = self;
        let Backends { effect, noncritical, placement, range, kthreads, .. } = backends;
        let originals = &placement.originals;
        let view = View { region, peers, configuration, domain, originals, kthreads };
        noncritical.examine(effect, now_ns, *range, &view);
    }

    /// Runs a whole scan, before the first client is served.
    pub(super) fn examine_all_noncritical(&mut self) {
        if self.backends.backend != Backend::Rt {
            return;
        }
        let Self { backends, region, peers, configuration, domain, .. } = self;
        let Backends { noncritical, placement, range, kthreads, .. } = backends;
        let originals = &placement.originals;
        let view = View { region, peers, configuration, domain, originals, kthreads };
        noncritical.examine_all(sys::monotonic_ns(), *range, &view);
    }
}
