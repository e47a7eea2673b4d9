// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are born where they should not stay, and those that have ended.
use super::members::none_if_gone;
use super::Groups;
use crate::identity::{parent_of, process_of};
use crate::{Effect, Error, Identity};
use tek_policy::Group;

/// A chain of parents is not followed further.
const MOST_PARENTS: usize = 64;

impl Groups {
    /// Moves threads out of the Fast Region that were born there: threads and processes that Fast
    /// threads made. How many. To be called now and then while anybody is Fast, and before
    /// [`Groups::leave`].
    pub fn return_strays(&mut self, effect: &mut Effect) -> Result<usize, Error> {
        let mut moved = 0;
        for tid in self.tree.fast_tids() {
            let Ok(who) = Identity::of(tid) else { continue };
            if self.is_away(who) || who.is_of_kernel() {
                continue;
            }
            let group = self.group_for(tid);
            moved += usize::from(none_if_gone(self.seat(effect, who, group))?.unwrap_or(false));
        }
        Ok(moved)
    }

    /// The same for one that was just born. `false`: it was not born there.
    pub fn return_stray(&mut self, effect: &mut Effect, who: Identity) -> Result<bool, Error> {
        let is_fast = self.tree.is_in(who.tid, &self.tree.fast)?;
        if !is_fast || self.is_away(who) {
            return Ok(false);
        }
        let group = self.group_for(who.tid);
        self.seat(effect, who, group)
    }

    /// The same of those whom Fast threads made while [`Groups::for_real_time`] had them in the
    /// topmost group. Only processes that `may_move` says are moved: others are born there, too. To
    /// be called now and then, once more after the last of them is back, and not for each thread
    /// that leaves: it reads who is in the topmost group.
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
            let Ok(who) = Identity::of(tid) else { continue };
            // One that executed a program is its process's first thread now, as old as that was.
            let is_new = who.start_ticks >= since || self.away_from.contains(&tid);
            if !is_new || self.is_away(who) {
                continue;
            }
            if self.cannot_have(who) {
                self.seen.remove(&tid); // it may be able to later
                continue;
            }
            if !process_of(tid).is_ok_and(&may_move) {
                continue;
            }
            let group = self.group_for(tid);
            let seated = none_if_gone(self.seat(effect, who, group));
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

    /// Whether [`Groups::return_from_topmost`] has to look once more.
    pub fn may_have_strays(&self) -> bool {
        self.away_since.is_some()
    }

    /// Forgets threads and processes that have ended, so that the journal does not grow with them.
    /// To be called when a process has ended, and now and then. An error, the first, is of one of
    /// them; that change is undone by [`Effect::try_again`].
    pub fn forget_ended(&mut self, effect: &mut Effect) -> Result<(), Error> {
        let mut forgotten = Ok(());
        let ended: Vec<Identity> =
            self.seats.keys().copied().filter(|who| !who.is_there()).collect();
        for who in ended {
            forgotten = forgotten.and(self.forget(effect, who));
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

    /// Where one belongs that was born in the Fast Region: as its process or the nearest above that
    /// is in a group, being placed or born there.
    fn group_for(&self, tid: i32) -> Group {
        let of = |process: i32| {
            let placed = self.processes.get(&Identity::of(process).ok()?);
            placed.map(|its| its.group).or_else(|| self.is_in(process))
        };
        let above = |process: &i32| parent_of(*process).ok().filter(|&parent| parent > 1);
        let line = std::iter::successors(process_of(tid).ok(), above);
        line.take(MOST_PARENTS).find_map(of).unwrap_or(Group::Normal)
    }

    pub(super) fn forget(&mut self, effect: &mut Effect, who: Identity) -> Result<(), Error> {
        let Some(seat) = self.seats.remove(&who) else { return Ok(()) };
        // The last first, so that each finds what it set.
        let changes = [seat.away, seat.home].into_iter().flatten();
        changes.map(|change| effect.give_back(change).map(drop)).fold(Ok(()), Result::and)
    }
}
