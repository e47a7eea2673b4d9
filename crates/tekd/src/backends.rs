// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes threads Fast, by the backend: a real-time policy, or a group of great weight.
//!
//! Both backends guarantee the same. A Fast thread precedes all other threads, except for the CPU
//! share of the floor. The device is in responsiveness mode while there is a Fast thread.
//! All changes are undone.
use crate::backend::Backend;
use crate::domain::Domain;
use crate::kthreads::Kthreads;
use crate::lineage::{Descent, Way};
use crate::log;
use crate::noncritical::Noncritical;
use crate::placement::{give_back, Placement};
use tek_effect::{Change, Effect, Error, Hierarchy, Identity, Restored, Scheduling, Undone};
use tek_policy::{Configuration, Priority, RealTime};

const FIFO: u32 = libc::SCHED_FIFO as u32;
const RR: u32 = libc::SCHED_RR as u32;
const DEADLINE: u32 = libc::SCHED_DEADLINE as u32;

/// The state by which tekd changes threads.
pub struct Backends {
    pub effect: Effect,
    /// The real-time priorities that are handed out.
    pub range: RealTime,
    pub placement: Placement,
    pub noncritical: Noncritical,
    /// The kernel's own threads.
    pub kthreads: Kthreads,
    pub backend: Backend,
    /// The reason for this backend, as text.
    pub backend_why: String,
}

/// The changes of a Fast thread.
#[derive(Default)]
pub struct Given {
    change: Option<Change>,
    wanted: Option<Scheduling>,
    /// The move to a cgroup with real-time runtime.
    moved: Option<Change>,
    /// The thread is in the group of the Fast Region, or in a cgroup with real-time runtime.
    is_away: bool,
}

impl Given {
    /// The real-time priority in force that tekd set; 0: none.
    pub fn rt_priority(&self) -> u32 {
        self.wanted.map_or(0, |wanted| wanted.priority)
    }
}

impl Backends {
    /// Makes a thread Fast, or changes the priority of a Fast thread. A thread with the same or a
    /// higher priority of its own keeps it. A thread that another program has changed since keeps
    /// that change. After an error the thread has the values from before the call.
    pub fn give(
        &mut self,
        thread_id: Identity,
        base: Scheduling,
        given: &mut Given,
        priority: Priority,
    ) -> Result<(), Error> {
        match self.backend {
            Backend::Rt => self.give_policy(thread_id, base, given, priority),
            Backend::Fair => self.give_group(thread_id, base, given, priority),
        }
    }

