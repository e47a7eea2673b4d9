// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes, and undoing them.
use crate::directory::DirectoryChange;
use crate::file::{is_threaded_type, FileChange};
use crate::identity;
use crate::journal::{Journal, Value, What};
use crate::limit::LimitChange;
use crate::limits::Limits;
use crate::member::{Heirs, MemberChange};
use crate::returned::Returned;
use crate::scheduling::SchedulingChange;
use crate::{Error, Hierarchy, Identity, Resource, Restored, Scheduling, Undone};
use std::cmp::Reverse;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// A change that was made and can be undone, by the [`Effect`] that made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Change(u64);

/// Makes changes, each of which is in a journal before it is made.
///
/// Belongs to one thread at a time, and may go to another. A call that fails has changed nothing.
/// Changes stay when an `Effect` is dropped, for the next owner of the journal to undo;
/// [`Effect::close`] is the clean end. Nothing here waits for other threads or sleeps, but for a
/// group that is removed while it has members (at most 0.1 s), `move_to` for a thread that is just
/// being made (10 ms), and `open`, `undo_all` and `close` for one that is executing a program or
/// was given back its own policy (20 ms).
pub struct Effect {
    journal: Journal,
    /// Changes to undo that could not be undone yet, and whether that was tried again.
    due: Vec<(u64, bool)>,
    returned: Returned,
}

/// A thread that is executing a program has finished exec after that time.
const EXECUTED: Duration = Duration::from_millis(20);

impl Effect {
    /// Takes the journal in this directory, which is made with mode 0700 if there is none, and
    /// undoes what an earlier owner left. [`Error::Busy`]: there is an owner that runs.
    pub fn open(directory: &Path) -> Result<(Self, Restored), Error> {
        let (journal, left) = Journal::open(directory)?;
        let mut effect = Self { journal, due: Vec::new(), returned: Returned::default() };
        let mut restored = identity::of_another_reader(|| effect.undo_all());
        restored.gone += left.earlier;
        restored.failed.extend(left.damage);
        Ok((effect, restored))
    }

    /// Sets the scheduling of a thread. Under a real-time policy and SCHED_IDLE this ignores the
    /// nice value of `wanted`. A thread under SCHED_DEADLINE is left alone ([`Error::Deadline`]).
    ///
    /// Needs CAP_SYS_NICE, for more than lowering a thread of one's own user.
    pub fn set_scheduling(
        &mut self,
        thread_id: Identity,
        wanted: Scheduling,
    ) -> Result<Change, Error> {
        self.settle(thread_id);
        self.schedule(SchedulingChange::planned(thread_id, wanted)?)
    }

    /// The same for a thread that may have children meanwhile. They start with the value that is
    /// set; undoing gives them the thread's previous value. It does not find a child that has
    /// executed a program, after its parent has ended.
    pub fn set_scheduling_of_line(
        &mut self,
        thread_id: Identity,
        wanted: Scheduling,
    ) -> Result<Change, Error> {
        self.settle(thread_id);
        self.schedule(SchedulingChange::planned_with_births(thread_id, wanted)?)
    }

    fn schedule(&mut self, planned: SchedulingChange) -> Result<Change, Error> {
        let thread_id = planned.thread_id;
        let inherits = |earlier: &SchedulingChange| earlier.is_inherited_by(&planned);
        if self.journal.held().schedulings().any(inherits) {
            // Otherwise the inherited value would be restored as the thread's own.
            return Err(Error::Executing { tid: thread_id.tid });
        }
        self.make(What::Scheduling(planned.clone()), || planned.act()).map(|(change, ())| change)
    }

    /// Checks a thread for the last time, as [`Effect::check_returned`] does, before the caller
    /// changes it. Its policy then counts as its own.
    pub fn settle(&mut self, thread_id: Identity) {
        self.returned.settle(thread_id);
    }

    /// When [`Effect::check_returned`] has something to do, in ns of CLOCK_MONOTONIC of the
    /// initial time namespace.
    pub fn next_check_ns(&self) -> Option<u64> {
        self.returned.next_ns()
    }

