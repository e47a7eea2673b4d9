// SPDX-License-Identifier: MIT OR Apache-2.0
//! The uses of each lock, barrier, ... by all threads.
use std::collections::BTreeMap;
use tek_abi::{
    ProfileObject, PROFILE_BARRIER, PROFILE_COND, PROFILE_JOIN, PROFILE_MUTEX, PROFILE_READ,
    PROFILE_SEMAPHORE, PROFILE_SPIN, PROFILE_WRITE,
};

/// The name of a kind.
pub fn kind(kind: u32) -> &'static str {
    match kind {
        PROFILE_MUTEX => "mutex",
        PROFILE_SPIN => "spin",
        PROFILE_READ => "read",
        PROFILE_WRITE => "write",
        PROFILE_COND => "cond",
        PROFILE_BARRIER => "barrier",
        PROFILE_SEMAPHORE => "sem",
        PROFILE_JOIN => "join",
        _ => "?",
    }
}

/// Numbers of uses, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    pub count: u64,
    pub contended: u64,
    pub wait: u64,
    pub wait_most: u64,
    pub holds: u64,
    pub hold: u64,
    pub hold_most: u64,
}

impl Uses {
    fn add(&mut self, more: &ProfileObject) {
        self.count = self.count.saturating_add(more.count);
        self.contended = self.contended.saturating_add(more.contended);
        self.wait = self.wait.saturating_add(more.wait_ticks);
        self.wait_most = self.wait_most.max(more.wait_most);
        self.holds = self.holds.saturating_add(more.holds);
        self.hold = self.hold.saturating_add(more.hold_ticks);
        self.hold_most = self.hold_most.max(more.hold_most);
    }
}

/// An object, of all threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub kind: u32,
    /// 0: several.
    pub address: u64,
    pub uses: Uses,
    /// By place in the program, the place with the longest waits first.
    pub sites: Vec<(u64, Uses)>,
}

/// All objects, by the time of waits, longest first. Ends of threads count as one object: each is
/// waited for once. Objects without room of their own are distinguished by their places.
pub fn merge<'a>(objects: impl Iterator<Item = &'a ProfileObject>) -> Vec<Object> {
    let mut found: BTreeMap<(u32, u64, u64), BTreeMap<u64, Uses>> = BTreeMap::new();
    for object in objects {
        let address = if object.kind == PROFILE_JOIN { 0 } else { object.object };
        let apart = if address == 0 && object.kind != PROFILE_JOIN { object.site } else { 0 };
        let sites = found.entry((object.kind, address, apart)).or_default();
        sites.entry(object.site).or_default().add(object);
    }
    let by_wait = |uses: &Uses| std::cmp::Reverse((uses.wait, uses.count));
    let mut merged: Vec<_> = found
        .into_iter()
        .map(|((kind, address, _), sites)| {
            let mut sites: Vec<_> = sites.into_iter().collect();
            tek_sort::by_key(&mut sites, |(_, uses)| by_wait(uses));
            let mut uses = Uses::default();
            for (_, of_site) in &sites {
                uses.add(&ProfileObject {
                    count: of_site.count,
                    contended: of_site.contended,
                    wait_ticks: of_site.wait,
                    wait_most: of_site.wait_most,
                    holds: of_site.holds,
                    hold_ticks: of_site.hold,
                    hold_most: of_site.hold_most,
                    ..Default::default()
                });
            }
            Object { kind, address, uses, sites }
        })
        .filter(|object| object.uses.count > 0 || object.uses.wait > 0)
        .collect();
    tek_sort::by_key(&mut merged, |object| by_wait(&object.uses));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: u32, object: u64, site: u64, count: u64, wait_ticks: u64) -> ProfileObject {
        ProfileObject { kind, object, site, count, wait_ticks, ..Default::default() }
    }

    #[test]
    fn the_lock_that_was_waited_for_most_comes_first_and_its_worst_place_too() {
        let objects = [
            object(PROFILE_MUTEX, 1, 10, 100, 5),
            object(PROFILE_MUTEX, 2, 10, 1, 50),
            object(PROFILE_MUTEX, 2, 11, 1, 60),
            object(PROFILE_MUTEX, 2, 10, 3, 20),
        ];
        let merged = merge(objects.iter());
        assert_eq!((merged[0].address, merged[0].uses.count, merged[0].uses.wait), (2, 5, 130));
        assert_eq!(merged[0].sites[0].0, 10);
        assert_eq!(merged[1].address, 1);
    }

    #[test]
    fn ends_of_threads_are_one_and_many_locks_of_a_place_are_one() {
        let objects = [
            object(PROFILE_JOIN, 1, 10, 1, 5),
            object(PROFILE_JOIN, 2, 10, 1, 5),
            object(PROFILE_MUTEX, 0, 11, 7, 0),
            object(PROFILE_MUTEX, 0, 12, 7, 0),
        ];
        assert_eq!(merge(objects.iter()).len(), 3);
    }
}
