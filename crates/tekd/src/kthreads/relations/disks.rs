// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that critical tasks wrote, until it is on a disk: a task is in R(k) once for each inode.
use super::{note, Relations, Thing};
use crate::kthreads::served::Why;
use std::collections::{HashMap, HashSet};
use tek_bpf::{Device, Member, Thread};

/// A disk with dirty inodes of critical tasks.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) inodes: HashMap<u64, Vec<(Member, Why)>>,
    /// The worker that writes the inodes back, or is woken for that.
    pub(super) worker: Option<Thread>,
}

impl Relations {
    /// The written disks whose journal thread is not determined yet.
    pub fn without_journal(&self) -> Vec<Device> {
        let written = self.disks.values().flat_map(|disk| disk.inodes.values().flatten());
        let disks: HashSet<Device> = written.filter_map(|(_, why)| why.disk()).collect();
        disks.into_iter().filter(|disk| !self.journals.contains_key(disk)).collect()
    }

    /// Sets the thread of a disk's journal; `None`: the disk has none.
    pub fn set_journal(&mut self, disk: Device, thread: Option<Thread>) {
        self.journals.insert(disk, thread);
        let Some(thread) = thread else { return };
        let mut written = Vec::new();
        for (inode, members) in self.disks.values().flat_map(|disk| &disk.inodes) {
            let its = members.iter().filter(|(_, why)| why.disk() == Some(disk));
            written.extend(its.map(|(member, why)| (*inode, *member, *why)));
        }
        for (inode, member, why) in written {
            self.begin(Thing::Journal(inode), thread, member, why, 0);
        }
    }

    /// A worker begins to write the inodes back, or is woken for that.
    pub(super) fn write_back(&mut self, wb: u64, worker: Option<Thread>, woken: u64) {
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

    /// A busy worker must finish its present work first.
    pub(super) fn write_back_behind(&mut self, wb: u64, worker: Thread, woken: u64) {
        let Some(disk) = self.disks.get(&wb) else { return };
        let mut seen = HashSet::new();
        let members = disk.inodes.values().flatten().filter(|(member, _)| seen.insert(member.tid));
        for (member, why) in members.copied().collect::<Vec<_>>() {
            self.begin(Thing::DiskBehind(wb), worker, member, why, woken);
        }
    }

    /// No worker writes back at present.
    pub(super) fn rest(&mut self, wb: u64, at: u64) {
        self.end_now(Thing::DiskBehind(wb));
        let Some(disk) = self.disks.get_mut(&wb) else { return };
        disk.worker = None;
        let inodes: Vec<u64> = disk.inodes.keys().copied().collect();
        inodes.into_iter().for_each(|inode| self.end(Thing::Inode(inode), at));
    }

    pub(super) fn forget_inode(&mut self, inode: u64, wb: u64) {
        let Some(disk) = self.disks.get_mut(&wb) else { return };
        disk.inodes.remove(&inode);
        if disk.inodes.is_empty() && disk.worker.is_none() {
            self.disks.remove(&wb);
        }
    }
}
