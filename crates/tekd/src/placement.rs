// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of processes. At its start tekd places all processes that it may change. A child
//! begins in its parent's group.
mod configured;
mod fast;

use crate::backend::Backend;
use crate::log;
use crate::originals::Originals;
use crate::process;
use crate::sys;
use anyhow::{bail, Result};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use tek_effect::{Change, Effect, Error, Groups, Identity, Moving, Place};
use tek_policy::{Configuration, Group, GroupSettings, Weights};

/// Records of ended processes are removed after this many placements, or after as many as there
/// are records.
const MANY_PLACED: usize = 256;
/// The length of a slice of moves, and the pause after it: tekd outranks nearly all threads.
const SLICE_NS: u64 = 300_000;
const PAUSE_NS: u64 = 4_000_000;
/// Why there are none where the kernel refuses real-time threads in them.
const NO_REAL_TIME: &str = "the kernel refuses real-time threads in groups of version 2 \
    (RT_GROUP_SCHED): boot with rt_group_sched=0 (Linux 6.15), or set backend = \"fair\"";
/// The reason for a placement that no rule made.
const USUAL: &str = "nothing says otherwise";

/// The groups, if there are any.
pub struct Placement {
    there: Option<There>,
    /// Why there are none, as text.
    why_not: String,
    pub originals: Originals,
    /// Clients may wait for tekd.
    serves: bool,
}

struct There {
    groups: Groups,
    /// Where they are, as text.
    place: String,
    /// The rule that placed a process or a thread.
    by: HashMap<Identity, Rc<str>>,
    /// The groups that processes were given before they chose for themselves.
    given: HashMap<Identity, Group>,
    /// Threads whose move back failed.
    due: Vec<Identity>,
    /// Leaving responsiveness mode failed.
    is_late: bool,
    /// Processes with many threads whose move is not complete.
    moving: VecDeque<Moving>,
    next_ns: u64,
    /// The number of threads that could not be moved.
    left: usize,
    /// Placements since the last removal of ended processes, and the records that were left then.
    placed: usize,
    remembered: usize,
}

/// The groups, for a status report.
pub struct Shown<'a> {
    pub place: &'a str,
    pub top: PathBuf,
    pub fast: PathBuf,
    pub groups: Vec<(Group, PathBuf)>,
    pub weights: Weights,
    pub entered: bool,
    pub left: usize,
}

impl Placement {
    /// Makes the groups, if the configuration or the backend wants them. They are empty at first.
    /// Where no thread in them could be real-time, tekd serves without groups.
    pub fn start(
        effect: &mut Effect,
        configuration: &Configuration,
        backend: Backend,
    ) -> Result<Self> {
        Self::start_unless(effect, configuration, backend, Groups::refuse_real_time)
    }

    fn start_unless(
        effect: &mut Effect,
        configuration: &Configuration,
        backend: Backend,
        refuse_real_time: impl Fn(&Groups) -> bool,
    ) -> Result<Self> {
        let mut own = Self {
            there: None,
            why_not: "tekd.toml has no [groups]".to_owned(),
            originals: Originals::default(),
            serves: false,
        };
        let settings = match (&configuration.groups, backend) {
            (Some(settings), _) => settings.clone(),
            (None, Backend::Fair) => GroupSettings::default(),
            (None, Backend::Rt) => return Ok(own),
        };
        match make(effect, &settings) {
            Ok((groups, _)) if backend == Backend::Rt && refuse_real_time(&groups) => {
                let failed = groups.remove(effect).failed;
                failed.iter().for_each(|failed| log::warning(failed));
                own.why_not = NO_REAL_TIME.to_owned();
            }
            Ok((groups, place)) => {
                own.originals.set_top(groups.top_group()?);
                own.there = Some(There {
                    groups,
                    place,
                    by: HashMap::new(),
                    given: HashMap::new(),
                    due: Vec::new(),
                    is_late: false,
                    moving: VecDeque::new(),
                    next_ns: 0,
                    left: 0,
                    placed: 0,
                    remembered: 0,
                });
            }
            Err(error) if backend == Backend::Fair => return Err(error),
            Err(error) => own.why_not = format!("{error:#}"),
        }
        Ok(own)
    }

