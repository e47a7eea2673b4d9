// SPDX-License-Identifier: MIT OR Apache-2.0
//! irq_work > rcu > ksoftirqd: the order in which the kernel's own threads must come.
//!
//! What ksoftirqd does is ended by RCU, and RCU on PREEMPT_RT is told by irq_work that a reader is
//! done. A ksoftirqd above RCU's threads, busy with packets or timers, so keeps out what it waits for
//! itself, and memory is not given back meanwhile; that has locked up devices. Those who set these
//! priorities by hand have ksoftirqd at 2 and rcuc and rcub at 4 (tuned's realtime-virtual-host), or
//! set rcutree.kthread_prio along with ksoftirqd.
//!
//! *Where the kernel runs RCU's threads as real-time ones*, as PREEMPT_RT and every kernel with
//! RCU_BOOST or rcutree.kthread_prio does (at 1 by default), they are raised along: it is what
//! rcutree.kthread_prio is for, and readers that were preempted are boosted by the kernel itself.
//! Nobody is raised above the highest of those who wait for ksoftirqd. RCU's callbacks take
//! milliseconds, which are no task's of that priority to lose; so ksoftirqd stays up to two beneath
//! it, to leave them room. At 1 or 2 there is none, and ksoftirqd stays what it is.
//!
//! *Where RCU's threads are SCHED_OTHER* ksoftirqd is not raised at all. To raise rcu_preempt alone
//! would be no order: readers that were preempted are not boosted there, and RCU waits for them. And
//! little is lost, because on such a kernel every interrupt runs what softirqs are pending when it
//! ends, whoever is on the CPU: ksoftirqd is starved of the rest of it for a tick at most.
//!
//! What is said of ksoftirqd holds for ktimers and for all others of the class, too.
//!
//! It is one order for the whole device, not one for each CPU: rcu_preempt has no CPU, and irq_work
//! must be above it wherever it runs. That costs two changes a CPU when the first ksoftirqd is raised,
//! none when another one is that is no higher.
use super::{Class, Direction, RtPriority};

/// What a thread is in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// ksoftirqd, ktimers, and all others of [`Class::Softirq`].
    Softirq,
    /// What ends grace periods, boosts readers and calls callbacks back: rcu_preempt, rcuc, rcub.
    Rcu,
    /// Threads of RCU that the kernel may leave SCHED_OTHER beside real-time ones: rcuop and rcuog, for
    /// CPUs that are freed of callbacks, and expedited grace periods. Raised only where they are
    /// real-time.
    RcuBeside,
    /// irq_work.
    IrqWork,
}

impl Rank {
    /// By the name of a kernel thread; `None`: this order is not about it.
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

/// What equation (2) wants for a ksoftirqd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The priority.
    pub priority: RtPriority,
    /// The highest priority in its R(k).
    pub highest: RtPriority,
}

/// A thread of which the order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered<Id> {
    /// Which one.
    pub id: Id,
    /// What it is.
    pub rank: Rank,
    /// What the kernel gave it; `None`: no real-time priority.
    pub usual: Option<RtPriority>,
    /// What it has.
    pub now: Option<RtPriority>,
    /// What it should have; `None`: what the kernel gave it. Only for [`Rank::Softirq`].
    pub wish: Option<Wish>,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<Id> {
    /// Whose.
    pub id: Id,
    /// What it will have: its usual policy where that is equal to `usual`.
    pub then: Option<RtPriority>,
    /// What the kernel gave it.
    pub usual: Option<RtPriority>,
    /// Whether it may be dropped.
    pub direction: Direction,
}

/// Why a ksoftirqd has less than was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// RCU's threads are SCHED_OTHER, so it is not raised.
    RcuIsOrdinary,
    /// There are too few priorities beneath the highest who waits for it, so it is not raised.
    NoRoom,
    /// It is beneath those who must come before it.
    Beneath(RtPriority),
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RcuIsOrdinary => f.write_str(
                "not raised: the threads of RCU, which must come before it, are not real-time on this \
                 kernel (rcutree.kthread_prio makes them so)",
            ),
            Self::NoRoom => f.write_str(
                "not raised: there is no priority left for RCU between it and the one who waits for it",
            ),
            Self::Beneath(priority) => {
                write!(f, "at {priority} only, so that RCU comes before it, and who waits for it before RCU")
            }
        }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<Id> {
    /// In this order; after each of them the threads are in order.
    pub steps: Vec<Step<Id>>,
    /// Who has less than was wanted, and why.
    pub held: Vec<(Id, Held)>,
}

