// SPDX-License-Identifier: MIT OR Apache-2.0
//! All waits, and the tasks that depend on each thread, directly or through other waiters.
//!
//! The graph updates R of each holder with each event. A wait thus costs the same for any number
//! of other waiters. A change of a waiter's own waiters goes on to its holders.
//!
//! Threads that wait for each other in a circle cannot go on. None of them is lifted, and none of
//! their waits counts for another thread, until one of the waits in the circle ends.
use super::components::components;
use super::{Because, Dependants, Lingering, RtPriority, Share, Summary};
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::mem;

/// The highest number of waits at one time.
pub const MOST_EDGES: usize = 16_384;

/// A wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge<Id> {
    /// The thread that waits.
    pub waiter: Id,
    /// The thread that it waits for.
    pub holder: Id,
    /// The kind of the wait.
    pub because: Because,
    /// Its begin, in ns of any monotonic clock.
    pub since_ns: u64,
}

/// Waits that did not count, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// There were [`MOST_EDGES`] others.
    pub too_many: u64,
    /// The waiter was the last holder of the longest chain ([`MOST_HOLDERS`](super::MOST_HOLDERS)):
    /// the tasks that wait for it do not count for the next holder.
    pub too_deep: u64,
}

/// A thread that waits, or that is waited for.
#[derive(Clone, Debug)]
struct Node<Id: Copy + Eq + Hash + Ord> {
    /// The priority of a critical task.
    own: Option<RtPriority>,
    /// R, for each kind of wait.
    waiters: [Option<Box<Lingering<Id>>>; Because::ALL.len()],
    /// The threads that it waits for, each with the number of waits.
    holders: Vec<((Id, Because), u32)>,
    is_in_circle: bool,
    /// It waits, and is the last holder of the longest chain.
    is_at_end: bool,
}

/// All waits. `Thing` identifies what is waited for, `Id` a thread.
#[derive(Clone, Debug)]
pub struct Graph<Thing, Id: Copy + Eq + Hash + Ord> {
    /// The time for which a task counts after the end of a wait for work.
    pub linger_ns: u64,
    nodes: HashMap<Id, Node<Id>>,
    edges: HashMap<Thing, Vec<Edge<Id>>>,
    count: usize,
    /// Holders with a waiter that lingers, and some that had one.
    lingering: BTreeSet<Id>,
    /// Holders whose R changed since [`Graph::take_changed`].
    changed: BTreeSet<Id>,
    refused: Refused,
}

impl<Id: Copy + Eq + Hash + Ord> Default for Node<Id> {
    fn default() -> Self {
        let waiters = Because::ALL.map(|_| None);
        Self { own: None, waiters, holders: Vec::new(), is_in_circle: false, is_at_end: false }
    }
}

impl<Id: Copy + Eq + Hash + Ord> Node<Id> {
    /// The tasks that this thread stands for as a waiter.
    fn share(&self) -> Share {
        let own = self.own.map_or(Share::NONE, Share::from);
        if self.is_in_circle {
            return own;
        }
        own.with(self.of_waiters().one_farther())
    }

    fn of_waiters(&self) -> Share {
        let shares = self.waiters.iter().flatten().map(|set| set.dependants().share());
        shares.fold(Share::NONE, Share::with)
    }

    /// Notes whether the thread waits at the end of the longest chain. `true`: it does so only now.
    fn comes_to_end(&mut self) -> bool {
        let is_at_end =
            !self.is_in_circle && !self.holders.is_empty() && self.of_waiters().is_at_end();
        let was_at_end = mem::replace(&mut self.is_at_end, is_at_end);
        is_at_end && !was_at_end
    }

    fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiters.iter().flatten().all(|set| set.is_idle())
    }

    fn set(&mut self, because: Because) -> Option<&mut Lingering<Id>> {
        self.waiters[because.index()].as_deref_mut()
    }

    fn add_holder(&mut self, holder: Id, because: Because) {
        match self.holders.iter_mut().find(|(to, _)| *to == (holder, because)) {
            Some((_, times)) => *times += 1,
            None => self.holders.push(((holder, because), 1)),
        }
    }

    fn remove_holder(&mut self, holder: Id, because: Because) {
        let Some(at) = self.holders.iter().position(|(to, _)| *to == (holder, because)) else {
            return;
        };
        self.holders[at].1 -= 1;
        if self.holders[at].1 == 0 {
            self.holders.swap_remove(at);
        }
    }
}

