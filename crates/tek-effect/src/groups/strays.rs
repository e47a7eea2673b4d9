// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that start in a group where they must not stay, and threads that have ended.
use super::members::none_if_gone;
use super::Groups;
use crate::identity::{parent_of, process_of};
use crate::{Effect, Error, Identity};
use tek_policy::Group;

/// Highest number of parents that are followed.
const MOST_PARENTS: usize = 64;

impl Groups {
    /// Moves threads out of the Fast Region that started there: threads and processes that Fast
    /// threads made. Returns how many. The caller calls it periodically while a thread is Fast, and
    /// before [`Groups::leave`].
    pub fn return_strays(&mut self, effect: &mut Effect) -> Result<usize, Error> {
        let mut moved = 0;
        for tid in self.tree.fast_tids() {
            let Ok(thread_id) = Identity::of(tid) else { continue };
            if self.is_away(thread_id) || thread_id.is_of_kernel() {
                continue;
            }
            let group = self.group_for(tid);
            moved +=
                usize::from(none_if_gone(self.seat(effect, thread_id, group))?.unwrap_or(false));
        }
        Ok(moved)
    }

    /// The same for one thread that just started. `false`: it did not start there.
    pub fn return_stray(
        &mut self,
        effect: &mut Effect,
        thread_id: Identity,
    ) -> Result<bool, Error> {
        let is_fast = self.tree.is_in(thread_id.tid, &self.tree.fast)?;
        if !is_fast || self.is_away(thread_id) {
            return Ok(false);
        }
        let group = self.group_for(thread_id.tid);
        self.seat(effect, thread_id, group)
    }

    /// The same for the children that Fast threads made while [`Groups::for_real_time`] had these
    /// in the topmost group. `may_move` selects the processes: unrelated ones start there, too. The
    /// caller calls it periodically, and once after the last Fast thread is back. It is too slow
    /// for each thread that leaves: it reads all threads of the topmost group.
    pub fn return_from_topmost(
        &mut self,
        effect: &mut Effect,
        may_move: impl Fn(i32) -> bool,
    ) -> Result<usize, Error> {
        let Some(since) = self.away_since else { return Ok(0) };
        let there = self.tree.topmost_tids();
        let seen = std::mem::replace(&mut self.seen, there.iter().copied().collect());
        let mut moved = 0;
        for tid in there.into_iter().filter(|tid| !seen.contains(tid)) {
            let Ok(thread_id) = Identity::of(tid) else { continue };
            // A thread that executed a program has the id and start time of the first thread.
            let is_new = thread_id.start_ticks >= since || self.away_from.contains(&tid);
            if !is_new || self.is_away(thread_id) {
                continue;
            }
            if self.cannot_have(thread_id) {
                self.seen.remove(&tid); // it may be able to later
                continue;
            }
            if !process_of(tid).is_ok_and(&may_move) {
                continue;
            }
            let group = self.group_for(tid);
            let seated = none_if_gone(self.seat(effect, thread_id, group));
            if seated.is_err() {
                self.seen.remove(&tid); // to be tried again
            }
            moved += usize::from(seated?.unwrap_or(false));
        }
        if !self.seats.values().any(|seat| seat.away.is_some()) {
            self.away_since = None;
            self.away_from.clear();
        }
        Ok(moved)
    }

    /// Whether [`Groups::return_from_topmost`] must be called once more.
    pub fn may_have_strays(&self) -> bool {
        self.away_since.is_some()
    }

    /// Forgets threads and processes that have ended, so that the journal does not grow with them.
    /// The caller calls it when a process has ended, and periodically. Returns the first error;
    /// [`Effect::try_again`] undoes each change that failed.
    pub fn forget_ended(&mut self, effect: &mut Effect) -> Result<(), Error> {
        let mut forgotten = Ok(());
        let ended: Vec<Identity> =
            self.seats.keys().copied().filter(|thread_id| !thread_id.is_there()).collect();
        for thread_id in ended {
            forgotten = forgotten.and(self.forget(effect, thread_id));
        }
        let ended = |process: &&Identity| !process.process_is_there();
        let ended: Vec<Identity> = self.processes.keys().filter(ended).copied().collect();
        for process in ended {
            let brought = self.processes.remove(&process).and_then(|its| its.brought);
            if let Some(brought) = brought {
                forgotten = forgotten.and(effect.give_back(brought).map(drop));
            }
        }
        forgotten
    }

    /// The group for a thread that started in the Fast Region: that of its process, or of the
    /// nearest ancestor that is in a group or was placed in one.
    fn group_for(&self, tid: i32) -> Group {
        let of = |process: i32| {
            let placed = self.processes.get(&Identity::of(process).ok()?);
            placed.map(|its| its.group).or_else(|| self.is_in(process))
        };
        let above = |process: &i32| parent_of(*process).ok().filter(|&parent| parent > 1);
        let line = std::iter::successors(process_of(tid).ok(), above);
        line.take(MOST_PARENTS).find_map(of).unwrap_or(Group::Normal)
    }

    pub(super) fn forget(&mut self, effect: &mut Effect, thread_id: Identity) -> Result<(), Error> {
        let Some(seat) = self.seats.remove(&thread_id) else { return Ok(()) };
        // The latest first, so that each undo finds the value that its change set.
        let changes = [seat.away, seat.original].into_iter().flatten();
        changes.map(|change| effect.give_back(change).map(drop)).fold(Ok(()), Result::and)
    }
}
