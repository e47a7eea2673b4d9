// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of threads (cpu-mediator-2019, 3.1), as cgroups: the Fast Region beside the Lazy one, in
//! which are urgent, normal, service and background.
#[cfg(test)]
mod fault;
mod members;
mod place;
mod strays;
mod tree;
mod trial;

use crate::{Change, Effect, Error, Identity, Restored, Version};
pub use members::{Moving, Placed};
use members::{Process, Seat};
pub use place::{Found, Place};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use tek_policy::{Group, Weights};
use tree::Tree;

/// A tree of groups, and the threads and processes that were placed in it.
///
/// Life: [`Groups::open`]; [`Groups::place_process`] for each process to place; then for each
/// Fast thread [`Groups::fast`] and [`Groups::lazy_again`], and around the time in which there are
/// any [`Groups::enter`] and [`Groups::leave`]; at the end [`Groups::remove`].
///
/// **Each process must be placed.** A thread outside of the tree competes with the whole tree. On
/// version 1 each such thread counts as a group: 20 busy ones take 20 shares and the tree takes
/// one. Weights and floor hold only among the placed processes. Threads of the kernel are never
/// moved: no weight in the tree starves them outside. New threads and processes start in their
/// creator's group, so a placed process stays placed.
///
/// All changes are in the journal of the [`Effect`] that is given to each call; the caller always
/// gives the same one. After a SIGKILL [`Effect::open`] moves all threads back and removes the
/// groups.
///
/// Belongs to one thread at a time, like `Effect`. Nothing here waits for other threads, but for
/// those in a group that is removed (at most 0.1 s a group).
pub struct Groups {
    tree: Tree,
    weights: Weights,
    /// In force in responsiveness mode.
    entered: Option<Change>,
    seats: HashMap<Identity, Seat>,
    /// By their first threads.
    processes: HashMap<Identity, Process>,
    /// Threads may have started in the topmost group since this time, in clock ticks since boot.
    away_since: Option<u64>,
    /// Processes of the threads that have been there since.
    away_from: HashSet<i32>,
    /// Threads there that were checked.
    seen: HashSet<i32>,
}

impl Groups {
    /// Makes the groups. A call that fails has left nothing.
    ///
    /// [`Error::File`] with EEXIST: there is such a group already. An `Effect` with another
    /// journal, or another program, made it.
    pub fn open(effect: &mut Effect, place: &Place, weights: Weights) -> Result<Self, Error> {
        let tree = Tree::make(effect, place, &weights)?;
        let (seats, processes) = (HashMap::new(), HashMap::new());
        let (away_since, away_from, seen) = (None, HashSet::new(), HashSet::new());
        Ok(Self { tree, weights, entered: None, seats, processes, away_since, away_from, seen })
    }

    /// The weights in force, and the floor.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Other weights and another floor, at once. After an error some may be in force.
    pub fn set_weights(&mut self, effect: &mut Effect, weights: Weights) -> Result<(), Error> {
        self.tree.weigh(effect, &weights)?;
        self.weights = weights;
        let Some(earlier) = self.entered else { return Ok(()) };
        self.entered = Some(self.tree.enter(effect, &weights)?);
        effect.undo(earlier).map(drop)
    }

    /// Why the groups have no weights, if they have none: there is a hierarchy, but not for that.
    /// Never of a place that [`Place::find`] found.
    pub fn without_weights(&self) -> Option<String> {
        let at = self.tree.top.display();
        (!self.tree.has_weights).then(|| format!("{at} is in a hierarchy without controller cpu"))
    }

    /// Whether the kernel refuses real-time policies to all threads in the groups: version 2 with
    /// RT_GROUP_SCHED. A child process tries it. Version 1 has [`Groups::for_real_time`].
    pub fn refuse_real_time(&self) -> bool {
        let joins = self.tree.joins(Group::Normal);
        self.tree.within.version() == Version::V2
            && trial::is_refused_by_groups(&joins, trial::outcome)
    }

    /// Responsiveness mode: the Fast Region gets all but the floor. One write for any number
    /// of threads; no effect if it is entered already.
    pub fn enter(&mut self, effect: &mut Effect) -> Result<(), Error> {
        if let Some(why) = self.without_weights() {
            return Err(Error::invalid(why, "use the place that is found by itself"));
        }
        if self.entered.is_none() {
            self.entered = Some(self.tree.enter(effect, &self.weights)?);
        }
        Ok(())
    }

    /// Normal mode again, by one write; nothing if it is not entered. After an error it still is.
    pub fn leave(&mut self, effect: &mut Effect) -> Result<(), Error> {
        if let Some(entered) = self.entered {
            effect.undo(entered)?;
            self.entered = None;
        }
        Ok(())
    }

    /// Whether responsiveness mode is entered.
    pub fn is_entered(&self) -> bool {
        self.entered.is_some()
    }

    /// The directory of the group that has all of them.
    pub fn top(&self) -> &Path {
        &self.tree.top
    }

    /// The same as /proc/PID/cgroup names it.
    pub fn top_group(&self) -> Result<String, Error> {
        self.tree.within.group(&self.tree.top)
    }

    /// The directory of the Fast Region.
    pub fn fast_directory(&self) -> &Path {
        &self.tree.fast
    }

    /// The directory of a group of the Lazy Region.
    pub fn directory_of(&self, group: Group) -> PathBuf {
        self.tree.group(group)
    }

    /// The group of the Lazy Region that a thread is in now; `None`: it is in none of them.
    pub fn is_in(&self, tid: i32) -> Option<Group> {
        let is_in = |group: &Group| self.tree.is_in(tid, &self.tree.group(*group)).unwrap_or(false);
        Group::ALL.into_iter().find(is_in)
    }

    /// Whether a thread is in one of these groups.
    pub fn holds(&self, tid: i32) -> Result<bool, Error> {
        self.tree.holds(tid)
    }

    /// Moves all threads back to their original groups and removes the groups. A thread that
    /// started in them goes to the group of its process or of the parent process, else to the group
    /// above.
    ///
    /// A change that could not be undone stays in the journal; [`Effect::undo_all`] tries again.
    pub fn remove(self, effect: &mut Effect) -> Restored {
        let mut changes: Vec<Change> = self.entered.into_iter().chain(self.tree.changes).collect();
        changes.extend(self.tree.weights);
        changes.extend(self.seats.values().flat_map(Seat::changes));
        changes.extend(self.processes.values().filter_map(|process| process.brought));
        effect.undo_these(changes)
    }
}
