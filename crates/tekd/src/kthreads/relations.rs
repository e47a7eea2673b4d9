// SPDX-License-Identifier: MIT OR Apache-2.0
//! The relations between critical tasks and the threads that they wait for, computed from events.
//!
//! A relation is one critical task with one thing (a work item, an inode, a request, a lock) that
//! another thread works on or holds. The thread may change: one worker is woken for a work, and
//! another runs it. The inodes of a disk have no thread until the work that writes them back is
//! queued. The relations are the edges of a [`Graph`], which computes R(k) of each thread.
mod disks;
mod events;
mod memory;
#[cfg(test)]
mod tests;
mod waits;
#[cfg(test)]
mod waits_tests;

use super::served::{Served, Why};
use disks::Disk;
use std::collections::{BTreeMap, HashMap};
use std::mem;
use tek_bpf::{Device, Member, Thread};
use tek_effect::{Change, Identity};
use tek_policy::dependency::{
    Because, Dependants, Edge, Graph, InheritSettings, LiftEquation, RtPriority, Summary, Weight,
};
use tek_policy::kthread::{Class, KthreadSettings};
use waits::Waits;

/// The kernel thread that creates all others.
const CREATOR: i32 = 2;
/// With more threads than this, or twice those that were left the last time, ended threads are
/// removed.
const MANY_SERVED: usize = 512;
/// A member may stand for at most this many critical tasks.
const MOST_ROOTS: usize = 256;

/// The thing that a kernel thread works on. Numbers are kernel addresses, nodes or thread ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thing {
    Work(u64),
    /// The work waits for the present work of a worker.
    WorkBehind(u64),
    Inode(u64),
    /// The inode, for the thread of its file system's journal.
    Journal(u64),
    /// The writeback of a disk waits for the present work of a worker.
    DiskBehind(u64),
    Request(u64),
    /// kswapd of a node was woken.
    Reclaim(u32),
    /// A task reclaims by itself.
    OwnReclaim(i32),
    Compaction(u32),
    Creation(i32),
    Uring(u64),
    /// A task that writes too much must sleep for a while.
    Pause(i32),
    Packet(u64),
    /// Work for storage while a task sleeps inside the kernel.
    Storage(i32),
    /// The lock for which a task sleeps.
    Lock(i32),
    /// The answers for which a task sleeps.
    Answers(i32),
}

/// All relations.
pub struct Relations {
    pub settings: KthreadSettings,
    served: HashMap<i32, Served>,
    /// With more of these, ended ones are removed.
    many_served: usize,
    /// Each edge is a critical task, or a thread that stands for such tasks, and a thread that it
    /// waits for.
    graph: Graph<Thing, i32>,
    /// Locks and answers.
    waits: Waits,
    disks: HashMap<u64, Disk>,
    /// The threads that end transactions of file systems: a writer may have to wait for them.
    journals: HashMap<Device, Option<Thread>>,
    /// Works that no worker has begun, each with its time.
    queued: HashMap<u64, u64>,
    /// Packets that a thread must process, each with its time.
    packets: HashMap<u64, u64>,
    /// kswapd of each node.
    reclaimers: Vec<Thread>,
    /// Threads whose R(k) changed since the last [`Relations::take_changed`]. The value is the time
    /// of the event that caused it; 0: that event caused no wake-up.
    changed: BTreeMap<i32, u64>,
    /// Names of functions that have a weight of their own.
    functions: HashMap<u64, String>,
    /// Changes to threads that have ended.
    orphans: Vec<Change>,
    /// The time of the present event.
    at: u64,
}

impl Relations {
    pub fn new(
        settings: KthreadSettings,
        inherit: InheritSettings,
        reclaimers: Vec<Thread>,
        functions: HashMap<u64, String>,
    ) -> Self {
        let graph = Graph::new(settings.linger_ns());
        Self {
            settings,
            served: HashMap::new(),
            many_served: MANY_SERVED,
            graph,
            waits: Waits::new(inherit),
            disks: HashMap::new(),
            journals: HashMap::new(),
            queued: HashMap::new(),
            packets: HashMap::new(),
            reclaimers,
            changed: BTreeMap::new(),
            functions,
            orphans: Vec::new(),
            at: 0,
        }
    }

