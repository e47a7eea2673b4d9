// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for which kernel thread now, and for what: from events to R(k). Changes nothing.
//!
//! A relation is one critical task with one thing (a work item, an inode, a request) that a kernel
//! thread works on. Which thread that is may change: a work is queued for one worker and run by
//! another. The inodes of a disk belong to nobody until the work that writes them back is queued.
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

/// The kernel's thread that makes all others.
const CREATOR: i32 = 2;
/// Threads are looked through for those that have ended when there are more.
const MANY_SERVED: usize = 512;

/// What a kernel thread works on. The numbers are addresses in the kernel, nodes or thread ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thing {
    Work(u64),
    /// It waits behind what a worker runs now.
    WorkBehind(u64),
    Inode(u64),
    /// The same for the thread of its file system's journal.
    Journal(u64),
    /// The writeback of a disk waits behind what a worker runs now.
    DiskBehind(u64),
    Request(u64),
    /// kswapd of a node was woken.
    Reclaim(u32),
    /// A task reclaims by itself.
    OwnReclaim(i32),
    Compaction(u32),
    Creation(i32),
    Uring(u64),
    /// A task that writes too much sleeps for a while.
    Pause(i32),
    Packet(u64),
    /// What is done for storage while a task sleeps inside the kernel.
    Storage(i32),
}

/// All relations.
pub struct Relations {
    pub settings: KthreadSettings,
    served: HashMap<i32, Served>,
    /// The kernel threads that work on a thing, and for whom.
    of_thing: HashMap<Thing, Vec<(i32, i32)>>,
    disks: HashMap<u64, Disk>,
    /// The threads that end transactions of file systems: who writes may have to wait for that.
    journals: HashMap<Device, Option<Thread>>,
    /// Works that were not begun yet, and since when.
    queued: HashMap<u64, u64>,
    /// Packets on their way, and since when.
    packets: HashMap<u64, u64>,
    /// kswapd of each node.
    reclaimers: Vec<Thread>,
    /// Kernel threads whose R(k) is another than when this was asked last, and when the event came that
    /// made it so; 0: nobody was woken for that.
    changed: BTreeMap<i32, u64>,
    /// Names of functions that have a weight of their own.
    functions: HashMap<u64, String>,
    /// Of threads that have ended.
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

    /// What a kernel thread that follows somebody wants is what those want whom it follows.
    fn begin(&mut self, thing: Thing, thread: Thread, member: Member, why: Why, woken: u64) {
        if !member.via {
            return self.begin_for(thing, thread, member, why, woken);
        }
        let members = self.served.get(&member.tid).map(Served::members).unwrap_or_default();
        for (tid, priority) in members {
            let member = Member { tid, process: tid, priority, via: false };
            self.begin_for(thing, thread, member, why, woken);
        }
        // Also if there is nobody any more: it is to wake us no more.
        note(&mut self.changed, thread.tid, woken);
    }

    fn begin_for(&mut self, thing: Thing, thread: Thread, member: Member, why: Why, woken: u64) {
        let Some(priority) = RtPriority::new(member.priority.into()) else { return };
        let workers = self.of_thing.entry(thing).or_default();
        let is_known = workers.contains(&(thread.tid, member.tid));
        let served = match self.served.get_mut(&thread.tid) {
            Some(served) if served.is(thread) => served,
            // Its id has become another's, or it is new.
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
        // Somebody was woken for it: he is to see that this priority is counted in.
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

    /// A thread has done what all such tasks wait for.
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

    /// What a task waited for is done. Threads that were helped because they might be in its way, and
    /// ordinary ones, go on with their own business at once.
    fn end_wait_for_storage(&mut self, task: i32, at: u64) {
        let workers = self.of_thing.remove(&Thing::Storage(task)).into_iter().flatten();
        workers.for_each(|(thread, member)| self.end_one_for_storage(thread, member, at));
    }

    /// No end of such a wait is reported any more.
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

    /// It was not worked on: nobody lingers.
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

    /// Another thread than was thought works on it.
    fn leave_to(&mut self, thing: Thing, to: i32) {
        let Some(workers) = self.of_thing.get_mut(&thing) else { return };
        let others: Vec<_> = workers.extract_if(.., |(thread, _)| *thread != to).collect();
        others.into_iter().for_each(|(thread, member)| self.end_of_one(thread, member));
    }

    fn drop_those_who_linger(&mut self, worker: i32, woken: u64) {
        if self.served.get_mut(&worker).is_some_and(Served::drop_those_who_linger) {
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

    /// Events were lost, so nothing is known for certain: all relations end, none is left behind.
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

    /// Those who lingered long enough leave.
    pub fn expire(&mut self, now: u64) {
        for (thread, served) in &mut self.served {
            if served.expire(now) {
                self.changed.entry(*thread).or_insert(0);
            }
        }
    }

    /// The configuration was read anew. The linger time is that of threads that are served from now on.
    pub fn change_settings(&mut self, settings: KthreadSettings, functions: HashMap<u64, String>) {
        self.settings = settings;
        self.functions = functions;
        let all: Vec<i32> = self.served.keys().copied().collect();
        all.into_iter().for_each(|thread| self.put_off(thread));
    }

    /// Whether anybody is in any R(k).
    pub fn is_empty(&self) -> bool {
        self.served.values().all(Served::is_free) && self.disks.is_empty()
    }

    /// Whether some R(k) may become another one by time alone.
    pub fn changes_by_itself(&self) -> bool {
        !self.served.values().all(Served::is_free)
    }

    /// Kernel threads whose R(k) is another now, with the time of the event that woke us for it.
    pub fn take_changed(&mut self) -> BTreeMap<i32, u64> {
        mem::take(&mut self.changed)
    }

    /// What could not be done now is tried again later.
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

    /// Threads that nobody waits for are remembered for who asks, but not those that have ended. What was
    /// done to them is to be forgotten.
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

    /// Whether so many threads are remembered that some may have ended.
    pub fn remembers_many(&self) -> bool {
        self.served.len() > MANY_SERVED
    }

    /// One that has ended is forgotten.
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

    /// What was done to threads that have ended, or are free, is to be forgotten, too.
    pub fn take_orphans(&mut self) -> Vec<Change> {
        mem::take(&mut self.orphans)
    }

    /// The priority that a kernel thread should have; `None`: its own.
    pub fn wanted(&self, thread: i32) -> Option<RtPriority> {
        let served = self.served.get(&thread)?;
        let weight = self.weight(served)?;
        self.settings.method.priority(weight, served.ratio_for_equation(), served.summary())
    }

    /// That of a kernel thread; `None`: it is left alone.
    pub fn weight(&self, served: &Served) -> Option<Weight> {
        if self.settings.protects(&served.thread.name.to_string()) {
            return None;
        }
        let function = served.function().and_then(|address| self.functions.get(&address));
        self.settings.weight_of(served.class(), function.map(String::as_str))
    }
}

/// The first event for which somebody was woken counts.
fn note(changed: &mut BTreeMap<i32, u64>, thread: i32, woken: u64) {
    let at = changed.entry(thread).or_insert(woken);
    if *at == 0 {
        *at = woken;
    }
}