    /// Checks threads again, a few times within 10 s, after their own policy was restored. A system
    /// call that passed the kernel's check before may have set the policy of our change again.
    /// Checks threads that another process changed, until they end: it may set what it found.
    pub fn check_returned(&mut self, now_ns: u64) {
        self.check_returned_unless(now_ns, |_| false);
    }

    /// The same, but for threads that another [`Effect`] has changed now.
    pub fn check_returned_unless(&mut self, now_ns: u64, is_elsewhere: impl Fn(Identity) -> bool) {
        let held = self.journal.held();
        let is_changed = |thread_id| held.schedulings().any(|change| change.thread_id == thread_id);
        self.returned.examine(now_ns, is_changed, is_elsewhere);
    }

    /// Sets another value for such a change; the values that are restored stay the same. A later
    /// change by a process that has the right to make it stays: [`Error::Changed`]. Of several
    /// changes of one thread, only the last can get another value.
    pub fn set_again(&mut self, change: Change, wanted: Scheduling) -> Result<(), Error> {
        let planned = self.last_scheduling(change)?.clone();
        let value = planned.planned_again(wanted)?;
        self.journal.again(change.0, Value::Scheduling(value))?;
        let set = planned.act_again(value);
        match &set {
            // Only this value is ours now; earlier noted values no longer count.
            Ok(()) => self.keep_only(change, value),
            Err(_) => {
                let latest = Value::Scheduling(planned.latest());
                let _ = self.journal.again(change.0, latest);
            }
        }
        set
    }

    /// Restores the previous policy for a while; the change stays in the journal, for
    /// [`Effect::resume`]. For a thread that changes often: a journal write takes longer than the
    /// change. [`Undone::Changed`], [`Undone::Gone`]: the caller undoes the change for good.
    pub fn rest(&mut self, change: Change) -> Result<Undone, Error> {
        match self.last_scheduling(change)?.undo() {
            Err(Error::Gone { .. }) => Ok(Undone::Gone),
            undone => undone,
        }
    }

    /// Sets another value for a change that rests. The journal records a value that it does not yet
    /// hold for the change. [`Error::Changed`]: another process changed the thread since.
    pub fn resume(&mut self, change: Change, wanted: Scheduling) -> Result<(), Error> {
        let planned = self.last_scheduling(change)?.clone();
        let value = planned.planned_after_rest(wanted)?;
        if !planned.ours.contains(&value) {
            self.journal.again(change.0, Value::Scheduling(value))?;
        }
        planned.act_after_rest(value)
    }

    /// Sets a limit of a process, which is named by its first thread: prlimit(2).
    ///
    /// Real-time policies that threads can have only by a raised RLIMIT_RTPRIO end with the change,
    /// and so do those that its children have inherited.
    ///
    /// Needs CAP_SYS_RESOURCE for other users' processes, and for raising a hard limit.
    pub fn set_limit(
        &mut self,
        thread_id: Identity,
        resource: Resource,
        soft: u64,
        hard: u64,
    ) -> Result<Change, Error> {
        let planned = LimitChange::planned(thread_id, resource, Limits { soft, hard })?;
        self.make(What::Limit(planned.clone()), || planned.act()).map(|(change, ())| change)
    }

    /// Restores the previous limit in a child process that inherited the changed one, for good. The
    /// child loses real-time policies that it has by that limit only. No effect if a process that
    /// has the right to do so gave the child another limit.
    pub fn disinherit_limit(&self, change: Change, child: Identity) -> Result<(), Error> {
        match self.journal.held().get(change.0) {
            Some(What::Limit(limit)) => {
                limit.take_from_child(child, &|tid, rule| self.journal.held().gave(tid, rule))
            }
            _ => Err(not_in_force(change)),
        }
    }

