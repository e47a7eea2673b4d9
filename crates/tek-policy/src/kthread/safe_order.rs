// SPDX-License-Identifier: MIT OR Apache-2.0
//! irq_work > rcu > ksoftirqd: the order in which the kernel's own threads must come.
//!
//! RCU completes the work of ksoftirqd. On PREEMPT_RT irq_work reports finished readers to RCU.
//! A busy ksoftirqd above RCU's threads starves the threads that it depends on itself.
//! The kernel then frees no memory, which has locked up devices.
//! Manual set-ups have ksoftirqd at 2 and rcuc and rcub at 4 (tuned's realtime-virtual-host), or
//! set rcutree.kthread_prio along with ksoftirqd.
//!
//! *Where RCU's threads are real-time*, they are raised with ksoftirqd. This holds on PREEMPT_RT
//! and with RCU_BOOST or rcutree.kthread_prio (at 1 by default).
//! rcutree.kthread_prio exists for this, and the kernel itself boosts preempted readers.
//! No thread is raised above the highest task that waits for ksoftirqd: RCU's callbacks take
//! milliseconds that a task of that priority must not lose. So ksoftirqd stays up to two beneath
//! that task, to leave RCU and irq_work room. At 1 or 2 there is no room: ksoftirqd is not raised.
//!
//! *Where RCU's threads are SCHED_OTHER* ksoftirqd is not raised at all. Raising rcu_preempt alone
//! gives no order: that kernel does not boost preempted readers, and RCU waits for them. The loss
//! is small. On such a kernel each interrupt runs the pending softirqs when it ends, on any current
//! thread. The remaining softirqs starve for a tick at most.
//!
//! All of this also applies to ktimers and to all other threads of the class.
//!
//! The whole device has one order. rcu_preempt belongs to no CPU, and irq_work must be above it on
//! each CPU. The first ksoftirqd that is raised costs two changes a CPU. A later one that is no
//! higher costs no change.
use super::{Class, Direction};
use crate::dependency::RtPriority;

/// The place of a thread in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// ksoftirqd, ktimers, and all other threads of [`Class::Softirq`].
    Softirq,
    /// Ends grace periods, boosts readers and calls callbacks: rcu_preempt, rcuc, rcub.
    Rcu,
    /// Threads of RCU that the kernel may leave SCHED_OTHER beside real-time ones: rcuop and rcuog,
    /// for CPUs that are freed of callbacks, and expedited grace periods. Raised only where they
    /// are real-time.
    RcuBeside,
    /// irq_work.
    IrqWork,
}

impl Rank {
    /// The rank by the name of a kernel thread; `None`: the thread has no place in this order.
    pub fn of_name(name: &str) -> Option<Self> {
        let begins = |all: &[&str]| all.iter().any(|beginning| name.starts_with(beginning));
        Some(match name {
            "rcu_preempt" | "rcu_sched" | "rcu_bh" => Self::Rcu,
            _ if Class::of_name(name) == Class::Softirq => Self::Softirq,
            _ if begins(&["rcuc/", "rcub/"]) => Self::Rcu,
            _ if begins(&["rcuog/", "rcuop/", "rcuos/", "rcuob/", "rcu_exp_"]) => Self::RcuBeside,
            _ if begins(&["irq_work/"]) => Self::IrqWork,
            _ => return None,
        })
    }
}

/// The priority that equation (2) computes for a ksoftirqd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The priority.
    pub priority: RtPriority,
    /// The highest priority in its R(k).
    pub highest: RtPriority,
}

/// A thread with a place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered<Id> {
    /// The id of the thread.
    pub id: Id,
    /// Its place.
    pub rank: Rank,
    /// Its usual priority; `None`: no real-time priority.
    pub usual: Option<RtPriority>,
    /// Its present priority.
    pub now: Option<RtPriority>,
    /// Its computed priority; `None`: the usual one. Only for [`Rank::Softirq`].
    pub demand: Option<Demand>,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<Id> {
    /// The thread to change.
    pub id: Id,
    /// Its next priority: the usual policy where this is equal to `usual`.
    pub then: Option<RtPriority>,
    /// Its usual priority.
    pub usual: Option<RtPriority>,
    /// Whether the change may be dropped.
    pub direction: Direction,
}

