// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration chooses the group of each process: when tekd starts, when a program is
//! executed, and when the configuration is read again.
use super::{Placement, USUAL};
use crate::configuration;
use crate::domain::Domain;
use crate::log;
use crate::process::{self, Status};
use std::collections::HashSet;
use tek_effect::{Effect, Error, Identity};
use tek_policy::{Configuration, Group, Resident, Weights};

/// The most scans for processes in a row, if each finds new ones.
const MOST_CHECKS: usize = 8;

impl Placement {
    /// Places all processes of the domain.
    pub fn place_all(&mut self, effect: &mut Effect, with: &Configuration, domain: &Domain) {
        if self.there.is_none() {
            return;
        }
        let (mut failed, mut seen) = (0, HashSet::new());
        // A process that is not placed yet can fork behind the scan.
        for _ in 0..MOST_CHECKS {
            let before = seen.len();
            for pid in process::all() {
                if !seen.insert(pid) {
                    continue;
                }
                if let Err(error) = self.place_new(effect, with, domain, pid) {
                    if failed == 0 {
                        log::warning(&format!("process {pid} is in no group: {error}"));
                    }
                    failed += 1;
                }
            }
            if seen.len() == before {
                break;
            }
        }
        if failed > 1 {
            log::warning(&format!("so are {} more", failed - 1));
        }
    }

    /// Places a process as the matching place says. Without one it stays, or goes to `normal` if it
    /// is in no group.
    pub fn place_new(
        &mut self,
        effect: &mut Effect,
        with: &Configuration,
        domain: &Domain,
        pid: i32,
    ) -> Result<(), Error> {
        if self.there.is_none() || domain.check(pid, &with.protected, &self.originals).is_err() {
            return Ok(());
        }
        let Ok(process) = Identity::of_process(pid) else { return Ok(()) };
        let Some(thread_id) = self.resident(pid, with) else { return Ok(()) };
        let place = with.place_for(&thread_id);
        let Some(there) = &self.there else { return Ok(()) };
        let by = match place {
            Some(place) => place.source.as_str(),
            None if there.groups.holds(pid).unwrap_or(true) => return Ok(()),
            None => USUAL,
        };
        let group = place.map_or(Group::Normal, |place| place.group);
        match self.place_process(effect, process, group, by) {
            Err(Error::Gone { .. }) => Ok(()),
            placed => placed,
        }
    }

    fn resident(&self, pid: i32, with: &Configuration) -> Option<Resident> {
        let status = Status::of(pid).ok()?;
        let (uid, _) = status.user_and_groups()?;
        let active = with.places.iter().any(|place| !place.users.is_empty())
            && configuration::is_active(uid);
        let cgroups = match with.names_cgroups() {
            true => self.originals.cgroups(pid),
            false => Vec::new(),
        };
        Some(Resident { name: status.name().to_owned(), uid, active, cgroups })
    }

    /// Applies the weights and places of a configuration that was read again.
    pub fn reload(&mut self, effect: &mut Effect, with: &Configuration, domain: &Domain) {
        let Some(there) = &mut self.there else { return };
        let weights = with.groups.as_ref().map_or_else(Weights::default, |groups| groups.weights);
        if let Err(error) = there.groups.set_weights(effect, weights) {
            log::error(&error.to_string());
        }
        self.place_all(effect, with, domain);
    }
}
