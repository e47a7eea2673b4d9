// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are born where they should not stay, and those that have ended.
use super::members::{none_if_gone, threads};
use super::Groups;
use crate::identity::{parent_of, process_of};
use crate::{Effect, Error, Identity};
use std::fs;
use tek_policy::Group;

impl Groups {
    /// Moves threads out of the Fast Region that were born there: threads and processes that Fast
    /// threads made, also while these were real-time. How many. To be called now and then while
    /// anybody is Fast, and before [`Groups::leave`].
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
        Ok(moved + self.return_from_topmost(effect)?)
    }

    /// Forgets threads and processes that have ended, so that the journal does not grow with them.
    /// To be called when a process has ended, and now and then.
    pub fn forget_ended(&mut self, effect: &mut Effect) -> Result<(), Error> {
        let ended: Vec<Identity> =
            self.seats.keys().copied().filter(|who| !who.is_there()).collect();
        for who in ended {
            self.forget(effect, who)?;
        }
        let ended = |process: &&Identity| !process.process_is_there();
        let ended: Vec<Identity> = self.processes.keys().filter(ended).copied().collect();
        for process in ended {
            if let Some(brought) = self.processes.remove(&process).and_then(|its| its.brought) {
                effect.undo(brought)?;
            }
        }
        Ok(())
    }

    /// Threads that Fast threads made while these were real-time, and so outside of the groups.
    fn return_from_topmost(&mut self, effect: &mut Effect) -> Result<usize, Error> {
        if !self.tree.refuses_real_time {
            return Ok(0);
        }
        let away = self.seats.iter().filter(|(_, seat)| seat.away.is_some());
        let mut processes: Vec<i32> =
            away.filter_map(|(who, _)| process_of(who.tid).ok()).collect();
        processes.sort_unstable();
        processes.dedup();
        let mut moved = 0;
        for pid in processes {
            let Ok(process) = Identity::of(pid) else { continue };
            let Some(group) = self.processes.get(&process).map(|its| its.group) else { continue };
            for tid in none_if_gone(threads(process))?.unwrap_or_default() {
                let Ok(who) = Identity::of(tid) else { continue };
                if self.is_away(who)
                    || self.cannot_have(who)
                    || self.tree.holds(tid).unwrap_or(true)
                {
                    continue;
                }
                moved += usize::from(none_if_gone(self.seat(effect, who, group))?.unwrap_or(false));
            }
        }
        Ok(moved + self.return_children_from_topmost(effect)?)
    }

    /// Processes that they made, and these again.
    fn return_children_from_topmost(&mut self, effect: &mut Effect) -> Result<usize, Error> {
        let away = self.seats.iter().filter(|(_, seat)| seat.away.is_some());
        let mut parents: Vec<(i32, Group)> =
            away.map(|(who, _)| (who.tid, self.group_for(who.tid))).collect();
        let topmost = self.tree.within.mount_point().to_owned();
        let mut moved = 0;
        while let Some((parent, group)) = parents.pop() {
            for child in children(parent) {
                let Ok(process) = Identity::of_process(child) else { continue };
                for tid in none_if_gone(threads(process))?.unwrap_or_default() {
                    let Ok(who) = Identity::of(tid) else { continue };
                    let is_there = self.tree.is_in(tid, &topmost).unwrap_or(false);
                    if !is_there || self.is_away(who) || self.cannot_have(who) {
                        continue;
                    }
                    if none_if_gone(self.seat(effect, who, group))?.unwrap_or(false) {
                        moved += 1;
                        parents.push((tid, group));
                    }
                }
            }
        }
        Ok(moved)
    }

    /// Where one belongs that was born in the Fast Region: as its process or that one's parent.
    fn group_for(&self, tid: i32) -> Group {
        let of = |process: i32| {
            let process = Identity::of(process).ok()?;
            self.processes.get(&process).map(|its| its.group)
        };
        let relatives = [process_of(tid), parent_of(tid)];
        relatives.into_iter().flatten().find_map(of).unwrap_or(Group::Normal)
    }

    pub(super) fn forget(&mut self, effect: &mut Effect, who: Identity) -> Result<(), Error> {
        let Some(seat) = self.seats.remove(&who) else { return Ok(()) };
        // The last first, so that each finds what it set.
        for change in [seat.away, seat.home].into_iter().flatten() {
            effect.undo(change)?;
        }
        Ok(())
    }
}

/// The processes that a thread has made, as far as they still are its children.
fn children(tid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{tid}/task/{tid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
