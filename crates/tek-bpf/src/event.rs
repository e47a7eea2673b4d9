// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of the programs: `struct tek_kthread_event` of bpf/kthreads.h, raw and typed.
use crate::name::Name;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// The struct as the programs write it.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
#[allow(missing_docs)] // the header documents the fields
pub struct RawEvent {
    pub time: u64,
    pub thing: u64,
    pub second: u64,
    pub kthread: i32,
    pub task: i32,
    pub process: i32,
    pub dev: u32,
    pub kind: u16,
    pub priority: u8,
    pub flags: u8,
    pub spare: u32,
    pub name: [u8; 16],
}

/// The fields in order with their offsets, for the test that compares them with the header.
pub const LAYOUT: &[(&str, usize)] = &[
    ("time", 0),
    ("thing", 8),
    ("second", 16),
    ("kthread", 24),
    ("task", 28),
    ("process", 32),
    ("dev", 36),
    ("kind", 40),
    ("priority", 42),
    ("flags", 43),
    ("spare", 44),
    ("name", 48),
];

const _: () = {
    assert!(size_of::<RawEvent>() == 64);
    assert!(std::mem::offset_of!(RawEvent, kind) == 40);
    assert!(std::mem::offset_of!(RawEvent, name) == 48);
};

const VIA: u8 = 1;
const WOKE: u8 = 2;
const LOST: u8 = 4;
const GUESSED: u8 = 8;
const FOREIGN: u8 = 16;

/// A kernel thread, or for locks and answers a user thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub tid: i32,
    /// Its name; empty where the programs did not read it.
    pub name: Name,
}

/// A critical task, or a thread that works for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub tid: i32,
    /// The id of its process.
    pub process: i32,
    /// Its priority at that moment, 1 to 99. A Fast thread of the fair class has its set priority.
    pub priority: u8,
    /// The member is a boosted kernel thread, a worker of io_uring, or a user thread that a
    /// critical task waits for. Its priority is that of this task.
    pub via: bool,
}

/// How the programs found a user thread that a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The lock names it, or sending woke it. A lock names only threads of the waiter's process.
    Found,
    /// It is the last thread that woke a waiter of this lock, or that received from this object.
    /// Or it has woken the task since the send, perhaps with the answer.
    Guessed,
    /// A lock in shared memory names it, and its process is another one than the waiter's or not
    /// known. The reader must check that this process maps the same memory.
    Foreign,
}

/// A work item of a workqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Work {
    /// Its address, which identifies the work from QUEUED to ENDED or DROPPED.
    pub address: u64,
    /// The address of its function; /proc/kallsyms has the name.
    pub function: u64,
}

/// A device by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// Its driver.
    pub major: u32,
    /// The device of that driver.
    pub minor: u32,
}

/// A typed event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The time in ns of CLOCK_MONOTONIC.
    pub time: u64,
    /// The event woke the reader, because it may require a reaction at once.
    pub woke: bool,
    /// Events before this event were lost: the known relations are incomplete.
    pub lost: bool,
    /// The kind and its fields.
    pub what: What,
}

