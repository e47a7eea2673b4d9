// SPDX-License-Identifier: MIT OR Apache-2.0
//! kswapd: each owner of pages waits for it, with its share of all pages (equation (3)).
use super::{Relations, Thing};
use crate::kthreads::served::Why;
use std::mem;
use tek_bpf::{Member, Thread};
use tek_policy::dependency::Ratio;

impl Relations {
    /// Critical tasks that own pages while kswapd of a node is wanted, and their share of all
    /// pages.
    pub fn owners(&mut self, owners: &[Member], ratio: Ratio) {
        let nodes: Vec<u32> = (self.graph.things())
            .filter_map(|thing| if let Thing::Reclaim(node) = thing { Some(*node) } else { None })
            .collect();
        for kswapd in self.reclaimers.clone() {
            if let Some(served) = self.served.get_mut(&kswapd.tid) {
                if mem::replace(&mut served.ratio, ratio) != ratio {
                    self.changed.entry(kswapd.tid).or_insert(0);
                }
            }
        }
        for node in nodes {
            let Some(kswapd) = self.reclaimer_of(node) else { continue };
            for &owner in owners {
                self.begin(Thing::Reclaim(node), kswapd, owner, Why::Memory, 0);
            }
        }
    }

    /// Whether a task waits for memory.
    pub fn wants_memory(&self) -> bool {
        let is_reclaim = |thing: &Thing| matches!(thing, Thing::Reclaim(_) | Thing::OwnReclaim(_));
        !self.reclaimers.is_empty() && self.graph.things().any(is_reclaim)
    }

    fn reclaimer_of(&self, node: u32) -> Option<Thread> {
        let name = format!("kswapd{node}");
        self.reclaimers.iter().find(|it| it.name.as_bytes() == name.as_bytes()).copied()
    }
}
