// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for which kernel thread now, and for what: from events to R(k). Changes nothing.
//!
//! A relation is one critical task with one thing (a work item, an inode, a request) that a kernel
//! thread works on. Which thread that is may change: a work is queued for one worker and run by
//! another. The inodes of a disk belong to nobody until the work that writes them back is queued.
use super::safe_order::Superiors;
use super::served::{Served, Why};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use tek_bpf::{Device, Event, Member, Name, Thread, What};
use tek_effect::{Change, Identity};
use tek_policy::kthread::{KthreadSettings, Ratio, RtPriority, Weight};

/// The kernel's thread that makes all others.
const CREATOR: i32 = 2;
const CREATOR_THREAD: Thread = Thread { tid: CREATOR, name: Name::UNKNOWN };
/// A work that was not begun for so long was cancelled, which not all kernels tell.
const CANCELLED_NS: u64 = 2_000_000_000;
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
}

/// A disk with dirty inodes of critical tasks.
#[derive(Default)]
struct Disk {
    inodes: HashMap<u64, Vec<(Member, Why)>>,
    /// Who writes them back, or is woken for that.
    worker: Option<Thread>,
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
    /// kswapd of each node.
    reclaimers: Vec<Thread>,
    /// Kernel threads whose R(k) is another than when this was asked last, and when the event came that
    /// made it so; 0: nobody was woken for that.
    changed: BTreeMap<i32, u64>,
    /// Names of functions that have a weight of their own.
    functions: HashMap<u64, String>,
    /// Of threads that have ended.
    orphans: Vec<Change>,
    pub superiors: Superiors,
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
            reclaimers,
            changed: BTreeMap::new(),
            functions,
            orphans: Vec::new(),
            superiors: Superiors::default(),
        }
    }

    /// Takes in what happened.
    pub fn take(&mut self, event: &Event) {
        let (at, woken) = (event.time, if event.woke { event.time } else { 0 });
        match event.what {
            What::WorkQueued { member, work, worker } => {
                self.queued.insert(work.address, at);
                let (worker, why) = match worker {
                    Some(worker) => (worker, Why::Work(work.function)),
                    // None is idle, so a new one may have to be made.
                    None => (CREATOR_THREAD, Why::Thread),
                };
                self.begin(Thing::Work(work.address), worker, member, why, woken);
            }
            What::WorkAhead { member, work, worker } => {
                let why = Why::Work(work.function);
                self.begin(Thing::WorkBehind(work.address), worker, member, why, woken);
            }
            What::WorkStarted { member, work, worker } => {
                self.queued.remove(&work.address);
                self.leave_to(Thing::Work(work.address), worker.tid);
                self.end_now(Thing::WorkBehind(work.address));
                let why = Why::Work(work.function);
                self.begin(Thing::Work(work.address), worker, member, why, woken);
            }
            What::WorkEnded { work, .. } => self.end(Thing::Work(work.address), at),
            What::WorkDropped { work } => self.drop_work(work),
            What::Unrelated { worker, .. } => self.drop_those_who_linger(worker.tid, woken),
            // What a kernel thread makes dirty is for all.
            What::InodeDirtied { member, .. } if member.via => {}
            What::InodeDirtied { member, inode, wb, device, .. } => {
                let why = Why::Write(device);
                let disk = self.disks.entry(wb).or_default();
                disk.inodes.entry(inode).or_default().push((member, why));
                if let Some(worker) = disk.worker {
                    self.begin(Thing::Inode(inode), worker, member, why, woken);
                }
                if let Some(Some(journal)) = self.journals.get(&device).copied() {
                    self.begin(Thing::Journal(inode), journal, member, why, woken);
                }
            }
            What::InodeCleaned { inode, wb, .. } | What::InodeGone { inode, wb, .. } => {
                self.end(Thing::Inode(inode), at);
                self.end(Thing::Journal(inode), at);
                self.forget_inode(inode, wb);
            }
            What::WbQueued { wb, worker, .. } => self.write_back(wb, worker, woken),
            What::WbAhead { wb, worker, .. } => self.write_back_behind(wb, worker, woken),
            What::WbStarted { wb, worker, .. } => {
                self.end_now(Thing::DiskBehind(wb));
                self.write_back(wb, Some(worker), woken);
            }
            What::WbEnded { wb, .. } => self.rest(wb, at),
            What::Throttled { .. } => {} // it is waited for by those who made the pages dirty
            What::KswapdWanted { member, node, kswapd } => {
                if let Some(kswapd) = kswapd {
                    self.begin(Thing::Reclaim(node), kswapd, member, Why::Memory, woken);
                }
            }
            What::KswapdSlept { node, .. } => self.end(Thing::Reclaim(node), at),
            What::ReclaimBegan { member } => {
                for kswapd in self.reclaimers.clone() {
                    self.begin(Thing::OwnReclaim(member.tid), kswapd, member, Why::Memory, woken);
                }
            }
            What::ReclaimEnded { member } => self.end(Thing::OwnReclaim(member.tid), at),
            What::KcompactdWanted { member, node, kcompactd } => {
                if let Some(kcompactd) = kcompactd {
                    self.begin(Thing::Compaction(node), kcompactd, member, Why::Blocks, woken);
                }
            }
            What::KcompactdSlept { node, .. } => self.end(Thing::Compaction(node), at),
            What::RequestBegan { member, request, disk, completer } => {
                if let Some(completer) = completer {
                    let why = Why::Request(disk);
                    self.begin(Thing::Request(request), completer, member, why, woken);
                }
            }
            What::RequestEnded { request, .. } => self.end(Thing::Request(request), at),
            What::CreationBegan { member } => {
                let thing = Thing::Creation(member.tid);
                self.begin(thing, CREATOR_THREAD, member, Why::Thread, woken);
            }
            What::CreationEnded { member } => self.end(Thing::Creation(member.tid), at),
            What::Born { thread } => self.wait_for_new(thread, woken),
            What::UringQueued { .. } => {} // begun by uring(), which knows the workers
            What::UringEnded { request, .. } => self.end(Thing::Uring(request), at),
            What::TaskExited { tid, .. } => self.forget_task(tid),
        }
    }

    /// Whether it was looked which thread ends the transactions of a disk's file system.
    pub fn knows_journal(&self, disk: Device) -> bool {
        self.journals.contains_key(&disk)
    }

    /// That thread; `None`: there is none.
    pub fn set_journal(&mut self, disk: Device, thread: Option<Thread>) {
        self.journals.insert(disk, thread);
    }

    /// A request of io_uring is done by some of these workers.
    pub fn uring(&mut self, member: Member, request: u64, workers: &[Thread], woken: u64) {
        for &worker in workers {
            self.begin(Thing::Uring(request), worker, member, Why::Uring, woken);
        }
    }

    /// Critical tasks that own pages while kswapd of a node is wanted, and their share of all pages.
    pub fn owners(&mut self, owners: &[Member], ratio: Ratio) {
        let nodes: Vec<u32> = (self.of_thing.keys())
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

    /// Whether somebody waits for memory.
    pub fn wants_memory(&self) -> bool {
        let is_reclaim = |thing: &Thing| matches!(thing, Thing::Reclaim(_) | Thing::OwnReclaim(_));
        !self.reclaimers.is_empty() && self.of_thing.keys().any(is_reclaim)
    }

    fn reclaimer_of(&self, node: u32) -> Option<Thread> {
        let name = format!("kswapd{node}");
        self.reclaimers.iter().find(|it| it.name.as_bytes() == name.as_bytes()).copied()
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
                let served = Served::new(thread, self.settings.linger_ns());
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

    fn drop_work(&mut self, work: u64) {
        self.queued.remove(&work);
        self.end_now(Thing::Work(work));
        self.end_now(Thing::WorkBehind(work));
    }

    /// Works that nobody begins count as cancelled. Which ones these are.
    pub fn drop_cancelled(&mut self, now: u64) -> Vec<u64> {
        let is_old = |since: &u64| since.saturating_add(CANCELLED_NS) < now;
        let old: Vec<u64> =
            self.queued.iter().filter(|(_, since)| is_old(since)).map(|(work, _)| *work).collect();
        old.iter().for_each(|work| self.drop_work(*work));
        old
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

    /// A worker comes to write back what is dirty.
    fn write_back(&mut self, wb: u64, worker: Option<Thread>, woken: u64) {
        let Some(disk) = self.disks.get_mut(&wb) else { return };
        disk.worker = worker;
        let all: Vec<_> = disk
            .inodes
            .iter()
            .flat_map(|(inode, members)| members.iter().map(|member| (*inode, *member)))
            .collect();
        let Some(worker) = worker else { return };
        for (inode, (member, why)) in all {
            self.leave_to(Thing::Inode(inode), worker.tid);
            self.begin(Thing::Inode(inode), worker, member, why, 0);
        }
        note(&mut self.changed, worker.tid, woken);
    }

    /// A worker has to be done with something else before.
    fn write_back_behind(&mut self, wb: u64, worker: Thread, woken: u64) {
        let Some(disk) = self.disks.get(&wb) else { return };
        let mut seen = HashSet::new();
        let members = disk.inodes.values().flatten().filter(|(member, _)| seen.insert(member.tid));
        for (member, why) in members.copied().collect::<Vec<_>>() {
            self.begin(Thing::DiskBehind(wb), worker, member, why, woken);
        }
    }

    /// Nobody writes back just now.
    fn rest(&mut self, wb: u64, at: u64) {
        self.end_now(Thing::DiskBehind(wb));
        let Some(disk) = self.disks.get_mut(&wb) else { return };
        disk.worker = None;
        let inodes: Vec<u64> = disk.inodes.keys().copied().collect();
        inodes.into_iter().for_each(|inode| self.end(Thing::Inode(inode), at));
    }

    fn forget_inode(&mut self, inode: u64, wb: u64) {
        let Some(disk) = self.disks.get_mut(&wb) else { return };
        disk.inodes.remove(&inode);
        if disk.inodes.is_empty() && disk.worker.is_none() {
            self.disks.remove(&wb);
        }
    }

    /// A thread that was just made has to run before those who wait for it go on.
    fn wait_for_new(&mut self, thread: Thread, woken: u64) {
        let waiting: Vec<_> = (self.of_thing.iter())
            .flat_map(|(thing, workers)| {
                workers.iter().map(|(its, member)| (*thing, *its, *member))
            })
            .filter_map(|(thing, its, member)| (its == CREATOR).then_some((thing, member)))
            .collect();
        for (thing, tid) in waiting {
            let priority = self.served.get(&CREATOR).and_then(|served| served.priority_of(tid));
            let Some(priority) = priority else { continue };
            let member = Member { tid, process: tid, priority, via: false };
            self.begin(thing, thread, member, Why::Thread, woken);
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

    /// Threads that nobody waits for are remembered for who asks, but not those that have ended.
    pub fn forget_ended(&mut self) {
        self.served.retain(|thread, served| {
            !served.is_free() || Identity::of(*thread).is_ok_and(|now| served.boost.is_of(now))
        });
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

    /// What was done to threads that have ended is to be forgotten, too.
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