    /// Why there are no groups; `None`: there are.
    pub fn why_not(&self) -> Option<&str> {
        self.there.is_none().then_some(self.why_not.as_str())
    }

    /// Clients wait from now on, so moves are done in slices.
    pub fn serve(&mut self) {
        self.serves = true;
    }

    /// Puts a process into a group; `by` is the reason. If it has many threads,
    /// [`Placement::go_on`] moves the rest a little later.
    pub fn place_process(
        &mut self,
        effect: &mut Effect,
        process: Identity,
        group: Group,
        by: &str,
    ) -> Result<(), Error> {
        let Some(there) = &mut self.there else { return Ok(()) };
        self.originals.remember(process);
        there.moving.retain(|moving| moving.process() != process);
        let moving = there.groups.begin(effect, process, group)?;
        there.go_on(effect, moving, self.serves)?;
        self.note(effect, process, by);
        Ok(())
    }

    /// When the next threads are to be moved; `None`: all moves are complete.
    pub fn next_ns(&self) -> Option<u64> {
        self.there.as_ref().filter(|there| !there.moving.is_empty()).map(|there| there.next_ns)
    }

    /// Moves the next slice of threads.
    pub fn go_on(&mut self, effect: &mut Effect, now_ns: u64) {
        let Some(there) = &mut self.there else { return };
        if there.next_ns > now_ns {
            return;
        }
        let Some(moving) = there.moving.pop_front() else { return };
        match there.go_on(effect, moving, self.serves) {
            Ok(()) | Err(Error::Gone { .. }) => {}
            Err(error) => log::warning(&format!("a process is not in its group: {error}")),
        }
    }

    /// Puts one thread into a group.
    pub fn place_thread(
        &mut self,
        effect: &mut Effect,
        thread: Identity,
        process: Identity,
        group: Group,
        by: &str,
    ) -> Result<(), Error> {
        let Some(there) = &mut self.there else { return Ok(()) };
        self.originals.remember(process);
        there.groups.place_thread(effect, thread, group)?;
        self.note(effect, thread, by);
        Ok(())
    }

    fn note(&mut self, effect: &mut Effect, thread_id: Identity, by: &str) {
        if let Some(there) = &mut self.there {
            there.by.insert(thread_id, by.into());
        }
        self.forget_after(effect, 1);
    }

    /// Removes records of ended processes whenever as many more were placed.
    fn forget_after(&mut self, effect: &mut Effect, placed: usize) {
        let Some(there) = &mut self.there else { return };
        there.placed += placed;
        if there.placed < MANY_PLACED.max(there.remembered) {
            return;
        }
        there.by.retain(|thread_id, _| thread_id.check_process().is_ok());
        there.given.retain(|process, _| process.check_process().is_ok());
        (there.placed, there.remembered) = (0, there.by.len());
        self.originals.forget_ended();
        if let Err(error) = there.groups.forget_ended(effect) {
            log::warning(&error.to_string());
        }
    }

    /// The group of a thread while it is not Fast, and the rule that placed it.
    pub fn group_of(&self, thread: Identity, process: Identity) -> Option<(Group, &str)> {
        let there = self.there.as_ref()?;
        let group = there.groups.group_of(thread).or_else(|| there.groups.is_in(thread.tid))?;
        let by = there.by.get(&thread).or_else(|| there.by.get(&process));
        Some((group, by.map_or(USUAL, |by| by)))
    }

