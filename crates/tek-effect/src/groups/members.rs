// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads and processes of each group.
use super::Groups;
use crate::identity::{is_none, process_of};
use crate::{sys, Change, Effect, Error, Identity, Scheduling, Undone, Version};
use std::fs;
use std::path::Path;
use tek_policy::Group;
use tek_procfs::path;

/// Highest number of passes over a process until all its threads are in the group. A child of a
/// placed thread starts in the right group, so only children of unplaced threads need a new pass.
const MOST_CHECKS: usize = 64;

/// How many threads a call was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Placed {
    /// Moved now.
    pub moved: usize,
    /// Left where they are: real-time where a group cannot have such threads, or the kernel's.
    pub left: usize,
}

/// A process that is being moved to a group.
pub struct Moving {
    process: Identity,
    group: Group,
    /// Threads of this pass that are still to be moved.
    tids: Vec<i32>,
    samples: usize,
    /// Whether this pass moved a thread.
    moved: bool,
    /// The counts so far.
    pub placed: Placed,
}

impl Moving {
    /// The process.
    pub fn process(&self) -> Identity {
        self.process
    }
}

/// Where a thread was put.
#[derive(Default)]
pub(super) struct Seat {
    /// Its group in the Lazy Region, if this `Groups` placed it.
    pub(super) group: Option<Group>,
    pub(super) original: Option<Change>,
    /// For a while: in the Fast Region, or where real-time threads can be.
    pub(super) away: Option<Change>,
    /// The group was set while the thread was away; the thread is not in it yet.
    is_awaited: bool,
}

impl Seat {
    pub(super) fn changes(&self) -> impl Iterator<Item = Change> {
        self.original.into_iter().chain(self.away)
    }
}

/// The state of a placed process.
pub(super) struct Process {
    pub(super) group: Group,
    /// Version 2: the move of the whole process into the groups.
    pub(super) brought: Option<Change>,
}

impl Groups {
    /// Puts a thread into a group of the Lazy Region from any other group. `false`: the thread is
    /// in it already, or will be when it is no longer Fast.
    ///
    /// On version 2 a thread cannot be apart from a process that is outside of the groups: the
    /// other threads of that process then go to `normal`. [`Error::Invalid`] for a thread of the
    /// kernel.
    pub fn place_thread(
        &mut self,
        effect: &mut Effect,
        thread_id: Identity,
        group: Group,
    ) -> Result<bool, Error> {
        check_movable(thread_id)?;
        self.bring_in(effect, thread_id)?;
        self.seat(effect, thread_id, group)
    }

    /// Puts all threads of a process into a group of the Lazy Region; `process` is its first
    /// thread. Threads that start meanwhile are found, too. A Fast thread gets there when it is no
    /// longer Fast.
    ///
    /// [`Error::Gone`]: the process ended. After another error some may have been moved.
    pub fn place_process(
        &mut self,
        effect: &mut Effect,
        process: Identity,
        group: Group,
    ) -> Result<Placed, Error> {
        let mut moving = self.begin(effect, process, group)?;
        self.go_on(effect, &mut moving, || true)?;
        Ok(moving.placed)
    }

    /// Begins the same for a process with up to thousands of threads; [`Groups::go_on`] moves them.
    pub fn begin(
        &mut self,
        effect: &mut Effect,
        process: Identity,
        group: Group,
    ) -> Result<Moving, Error> {
        if !process.process_is_there() {
            return Err(Error::Gone { tid: process.tid });
        }
        check_not_of_kernel(process)?;
        self.bring(effect, process, group)?;
        Ok(Moving {
            process,
            group,
            tids: Vec::new(),
            samples: 0,
            moved: true,
            placed: Placed::default(),
        })
    }

    /// Moves threads while `has_time` returns true, at least one. `true`: all have been moved.
    pub fn go_on(
        &mut self,
        effect: &mut Effect,
        moving: &mut Moving,
        has_time: impl Fn() -> bool,
    ) -> Result<bool, Error> {
        loop {
            if moving.tids.is_empty() {
                if !moving.moved || moving.samples == MOST_CHECKS {
                    return Ok(true);
                }
                moving.tids = threads(moving.process)?;
                (moving.moved, moving.placed.left) = (false, 0);
                moving.samples += 1;
            }
            while let Some(tid) = moving.tids.pop() {
                self.place_one(effect, tid, moving)?;
                if !has_time() {
                    return Ok(false);
                }
            }
        }
    }

