// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives kernel threads their computed priorities, through a journal of its own.
use super::relations::Relations;
use super::safe_order::{self, Superiors};
use super::served::Boost;
use crate::log;
use crate::sys;
use tek_effect::{Change, Effect, Error, Identity, Scheduling, Undone, Watch};
use tek_policy::kthread::{Changes, Class, Direction, RtPriority};

const FIFO: u32 = libc::SCHED_FIFO as u32;
const RR: u32 = libc::SCHED_RR as u32;

/// The part that changes kernel threads.
pub struct Applier {
    pub effect: Effect,
    pub changes: Changes,
    /// Times from the event to the changed priority that the statistics do not include yet.
    pub reactions_ns: Vec<u64>,
    /// The threads that are raised along with ksoftirqd.
    pub superiors: Superiors,
    refused: log::Seldom,
}

impl Applier {
    pub fn new(effect: Effect, changes_per_second: u32) -> Self {
        let changes = Changes::new(changes_per_second);
        let (superiors, refused) = (Superiors::default(), log::Seldom::default());
        Self { effect, changes, reactions_ns: Vec::new(), superiors, refused }
    }

    /// Gives each thread whose R(k) changed the priority that follows from it. `covered` receives
    /// the priorities of members that the present priority of a thread was computed from.
    pub fn settle(
        &mut self,
        relations: &mut Relations,
        mut covered: impl FnMut(i32, Option<u128>),
    ) {
        self.give_back_orphans(relations);
        let mut softirqs = false;
        let of_boosted = relations.all().filter_map(|served| served.boost.now);
        let of_boosted = of_boosted.fold(0, |bits, now| bits | 1u128 << now.get());
        for (thread, woken) in relations.take_changed() {
            let Some(served) = relations.served(thread) else { continue };
            let members = served.dependants().priorities();
            let is_softirq = served.class() == Class::Softirq;
            softirqs |= is_softirq;
            // A boosted dependant counts as its own dependants, which are included already.
            let bits = if members == 0 { 0 } else { members | of_boosted };
            // The programs get the value first: a boosted thread may run at once and queue
            // something. They recognize works of a kworker without it, and there an early boost
            // matters more.
            let before = bits != 0 && !served.is_kworker();
            if before {
                covered(thread, Some(bits));
            }
            let is_there = is_softirq || self.settle_one(relations, thread, woken);
            if !before || !is_there {
                covered(thread, is_there.then_some(bits));
            }
        }
        if softirqs {
            safe_order::settle(self, relations);
        }
    }

    /// `false`: the thread does not exist any more.
    fn settle_one(&mut self, relations: &mut Relations, thread: i32, woken: u64) -> bool {
        let wanted = relations.wanted(thread);
        let Some(served) = relations.served_mut(thread) else { return false };
        let before = served.boost.now;
        if before == wanted {
            return true;
        }
        if let Err(error) = look(&mut served.boost, thread) {
            return self.failed(relations, thread, &error);
        }
        let usual = usual_priority(&served.boost);
        let direction = Direction::of(usual, before.or(usual), wanted.or(usual));
        let now = sys::monotonic_ns();
        if !self.changes.may_change(1, direction, now) {
            served.boost.held = Some("too many changes a second".to_owned());
            relations.put_off(thread);
            return true;
        }
        served.boost.held = None;
        let set = set(&mut self.effect, &mut served.boost, wanted);
        match set {
            Ok(()) => self.note(woken),
            Err(error) => return self.failed(relations, thread, &error),
        }
        true
    }

    /// Restores the values of threads that have ended, or that had no waiter for a long time.
    pub fn give_back_orphans(&mut self, relations: &mut Relations) {
        for change in relations.take_orphans() {
            let _ = self.effect.give_back(change);
        }
    }

    fn note(&mut self, woken: u64) {
        if woken > 0 {
            self.reactions_ns.push(sys::monotonic_ns().saturating_sub(woken));
        }
    }

    pub fn failed(&mut self, relations: &mut Relations, thread: i32, error: &Error) -> bool {
        if matches!(error, Error::Gone { .. }) {
            relations.forget_thread(thread);
            return false;
        }
        if let Some(served) = relations.served_mut(thread) {
            served.boost.held = Some(error.to_string());
        }
        self.refused.tell(|| format!("a kernel thread does not follow its waiters: {error}"));
        true
    }
}

/// Reads the scheduling attributes that a kernel thread has without a boost.
pub fn look(boost: &mut Boost, thread: i32) -> Result<(), Error> {
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
    let (Some(who), Some(usual)) = (boost.identity, boost.usual) else { return Ok(()) };
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
                let usual = Scheduling::of(who.tid)?;
                boost.usual = Some(usual);
                boost.change = Some(effect.set_scheduling(who, scheduling(priority, usual))?);
            }
            resumed => resumed?,
        },
        (None, _) => {
            boost.change = Some(effect.set_scheduling(who, scheduling(priority, usual))?);
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
