// SPDX-License-Identifier: MIT OR Apache-2.0
//! The change of a thread's scheduling: made, repeated and undone.
//!
//! Policy, priority and flag are changed, compared and restored as one unit, the nice value as
//! another. A change to a real-time policy does not touch the nice value.
use crate::heirs::Births;
use crate::identity::Program;
use crate::loan::{Loan, Right};
use crate::policy::set_rule;
use crate::rule::{Rule, Scheduling, DEADLINE, FIFO, NORMAL, RR};
use crate::sys;
use crate::{Error, Identity, Undone};
use serde::{Deserialize, Serialize};
use std::io;

/// The kernel checks whether a caller may set a policy before it locks the thread. A call that
/// passed the check may thus take effect after ours; this is the highest number of our tries.
const MOST_TRIES: usize = 16;

/// A thread's scheduling, changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SchedulingChange {
    #[serde(rename = "who")]
    pub(crate) thread_id: Identity,
    pub(crate) was: Scheduling,
    /// The values that were set, the latest last.
    pub(crate) ours: Vec<Scheduling>,
    /// The thread's own right, before the change.
    #[serde(default, skip_serializing_if = "Right::is_none")]
    pub(crate) right: Right,
    /// Of a thread that is not the first of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<Program>,
    /// The slice that it had for itself: sched_attr.sched_runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slice_ns: Option<u64>,
    /// Set if the thread's children, which inherit the changed value, are to get the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) births: Option<Births>,
}

impl SchedulingChange {
    /// The change to note in the journal.
    pub(crate) fn planned(thread_id: Identity, wanted: Scheduling) -> Result<Self, Error> {
        wanted.check()?;
        let was = Scheduling::of(thread_id.tid)?;
        let slice_ns = sys::own_slice_ns(thread_id.tid).unwrap_or(None);
        thread_id.check()?; // so that they were this thread's
        if was.policy == DEADLINE {
            return Err(Error::Deadline { tid: thread_id.tid });
        }
        let right = Right::of(thread_id.tid)?;
        let program = Program::of_other_thread(thread_id.tid)?;
        let ours = vec![wanted.keeping(was.nice)];
        Ok(Self { thread_id, was, ours, right, program, slice_ns, births: None })
    }

    /// The same for a change that is to be undone for the thread's children, too.
    pub(crate) fn planned_with_births(
        thread_id: Identity,
        wanted: Scheduling,
    ) -> Result<Self, Error> {
        let births = Some(Births::since_now(thread_id.tid)?);
        Ok(Self { births, ..Self::planned(thread_id, wanted)? })
    }

    pub(crate) fn act(&self) -> Result<(), Error> {
        self.set(self.was, self.latest())
    }

    /// The value to note before [`SchedulingChange::act_again`].
    pub(crate) fn planned_again(&self, wanted: Scheduling) -> Result<Scheduling, Error> {
        wanted.check()?;
        let present = Scheduling::of(self.thread_id.tid)?;
        self.thread_id.check()?;
        let is_ours = self.ours.iter().any(|ours| ours.rule() == present.rule());
        if is_ours || self.loan().is_lent(present.rule()) {
            return Ok(wanted.keeping(self.latest().nice));
        }
        Err(Error::Changed { what: format!("the policy of thread {}", self.thread_id.tid) })
    }

    pub(crate) fn act_again(&self, wanted: Scheduling) -> Result<(), Error> {
        self.set(self.latest(), wanted)
    }

    /// The value to note before [`SchedulingChange::act_after_rest`]: the thread has its own.
    pub(crate) fn planned_after_rest(&self, wanted: Scheduling) -> Result<Scheduling, Error> {
        wanted.check()?;
        let tid = self.thread_id.tid;
        let present = sys::rule(tid).map_err(|e| Error::thread(tid, "ask for the policy of", e))?;
        if present == self.was.rule() {
            return Ok(wanted.keeping(self.latest().nice));
        }
        self.thread_id.check()?;
        Err(Error::Changed { what: format!("the policy of thread {tid}") })
    }

    pub(crate) fn act_after_rest(&self, wanted: Scheduling) -> Result<(), Error> {
        self.set(self.was, wanted)
    }

    pub(crate) fn latest(&self) -> Scheduling {
        self.ours.last().copied().unwrap_or(self.was)
    }

