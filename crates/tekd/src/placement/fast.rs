// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fast threads leave their groups for a while; weights make and end responsiveness mode.
use super::Placement;
use crate::backend::Backend;
use crate::domain::Domain;
use crate::log;
use tek_effect::{Effect, Error, Identity};
use tek_policy::Configuration;

impl Placement {
    /// Moves a thread that becomes Fast, if the backend is by groups, or if the thread's group has
    /// no real-time runtime. `true`: the caller must bring it back.
    pub fn send_away(
        &mut self,
        effect: &mut Effect,
        thread_id: Identity,
        backend: Backend,
    ) -> Result<bool, Error> {
        let Some(there) = &mut self.there else { return Ok(false) };
        there.due.retain(|due| *due != thread_id);
        match backend {
            Backend::Fair => there.groups.fast(effect, thread_id)?,
            Backend::Rt => {
                if !there.groups.for_real_time(effect, thread_id)? {
                    return Ok(false);
                }
                self.originals.sent_away(thread_id);
            }
        }
        Ok(true)
    }

    /// Moves the thread back. A move that fails is tried again.
    pub fn bring_back(&mut self, effect: &mut Effect, thread_id: Identity) {
        self.originals.is_back(thread_id);
        let Some(there) = &mut self.there else { return };
        if let Err(error) = there.groups.lazy_again(effect, thread_id) {
            log::warning(&error.to_string());
            there.due.push(thread_id);
        }
    }

    /// A thread was moved to a cgroup with real-time runtime while there are no groups. Its process
    /// is remembered, because the first thread's cgroup counts as that of the process.
    pub fn note_away(&mut self, thread_id: Identity) {
        self.originals.remember(thread_id);
        self.originals.sent_away(thread_id);
    }

    /// Enters responsiveness mode by weights.
    pub fn enter(&mut self, effect: &mut Effect) -> Result<(), Error> {
        let Some(there) = &mut self.there else { return Ok(()) };
        there.is_late = false;
        there.groups.enter(effect)
    }

    /// Returns to normal mode. A change that fails is tried again.
    pub fn leave(&mut self, effect: &mut Effect) -> Result<(), Error> {
        let Some(there) = &mut self.there else { return Ok(()) };
        // Children of Fast threads must leave the group, but the mode ends in any case.
        let returned = there.groups.return_strays(effect);
        let left = there.groups.leave(effect);
        there.is_late = returned.is_err() || left.is_err();
        left.and(self.note_returned(effect, returned))
    }

    /// Periodic work while a thread is Fast or a move back is due.
    pub fn tidy(&mut self, effect: &mut Effect, with: &Configuration, domain: &Domain) {
        let Self { there: Some(there), originals, .. } = self else { return };
        for thread_id in std::mem::take(&mut there.due) {
            if there.groups.lazy_again(effect, thread_id).is_err() {
                there.due.push(thread_id);
            }
        }
        let may_move = |pid| domain.check(pid, &with.protected, originals).is_ok();
        let from_topmost = there.groups.return_from_topmost(effect, may_move);
        let strays = match there.is_late {
            true => self.leave(effect).map(|()| 0),
            false => there.groups.return_strays(effect),
        };
        let strays = self.note_returned(effect, strays);
        if let Err(error) = strays.and(self.note_returned(effect, from_topmost)) {
            log::warning(&error.to_string());
        }
    }

    /// Moves a child of a Fast thread to its group at once.
    pub fn return_stray(
        &mut self,
        effect: &mut Effect,
        thread_id: Identity,
    ) -> Result<bool, Error> {
        let Some(there) = &mut self.there else { return Ok(false) };
        let returned = there.groups.return_stray(effect, thread_id)?;
        self.forget_after(effect, usize::from(returned));
        Ok(returned)
    }

    /// Counts threads that were moved back: their records must be freed after their end, and more
    /// such threads begin while a thread is Fast.
    fn note_returned(
        &mut self,
        effect: &mut Effect,
        returned: Result<usize, Error>,
    ) -> Result<(), Error> {
        self.forget_after(effect, returned?);
        Ok(())
    }

    /// Whether `tidy` has work left, also while no thread is Fast.
    pub fn owes(&self) -> bool {
        self.there.as_ref().is_some_and(|there| there.is_late || !there.due.is_empty())
    }

    /// Whether there may be children of Fast threads outside their groups.
    pub fn may_have_strays(&self) -> bool {
        self.there.as_ref().is_some_and(|there| there.groups.may_have_strays())
    }
}