    /// A thread that works for critical tasks stands, as a member, for these tasks: works that it
    /// hands over may be done after their waits for the thread itself.
    fn begin(&mut self, thing: Thing, thread: Thread, member: Member, why: Why, woken: u64) {
        if !member.via {
            return self.begin_for(thing, thread, member, why, woken);
        }
        for (tid, priority) in self.tasks_behind(member.tid) {
            let member = Member { tid, process: tid, priority, via: false };
            self.begin_for(thing, thread, member, why, woken);
        }
        // Also without dependants: the programs must learn that this relation needs no wake-up.
        note(&mut self.changed, thread.tid, woken);
    }

    /// The critical tasks that wait for a thread, or the last ones that did.
    fn tasks_behind(&self, thread: i32) -> Vec<(i32, u8)> {
        let roots = self.graph.roots(thread, MOST_ROOTS);
        if !roots.is_empty() {
            return roots.into_iter().map(|(tid, priority)| (tid, priority.get())).collect();
        }
        self.served.get(&thread).map(|served| served.last.clone()).unwrap_or_default()
    }

    fn begin_for(&mut self, thing: Thing, thread: Thread, member: Member, why: Why, woken: u64) {
        let Some(priority) = RtPriority::new(member.priority.into()) else { return };
        self.begin_edge(thing, thread, member.tid, why, Some(priority), woken);
    }

    /// Adds an edge. `own` is the priority of a waiter that is critical by itself.
    fn begin_edge(
        &mut self,
        thing: Thing,
        thread: Thread,
        waiter: i32,
        why: Why,
        own: Option<RtPriority>,
        woken: u64,
    ) {
        let is_known = self.served.get(&thread.tid).is_some_and(|served| served.is(thread, why));
        if !is_known {
            // The id now belongs to another thread, or the thread is new.
            self.graph.forget_holder(thread.tid);
            let earlier = self.served.insert(thread.tid, Served::new(thread, why));
            self.orphans.extend(earlier.and_then(|earlier| earlier.boost.change));
        }
        let (holder, because) = (thread.tid, why.because());
        let edge = Edge { waiter, holder, because, since_ns: self.at };
        if !self.graph.begin(thing, edge, own) {
            return;
        }
        if let Some(served) = self.served.get_mut(&holder) {
            served.whys.insert(waiter, why);
        }
        self.note_all(woken);
        // The event caused a wake-up: the programs must learn that this priority is included.
        if woken > 0 {
            note(&mut self.changed, holder, woken);
        }
    }

    /// Takes over the threads whose R(k) the graph has changed.
    fn note_all(&mut self, woken: u64) {
        for thread in self.graph.take_changed() {
            note(&mut self.changed, thread, woken);
            self.forget_whys(thread);
        }
    }

    /// Removes the reasons of waiters that are gone, if these are many.
    fn forget_whys(&mut self, thread: i32) {
        let Some(served) = self.served.get_mut(&thread) else { return };
        let sets = Because::ALL.map(|because| self.graph.dependants(thread, because));
        let waiters: usize = sets.into_iter().flatten().map(Dependants::waiters).sum();
        if served.whys.len() > 2 * waiters {
            let times = |set: &&Dependants<i32>, waiter| set.times_of(waiter);
            let is_waiter = |waiter| sets.iter().flatten().any(|set| times(set, waiter) > 0);
            served.whys.retain(|waiter, _| is_waiter(*waiter));
        }
    }

    fn end(&mut self, thing: Thing, at: u64) {
        self.graph.end(thing, at);
        self.note_all(0);
    }

    /// A thread is idle again: the relations of all tasks that wait for storage end with it.
    fn end_for_storage(&mut self, thread: i32, at: u64) {
        let is_its = |thing: &Thing, edge: &Edge<i32>| {
            matches!(thing, Thing::Storage(_)) && edge.holder == thread
        };
        let its = self.graph.edges().filter(|(thing, edge)| is_its(thing, edge));
        let things: Vec<Thing> = its.map(|(thing, _)| *thing).collect();
        things.into_iter().for_each(|thing| self.end_one_for_storage(thing, thread, at));
    }

    /// The wait of a task has ended. Ordinary threads and threads of compaction do not linger: they
    /// go on with work of their own.
    fn end_wait_for_storage(&mut self, task: i32, at: u64) {
        let thing = Thing::Storage(task);
        let holders: Vec<i32> = self.graph.edges_of(thing).iter().map(|it| it.holder).collect();
        holders.into_iter().for_each(|thread| self.end_one_for_storage(thing, thread, at));
    }

