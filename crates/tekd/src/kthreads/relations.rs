// SPDX-License-Identifier: MIT OR Apache-2.0
//! The relations between critical tasks and kernel threads, computed from events to R(k).
//!
//! A relation is one critical task with one thing (a work item, an inode, a request) that a kernel
//! thread works on. The thread may change: one worker is woken for a work, and another runs it. The
//! inodes of a disk have no thread until the work that writes them back is queued.
mod disks;
mod events;
mod memory;
#[cfg(test)]
mod tests;

use super::served::{Served, Why};
use disks::Disk;
use std::collections::{BTreeMap, HashMap};
use std::mem;
use tek_bpf::{Device, Member, Thread};
use tek_effect::{Change, Identity};
use tek_policy::kthread::{Class, KthreadSettings, RtPriority, Weight};

/// The kernel thread that creates all others.
const CREATOR: i32 = 2;
/// With more threads than this, ended threads are removed.
const MANY_SERVED: usize = 512;

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
}

/// All relations.
pub struct Relations {
    pub settings: KthreadSettings,
    served: HashMap<i32, Served>,
    /// The kernel threads that work on a thing, each with its critical task.
    of_thing: HashMap<Thing, Vec<(i32, i32)>>,
    disks: HashMap<u64, Disk>,
    /// The threads that end transactions of file systems: a writer may have to wait for them.
    journals: HashMap<Device, Option<Thread>>,
    /// Works that no worker has begun, each with its time.
    queued: HashMap<u64, u64>,
    /// Packets that a thread must process, each with its time.
    packets: HashMap<u64, u64>,
    /// kswapd of each node.
    reclaimers: Vec<Thread>,
    /// Kernel threads whose R(k) changed since the last [`Relations::take_changed`]. The value is
    /// the time of the event that caused it; 0: that event caused no wake-up.
    changed: BTreeMap<i32, u64>,
    /// Names of functions that have a weight of their own.
    functions: HashMap<u64, String>,
    /// Changes to threads that have ended.
    orphans: Vec<Change>,
}

impl Relations {
    pub fn new(
        settings: KthreadSettings,
        reclaimers: Vec<Thread>,
        functions: HashMap<u64, String>,
    ) -> Self {
        Self {
            settings,
            served: HashMap::new(),
            of_thing: HashMap::new(),
            disks: HashMap::new(),
            journals: HashMap::new(),
            queued: HashMap::new(),
            packets: HashMap::new(),
            reclaimers,
            changed: BTreeMap::new(),
            functions,
            orphans: Vec::new(),
        }
    }

    /// A boosted kernel thread as a member stands for its own dependants.
    fn begin(&mut self, thing: Thing, thread: Thread, member: Member, why: Why, woken: u64) {
        if !member.via {
            return self.begin_for(thing, thread, member, why, woken);
        }
        let members = self.served.get(&member.tid).map(Served::members).unwrap_or_default();
        for (tid, priority) in members {
            let member = Member { tid, process: tid, priority, via: false };
            self.begin_for(thing, thread, member, why, woken);
        }
        // Also without dependants: the programs must learn that this relation needs no wake-up.
        note(&mut self.changed, thread.tid, woken);
    }

    fn begin_for(&mut self, thing: Thing, thread: Thread, member: Member, why: Why, woken: u64) {
        let Some(priority) = RtPriority::new(member.priority.into()) else { return };
        let workers = self.of_thing.entry(thing).or_default();
        let is_known = workers.contains(&(thread.tid, member.tid));
        let served = match self.served.get_mut(&thread.tid) {
            Some(served) if served.is(thread) => served,
            // The id now belongs to another thread, or the thread is new.
            _ => {
                let served = Served::new(thread, why, self.settings.linger_ns());
                let earlier = self.served.insert(thread.tid, served);
                self.orphans.extend(earlier.and_then(|earlier| earlier.boost.change));
                match self.served.get_mut(&thread.tid) {
                    Some(served) => served,
                    None => return,
                }
            }
        };
        if !is_known {
            workers.push((thread.tid, member.tid));
            if served.begin(member.tid, priority, why) {
                note(&mut self.changed, thread.tid, woken);
            }
        } else if served.change_priority(member.tid, priority) {
            note(&mut self.changed, thread.tid, woken);
        }
        // The event caused a wake-up: the programs must learn that this priority is included.
        if woken > 0 {
            note(&mut self.changed, thread.tid, woken);
        }
    }

    fn end(&mut self, thing: Thing, at: u64) {
        for (thread, member) in self.of_thing.remove(&thing).into_iter().flatten() {
            if self.served.get_mut(&thread).is_some_and(|served| served.end(member, at)) {
                self.changed.entry(thread).or_insert(0);
            }
        }
    }

    /// A thread is idle again: the relations of all tasks that wait for storage end with it.
    fn end_for_storage(&mut self, thread: i32, at: u64) {
        let mut waited = Vec::new();
        for (_, workers) in
            self.of_thing.iter_mut().filter(|(it, _)| matches!(it, Thing::Storage(_)))
        {
            waited.extend(workers.extract_if(.., |(its, _)| *its == thread));
        }
        waited
            .into_iter()
            .for_each(|(thread, member)| self.end_one_for_storage(thread, member, at));
    }

    /// The wait of a task has ended. Ordinary threads and threads of compaction do not linger: they
    /// go on with work of their own.
    fn end_wait_for_storage(&mut self, task: i32, at: u64) {
        let workers = self.of_thing.remove(&Thing::Storage(task)).into_iter().flatten();
        workers.for_each(|(thread, member)| self.end_one_for_storage(thread, member, at));
    }