    /// The same for all child processes: the caller may have missed some births. A process without
    /// its parent counts if it is of this user and has exactly the hard limit that was set.
    pub fn disinherit_limit_of_all(&self, change: Change, uid: u32) {
        let held = self.journal.held();
        if let Some(What::Limit(limit)) = held.get(change.0) {
            let keeps = |tid, rule| held.gave(tid, rule);
            limit.take_from_children(&keeps);
            limit.take_from_orphans(uid, &keeps, |thread_id| {
                held.limited(thread_id, limit.resource)
            });
        }
    }

    /// Writes a file of the kernel, such as an attribute of a cgroup, by one write(2). Its content,
    /// at most 1 MiB, is remembered.
    ///
    /// cgroup.subtree_control is restored by controller name. cgroup.type cannot be restored, so it
    /// is written only in a directory that this `Effect` made and will remove.
    pub fn write_file(&mut self, path: &Path, content: &[u8]) -> Result<Change, Error> {
        if is_threaded_type(path) && !self.has_made(path.parent()) {
            let what = format!("{} could not be given back", path.display());
            return Err(Error::invalid(what, "make a group of one's own threaded"));
        }
        let planned = FileChange::planned(path, content)?;
        let act = || planned.act(content);
        let (change, shown) = self.make(What::File(planned.clone()), act)?;
        self.keep(change, Value::Content(shown))
    }

    /// Makes a directory, such as a cgroup, that does not exist. Undoing removes it. A thread that
    /// started in the group then goes to the group of its process or of the parent process, else to
    /// the group above. A directory in which another program made an entry stays.
    pub fn make_directory(&mut self, path: &Path) -> Result<Change, Error> {
        let planned = DirectoryChange::planned(path)?;
        let act = || planned.act();
        let (change, place) = self.make(What::Directory(planned.clone()), act)?;
        self.keep(change, Value::Place(place))
    }

    /// Moves a thread to the cgroup of a hierarchy that has the directory `to`.
    ///
    /// On version 2 the whole process moves if `to` is in another domain than the thread, so move
    /// its threads there first, and then one by one to threaded groups: cgroups(7).
    pub fn move_to(
        &mut self,
        thread_id: Identity,
        hierarchy: &Hierarchy,
        to: &Path,
    ) -> Result<Change, Error> {
        let planned = MemberChange::planned(thread_id, hierarchy, to)?;
        let act = || planned.act(hierarchy);
        self.make(What::Member(planned.clone()), act).map(|(change, ())| change)
    }

    /// The same for a while, for a thread that may have children meanwhile. They start in the new
    /// group; [`Heirs`] moves them to the thread's original group, and so does
    /// [`Effect::undo_all`]. Neither finds a child that has executed a program, after its parent
    /// has ended.
    pub fn move_line_to(
        &mut self,
        thread_id: Identity,
        hierarchy: &Hierarchy,
        to: &Path,
    ) -> Result<Change, Error> {
        let planned = MemberChange::planned_with_births(thread_id, hierarchy, to)?;
        let act = || planned.act(hierarchy);
        self.make(What::Member(planned.clone()), act).map(|(change, ())| change)
    }

    /// The children of a thread that was moved so.
    pub fn heirs_of(&self, change: Change) -> Option<Heirs> {
        match self.journal.held().get(change.0) {
            Some(What::Member(member)) if member.births.is_some() => Some(Heirs(member.clone())),
            _ => None,
        }
    }

    /// Moves one of them. `false`: it is in another group, or it is there by a change of its own.
    pub fn take_heir(&self, heirs: &Heirs, child: Identity) -> Result<bool, Error> {
        match self.journal.held().moved(child, &heirs.0) {
            true => Ok(false),
            false => heirs.take(child),
        }
    }

    /// Moves all of them, except those that have executed a program and lost their parent.
    pub fn take_all_heirs(&self, heirs: &Heirs) {
        let held = self.journal.held();
        heirs.take_all(|thread_id| held.moved(thread_id, &heirs.0));
    }