/// How a relation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The waiter lingers, if the kind of the wait lets it.
    At(u64),
    Now,
}

impl<Thing: Copy + Eq + Hash, Id: Copy + Eq + Hash + Ord> Graph<Thing, Id> {
    /// An empty graph.
    pub fn new(linger_ns: u64) -> Self {
        Self {
            linger_ns,
            nodes: HashMap::new(),
            edges: HashMap::new(),
            count: 0,
            lingering: BTreeSet::new(),
            changed: BTreeSet::new(),
            refused: Refused::default(),
        }
    }

    /// A wait begins, or is reported again. `own` is the priority of a waiter that is critical by
    /// itself. The pair of thing and waiter may have several holders. `false`: there are too many
    /// waits, and this one does not count.
    pub fn begin(&mut self, thing: Thing, edge: Edge<Id>, own: Option<RtPriority>) -> bool {
        let Edge { waiter, holder, because, .. } = edge;
        let is_same = |it: &Edge<Id>| it.waiter == waiter && it.holder == holder;
        if self.edges.get(&thing).is_some_and(|all| all.iter().any(is_same)) {
            self.set_own(waiter, own);
            return true;
        }
        if self.count >= MOST_EDGES {
            self.refused.too_many += 1;
            return false;
        }
        self.edges.entry(thing).or_default().push(edge);
        self.count += 1;
        let node = self.nodes.entry(waiter).or_default();
        let is_other = mem::replace(&mut node.own, own) != own;
        node.add_holder(holder, because);
        self.refused.too_deep += u64::from(node.comes_to_end());
        let share = node.share();
        let linger_ns = if because == Because::Work { self.linger_ns } else { 0 };
        let node = self.nodes.entry(holder).or_default();
        let set = node.waiters[because.index()]
            .get_or_insert_with(|| Box::new(Lingering::new(linger_ns)));
        if set.begin(waiter, share) {
            self.changed.insert(holder);
        }
        self.refresh(if is_other { waiter } else { holder });
        true
    }

    /// A waiter is critical with another priority, or is critical no more.
    pub fn set_own(&mut self, waiter: Id, own: Option<RtPriority>) {
        let Some(node) = self.nodes.get_mut(&waiter) else { return };
        if mem::replace(&mut node.own, own) != own {
            self.refresh(waiter);
        }
    }

    /// All waits for a thing end. Waiters for work linger from now on.
    pub fn end(&mut self, thing: Thing, now_ns: u64) {
        self.end_some(thing, |_| true, End::At(now_ns));
    }

    /// All waits for a thing end, without linger time.
    pub fn end_now(&mut self, thing: Thing) {
        self.end_some(thing, |_| true, End::Now);
    }

    /// Some waits for a thing end, without linger time.
    pub fn end_those(&mut self, thing: Thing, which: impl Fn(&Edge<Id>) -> bool) {
        self.end_some(thing, which, End::Now);
    }

    /// Some waits for a thing end, and their waiters linger.
    pub fn end_those_at(&mut self, thing: Thing, which: impl Fn(&Edge<Id>) -> bool, now_ns: u64) {
        self.end_some(thing, which, End::At(now_ns));
    }

    fn end_some(&mut self, thing: Thing, which: impl Fn(&Edge<Id>) -> bool, end: End) {
        let Some(all) = self.edges.get_mut(&thing) else { return };
        let ended: Vec<Edge<Id>> = all.extract_if(.., |edge| which(edge)).collect();
        if all.is_empty() {
            self.edges.remove(&thing);
        }
        ended.into_iter().for_each(|edge| self.end_edge(edge, end));
    }

    /// An edge that was taken out of `edges` ends.
    fn end_edge(&mut self, edge: Edge<Id>, end: End) {
        let Edge { waiter, holder, because, .. } = edge;
        self.count -= 1;
        if let Some(node) = self.nodes.get_mut(&waiter) {
            node.remove_holder(holder, because);
            node.comes_to_end();
        }
        let set = self.nodes.get_mut(&holder).and_then(|node| node.set(because));
        let is_changed = set.is_some_and(|set| match end {
            End::At(now_ns) => set.end(waiter, now_ns),
            End::Now => set.end_now(waiter),
        });
        if is_changed {
            self.changed.insert(holder);
        }
        if matches!(end, End::At(_)) && because == Because::Work {
            self.lingering.insert(holder);
        }
        self.refresh(holder);
        self.forget_idle(waiter);
        self.forget_idle(holder);
    }

