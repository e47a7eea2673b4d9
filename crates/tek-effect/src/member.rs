// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cgroup of a thread in a hierarchy, and its changes.
use crate::heirs::Births;
use crate::identity::{has_never_run, parent_of, process_of};
use crate::{Error, Hierarchy, Identity, Undone};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Component, Path};
use std::thread::sleep;
use std::time::Duration;

const TOPMOST: &str = "/";

/// First wait before a thread that is being made is checked again. Each later wait is twice as
/// long, a second in all: the creating thread may have lost its CPU halfway.
const CHECK_AGAIN: Duration = Duration::from_millis(1);
const MOST_CHECKS: u32 = 10;

/// A thread that was moved to another group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberChange {
    #[serde(rename = "who")]
    pub(crate) thread_id: Identity,
    pub(crate) hierarchy: String,
    pub(crate) was: String,
    pub(crate) ours: Vec<String>,
    /// To find children of the thread, which start in its group and go to its original group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) births: Option<Births>,
}

/// Threads and processes that a thread made while it was in another group for a while. They start
/// in that group, and belong in the thread's original group.
#[derive(Clone, Debug)]
pub struct Heirs(pub(crate) MemberChange);

/// Highest number of passes over the new threads, which may have children before they are moved.
const MOST_PASSES: usize = 8;

impl Heirs {
    /// Whether children are moved to the same place, from the same one.
    pub fn lead_as(&self, other: &Self) -> bool {
        let way =
            |heirs: &Self| (heirs.0.hierarchy.clone(), heirs.0.was.clone(), heirs.0.ours.clone());
        way(self) == way(other)
    }

    /// Whether this thread is in the group in which the children to move start.
    pub fn begin_with(&self, tid: i32) -> bool {
        let within = Hierarchy::named(&self.0.hierarchy).ok().flatten();
        let group = within.and_then(|within| within.group_of(tid).ok());
        group.is_some_and(|group| self.0.ours.contains(&group))
    }

    /// As [`crate::Effect::take_heir`].
    pub(crate) fn take(&self, child: Identity) -> Result<bool, Error> {
        let Some(within) = Hierarchy::named(&self.0.hierarchy)? else { return Ok(false) };
        let group = within.group_of(child.tid)?;
        self.take_from(&within, &group, child)
    }

    fn take_from(&self, within: &Hierarchy, group: &str, child: Identity) -> Result<bool, Error> {
        if child == self.0.thread_id || !self.0.ours.iter().any(|ours| ours == group) {
            return Ok(false);
        }
        let original = self.original(within);
        let change = MemberChange { thread_id: child, ..self.0.clone() };
        change.put(within, &original, Hierarchy::put_back).map(|()| true)
    }

    /// The thread's group, or its original group if it is still away or has ended.
    fn original(&self, within: &Hierarchy) -> String {
        let now = self.0.thread_id.check().and_then(|()| within.group_of(self.0.thread_id.tid));
        let is_back = |now: &String| !self.0.ours.contains(now);
        now.ok().filter(is_back).unwrap_or_else(|| within.nearest(&self.0.was))
    }

    /// Moves all children that [`Births::each_process`] finds, except those that are away by a
    /// change of their own.
    pub(crate) fn take_all(&self, is_away: impl Fn(Identity) -> bool) {
        let Some(births) = &self.0.births else { return };
        let Ok(Some(within)) = Hierarchy::named(&self.0.hierarchy) else { return };
        let take = |child: &Identity| {
            let group = within.group_of(child.tid).unwrap_or_default();
            !is_away(*child) && self.take_from(&within, &group, *child).unwrap_or(false)
        };
        for _ in 0..MOST_PASSES {
            let mut has_taken = false;
            births.each_process(|process, may_be_born| {
                let born = births.threads_of(process.tid, may_be_born);
                has_taken |= born.iter().filter(|child| take(child)).count() > 0;
            });
            if !has_taken {
                return;
            }
        }
    }
}

impl MemberChange {
    pub(crate) fn planned(
        thread_id: Identity,
        within: &Hierarchy,
        to: &Path,
    ) -> Result<Self, Error> {
        let to = within.group(to)?;
        let was = settled_group_of(within, thread_id.tid)?;
        thread_id.check()?; // so that it was this thread's
        let hierarchy = within.key().to_owned();
        Ok(Self { thread_id, hierarchy, was, ours: vec![to], births: None })
    }

    /// The same for a thread with children that are to go to its original group.
    pub(crate) fn planned_with_births(
        thread_id: Identity,
        within: &Hierarchy,
        to: &Path,
    ) -> Result<Self, Error> {
        let births = Some(Births::since_now(thread_id.tid)?);
        Ok(Self { births, ..Self::planned(thread_id, within, to)? })
    }