    fn give_policy(
        &mut self,
        thread_id: Identity,
        base: Scheduling,
        given: &mut Given,
        priority: Priority,
    ) -> Result<(), Error> {
        let priority = self.range.priority(priority);
        if base.policy == DEADLINE || (is_real_time(base) && base.priority >= priority) {
            return self.take_back(thread_id, given).map(drop);
        }
        let wanted = Scheduling { policy: RR, nice: base.nice, priority, reset_on_fork: true };
        let result = match given.change {
            Some(_) if given.wanted == Some(wanted) => Ok(()),
            Some(change) => self.effect.set_again(change, wanted),
            None => self.give_first(thread_id, given, wanted),
        };
        match result {
            Ok(()) => given.wanted = Some(wanted),
            Err(Error::Changed { .. }) => given.wanted = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Changes only the group: children would inherit another policy or nice value.
    fn give_group(
        &mut self,
        thread_id: Identity,
        base: Scheduling,
        given: &mut Given,
        priority: Priority,
    ) -> Result<(), Error> {
        if !given.is_away && base.policy != DEADLINE && !is_real_time(base) {
            given.is_away = self.placement.send_away(&mut self.effect, thread_id, self.backend)?;
        }
        if given.is_away {
            // For kernel threads it has the priority that backend rt would give it.
            let priority = self.range.priority(priority);
            self.kthreads.set_fast(thread_id.tid, u8::try_from(priority).ok());
        }
        Ok(())
    }

    fn give_first(
        &mut self,
        thread_id: Identity,
        given: &mut Given,
        wanted: Scheduling,
    ) -> Result<(), Error> {
        given.is_away = self.placement.send_away(&mut self.effect, thread_id, self.backend)?;
        let set = match self.effect.set_scheduling(thread_id, wanted) {
            Err(error) if error.errno() == libc::EPERM && !given.is_away => {
                self.set_elsewhere(thread_id, given, wanted, error)
            }
            set => set,
        };
        match set {
            Ok(change) => given.change = Some(change),
            Err(error) => {
                self.bring_back(thread_id, given);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Tries again in the topmost cgroup, if only that one has real-time runtime.
    fn set_elsewhere(
        &mut self,
        thread_id: Identity,
        given: &mut Given,
        wanted: Scheduling,
        error: Error,
    ) -> Result<Change, Error> {
        let Some(within) = Hierarchy::without_real_time(thread_id.tid)? else { return Err(error) };
        let topmost = within.mount_point().to_owned();
        self.placement.note_away(thread_id);
        given.is_away = true;
        given.moved = Some(self.effect.move_line_to(thread_id, &within, &topmost)?);
        self.effect.set_scheduling(thread_id, wanted)
    }

    /// Restores the values of a thread. A change that cannot be undone now is tried again later.
    pub fn take_back(
        &mut self,
        thread_id: Identity,
        given: &mut Given,
    ) -> Result<Option<Undone>, Error> {
        given.wanted = None;
        let undone = given.change.take().map(|change| self.effect.give_back(change)).transpose();
        // After the policy: the original group may have no runtime for a real-time one.
        self.bring_back(thread_id, given);
        undone
    }

    fn bring_back(&mut self, thread_id: Identity, given: &mut Given) {
        give_back(&mut self.effect, given.moved.take());
        if std::mem::take(&mut given.is_away) {
            self.placement.bring_back(&mut self.effect, thread_id);
            if self.backend == Backend::Fair {
                self.kthreads.set_fast(thread_id.tid, None);
            }
        }
    }

    /// How children of a Fast thread return to their groups. `None`: they are in their groups, or
    /// only [`Means::tidy`] finds them.
    pub fn way_of(&self, given: &Given) -> Option<Way> {
        if let Some(moved) = given.moved {
            return self.effect.heirs_of(moved).map(|heirs| Way::Original(Box::new(heirs)));
        }
        (given.is_away && self.backend == Backend::Fair).then_some(Way::OutOfFast)
    }

    /// Moves a child of a thread that was away. `false`: the child has ended, or was not away.
    pub fn return_one(&mut self, descent: &Descent, child: Identity) -> Result<bool, Error> {
        match &descent.way {
            Way::OutOfFast => self.placement.return_stray(&mut self.effect, child),
            Way::Original(heirs) => self.effect.take_heir(heirs, child),
        }
    }

    /// Undoes everything.
    pub fn close(self) -> Restored {
        let Self { mut effect, kthreads, .. } = self;
        let Restored { undone, gone, changed, .. } = effect.undo_all();
        // Before `effect`, whose `close` removes the directory that also has the journal of
        // `kthreads`. An ordinary thread unloads programs from the kernel, which may take long.
        drop(kthreads);
        let mut closed = effect.close();
        closed.undone += undone;
        closed.gone += gone;
        closed.changed += changed;
        closed
    }

    /// A thread may become Fast: its own values must be in force when they are read. `quota`: how
    /// many threads may be lifted for its process.
    pub fn before_fast(&mut self, thread_id: Identity, process: Identity, quota: u32) {
        self.kthreads.claim(thread_id, process, quota);
        self.effect.settle(thread_id);
        self.noncritical.raise(&mut self.effect, thread_id);
    }

    /// Checks threads again after their own values were restored. A lifted one is checked later.
    pub fn check_returned(&mut self, now_ns: u64) {
        let Self { effect, kthreads, .. } = self;
        effect.check_returned_unless(now_ns, |thread_id| kthreads.is_lifted(thread_id));
    }

    /// A thread is no longer Fast; `base` has its own values.
    pub fn after_fast(&mut self, thread_id: Identity, process: Identity, base: Scheduling) {
        self.kthreads.disclaim(thread_id);
        if is_real_time(base) {
            self.noncritical.note_back(thread_id, process);
        }
    }

    /// Enters or leaves responsiveness mode.
    pub fn set_mode(&mut self, responsiveness: bool) {
        let changed = match (self.backend, responsiveness) {
            (Backend::Rt, _) => Ok(()),
            (Backend::Fair, true) => self.placement.enter(&mut self.effect),
            (Backend::Fair, false) => self.placement.leave(&mut self.effect),
        };
        if let Err(error) = changed {
            log::warning(&error.to_string());
        }
    }

    /// Periodic work while a thread is Fast: returns the children of Fast threads to their groups.
    pub fn tidy(&mut self, with: &Configuration, domain: &Domain) {
        self.placement.tidy(&mut self.effect, with, domain);
    }

    /// Whether a change could not be undone yet.
    pub fn owes(&self) -> bool {
        self.effect.owes() || self.placement.owes()
    }

    /// Undoes the changes that could not be undone before.
    pub fn try_again(&mut self, with: &Configuration, domain: &Domain) {
        self.effect.try_again();
        self.tidy(with, domain);
    }
}

fn is_real_time(base: Scheduling) -> bool {
    [FIFO, RR].contains(&base.policy)
}