    /// Whether it is why a thread has this rule.
    pub(crate) fn gave(&self, tid: i32, rule: Rule) -> bool {
        self.thread_id.tid == tid && self.ours.iter().any(|ours| ours.rule() == rule)
    }

    fn loan(&self) -> Loan<'_> {
        Loan { was: self.was, ours: &self.ours, right: self.right }
    }

    /// Whether the change lends real-time rights that the thread could use again after the undo.
    pub(crate) fn lends_real_time(&self) -> bool {
        self.loan().is_real_time()
    }

    /// Whether the thread, after the undo, has a policy that only the change can have lent it.
    /// Makes one system call.
    pub(crate) fn is_unchanged(&self) -> io::Result<bool> {
        Ok(self.loan().is_lent(sys::rule(self.thread_id.tid)?))
    }

    /// Whether a thread that another process changed has a rule of our change again. An error: the
    /// thread has ended, or cannot be read.
    pub(crate) fn is_ours_again(&self) -> Result<bool, Error> {
        self.thread_id.check()?;
        let tid = self.thread_id.tid;
        let rule = sys::rule(tid).map_err(|e| Error::thread(tid, "ask for the policy of", e))?;
        Ok(rule != self.was.rule() && self.ours.iter().any(|ours| ours.rule() == rule))
    }

    fn set(&self, from: Scheduling, to: Scheduling) -> Result<(), Error> {
        let tid = self.thread_id.tid;
        let failed = |source| {
            let tried = format!("give policy {}, priority {} to", to.policy, to.priority);
            Error::thread(tid, tried, source)
        };
        self.thread_id.check()?;
        set_rule(tid, from.rule(), to.rule()).map_err(failed)?;
        if to.nice != from.nice {
            if let Err(error) = sys::set_nice(tid, to.nice) {
                let _ = sys::set_rule(tid, from.rule());
                let _ = self.give_slice_under(from.rule());
                return Err(failed(error));
            }
        }
        self.check_after()
    }

    /// If another thread got the id during the change, its previous policy is unknown. Nearly all
    /// threads have the usual policy, so it gets that.
    fn check_after(&self) -> Result<(), Error> {
        self.thread_id.check_after(|| {
            let usual = Rule { policy: NORMAL, priority: 0, reset_on_fork: false };
            let _ = sys::set_rule(self.thread_id.tid, usual);
        })
    }

    /// If the thread has executed a program, the change is undone in the thread that it has become.
    pub(crate) fn undo(&self) -> Result<Undone, Error> {
        let undone = match self.undo_itself() {
            Err(Error::Gone { .. }) => match self.heir()? {
                Some(thread_id) => Self { thread_id, ..self.clone() }.undo_itself()?,
                None => Undone::Gone,
            },
            undone => undone?,
        };
        // Afterwards, because it may have children until then.
        if let Some(births) = &self.births {
            let ours: Vec<Rule> = self.ours.iter().map(|ours| ours.rule()).collect();
            births.give(&ours, self.was.rule(), self.slice_ns);
        }
        Ok(undone)
    }

    /// The thread's new identity after it executed a program: the first thread of its process, if
    /// that has the values that were set.
    fn heir(&self) -> Result<Option<Identity>, Error> {
        let Some(program) = self.program else { return Ok(None) };
        let first = program.process();
        // It has ended before the thread takes its place.
        let is_vacant = !first.is_there() && first.process_is_there();
        if !is_vacant && !self.has_ours(first)? {
            return Ok(None);
        }
        match program.is_executed_anew()? {
            true if !is_vacant => Ok(Some(first)),
            // It may be about to be, or the first thread has the same by itself, as most have that
            // are not real-time.
            _ if matches!(self.latest().policy, FIFO | RR) => {
                Err(Error::Executing { tid: self.thread_id.tid })
            }
            _ => Ok(None),
        }
    }

    /// Whether a thread exists and has a rule that was set, or is halfway to the restored one.
    fn has_ours(&self, thread: Identity) -> Result<bool, Error> {
        let has = match thread.check().and_then(|()| Scheduling::of(thread.tid)) {
            Err(Error::Gone { .. }) => return Ok(false),
            has => has?.rule(),
        };
        Ok(self.may_be_ours(has) || self.loan().is_lent(has))
    }

    /// Whether a thread under this rule has a rule that was set. True also between two such rules,
    /// if the process that set or restored one was killed halfway: [`set_rule`].
    fn may_be_ours(&self, rule: Rule) -> bool {
        let all = || self.ours.iter().chain([&self.was]).map(|known| known.rule());
        let is_halfway = |to: Rule| !to.reset_on_fork && to.halfway() == rule;
        self.ours.iter().any(|ours| ours.rule() == rule)
            || all().any(is_halfway) && all().any(|from| from.reset_on_fork)
    }

    /// Whether the first thread of the `other` change may now be this change's thread, which
    /// executed a program: both had the same rule.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        let is_first = self.program.is_some_and(|program| program.process() == other.thread_id);
        is_first && self.ours.iter().any(|ours| ours.rule() == other.latest().rule())
    }

    /// For a change of the first thread of a process, when the `other` change set the same: whether
    /// the present first thread is this change's thread and not the other, after an exec. The nice
    /// value decides, because a real-time thread keeps its own.
    pub(crate) fn fits_better(&self, other: &Self) -> bool {
        let (own, remaining) = (self.latest().nice, other.latest().nice);
        own != remaining && Scheduling::of(self.thread_id.tid).is_ok_and(|has| has.nice == own)
    }

    /// As `undo`, if the thread certainly has executed a program. With patience it is an error that
    /// it may just be doing so.
    pub(crate) fn undo_of_heir(&self, patience: bool) -> Result<(), Error> {
        if self.thread_id.is_there() {
            return Ok(());
        }
        match self.program.map_or(Ok(false), Program::is_executed_anew)? {
            true => self.undo().map(drop),
            false if patience => Err(Error::Executing { tid: self.thread_id.tid }),
            false => Ok(()),
        }
    }

    /// Whether what is there before the `later` change is what this one had set: its thread is
    /// executing a program, and is the first of its process by now.
    pub(crate) fn is_inherited_by(&self, later: &Self) -> bool {
        let is_first = self.program.is_some_and(|program| program.process() == later.thread_id);
        let its = later.was.rule();
        let has_ours = self.ours.iter().any(|ours| ours.rule() == its) || self.loan().is_lent(its);
        is_first && has_ours && !self.thread_id.is_there()
    }

    fn undo_itself(&self) -> Result<Undone, Error> {
        self.thread_id.check()?;
        let has = self.give_back_rule()?;
        let nice = self.give_back_nice()?;
        self.check_after()?;
        // Any process may have changed a value that this change did not touch.
        let untouched = self.ours.iter().all(|ours| ours.nice == self.was.nice);
        match has == self.was.rule() && (untouched || nice == self.was.nice) {
            true => Ok(Undone::Undone),
            false => Ok(Undone::Changed),
        }
    }

    /// The rule that the thread has then: its own.
    fn give_back_rule(&self) -> Result<Rule, Error> {
        let tid = self.thread_id.tid;
        let failed = |source| Error::thread(tid, "give its own policy back to", source);
        for _ in 0..MOST_TRIES {
            let has = sys::rule(tid).map_err(failed)?;
            let own = match self.may_be_ours(has) {
                true => self.was.rule(),
                false => self.loan().rule_without(has),
            };
            if own == has {
                self.give_slice_under(own).map_err(failed)?;
                return Ok(own);
            }
            set_rule(tid, has, own).map_err(failed)?;
        }
        Err(Error::Contended { tid })
    }

    /// The slice goes with the rule that the thread had.
    fn give_slice_under(&self, rule: Rule) -> io::Result<()> {
        let is_its_own = rule == self.was.rule();
        sys::give_slice(self.thread_id.tid, self.slice_ns.filter(|_| is_its_own))
    }

    /// The nice value that it has then.
    fn give_back_nice(&self) -> Result<i32, Error> {
        let tid = self.thread_id.tid;
        let failed = |source| Error::thread(tid, "give its own nice value back to", source);
        let has = sys::nice(tid).map_err(failed)?;
        let own = match self.ours.iter().any(|ours| ours.nice == has) {
            true => self.was.nice,
            false => self.loan().nice_without(has),
        };
        if own != has {
            sys::set_nice(tid, own).map_err(failed)?;
        }
        Ok(own)
    }

    pub(crate) fn is_sensible(&self) -> bool {
        self.thread_id.tid > 0
            && self.was.is_possible()
            && !self.ours.is_empty()
            && self.ours.iter().all(|ours| ours.is_possible())
    }
}