/// The kind of an event. Task and thing (work, inode, request, node) identify a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the types of the fields document them
pub enum What {
    /// A task queued a work. The worker is the one that will be woken; `None`: no worker is idle.
    /// Reported again for the same task and work when the work is queued anew before it runs.
    WorkQueued { member: Member, work: Work, worker: Option<Thread> },
    /// This worker is busy, and the work waits for a free worker. Ends when the work starts.
    WorkAhead { member: Member, work: Work, worker: Thread },
    /// This worker runs the work, whichever worker was reported before.
    WorkStarted { member: Member, work: Work, worker: Thread },
    /// The work has run: the relation ends.
    WorkEnded { member: Member, work: Work, worker: Thread },
    /// The work was cancelled before it ran: the relation ends.
    WorkDropped { work: u64 },
    /// A boosted worker begins a work that no critical task waits for.
    Unrelated { work: Work, worker: Thread },
    /// A task made an inode dirty that was clean, or that only other tasks had made dirty. The
    /// worker writes back this bdi_writeback at present, if its work is queued or runs.
    InodeDirtied { member: Member, inode: u64, wb: u64, device: Device, worker: Option<i32> },
    /// The inode has no dirty pages any more: the relation ends for all tasks.
    InodeCleaned { inode: u64, wb: u64, by: Thread },
    /// The inode was deleted or evicted: the relation ends for all tasks.
    InodeGone { inode: u64, wb: u64, by: Thread },
    /// Any task queued the work of a bdi_writeback with such inodes.
    WbQueued { wb: u64, work: u64, worker: Option<Thread> },
    /// This worker is busy, and that work waits for a free worker.
    WbAhead { wb: u64, work: u64, worker: Thread },
    /// This worker runs that work.
    WbStarted { wb: u64, work: u64, worker: Thread },
    /// The worker has run that work; inodes may still be dirty.
    WbEnded { wb: u64, work: u64, worker: Thread },
    /// A task sleeps because too many pages are dirty; reported for each of its sleeps.
    Throttled { member: Member, wb: u64, ktimers: Option<Thread> },
    /// A task woke kswapd of a node.
    KswapdWanted { member: Member, node: u32, kswapd: Option<Thread> },
    /// kswapd has no work any more: the relation ends for all tasks.
    KswapdSlept { node: u32, kswapd: Thread },
    /// A task frees memory itself, in direct reclaim.
    ReclaimBegan { member: Member },
    /// The task has ended its direct reclaim.
    ReclaimEnded { member: Member },
    /// A task woke kcompactd of a node.
    KcompactdWanted { member: Member, node: u32, kcompactd: Option<Thread> },
    /// kcompactd sleeps: the relation ends for all tasks.
    KcompactdSlept { node: u32, kcompactd: Thread },
    /// A request of a task went to a disk. The thread completed the last request of its queue.
    RequestBegan { member: Member, request: u64, disk: Device, completer: Option<Thread> },
    /// The request is complete: this thread or an interrupt completed it.
    RequestEnded { member: Member, request: u64, disk: Device, completer: Option<Thread> },
    /// A task, or a boosted kernel thread, waits for a new kernel thread.
    CreationBegan { member: Member },
    /// The task has its thread, or an error: the relation ends.
    CreationEnded { member: Member },
    /// A kernel thread was created while a task waits for one. The new thread runs briefly with the
    /// priority of kthreadd and then resets its own. It must run once more before the creation
    /// ends.
    Born { thread: Thread },
    /// A request was handed to a worker of the task's process.
    UringQueued { member: Member, request: u64 },
    /// The request is complete. The worker is reported if a worker completed it.
    UringEnded { member: Member, request: u64, worker: Option<Thread> },
    /// A task sent a network packet, and this thread must process it. `None`: packets of the task
    /// are not watched, because no program is attached for them, and only the task is reported.
    PacketBegan { member: Member, packet: u64, carrier: Option<Thread> },
    /// The packet has reached its destination, or was dropped.
    PacketEnded { member: Member, packet: u64 },
    /// A task sleeps inside the kernel until something is done, and this thread works for storage.
    /// Reported for each such thread, also for threads that begin later. With an owner the thread
    /// is an ordinary thread of that process: it has no CPU and holds something inside a file
    /// system.
    StorageAwaited { member: Member, thread: Thread, owner: Option<i32> },
    /// This thread is idle again: its relations with all such tasks end.
    StorageDone { thread: i32 },
    /// The task runs again: its relations with all such threads end.
    StorageEnded { member: Member },
    /// A task without an entry in the map `tasks` uses a file system.
    StorageUsed { member: Member },
    /// A thread left the end of a request to a softirq while a critical task sleeps. The event
    /// needs no reaction: its wake-up interrupt makes the kernel run the softirq.
    StorageRaised,
    /// A task sleeps in futex(2) until this user thread releases a lock, or ends. The lock is the
    /// address of its word in the process of the member. The owner is the process of the holder.
    LockAwaited {
        member: Member,
        lock: u64,
        holder: Thread,
        owner: Option<i32>,
        evidence: Evidence,
    },
    /// The task was woken: the relation ends.
    LockEnded { member: Member, lock: u64 },
    /// A task has sent something that this user thread receives, and sleeps. Reported again for
    /// further sleeps in the 100 ms after the send. The owner is its process.
    AnswerAwaited { member: Member, server: Thread, owner: Option<i32>, evidence: Evidence },
    /// The task was woken: the relation ends.
    AnswerEnded { member: Member, server: i32 },
    /// A reported task has ended, and all its relations end with it.
    TaskExited { tid: i32, process: i32 },
}

impl What {
    /// The task of the event; `None`: the event has no task, or concerns all tasks.
    pub fn member(&self) -> Option<Member> {
        match *self {
            Self::WorkQueued { member, .. }
            | Self::WorkAhead { member, .. }
            | Self::WorkStarted { member, .. }
            | Self::WorkEnded { member, .. }
            | Self::InodeDirtied { member, .. }
            | Self::Throttled { member, .. }
            | Self::KswapdWanted { member, .. }
            | Self::ReclaimBegan { member }
            | Self::ReclaimEnded { member }
            | Self::KcompactdWanted { member, .. }
            | Self::RequestBegan { member, .. }
            | Self::RequestEnded { member, .. }
            | Self::CreationBegan { member }
            | Self::CreationEnded { member }
            | Self::UringQueued { member, .. }
            | Self::UringEnded { member, .. }
            | Self::PacketBegan { member, .. }
            | Self::PacketEnded { member, .. }
            | Self::StorageAwaited { member, .. }
            | Self::StorageEnded { member }
            | Self::StorageUsed { member }
            | Self::LockAwaited { member, .. }
            | Self::LockEnded { member, .. }
            | Self::AnswerAwaited { member, .. }
            | Self::AnswerEnded { member, .. } => Some(member),
            _ => None,
        }
    }
}