    /// A waiter has ended: it waits for nothing any more, and does not linger.
    pub fn forget_waiter(&mut self, waiter: Id) {
        self.end_all_where(|edge| edge.waiter == waiter);
        let mut left = Vec::new();
        for (id, node) in &mut self.nodes {
            let removed = node.waiters.iter_mut().flatten().map(|set| set.remove_all_of(waiter));
            if removed.fold(false, |any, is_removed| any | is_removed) {
                left.push(*id);
            }
        }
        for id in left {
            self.changed.insert(id);
            self.refresh(id);
            self.forget_idle(id);
        }
        self.set_own(waiter, None);
    }

    /// A holder has ended, or another thread has its id.
    pub fn forget_holder(&mut self, holder: Id) {
        self.end_all_where(|edge| edge.holder == holder);
        let Some(node) = self.nodes.get_mut(&holder) else { return };
        let changed = node.waiters.iter_mut().flatten().map(|set| set.clear());
        if changed.fold(false, |any, is_changed| any | is_changed) {
            self.changed.insert(holder);
        }
        self.refresh(holder);
        self.forget_idle(holder);
    }

    /// All waits end without linger time, if `which` says so.
    pub fn end_all_where(&mut self, which: impl Fn(&Edge<Id>) -> bool) {
        let mut ended = Vec::new();
        self.edges.retain(|_, all| {
            ended.extend(all.extract_if(.., |edge| which(edge)));
            !all.is_empty()
        });
        ended.into_iter().for_each(|edge| self.end_edge(edge, End::Now));
    }

    /// Events were lost: all waits end, and waiters for work linger.
    pub fn end_all(&mut self, now_ns: u64) {
        let ended: Vec<Edge<Id>> = self.edges.drain().flat_map(|(_, all)| all).collect();
        ended.into_iter().for_each(|edge| self.end_edge(edge, End::At(now_ns)));
    }

    /// The holders with a waiter whose linger time ends by this time.
    pub fn due(&self, now_ns: u64) -> Vec<Id> {
        let is_due = |id: &Id| self.next_ns_of(*id).is_some_and(|at| at <= now_ns);
        self.lingering.iter().copied().filter(is_due).collect()
    }

    /// Removes the waiters whose linger time is over.
    pub fn expire(&mut self, now_ns: u64) {
        for id in self.due(now_ns) {
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            let changes = node.waiters.iter_mut().flatten().map(|set| set.expire(now_ns));
            if changes.fold(false, |any, is_changed| any | is_changed) {
                self.changed.insert(id);
                self.refresh(id);
            }
            self.forget_idle(id);
        }
        let left = self.lingering.iter().copied().filter(|id| self.next_ns_of(*id).is_some());
        self.lingering = left.collect();
    }

    fn next_ns_of(&self, holder: Id) -> Option<u64> {
        let node = self.nodes.get(&holder)?;
        node.waiters.iter().flatten().filter_map(|set| set.next_ns()).min()
    }

    /// Ends all lingering for a holder, which begins something that no waiter needs.
    pub fn drop_lingering(&mut self, holder: Id) {
        let Some(node) = self.nodes.get_mut(&holder) else { return };
        let changes = node.waiters.iter_mut().flatten().map(|set| set.drop_now());
        if changes.fold(false, |any, is_changed| any | is_changed) {
            self.changed.insert(holder);
            self.refresh(holder);
        }
        self.forget_idle(holder);
    }