    /// Gives back what was there. After an error the change is still in force, and may be undone
    /// again. A thread keeps what it has set since only if it could have done so without the
    /// change.
    ///
    /// The same thing may be changed more than once: undoing an earlier change then does nothing at
    /// once, and undoing the last gives back what was there before the first.
    pub fn undo(&mut self, change: Change) -> Result<Undone, Error> {
        self.undo_now_or(change, true)
    }

    /// With patience, [`Error::Executing`] is returned; without, the thread counts as gone.
    fn undo_now_or(&mut self, change: Change, patience: bool) -> Result<Undone, Error> {
        let what = self.journal.held().get(change.0).ok_or(not_in_force(change))?;
        let is_last = self.journal.held().next_of_same_thing(change.0).is_none();
        let undone = match is_last {
            false => Undone::Undone,
            true => match self.undo_heirs(what, patience).and_then(|()| self.undo_itself(what)) {
                Err(Error::Executing { .. }) if !patience => Undone::Gone,
                undone => undone?,
            },
        };
        if let (What::Scheduling(its), true) = (what, is_last) {
            self.returned.note(its, undone);
        }
        self.journal.done(change.0);
        Ok(undone)
    }

    /// As `undo`, but an error does not leave the change to the caller: it is undone by a later
    /// [`Effect::try_again`].
    pub fn give_back(&mut self, change: Change) -> Result<Undone, Error> {
        self.give_back_or_owe(change, false)
    }

    fn give_back_or_owe(&mut self, change: Change, again: bool) -> Result<Undone, Error> {
        let undone = self.undo_now_or(change, !again);
        if undone.is_err() && self.journal.held().get(change.0).is_some() {
            self.due.push((change.0, again));
        }
        undone
    }

    /// Undoes what could not be undone before. `false`: there still is something. To be called some
    /// 0.1 s after the first failure, and again after that time.
    pub fn try_again(&mut self) -> bool {
        for (change, was_tried) in std::mem::take(&mut self.due) {
            let tried = self.give_back_or_owe(Change(change), was_tried);
            if let (Err(_), Some(last)) = (tried, self.due.last_mut()) {
                last.1 = true;
            }
        }
        !self.owes()
    }

    /// Whether something could not be undone yet.
    pub fn owes(&self) -> bool {
        !self.due.is_empty()
    }

    /// Undoes the change of another thread that executed a program and replaced the first thread of
    /// its process, when both had the same scheduling.
    fn undo_heirs(&self, what: &What, patience: bool) -> Result<(), Error> {
        let What::Scheduling(first) = what else { return Ok(()) };
        let remaining = self.journal.held().schedulings().filter(|other| other.may_be(first));
        let mut remaining = remaining.filter(|other| !first.fits_better(other));
        remaining.try_for_each(|other| other.undo_of_heir(patience))
    }

    /// As [`What::undo`], which treats an ended thread as the first of its process if that has the
    /// same scheduling. Here the first thread's own change takes precedence if it fits better.
    fn undo_itself(&self, what: &What) -> Result<Undone, Error> {
        if let What::Scheduling(change) = what {
            let mut firsts = self.journal.held().schedulings().filter(|own| change.may_be(own));
            if !change.thread_id.is_there() && firsts.any(|own| own.fits_better(change)) {
                return Ok(Undone::Gone);
            }
        }
        let held = self.journal.held();
        let undone = what.undo(&|tid, rule| held.gave(tid, rule))?;
        match what {
            // A directory in it was made by this journal's owner, and is still to be removed.
            What::Directory(its) if undone == Undone::Changed && held.has_below(&its.path) => {
                let busy = io::Error::from_raw_os_error(libc::EBUSY);
                Err(Error::file(&its.path, "remove the directory", busy))
            }
            _ => Ok(undone),
        }
    }

    /// Undoes all changes, the latest first.
    pub fn undo_all(&mut self) -> Restored {
        let changes = self.journal.held().all().map(|(change, _)| Change(change)).collect();
        self.undo_these(changes)
    }

