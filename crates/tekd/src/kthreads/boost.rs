// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the priority of one thread: its present one, the wanted one, and failures.
use super::relations::Relations;
use super::served::Boost;
use crate::{log, sys};
use tek_effect::{Change, Effect, Error, Identity, Scheduling, Undone, Watch};
use tek_policy::dependency::RtPriority;

const FIFO: u32 = libc::SCHED_FIFO as u32;
const RR: u32 = libc::SCHED_RR as u32;
const NORMAL: u32 = libc::SCHED_OTHER as u32;
const BEST: i32 = -20;
const DEADLINE: u32 = libc::SCHED_DEADLINE as u32;

/// The identity of the thread, which it keeps.
pub fn identify(boost: &mut Boost, thread: i32) -> Result<Identity, Error> {
    if let Some(identity) = boost.identity {
        return Ok(identity);
    }
    let identity = Identity::of(thread)?;
    boost.identity = Some(identity);
    // Without the watch each change takes longer.
    boost.watch = Watch::of(identity).ok();
    Ok(identity)
}

/// Reads the scheduling attributes that a thread has without a boost.
pub fn examine(boost: &mut Boost, thread: i32) -> Result<(), Error> {
    identify(boost, thread)?;
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

/// Whether a thread of a program is real-time by itself, and thus keeps its priority.
pub fn is_real_time(boost: &Boost) -> bool {
    let policy = boost.usual.map(|usual| usual.policy);
    boost.is_user && policy.is_some_and(|policy| [FIFO, RR, DEADLINE].contains(&policy))
}

/// The attributes of a boosted thread. A thread of a program has the policy of Fast threads, which
/// its children do not inherit; or the best nice value, where Fast threads have weights.
fn boosted(boost: &Boost, priority: RtPriority, usual: Scheduling) -> Scheduling {
    if boost.is_user && boost.is_fair {
        return Scheduling { policy: NORMAL, priority: 0, nice: BEST, reset_on_fork: true };
    }
    let (policy, reset_on_fork) = if boost.is_user { (RR, true) } else { (FIFO, false) };
    Scheduling { policy, priority: priority.get().into(), reset_on_fork, ..usual }
}

/// Sets the priority; `None` restores the attributes of the thread. The change stays in the
/// journal, because most threads are boosted again soon.
pub fn set(
    effect: &mut Effect,
    boost: &mut Boost,
    wanted: Option<RtPriority>,
) -> Result<(), Error> {
    let (Some(waiter), Some(usual)) = (boost.identity, boost.usual) else { return Ok(()) };
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
        (Some(change), Some(_)) => effect.set_again(change, boosted(boost, priority, usual))?,
        (Some(change), None) => match effect.resume(change, boosted(boost, priority, usual)) {
            Err(Error::Changed { .. }) => {
                // Another program changed the thread: the new attributes are the thread's own.
                boost.change = None;
                effect.give_back(change)?;
                let usual = Scheduling::of(waiter.tid)?;
                boost.usual = Some(usual);
                if is_real_time(boost) {
                    return Ok(());
                }
                let wanted = boosted(boost, priority, usual);
                boost.change = Some(effect.set_scheduling(waiter, wanted)?);
            }
            resumed => resumed?,
        },
        (None, _) => {
            let wanted = boosted(boost, priority, usual);
            boost.change = Some(effect.set_scheduling(waiter, wanted)?);
        }
    }
    if before.is_none() {
        boost.since_ns = now;
        boost.times += 1;
    }
    boost.now = wanted;
    Ok(())
}

/// Ends the boost for good: the journal has the thread no more, and another journal may have it.
pub fn release(effect: &mut Effect, boost: &mut Boost) -> Result<(), Error> {
    let rested = set(effect, boost, None);
    match boost.change.take() {
        Some(change) => effect.give_back(change).map(drop),
        None => rested,
    }
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

/// Failed changes of threads: the log reports few of them.
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
        self.0.announce(|| format!("a thread does not follow its waiters: {error}"));
        true
    }
}
