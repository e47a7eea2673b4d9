// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the priority of one kernel thread: its present one, the wanted one, and failures.
use super::relations::Relations;
use super::served::Boost;
use crate::{log, sys};
use tek_effect::{Change, Effect, Error, Identity, Scheduling, Undone, Watch};
use tek_policy::kthread::RtPriority;

const FIFO: u32 = libc::SCHED_FIFO as u32;
const RR: u32 = libc::SCHED_RR as u32;

/// Reads the scheduling attributes that a kernel thread has without a boost.
pub fn examine(boost: &mut Boost, thread: i32) -> Result<(), Error> {
    if boost.identity.is_none() {
        let identity = Identity::of(thread)?;
        boost.identity = Some(identity);
        // Without the watch each change takes longer.
        boost.watch = Watch::of(identity).ok();
    }
    if boost.change.is_none() {
        boost.usual = Some(Scheduling::of(thread)?);
    }
    Ok(())
}

/// The real-time priority that a thread has without a boost.
pub fn usual_priority(boost: &Boost) -> Option<RtPriority> {
    let usual = boost.usual.filter(|usual| [FIFO, RR].contains(&usual.policy))?;
    RtPriority::new(usual.priority)
}

/// Sets the priority; `None` restores the attributes of the thread. The change stays in the
/// journal, because most threads are boosted again soon.
pub fn set(
    effect: &mut Effect,
    boost: &mut Boost,
    wanted: Option<RtPriority>,
) -> Result<(), Error> {
    let (Some(waiter), Some(usual)) = (boost.identity, boost.usual) else { return Ok(()) };
    let scheduling = |priority: RtPriority, usual| {
        let priority = priority.get().into();
        Scheduling { policy: FIFO, priority, reset_on_fork: false, ..usual }
    };
    let now = sys::monotonic_ns();
    let before = boost.now;
    let Some(priority) = wanted else {
        boost.now = None;
        return match boost.change.filter(|_| before.is_some()) {
            Some(change) => {
                boost.total_ns += now.saturating_sub(boost.since_ns);
                rest(effect, boost, change)
            }
            None => Ok(()),
        };
    };
    match (boost.change, before) {
        (Some(change), Some(_)) => effect.set_again(change, scheduling(priority, usual))?,
        (Some(change), None) => match effect.resume(change, scheduling(priority, usual)) {
            Err(Error::Changed { .. }) => {
                // Another program changed the thread: the new attributes are the thread's own.
                boost.change = None;
                effect.give_back(change)?;
                let usual = Scheduling::of(waiter.tid)?;
                boost.usual = Some(usual);
                boost.change = Some(effect.set_scheduling(waiter, scheduling(priority, usual))?);
            }
            resumed => resumed?,
        },
        (None, _) => {
            boost.change = Some(effect.set_scheduling(waiter, scheduling(priority, usual))?);
        }
    }
    if before.is_none() {
        boost.since_ns = now;
        boost.times += 1;
    }
    boost.now = wanted;
    Ok(())
}

/// If that fails, or the thread has other attributes meanwhile, the effect forgets the change or
/// tries again to undo it.
fn rest(effect: &mut Effect, boost: &mut Boost, change: Change) -> Result<(), Error> {
    if !matches!(effect.rest(change), Ok(Undone::Undone)) {
        boost.change = None;
        effect.give_back(change)?;
    }
    Ok(())
}

/// Failed changes of kernel threads: the log reports few of them.
#[derive(Default)]
pub struct Failures(log::Seldom);

impl Failures {
    /// `false`: there is no such thread any more.
    pub fn note(&mut self, relations: &mut Relations, thread: i32, error: &Error) -> bool {
        if matches!(error, Error::Gone { .. }) {
            relations.forget_thread(thread);
            return false;
        }
        if let Some(served) = relations.served_mut(thread) {
            served.boost.held = Some(error.to_string());
        }
        self.0.announce(|| format!("a kernel thread does not follow its waiters: {error}"));
        true
    }
}