    /// Moves a thread to the Fast Region, by one write; nothing if it is there.
    ///
    /// The first move after a while waits for the kernel's other CPUs (an RCU grace period, about
    /// 8 ms; not if the hierarchy is mounted with `favordynmods`). Moves soon after it do not wait,
    /// and changes of weights never do.
    pub fn fast(&mut self, effect: &mut Effect, thread_id: Identity) -> Result<(), Error> {
        check_movable(thread_id)?;
        self.bring_in(effect, thread_id)?;
        let to = self.tree.fast.clone();
        if self.is_sent(thread_id, &to)? {
            return Ok(());
        }
        let change = effect.move_to(thread_id, &self.tree.within, &to)?;
        self.note_sent(effect, thread_id, change)
    }

    /// The caller calls it before it gives a thread a real-time policy. Where only the topmost
    /// group has real-time runtime (version 1 with RT_GROUP_SCHED) this moves the thread there.
    /// Elsewhere it does nothing and returns `false`.
    pub fn for_real_time(
        &mut self,
        effect: &mut Effect,
        thread_id: Identity,
    ) -> Result<bool, Error> {
        if !self.tree.refuses_real_time {
            return Ok(false);
        }
        check_movable(thread_id)?;
        if self.away_since.is_none() {
            self.away_since = Some(sys::boot_ticks());
        }
        self.away_from.insert(process_of(thread_id.tid)?);
        let topmost = self.tree.within.mount_point().to_owned();
        if !self.is_sent(thread_id, &topmost)? {
            let change = effect.move_line_to(thread_id, &self.tree.within, &topmost)?;
            self.note_sent(effect, thread_id, change)?;
        }
        Ok(true)
    }

    /// Moves a thread back after [`Groups::fast`] or [`Groups::for_real_time`], by one write. The
    /// caller takes away the real-time policy before. No effect if neither call moved the thread.
    pub fn lazy_again(&mut self, effect: &mut Effect, thread_id: Identity) -> Result<(), Error> {
        let Some(seat) = self.seats.get_mut(&thread_id) else { return Ok(()) };
        let Some(away) = seat.away else { return Ok(()) };
        let undone = effect.undo(away)?;
        seat.away = None;
        let is_awaited = std::mem::take(&mut seat.is_awaited);
        match (undone, seat.group) {
            (Undone::Undone, Some(group)) if is_awaited => {
                self.seat(effect, thread_id, group).map(drop)
            }
            // It is where it was: in its group, or where another process had moved it.
            (Undone::Undone, Some(_)) => Ok(()),
            (Undone::Gone, _) => self.forget(effect, thread_id),
            (Undone::Changed, Some(_)) => Ok(()),
            (_, None) => self.forget(effect, thread_id),
        }
    }

    /// The group of a thread while it is not Fast; `None`: neither the thread nor its process was
    /// placed.
    pub fn group_of(&self, thread_id: Identity) -> Option<Group> {
        self.seats.get(&thread_id).and_then(|seat| seat.group).or_else(|| {
            let process = Identity::of_process(process_of(thread_id.tid).ok()?).ok()?;
            self.processes.get(&process).map(|its| its.group)
        })
    }