impl<Id> Plan<Id> {
    /// Of the whole, which is made or dropped as one.
    pub fn direction(&self) -> Direction {
        match self.steps.iter().any(|step| step.direction == Direction::Away) {
            true => Direction::Away,
            false => Direction::Back,
        }
    }
}

/// The steps by which all threads get what they should have and may have.
///
/// The order never gets worse: after each step a ksoftirqd is beneath all of RCU that is real-time,
/// and that beneath irq_work, but where the kernel, or who set it up, has it otherwise and
/// nothing is changed.
pub fn plan<Id: Copy>(threads: &[Ordered<Id>]) -> Plan<Id> {
    let room = Room::of(threads);
    let mut held = Vec::new();
    let mut top = None;
    // What a ksoftirqd may have.
    let mut given = |thread: &Ordered<Id>| {
        let wish = thread.wish?;
        let (level, why) = room.beneath(wish);
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
    // Downwards from below and upwards from above, RCU in the middle.
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

/// The same for when there were too many changes: who is raised and should be further stays as he is,
/// and what is to be undone is undone.
pub fn plan_without_raises<Id: Copy>(threads: &[Ordered<Id>]) -> Plan<Id> {
    let kept = |thread: &Ordered<Id>| {
        let Some(wish) = thread.wish else { return *thread };
        let wish = match Direction::of(thread.usual, thread.now, Some(wish.priority)) {
            Direction::Back => Some(wish),
            // Half of the way up.
            Direction::Away if thread.now > thread.usual && thread.now < Some(wish.priority) => {
                thread.now.map(|priority| Wish { priority, ..wish })
            }
            Direction::Away => None,
        };
        Ordered { wish, ..*thread }
    };
    plan(&threads.iter().map(kept).collect::<Vec<_>>())
}

fn of_rank<Id>(
    threads: &[Ordered<Id>],
    is: impl Fn(Rank) -> bool,
) -> impl Iterator<Item = &Ordered<Id>> {
    threads.iter().filter(move |thread| is(thread.rank))
}

/// What those who must come before ksoftirqd have of themselves.
struct Room {
    /// None of them is SCHED_OTHER that must not be.
    rcu_is_real_time: bool,
    /// The lowest of RCU; `None`: there are no such threads.
    rcu: Option<u8>,
    /// The lowest irq_work, 0 for SCHED_OTHER; `None`: there are none, interrupts do it.
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

    /// Whether RCU has to be raised for a ksoftirqd of this priority.
    fn needs_rcu_above(&self, priority: RtPriority) -> bool {
        self.rcu.is_some_and(|rcu| rcu <= priority.get())
    }

    /// The highest priority up to what is wanted, so that nobody has to be raised above the highest
    /// who waits.
    fn beneath(&self, wish: Wish) -> (Option<RtPriority>, Option<Held>) {
        if !self.rcu_is_real_time {
            return (None, Some(Held::RcuIsOrdinary));
        }
        let (wanted, highest) = (wish.priority.get(), wish.highest.get());
        let Some(rcu) = self.rcu else { return (Some(wish.priority), None) };
        // One more for RCU, and one for irq_work unless that is high enough already.
        let for_irq_work = self.irq_work.map_or(highest, |it| it.max(highest).saturating_sub(1));
        let with_rcu_raised = highest.min(for_irq_work).saturating_sub(1);
        let level = wanted.min(with_rcu_raised.max(rcu - 1));
        match RtPriority::new(u32::from(level)) {
            Some(level) if level == wish.priority => (Some(level), None),
            Some(level) => (Some(level), Some(Held::Beneath(level))),
            None => (None, Some(Held::NoRoom)),
        }
    }
}