    /// The holders whose R changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<Id> {
        mem::take(&mut self.changed)
    }

    /// The tasks that wait for a holder in this way; `None`: there is none, or the holder waits in
    /// a circle.
    pub fn summary(&self, holder: Id, because: Because) -> Option<Summary> {
        let node = self.nodes.get(&holder).filter(|node| !node.is_in_circle)?;
        node.waiters[because.index()].as_ref()?.dependants().summary()
    }

    /// The direct waiters of a holder.
    pub fn dependants(&self, holder: Id, because: Because) -> Option<&Dependants<Id>> {
        let set = self.nodes.get(&holder)?.waiters[because.index()].as_ref()?;
        Some(set.dependants())
    }

    /// Whether a task depends on a holder.
    pub fn has_dependants(&self, holder: Id) -> bool {
        let node = self.nodes.get(&holder);
        let mut sets = node.into_iter().flat_map(|node| node.waiters.iter().flatten());
        sets.any(|set| !set.dependants().is_empty())
    }

    /// The priority that a thread has as a waiter: its own, or the highest of its waiters.
    pub fn priority_of(&self, waiter: Id) -> Option<RtPriority> {
        self.nodes.get(&waiter)?.share().highest()
    }

    /// The critical tasks that depend on a holder, directly or through others; at most `most`.
    pub fn roots(&self, holder: Id, most: usize) -> Vec<(Id, RtPriority)> {
        let (mut roots, mut seen) = (Vec::new(), BTreeSet::from([holder]));
        let mut left = vec![holder];
        while let Some(id) = left.pop() {
            let node = self.nodes.get(&id);
            let sets = node.into_iter().flat_map(|node| node.waiters.iter().flatten());
            let waiters = sets.flat_map(|set| set.dependants().iter());
            for waiter in waiters {
                if roots.len() >= most || !seen.insert(waiter.waiter) {
                    continue;
                }
                match self.nodes.get(&waiter.waiter).map(|node| node.own) {
                    Some(None) => {}
                    Some(Some(own)) => roots.push((waiter.waiter, own)),
                    // It lingers, and waits for nothing else.
                    None => roots.push((waiter.waiter, waiter.priority)),
                }
                left.push(waiter.waiter);
            }
        }
        roots
    }

    /// All waits.
    pub fn edges(&self) -> impl Iterator<Item = (&Thing, &Edge<Id>)> {
        self.edges.iter().flat_map(|(thing, all)| all.iter().map(move |edge| (thing, edge)))
    }

    /// The waits for one thing.
    pub fn edges_of(&self, thing: Thing) -> &[Edge<Id>] {
        self.edges.get(&thing).map_or(&[], Vec::as_slice)
    }

    /// The things that are waited for.
    pub fn things(&self) -> impl Iterator<Item = &Thing> {
        self.edges.keys()
    }

    /// The circles of threads that wait for each other, each in ascending order.
    pub fn circles(&self) -> Vec<Vec<Id>> {
        let mut found = BTreeSet::new();
        for id in self.nodes.iter().filter(|(_, node)| node.is_in_circle).map(|(id, _)| *id) {
            let mut circle = components(id, |id| self.holders_of(id));
            let its = circle.iter_mut().find(|circle| circle.contains(&id));
            if let Some(its) = its {
                its.sort_unstable();
                found.insert(mem::take(its));
            }
        }
        found.into_iter().collect()
    }

    /// The number of waits at present.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no thread waits or lingers.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The waits that did not count.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    fn holders_of(&self, id: Id) -> Vec<Id> {
        let holders = self.nodes.get(&id).map(|node| &node.holders);
        holders.into_iter().flatten().map(|((holder, _), _)| *holder).collect()
    }

    /// Computes anew what a thread adds to its holders, and what these add to theirs.
    fn refresh(&mut self, start: Id) {
        let is_last = |node: &Node<Id>| node.holders.is_empty() && !node.is_in_circle;
        if self.nodes.get(&start).is_none_or(is_last) {
            return;
        }
        let found = components(start, |id| self.holders_of(id));
        for component in found.iter().rev() {
            let waits_for_itself = |id: &Id| self.holders_of(*id).contains(id);
            let is_circle = component.len() > 1 || component.iter().any(waits_for_itself);
            for &id in component {
                self.mark(id, is_circle);
            }
            for &id in component {
                self.pass_on(id, component);
            }
        }
    }

    fn mark(&mut self, id: Id, is_in_circle: bool) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if mem::replace(&mut node.is_in_circle, is_in_circle) != is_in_circle {
            self.changed.insert(id);
        }
    }

    /// Passes the share of a thread on to its holders outside of its circle.
    fn pass_on(&mut self, id: Id, circle: &[Id]) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        self.refused.too_deep += u64::from(node.comes_to_end());
        let (share, holders) = (node.share(), node.holders.clone());
        for ((holder, because), _) in holders {
            let share = if circle.contains(&holder) { Share::NONE } else { share };
            let set = self.nodes.get_mut(&holder).and_then(|node| node.set(because));
            if set.is_some_and(|set| set.change(id, share)) {
                self.changed.insert(holder);
            }
        }
    }

    fn forget_idle(&mut self, id: Id) {
        if self.nodes.get(&id).is_some_and(Node::is_idle) {
            self.nodes.remove(&id);
        }
    }
}