    /// The group that a process was given, before it chose for itself.
    pub fn given_to(&self, process: Identity) -> Group {
        let Some(there) = &self.there else { return Group::Normal };
        // Its first thread may be in the Fast group, or have ended.
        let threads = || process::threads(process.tid).unwrap_or_default();
        let is_in = || threads().into_iter().find_map(|tid| there.groups.is_in(tid));
        let now = || there.groups.group_of(process).or_else(is_in).unwrap_or(Group::Background);
        there.given.get(&process).copied().unwrap_or_else(now)
    }

    /// A process that was given a group has chosen for itself.
    pub fn note_chosen(&mut self, process: Identity, given: Group) {
        if let Some(there) = &mut self.there {
            there.given.entry(process).or_insert(given);
        }
    }

    /// Whether the weight of one group is greater than that of another.
    pub fn is_better(&self, group: Group, than: Group) -> bool {
        self.there.as_ref().is_some_and(|there| {
            let weights = there.groups.weights();
            weights.of(group) > weights.of(than)
        })
    }

    /// The groups for a status report; `None`: there are no groups.
    pub fn shown(&self) -> Option<Shown<'_>> {
        let There { groups, place, left, .. } = self.there.as_ref()?;
        Some(Shown {
            place,
            top: groups.top().to_owned(),
            fast: groups.fast_directory().to_owned(),
            groups: Group::ALL.map(|group| (group, groups.directory_of(group))).to_vec(),
            weights: *groups.weights(),
            entered: groups.is_entered(),
            left: *left,
        })
    }
}

impl There {
    fn go_on(
        &mut self,
        effect: &mut Effect,
        mut moving: Moving,
        in_slices: bool,
    ) -> Result<(), Error> {
        let began_ns = sys::monotonic_ns();
        let has_time = || !in_slices || sys::monotonic_ns() < began_ns + SLICE_NS;
        match self.groups.go_on(effect, &mut moving, has_time)? {
            true => self.left += moving.placed.left,
            false => {
                self.moving.push_back(moving);
                self.next_ns = sys::monotonic_ns() + PAUSE_NS;
            }
        }
        Ok(())
    }
}

fn make(effect: &mut Effect, settings: &GroupSettings) -> Result<(Groups, String)> {
    let found = Place::find(settings.below.as_deref())?;
    let Some(place) = found.place else {
        bail!("there is no place for groups: {}", found.refused.join("; "));
    };
    let place = place.named(&settings.name)?;
    let reported = place.to_string();
    Ok((Groups::open(effect, &place, settings.weights)?, reported))
}

/// Undoes a change; if that fails it is tried again later.
pub fn give_back(effect: &mut Effect, change: Option<Change>) {
    if let Some(Err(error)) = change.map(|change| effect.give_back(change)) {
        log::warning(&error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn groups_in_which_no_thread_can_be_real_time_are_removed_and_tekd_serves_without() {
        let state = tempfile::tempdir().unwrap();
        let (mut effect, _) = Effect::open(&state.path().join("state")).unwrap();
        let name = format!("tek-unit-{}", std::process::id());
        let settings = GroupSettings { name, ..GroupSettings::default() };
        let with = Configuration { groups: Some(settings), ..Configuration::default() };
        let start = |effect: &mut Effect, backend, refuse: bool| {
            Placement::start_unless(effect, &with, backend, |_| refuse).unwrap()
        };
        let mut there = start(&mut effect, Backend::Rt, false);
        let Some(own) = there.there.take() else {
            println!("skipped: {}", there.why_not);
            return;
        };
        let top = own.groups.top().to_owned();
        assert_eq!(own.groups.remove(&mut effect).failed, [""; 0]);
        assert_eq!(start(&mut effect, Backend::Rt, true).why_not(), Some(NO_REAL_TIME));
        assert!(!top.exists() && effect.count() == 0);
        // The backend fair makes no thread real-time.
        let there = start(&mut effect, Backend::Fair, true).there.take().unwrap();
        assert_eq!(there.groups.remove(&mut effect).failed, [""; 0]);
    }
}