    fn place_one(&mut self, effect: &mut Effect, tid: i32, to: &mut Moving) -> Result<(), Error> {
        let Ok(thread_id) = Identity::of(tid) else { return Ok(()) };
        if self.cannot_have(thread_id) {
            to.placed.left += 1;
            return Ok(());
        }
        match none_if_gone(self.seat(effect, thread_id, to.group)) {
            Ok(Some(true)) => {
                to.moved = true;
                to.placed.moved += 1;
            }
            Ok(_) => {}
            // The thread has become real-time since the check above.
            Err(error) if error.errno() == libc::EINVAL && self.cannot_have(thread_id) => {
                to.placed.left += 1;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn cannot_have(&self, thread_id: Identity) -> bool {
        let policies = [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE];
        let is_real_time = || {
            Scheduling::of(thread_id.tid).is_ok_and(|its| policies.contains(&(its.policy as i32)))
        };
        let is_ours = self.is_away(thread_id);
        thread_id.is_of_kernel() || (self.tree.refuses_real_time && !is_ours && is_real_time())
    }

    pub(super) fn is_away(&self, thread_id: Identity) -> bool {
        self.seats.get(&thread_id).is_some_and(|seat| seat.away.is_some())
    }

    /// Moves a thread to a group of the Lazy Region; if it is away, records the group for its
    /// return.
    pub(super) fn seat(
        &mut self,
        effect: &mut Effect,
        thread_id: Identity,
        group: Group,
    ) -> Result<bool, Error> {
        if let Some(seat) = self.seats.get_mut(&thread_id).filter(|seat| seat.away.is_some()) {
            seat.group = Some(group);
            seat.is_awaited = true;
            return Ok(false);
        }
        let to = self.tree.group(group);
        if self.tree.is_in(thread_id.tid, &to)? {
            return Ok(false);
        }
        let change = effect.move_to(thread_id, &self.tree.within, &to)?;
        let seat = self.seats.entry(thread_id).or_default();
        seat.group = Some(group);
        match seat.original.replace(change) {
            // The later change now restores what was there before the earlier one.
            Some(earlier) => effect.undo(earlier).map(|_| true),
            None => Ok(true),
        }
    }

    fn is_sent(&self, thread_id: Identity, to: &Path) -> Result<bool, Error> {
        Ok(self.is_away(thread_id) && self.tree.is_in(thread_id.tid, to)?)
    }

    fn note_sent(
        &mut self,
        effect: &mut Effect,
        thread_id: Identity,
        change: Change,
    ) -> Result<(), Error> {
        match self.seats.entry(thread_id).or_default().away.replace(change) {
            Some(earlier) => effect.undo(earlier).map(drop),
            None => Ok(()),
        }
    }

    /// Version 2: moves the process of a thread into the groups, if it is outside.
    fn bring_in(&mut self, effect: &mut Effect, thread_id: Identity) -> Result<(), Error> {
        if self.tree.within.version() == Version::V1 || self.tree.holds(thread_id.tid)? {
            return Ok(());
        }
        let process = Identity::of(process_of(thread_id.tid)?)?;
        self.place_process(effect, process, Group::Normal).map(drop)
    }

    fn bring(&mut self, effect: &mut Effect, process: Identity, group: Group) -> Result<(), Error> {
        let mut brought = self.processes.get(&process).and_then(|its| its.brought);
        let is_outside = || Ok::<_, Error>(!self.tree.holds(process.tid)?);
        if self.tree.within.version() == Version::V2 && is_outside()? {
            self.check_confined(process)?;
            let change = effect.move_to(process, &self.tree.within, &self.tree.top)?;
            if let Some(earlier) = brought.replace(change) {
                effect.undo(earlier)?; // another process had moved it away since
            }
        }
        self.processes.insert(process, Process { group, brought });
        Ok(())
    }

    /// systemd ends a unit after all its processes have moved elsewhere.
    fn check_confined(&self, process: Identity) -> Result<(), Error> {
        let Some(confined_to) = &self.tree.confined_to else { return Ok(()) };
        let group = self.tree.within.group_of(process.tid)?;
        if Path::new(&group).starts_with(self.tree.within.group(confined_to)?) {
            return Ok(());
        }
        let what = format!("process {} is in {group}, which systemd looks after", process.tid);
        Err(Error::invalid(what, "start it beneath the unit that has Delegate=yes"))
    }
}

fn check_movable(thread_id: Identity) -> Result<(), Error> {
    thread_id.check()?;
    check_not_of_kernel(thread_id)
}

fn check_not_of_kernel(thread_id: Identity) -> Result<(), Error> {
    if !thread_id.is_of_kernel() {
        return Ok(());
    }
    let what = format!("thread {} is the kernel's", thread_id.tid);
    Err(Error::invalid(what, "leave it where it is: the kernel needs it there"))
}

pub(super) fn none_if_gone<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Gone { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The threads that a process has now.
pub(super) fn threads(process: Identity) -> Result<Vec<i32>, Error> {
    let tid = process.tid;
    let list = path(tid, "task").and_then(fs::read_dir).map_err(|error| match is_none(&error) {
        true => Error::Gone { tid },
        false => Error::thread(tid, "list the process of", error),
    })?;
    if !process.process_is_there() {
        return Err(Error::Gone { tid });
    }
    let tids = list.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(tids.collect())
}
