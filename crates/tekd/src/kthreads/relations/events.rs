// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of each event on R(k).
use super::{Relations, Thing, CREATOR};
use crate::kthreads::served::Why;
use tek_bpf::{Event, Member, Name, Thread, What};
use tek_policy::dependency::RtPriority;

const CREATOR_THREAD: Thread = Thread { tid: CREATOR, name: Name::UNKNOWN };
/// The age at which a work counts as cancelled, because some kernels do not report that. Packets
/// have the same limit, because the end of a packet may not be reported.
const CANCELLED_NS: u64 = 2_000_000_000;
/// The longest sleep in the kernel's balance_dirty_pages().
const LONGEST_PAUSE_NS: u64 = 200_000_000;

impl Relations {
    /// Updates the relations for an event.
    pub fn take(&mut self, event: &Event) {
        let (at, woken) = (event.time, if event.woke { event.time } else { 0 });
        self.at = at;
        match event.what {
            What::WorkQueued { member, work, worker } => {
                self.queued.insert(work.address, at);
                let (worker, why) = match worker {
                    Some(worker) => (worker, Why::Work(work.function)),
                    // No worker is idle, so kthreadd may have to create one.
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
            What::Unrelated { worker, .. } => self.drop_lingering(worker.tid, woken),
            // An inode that a kernel thread makes dirty counts for no task.
            What::InodeDirtied { member, .. } if member.via => {}
            What::InodeDirtied { member, inode, wb, device, .. } => {
                let why = Why::Write(device);
                let disk = self.disks.entry(wb).or_default();
                let members = disk.inodes.entry(inode).or_default();
                // The event repeats where the programs forgot the inode.
                if !members.iter().any(|(its, _)| its.tid == member.tid) {
                    members.push((member, why));
                }
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
            // The tasks that made the pages dirty wait for the worker already.
            What::Throttled { member, ktimers, .. } => {
                if let Some(ktimers) = ktimers {
                    let thing = Thing::Pause(member.tid);
                    self.begin(thing, ktimers, member, Why::Timer, woken);
                    self.end(thing, at + LONGEST_PAUSE_NS);
                }
            }
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
            // The event only reports that the task sends packets.
            What::PacketBegan { carrier: None, .. } => {}
            What::PacketBegan { member, packet, carrier: Some(carrier) } => {
                if self.packets.insert(packet, at).is_some() {
                    self.end_now(Thing::Packet(packet)); // an earlier packet at this address
                }
                self.begin(Thing::Packet(packet), carrier, member, Why::Packet, woken);
            }
            What::PacketEnded { packet, .. } => {
                self.packets.remove(&packet);
                self.end(Thing::Packet(packet), at);
            }
            What::StorageAwaited { member, thread, owner } => {
                let why = owner.map_or(Why::Storage, |_| Why::Held);
                self.begin(Thing::Storage(member.tid), thread, member, why, woken);
            }
            What::StorageDone { thread } => self.end_for_storage(thread, at),
            What::StorageEnded { member } => self.end_wait_for_storage(member.tid, at),
            // The task is followed from now on; the softirq runs already.
            What::StorageUsed { .. } | What::StorageRaised => {}
            What::LockAwaited { member, lock, holder, evidence, .. } => {
                self.await_lock(member, lock, holder, evidence, woken);
            }
            What::LockEnded { member, .. } => self.end_lock(member.tid),
            What::AnswerAwaited { member, server, .. } => self.await_answer(member, server, woken),
            What::AnswerEnded { member, server } => self.end_answer(member.tid, server),
            What::TaskExited { tid, .. } => self.forget_task(tid),
        }
    }

    /// Some of these workers will process a request of io_uring.
    pub fn uring(&mut self, member: Member, request: u64, workers: &[Thread], woken: u64) {
        for &worker in workers {
            self.begin(Thing::Uring(request), worker, member, Why::Uring, woken);
        }
    }

    fn drop_work(&mut self, work: u64) {
        self.queued.remove(&work);
        self.end_now(Thing::Work(work));
        self.end_now(Thing::WorkBehind(work));
    }

    /// Drops works that no worker has begun in time as cancelled, and returns them. Packets of the
    /// same age count as delivered.
    pub fn drop_cancelled(&mut self, now: u64) -> Vec<u64> {
        let is_old = |since: &u64| since.saturating_add(CANCELLED_NS) < now;
        let arrived: Vec<u64> =
            self.packets.extract_if(|_, since| is_old(since)).map(|(packet, _)| packet).collect();
        arrived.into_iter().for_each(|packet| self.end_now(Thing::Packet(packet)));
        let old: Vec<u64> =
            self.queued.iter().filter(|(_, since)| is_old(since)).map(|(work, _)| *work).collect();
        old.iter().for_each(|work| self.drop_work(*work));
        old
    }

    /// A new kernel thread must run before the tasks that wait for it go on.
    fn wait_for_new(&mut self, thread: Thread, woken: u64) {
        let waiting = self.graph.edges().filter(|(_, edge)| edge.holder == CREATOR);
        let waiting: Vec<_> = waiting.map(|(thing, edge)| (*thing, edge.waiter)).collect();
        for (thing, tid) in waiting {
            let Some(priority) = self.graph.priority_of(tid).map(RtPriority::get) else { continue };
            let member = Member { tid, process: tid, priority, via: false };
            self.begin(thing, thread, member, Why::Thread, woken);
        }
    }
}