    /// Undoes the given changes that are in force, the latest first.
    pub(crate) fn undo_these(&mut self, mut changes: Vec<Change>) -> Restored {
        let mut restored = Restored::default();
        tek_sort::by_key(&mut changes, |change| Reverse(change.0));
        let heirs: Vec<Heirs> = changes.iter().filter_map(|it| self.heirs_of(*it)).collect();
        // A failed undo may depend on a later one: a first thread that a real-time thread replaced
        // goes back into its group only after its policy is restored.
        if self.undo_each(&changes, &mut restored, true) || !restored.failed.is_empty() {
            sleep(EXECUTED);
            self.undo_each(&changes, &mut restored, false);
        }
        // After their parents, which have children until then.
        heirs.iter().for_each(|heirs| self.take_all_heirs(heirs));
        if !self.returned.is_empty() {
            sleep(EXECUTED);
            self.check_returned(u64::MAX);
        }
        restored
    }

    /// True: there are threads that are just executing a program.
    fn undo_each(&mut self, changes: &[Change], restored: &mut Restored, patience: bool) -> bool {
        restored.failed.clear();
        let mut executing = false;
        for change in changes {
            match self.undo_now_or(*change, patience) {
                Ok(undone) => restored.count(undone),
                Err(Error::Executing { .. }) => executing = true,
                Err(Error::NotInForce { .. }) => {}
                Err(error) => restored.failed.push(error.reported()),
            }
        }
        executing
    }

    /// Undoes all of them and, if that went well, removes the journal, and its directory if nothing
    /// else is in it.
    pub fn close(mut self) -> Restored {
        let restored = self.undo_all();
        if restored.failed.is_empty() {
            self.journal.remove();
        }
        restored
    }

    /// How many changes are in force.
    pub fn count(&self) -> usize {
        self.journal.held().all().count()
    }

    /// After an error a thread may have been changed, but was not found again.
    fn unmake(&mut self, change: u64) {
        let of_thread =
            |what: &&What| matches!(what, What::Scheduling(_) | What::Limit(_) | What::Member(_));
        match self.journal.held().get(change).filter(of_thread).map(|what| self.undo_itself(what)) {
            Some(Err(_)) => self.due.push((change, false)),
            _ => self.journal.done(change),
        }
    }

    /// Notes a change, makes it, and forgets it if it was not made.
    fn make<T>(
        &mut self,
        what: What,
        act: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(Change, T), Error> {
        let change = self.journal.note(what)?;
        match act() {
            Ok(made) => Ok((Change(change), made)),
            Err(error) => {
                self.unmake(change);
                Err(error)
            }
        }
    }

    /// Notes what was found after a change; without that it is undone at once.
    fn keep(&mut self, change: Change, value: Value) -> Result<Change, Error> {
        match self.journal.again(change.0, value) {
            Ok(()) => Ok(change),
            Err(error) => {
                let _ = self.undo(change);
                Err(error)
            }
        }
    }

    /// The scheduling change, if it is the latest change of its thread.
    fn last_scheduling(&self, change: Change) -> Result<&SchedulingChange, Error> {
        let Some(What::Scheduling(scheduling)) = self.journal.held().get(change.0) else {
            return Err(not_in_force(change));
        };
        if self.journal.held().next_of_same_thing(change.0).is_some() {
            let what = format!("thread {} was changed once more since", scheduling.thread_id.tid);
            return Err(Error::invalid(what, "give the later change another value"));
        }
        Ok(scheduling)
    }

    fn keep_only(&mut self, change: Change, value: Scheduling) {
        if let Some(What::Scheduling(scheduling)) = self.journal.held_mut().get_mut(change.0) {
            scheduling.ours = vec![value];
        }
    }

    fn has_made(&self, directory: Option<&Path>) -> bool {
        self.journal.held().all().any(|(_, what)| match what {
            What::Directory(change) => Some(change.path.as_path()) == directory,
            _ => false,
        })
    }
}

fn not_in_force(change: Change) -> Error {
    Error::NotInForce { change: change.0 }
}