/// The reason why a ksoftirqd has less than its computed priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// RCU's threads are SCHED_OTHER, so ksoftirqd is not raised.
    RcuIsOrdinary,
    /// There are too few priorities beneath its highest waiter, so ksoftirqd is not raised.
    NoRoom,
    /// ksoftirqd is beneath the threads that must come before it.
    Beneath(RtPriority),
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RcuIsOrdinary => f.write_str(
                "not raised: the threads of RCU, which must come before it, are not real-time on \
                 this kernel (rcutree.kthread_prio makes them so)",
            ),
            Self::NoRoom => f.write_str(
                "not raised: there is no priority left for RCU between it and the task that waits \
                 for it",
            ),
            Self::Beneath(priority) => {
                write!(
                    f,
                    "at {priority} only, so that RCU comes before it, and the task that waits for \
                     it before RCU"
                )
            }
        }
    }
}

/// The changes that establish the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<Id> {
    /// The changes in their order; after each change the threads are in order.
    pub steps: Vec<Step<Id>>,
    /// Each ksoftirqd with less than its computed priority, and the reason.
    pub held: Vec<(Id, Held)>,
}

impl<Id> Plan<Id> {
    /// The direction of the whole plan, which is made or dropped as one.
    pub fn direction(&self) -> Direction {
        match self.steps.iter().any(|step| step.direction == Direction::Away) {
            true => Direction::Away,
            false => Direction::Back,
        }
    }
}

/// The steps to the priorities that all threads should and may have.
///
/// The order never gets worse. After each step a ksoftirqd is beneath all real-time threads of RCU,
/// and these are beneath irq_work. Where the kernel or the administrator set another order, that
/// order stays and nothing is changed.
pub fn plan<Id: Copy>(threads: &[Ordered<Id>]) -> Plan<Id> {
    let room = Room::of(threads);
    let mut held = Vec::new();
    let mut top = None;
    // The priority that a ksoftirqd may have.
    let mut given = |thread: &Ordered<Id>| {
        let demand = thread.demand?;
        let (level, why) = room.beneath(demand);
        held.extend(why.map(|why| (thread.id, why)));
        // The order lowers no thread, and a thread that is not raised needs no thread above it.
        let raised = level.filter(|_| level > thread.usual);
        top = top.max(raised);
        if why.is_some() {
            raised
        } else {
            level
        }
    };
    let softirqs: Vec<_> = of_rank(threads, |rank| rank == Rank::Softirq)
        .map(|thread| (thread, given(thread).or(thread.usual)))
        .collect();
    let raised = top.filter(|top| room.needs_rcu_above(*top)).map(RtPriority::get);
    let least = |above: u8| raised.and_then(|raised| RtPriority::new(u32::from(raised + above)));
    let rcu = of_rank(threads, |rank| matches!(rank, Rank::Rcu | Rank::RcuBeside)).map(|thread| {
        (thread, thread.usual.map(|usual| least(1).map_or(usual, |it| it.max(usual))))
    });
    let irq_work: Vec<_> = of_rank(threads, |rank| rank == Rank::IrqWork)
        .map(|thread| (thread, thread.usual.max(least(2))))
        .collect();
    // Falling threads from the lowest rank up, rising threads from the highest down, RCU between.
    let falls = |it: &(&Ordered<Id>, Option<RtPriority>)| it.1 < it.0.now;
    let rises = |it: &(&Ordered<Id>, Option<RtPriority>)| it.1 > it.0.now;
    let order = softirqs
        .iter()
        .copied()
        .filter(falls)
        .chain(irq_work.iter().copied().filter(rises))
        .chain(rcu.filter(|it| it.1 != it.0.now))
        .chain(irq_work.iter().copied().filter(falls))
        .chain(softirqs.iter().copied().filter(rises));
    let step = |(thread, then): (&Ordered<Id>, Option<RtPriority>)| Step {
        id: thread.id,
        then,
        usual: thread.usual,
        direction: Direction::of(thread.usual, thread.now, then),
    };
    let steps = order.map(step).collect();
    Plan { steps, held }
}