    pub(crate) fn act(&self, within: &Hierarchy) -> Result<(), Error> {
        self.ours.last().map_or(Ok(()), |group| self.put(within, group, Hierarchy::put))
    }

    pub(crate) fn undo(&self) -> Result<Undone, Error> {
        self.thread_id.check()?;
        let within = Hierarchy::named(&self.hierarchy)?.ok_or_else(|| {
            let what = format!("the cgroup hierarchy \"{}\" is not mounted", self.hierarchy);
            Error::invalid(what, "mount it again")
        })?;
        let present = within.group_of(self.thread_id.tid)?;
        self.thread_id.check()?;
        if present == self.was {
            return Ok(Undone::Undone);
        }
        if !self.ours.contains(&present) {
            return Ok(Undone::Changed);
        }
        // Another process may have removed the group meanwhile.
        let original = within.nearest(&self.was);
        self.put(&within, &original, Hierarchy::put_back)?;
        Ok(if original == self.was { Undone::Undone } else { Undone::Changed })
    }

    /// If another thread got the id during the move, that thread goes to the group of its process.
    fn put(
        &self,
        within: &Hierarchy,
        group: &str,
        put: fn(&Hierarchy, i32, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.thread_id.check()?;
        put(within, self.thread_id.tid, group)?;
        self.thread_id.check_after(|| {
            let _ = original_of(within, self.thread_id.tid, group)
                .and_then(|original| within.put_back(self.thread_id.tid, &original).ok());
        })
    }

    pub(crate) fn is_sensible(&self) -> bool {
        self.thread_id.tid > 0
            && !self.ours.is_empty()
            && self.ours.iter().chain([&self.was]).all(|group| is_group(group))
    }
}

fn is_group(group: &str) -> bool {
    group.starts_with('/') && !Path::new(group).components().any(|c| c == Component::ParentDir)
}

/// The group for a thread that started in `group`: that of its process, or else of the parent
/// process, if that is outside of `group`. After its parent has ended a process is a child of
/// process 1, which did not make it, so process 1 does not count.
fn original_of(within: &Hierarchy, tid: i32, group: &str) -> Option<String> {
    groups_of_relatives(within, tid).find(|original| !Path::new(original).starts_with(group))
}

fn groups_of_relatives(within: &Hierarchy, tid: i32) -> impl Iterator<Item = String> + '_ {
    let relatives = [process_of(tid).ok(), parent_of(tid).ok()].into_iter().flatten();
    relatives.filter(|&it| it > 1).filter_map(|relative| within.group_of(relative).ok())
}

/// The group that a thread is in. The kernel lists a new thread shortly before it moves the thread
/// to its creator's group. Until then the thread is in the topmost group, and has not run.
fn settled_group_of(within: &Hierarchy, tid: i32) -> Result<String, Error> {
    let group = within.group_of(tid)?;
    if group != TOPMOST || groups_of_relatives(within, tid).all(|relatives| relatives == TOPMOST) {
        return Ok(group);
    }
    for examine in 0..MOST_CHECKS {
        let is_new = has_never_run(tid);
        let group = within.group_of(tid)?;
        if group != TOPMOST || !is_new {
            return Ok(group);
        }
        sleep(CHECK_AGAIN * 2u32.pow(examine));
    }
    within.group_of(tid)
}

/// Moves the threads that are still in a group to be removed: children of threads moved there.
pub(crate) fn empty(directory: &Path) -> Result<(), Error> {
    let Some(within) = Hierarchy::around(directory) else { return Ok(()) };
    let group = within.group(directory)?;
    let above = Path::new(&group).parent().unwrap_or(Path::new("/")).to_string_lossy();
    for tid in members(directory) {
        let original =
            original_of(&within, tid, &group).unwrap_or_else(|| above.clone().into_owned());
        let put = match within.put_back(tid, &original) {
            // A group of version 2 takes no processes while it has controlled groups beneath; the
            // one that this process is in does.
            Err(error) if error.errno() == libc::EBUSY => {
                within.put_back(tid, &within.group_of(std::process::id() as i32)?)
            }
            put => put,
        };
        match put {
            Ok(()) | Err(Error::Gone { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn members(directory: &Path) -> Vec<i32> {
    let files = ["tasks", "cgroup.threads"];
    let list = files.iter().find_map(|file| fs::read_to_string(directory.join(file)).ok());
    list.unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_from_the_top() {
        assert!(is_group("/") && is_group("/a/b"));
        assert!(!is_group("a") && !is_group("") && !is_group("/a/../b"));
    }
}
