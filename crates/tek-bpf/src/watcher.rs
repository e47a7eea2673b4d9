// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs on hot paths, which are attached only while they are of use.
use crate::dependency::{Hook, Kind, GROUPS};
use crate::error::Error;
use crate::load::attach;
use crate::watch::{Packets, Watch};
use libbpf_rs::{Link, Object};

/// Attaches and detaches these programs. The kernel takes 1 ms for that, in emulated machines some
/// 100 ms, so a thread that must react to events delegates it. Nothing outlives the process.
pub struct Watcher {
    // Dropped before the object.
    links: Vec<(&'static str, Link)>,
    /// The dependencies that work.
    on: Vec<Kind>,
    object: Object,
    /// No program is attached elsewhere.
    is_lazy: bool,
}

impl Watcher {
    pub(crate) fn new(object: Object, on: Vec<Kind>, is_lazy: bool) -> Self {
        Self { links: Vec::new(), on, object, is_lazy }
    }

    /// Attaches the programs for the wanted events, and detaches all others. Pass the result to
    /// [`Kthreads::set_packets`](crate::Kthreads::set_packets). Call that with `NotWatched` before
    /// this function ends the watch of packets.
    pub fn watch(&mut self, wanted: Watch) -> Result<Packets, Error> {
        let hot = GROUPS.iter().flat_map(|group| group.hooks.iter().map(|hook| (group.kind, hook)));
        for (kind, hook) in hot.filter(|(_, hook)| hook.watch || self.is_lazy) {
            let is_there = self.links.iter().any(|(program, _)| *program == hook.program);
            match self.is_wanted(kind, hook, wanted) {
                true if !is_there => {
                    let link = attach(&mut self.object, kind, hook)?;
                    self.links.extend(link.map(|link| (hook.program, link)));
                }
                false => self.links.retain(|(program, _)| *program != hook.program),
                true => {}
            }
        }
        let at_end = self.links.iter().any(|(program, _)| *program == "packet_handed");
        Ok(match wanted.packets && self.on.contains(&Kind::Network) {
            true if at_end => Packets::AtEnd,
            true => Packets::AtOnce,
            false => Packets::NotWatched,
        })
    }

    /// The names of the programs that are attached here at present.
    pub fn attached(&self) -> Vec<&'static str> {
        self.links.iter().map(|(program, _)| *program).collect()
    }

    fn is_wanted(&self, kind: Kind, hook: &Hook, wanted: Watch) -> bool {
        let is_on = |kind: Kind| self.on.contains(&kind);
        let watched = match kind {
            Kind::Network => wanted.packets,
            Kind::Storage => wanted.storage,
            Kind::Locks => wanted.locks,
            Kind::Answers => wanted.answers,
            Kind::Exits => wanted.locks || wanted.answers,
            _ => wanted.pages,
        };
        watched && is_on(kind) && !hook.done_by.is_some_and(is_on)
    }
}