/// The plan after too many changes. A thread that is raised and should be raised further stays at
/// its priority. Changes that undo a boost are still made.
pub fn plan_without_raises<Id: Copy>(threads: &[Ordered<Id>]) -> Plan<Id> {
    let retained = |thread: &Ordered<Id>| {
        let Some(demand) = thread.demand else { return *thread };
        let demand = match Direction::of(thread.usual, thread.now, Some(demand.priority)) {
            Direction::Back => Some(demand),
            // The thread is on its way up already.
            Direction::Away if thread.now > thread.usual && thread.now < Some(demand.priority) => {
                thread.now.map(|priority| Demand { priority, ..demand })
            }
            Direction::Away => None,
        };
        Ordered { demand, ..*thread }
    };
    plan(&threads.iter().map(retained).collect::<Vec<_>>())
}

fn of_rank<Id>(
    threads: &[Ordered<Id>],
    is: impl Fn(Rank) -> bool,
) -> impl Iterator<Item = &Ordered<Id>> {
    threads.iter().filter(move |thread| is(thread.rank))
}

/// The usual priorities of the threads that must come before ksoftirqd.
struct Room {
    /// Each thread of RCU that must be real-time is real-time.
    rcu_is_real_time: bool,
    /// The lowest priority of RCU's real-time threads; `None`: there are no such threads.
    rcu: Option<u8>,
    /// The lowest priority of irq_work, 0 for SCHED_OTHER; `None`: interrupts do its work.
    irq_work: Option<u8>,
}

impl Room {
    fn of<Id>(threads: &[Ordered<Id>]) -> Self {
        let usual = |thread: &Ordered<Id>| thread.usual.map_or(0, RtPriority::get);
        let is_rcu = |rank| matches!(rank, Rank::Rcu | Rank::RcuBeside);
        Self {
            rcu_is_real_time: of_rank(threads, |rank| rank == Rank::Rcu)
                .all(|it| it.usual.is_some()),
            rcu: of_rank(threads, is_rcu).map(usual).filter(|usual| *usual > 0).min(),
            irq_work: of_rank(threads, |rank| rank == Rank::IrqWork).map(usual).min(),
        }
    }

    /// Whether RCU must be raised for a ksoftirqd of this priority.
    fn needs_rcu_above(&self, priority: RtPriority) -> bool {
        self.rcu.is_some_and(|rcu| rcu <= priority.get())
    }

    /// The highest priority, up to the computed one, that requires no thread above the highest
    /// waiter.
    fn beneath(&self, demand: Demand) -> (Option<RtPriority>, Option<Held>) {
        if !self.rcu_is_real_time {
            return (None, Some(Held::RcuIsOrdinary));
        }
        let (wanted, highest) = (demand.priority.get(), demand.highest.get());
        let Some(rcu) = self.rcu else { return (Some(demand.priority), None) };
        // RCU needs one priority more, and irq_work another unless it is high enough already.
        let for_irq_work = self.irq_work.map_or(highest, |it| it.max(highest).saturating_sub(1));
        let with_rcu_raised = highest.min(for_irq_work).saturating_sub(1);
        let level = wanted.min(with_rcu_raised.max(rcu - 1));
        match RtPriority::new(u32::from(level)) {
            Some(level) if level == demand.priority => (Some(level), None),
            Some(level) => (Some(level), Some(Held::Beneath(level))),
            None => (None, Some(Held::NoRoom)),
        }
    }
}