    /// Ends all waits for storage, because their ends are not reported any more.
    pub fn end_all_for_storage(&mut self, at: u64) {
        let is_waiting = |thing: &Thing| match thing {
            Thing::Storage(task) => Some(*task),
            _ => None,
        };
        let tasks: Vec<i32> = self.graph.things().filter_map(is_waiting).collect();
        tasks.into_iter().for_each(|task| self.end_wait_for_storage(task, at));
    }

    fn end_one_for_storage(&mut self, thing: Thing, thread: i32, at: u64) {
        let is_its = |edge: &Edge<i32>| edge.holder == thread;
        match self.served.get(&thread).map(Served::class) {
            Some(Class::Holder | Class::Compaction) => self.graph.end_those(thing, is_its),
            _ => self.graph.end_those_at(thing, is_its, at),
        }
        self.note_all(0);
    }

    /// Ends relations without linger time, because the thread did not work on the thing.
    fn end_now(&mut self, thing: Thing) {
        self.graph.end_now(thing);
        self.note_all(0);
    }

    /// Another thread than the expected one works on the thing.
    fn leave_to(&mut self, thing: Thing, to: i32) {
        self.graph.end_those(thing, |edge| edge.holder != to);
        self.note_all(0);
    }

    fn drop_lingering(&mut self, worker: i32, woken: u64) {
        self.graph.drop_lingering(worker);
        self.note_all(woken);
    }

    /// A task has ended.
    fn forget_task(&mut self, tid: i32) {
        self.graph.forget_waiter(tid);
        self.waits.forget_waiter(tid);
        for served in self.served.values_mut() {
            served.forget(tid);
        }
        self.note_all(0);
        for disk in self.disks.values_mut() {
            disk.inodes.retain(|_, members| {
                members.retain(|(member, _)| member.tid != tid);
                !members.is_empty()
            });
        }
        self.disks.retain(|_, disk| !disk.inodes.is_empty() || disk.worker.is_some());
        if self.served.get(&tid).is_some_and(Served::is_user) {
            self.forget_thread(tid);
        }
    }

    /// Events were lost, so the relations are uncertain: all of them end.
    pub fn forget_all(&mut self, now: u64) {
        self.graph.end_all(now);
        self.disks.clear();
        self.queued.clear();
        self.packets.clear();
        self.journals.clear();
        self.note_all(0);
    }

    /// Ends the relations whose time is over.
    pub fn expire(&mut self, now: u64) {
        self.end_long_waits(now);
        let due = self.graph.due(now).into_iter();
        let before: Vec<_> = due.map(|thread| (thread, self.tasks_behind(thread))).collect();
        self.graph.expire(now);
        for (thread, before) in before {
            if !self.graph.has_dependants(thread) {
                if let Some(served) = self.served.get_mut(&thread) {
                    served.last = before;
                }
            }
        }
        self.note_all(0);
    }

    /// Applies a new configuration. The linger time is valid for threads that are served from now
    /// on.
    pub fn change_settings(&mut self, settings: KthreadSettings, functions: HashMap<u64, String>) {
        self.graph.linger_ns = settings.linger_ns();
        self.settings = settings;
        self.functions = functions;
        self.put_off_all();
    }

    /// Schedules another computation for all threads.
    fn put_off_all(&mut self) {
        let all: Vec<i32> = self.served.keys().copied().collect();
        all.into_iter().for_each(|thread| self.put_off(thread));
    }

    /// Whether each R(k) is empty, and no disk has dirty inodes of critical tasks.
    pub fn is_empty(&self) -> bool {
        !self.changes_by_itself() && self.disks.is_empty()
    }

    /// Whether some R(k) or boost may change by time alone.
    pub fn changes_by_itself(&self) -> bool {
        !self.served.values().all(|served| self.is_free(served))
    }

    /// R(k) is empty, and the thread has its own priority.
    fn is_free(&self, served: &Served) -> bool {
        served.boost.now.is_none() && !self.graph.has_dependants(served.thread.tid)
    }