    /// Ends all waits for storage, because their ends are not reported any more.
    pub fn end_all_for_storage(&mut self, at: u64) {
        let is_waiting = |thing: &Thing| match thing {
            Thing::Storage(task) => Some(*task),
            _ => None,
        };
        let tasks: Vec<i32> = self.of_thing.keys().filter_map(is_waiting).collect();
        tasks.into_iter().for_each(|task| self.end_wait_for_storage(task, at));
    }

    fn end_one_for_storage(&mut self, thread: i32, member: i32, at: u64) {
        let Some(served) = self.served.get_mut(&thread) else { return };
        let changed = match served.class() {
            Class::Holder | Class::Compaction => served.end_now(member),
            _ => served.end(member, at),
        };
        if changed {
            self.changed.entry(thread).or_insert(0);
        }
    }

    /// Ends relations without linger time, because the thread did not work on the thing.
    fn end_now(&mut self, thing: Thing) {
        for (thread, member) in self.of_thing.remove(&thing).into_iter().flatten() {
            self.end_of_one(thread, member);
        }
    }

    fn end_of_one(&mut self, thread: i32, member: i32) {
        if self.served.get_mut(&thread).is_some_and(|served| served.end_now(member)) {
            self.changed.entry(thread).or_insert(0);
        }
    }

    /// Another thread than the expected one works on the thing.
    fn leave_to(&mut self, thing: Thing, to: i32) {
        let Some(workers) = self.of_thing.get_mut(&thing) else { return };
        let rest: Vec<_> = workers.extract_if(.., |(thread, _)| *thread != to).collect();
        rest.into_iter().for_each(|(thread, member)| self.end_of_one(thread, member));
    }

    fn drop_lingering(&mut self, worker: i32, woken: u64) {
        if self.served.get_mut(&worker).is_some_and(Served::drop_lingering) {
            note(&mut self.changed, worker, woken);
        }
    }

    /// A task has ended.
    fn forget_task(&mut self, tid: i32) {
        for (thread, served) in &mut self.served {
            if served.forget(tid) {
                self.changed.entry(*thread).or_insert(0);
            }
        }
        self.of_thing.retain(|_, workers| {
            workers.retain(|(_, member)| *member != tid);
            !workers.is_empty()
        });
        for disk in self.disks.values_mut() {
            disk.inodes.retain(|_, members| {
                members.retain(|(member, _)| member.tid != tid);
                !members.is_empty()
            });
        }
        self.disks.retain(|_, disk| !disk.inodes.is_empty() || disk.worker.is_some());
    }

    /// Events were lost, so the relations are uncertain: all of them end.
    pub fn forget_all(&mut self, now: u64) {
        self.of_thing.clear();
        self.disks.clear();
        self.queued.clear();
        self.packets.clear();
        self.journals.clear();
        for (thread, served) in &mut self.served {
            if served.end_all(now) {
                self.changed.entry(*thread).or_insert(0);
            }
        }
    }

    /// Ends the relations whose linger time is over.
    pub fn expire(&mut self, now: u64) {
        for (thread, served) in &mut self.served {
            if served.expire(now) {
                self.changed.entry(*thread).or_insert(0);
            }
        }
    }

    /// Applies a new configuration. The linger time is valid for threads that are served from now
    /// on.
    pub fn change_settings(&mut self, settings: KthreadSettings, functions: HashMap<u64, String>) {
        self.settings = settings;
        self.functions = functions;
        let all: Vec<i32> = self.served.keys().copied().collect();
        all.into_iter().for_each(|thread| self.put_off(thread));
    }

    /// Whether each R(k) is empty, and no disk has dirty inodes of critical tasks.
    pub fn is_empty(&self) -> bool {
        self.served.values().all(Served::is_free) && self.disks.is_empty()
    }

    /// Whether some R(k) or boost may change by time alone.
    pub fn changes_by_itself(&self) -> bool {
        !self.served.values().all(Served::is_free)
    }

    /// Kernel threads whose R(k) changed, each with the time of the event that woke this thread.
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

    /// Removes ended threads without waiters; live threads stay for reports. Returns all threads
    /// without waiters, so that the caller removes their entries in the programs' map.
    pub fn forget_ended(&mut self) -> Vec<i32> {
        let mut free = Vec::new();
        self.served.retain(|thread, served| {
            if !served.is_free() {
                return true;
            }
            free.push(*thread);
            self.orphans.extend(served.boost.change.take());
            Identity::of(*thread).is_ok_and(|now| served.boost.is_of(now))
        });
        free
    }

    /// Whether the map has so many threads that some may have ended.
    pub fn remembers_many(&self) -> bool {
        self.served.len() > MANY_SERVED
    }

    /// Removes a thread that has ended.
    pub fn forget_thread(&mut self, thread: i32) {
        self.journals.retain(|_, its| its.is_none_or(|its| its.tid != thread));
        let served = self.served.remove(&thread);
        self.orphans.extend(served.and_then(|served| served.boost.change));
        self.of_thing.retain(|_, workers| {
            workers.retain(|(its, _)| *its != thread);
            !workers.is_empty()
        });
        for disk in self.disks.values_mut() {
            disk.worker = disk.worker.filter(|worker| worker.tid != thread);
        }
    }

    /// The changes to threads that have ended or have no waiter; the caller undoes them.
    pub fn take_orphans(&mut self) -> Vec<Change> {
        mem::take(&mut self.orphans)
    }

    /// The priority that a kernel thread should have; `None`: the thread's own.
    pub fn wanted(&self, thread: i32) -> Option<RtPriority> {
        let served = self.served.get(&thread)?;
        let weight = self.weight(served)?;
        self.settings.method.priority(weight, served.ratio_for_equation(), served.summary())
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