impl RawEvent {
    fn member(&self) -> Member {
        let via = self.flags & VIA != 0;
        Member { tid: self.task, process: self.process, priority: self.priority, via }
    }

    fn thread(&self) -> Thread {
        Thread { tid: self.kthread, name: Name::of_bytes(self.name) }
    }

    fn known_thread(&self) -> Option<Thread> {
        Some(self.thread()).filter(|thread| thread.tid != 0)
    }

    fn work(&self) -> Work {
        Work { address: self.thing, function: self.second }
    }

    /// The programs know the id of a node's thread, and this adds the name.
    fn of_node(&self, what: &str) -> Option<Thread> {
        let known = self.known_thread()?;
        Some(Thread { name: Name::new(&format!("{what}{}", self.thing as u32)), ..known })
    }

    /// The process of a user thread that works for a task.
    fn owner(&self) -> Option<i32> {
        i32::try_from(self.second).ok().filter(|&process| process != 0)
    }

    fn evidence(&self) -> Evidence {
        match self.flags {
            flags if flags & FOREIGN != 0 => Evidence::Foreign,
            flags if flags & GUESSED != 0 => Evidence::Guessed,
            _ => Evidence::Found,
        }
    }

    fn device(&self) -> Device {
        Device { major: self.dev >> 20, minor: self.dev & 0xf_ffff }
    }

    /// The typed event; `None` for a kind that this version does not know.
    pub fn typed(&self) -> Option<Event> {
        let (member, work, worker) = (self.member(), self.work(), self.thread());
        let (thing, wb, node) = (self.thing, self.second, self.thing as u32);
        let (known, tid) = (self.known_thread(), Some(self.kthread).filter(|&tid| tid != 0));
        let (device, owner, evidence) = (self.device(), self.owner(), self.evidence());
        let what = match self.kind {
            1 => What::WorkQueued { member, work, worker: known },
            2 => What::WorkAhead { member, work, worker },
            3 => What::WorkStarted { member, work, worker },
            4 => What::WorkEnded { member, work, worker },
            5 => What::WorkDropped { work: thing },
            6 => What::Unrelated { work, worker },
            10 => What::InodeDirtied { member, inode: thing, wb, device, worker: tid },
            11 => What::InodeCleaned { inode: thing, wb, by: worker },
            12 => What::InodeGone { inode: thing, wb, by: worker },
            13 => What::WbQueued { wb, work: thing, worker: known },
            14 => What::WbAhead { wb, work: thing, worker },
            15 => What::WbStarted { wb, work: thing, worker },
            16 => What::WbEnded { wb, work: thing, worker },
            17 => What::Throttled { member, wb, ktimers: known },
            20 => What::KswapdWanted { member, node, kswapd: self.of_node("kswapd") },
            21 => What::KswapdSlept { node, kswapd: worker },
            22 => What::ReclaimBegan { member },
            23 => What::ReclaimEnded { member },
            24 => What::KcompactdWanted { member, node, kcompactd: self.of_node("kcompactd") },
            25 => What::KcompactdSlept { node, kcompactd: worker },
            30 => What::RequestBegan { member, request: thing, disk: device, completer: known },
            31 => What::RequestEnded { member, request: thing, disk: device, completer: known },
            40 => What::CreationBegan { member },
            41 => What::CreationEnded { member },
            42 => What::Born { thread: worker },
            50 => What::UringQueued { member, request: thing },
            51 => What::UringEnded { member, request: thing, worker: known },
            60 => What::TaskExited { tid: self.task, process: self.process },
            70 => What::PacketBegan { member, packet: thing, carrier: known },
            71 => What::PacketEnded { member, packet: thing },
            80 => What::StorageAwaited { member, thread: worker, owner },
            81 => What::StorageDone { thread: self.kthread },
            82 => What::StorageEnded { member },
            83 => What::StorageUsed { member },
            84 => What::StorageRaised,
            90 => What::LockAwaited { member, lock: thing, holder: worker, owner, evidence },
            91 => What::LockEnded { member, lock: thing },
            100 => What::AnswerAwaited { member, server: worker, owner, evidence },
            101 => What::AnswerEnded { member, server: self.kthread },
            _ => return None,
        };
        let (woke, lost) = (self.flags & WOKE != 0, self.flags & LOST != 0);
        Some(Event { time: self.time, woke, lost, what })
    }
}