    /// Threads whose R(k) changed, each with the time of the event that woke this thread.
    pub fn take_changed(&mut self) -> BTreeMap<i32, u64> {
        mem::take(&mut self.changed)
    }

    /// Schedules another attempt for a thread.
    pub fn put_off(&mut self, thread: i32) {
        self.changed.entry(thread).or_insert(0);
    }

    pub fn served(&self, thread: i32) -> Option<&Served> {
        self.served.get(&thread)
    }

    pub fn served_mut(&mut self, thread: i32) -> Option<&mut Served> {
        self.served.get_mut(&thread)
    }

    pub fn all(&self) -> impl Iterator<Item = &Served> {
        self.served.values()
    }

    /// The set of priorities of the members: bit n is priority n.
    pub fn priorities(&self, thread: i32) -> u128 {
        let sets = Because::ALL.into_iter().filter_map(|it| self.graph.dependants(thread, it));
        sets.fold(0, |bits, set| bits | set.priorities())
    }

    /// The direct waiters in the order of reports: the highest priority first.
    pub fn members(&self, thread: i32) -> Vec<(RtPriority, i32, u64, Because)> {
        let of = |because: Because| {
            let set = self.graph.dependants(thread, because);
            let all = set.into_iter().flat_map(Dependants::iter);
            all.map(move |it| (it.priority, it.waiter, it.times, because))
        };
        let mut all: Vec<_> = Because::ALL.into_iter().flat_map(of).collect();
        tek_sort::by(&mut all, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(a.3.cmp(&b.3)));
        all
    }

    /// R(k) of the works of a thread.
    pub fn summary(&self, thread: i32) -> Option<Summary> {
        self.graph.summary(thread, Because::Work)
    }

    /// Removes ended threads without waiters; live threads stay for reports. Returns all threads
    /// without waiters, so that the caller removes their entries in the programs' map.
    pub fn forget_ended(&mut self) -> Vec<i32> {
        let mut free = Vec::new();
        let Self { served, graph, orphans, .. } = self;
        served.retain(|thread, served| {
            if graph.has_dependants(*thread) || served.boost.now.is_some() {
                return true;
            }
            free.push(*thread);
            orphans.extend(served.boost.change.take());
            Identity::of(*thread).is_ok_and(|now| served.boost.is_of(now))
        });
        self.many_served = MANY_SERVED.max(2 * self.served.len());
        free
    }

    /// Whether the map has so many threads that some may have ended.
    pub fn remembers_many(&self) -> bool {
        self.served.len() > self.many_served
    }

    /// Removes a thread that has ended.
    pub fn forget_thread(&mut self, thread: i32) {
        self.journals.retain(|_, its| its.is_none_or(|its| its.tid != thread));
        let served = self.served.remove(&thread);
        self.orphans.extend(served.and_then(|served| served.boost.change));
        self.graph.forget_holder(thread);
        self.note_all(0);
        for disk in self.disks.values_mut() {
            disk.worker = disk.worker.filter(|worker| worker.tid != thread);
        }
    }

    /// The changes to threads that have ended or have no waiter; the caller undoes them.
    pub fn take_orphans(&mut self) -> Vec<Change> {
        mem::take(&mut self.orphans)
    }

    /// The priority that a thread should have; `None`: the thread's own.
    pub fn wanted(&self, thread: i32) -> Option<RtPriority> {
        let served = self.served.get(&thread)?;
        self.wanted_for_work(served).max(self.wanted_for_waits(served))
    }

    fn wanted_for_work(&self, served: &Served) -> Option<RtPriority> {
        let weight = self.weight(served)?;
        let equation =
            LiftEquation::kernel(self.settings.method, weight, served.ratio_for_equation());
        equation.priority(self.summary(served.thread.tid))
    }

    /// The weight of a kernel thread; `None`: the thread is not changed.
    pub fn weight(&self, served: &Served) -> Option<Weight> {
        if self.settings.protects(&served.thread.name.to_string()) {
            return None;
        }
        let function = served.function().and_then(|address| self.functions.get(&address));
        self.settings.weight_of(served.class(), function.map(String::as_str))
    }
}

/// Records the first event that caused a wake-up.
fn note(changed: &mut BTreeMap<i32, u64>, thread: i32, woken: u64) {
    let at = changed.entry(thread).or_insert(woken);
    if *at == 0 {
        *at = woken;
    }
}
