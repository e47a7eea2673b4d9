// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners of locks and servers after events; the expected priorities are computed by hand.
use super::Relations;
use std::collections::HashMap;
use tek_bpf::{Event, Evidence, Member, Name, Thread, What};
use tek_policy::dependency::{Because, InheritSettings, Refused, MOST_EDGES};
use tek_policy::kthread::KthreadSettings;

const MS: u64 = 1_000_000;
const TOUCH: Member = Member { tid: 39, process: 30, priority: 40, via: false };
const AUDIO: Member = Member { tid: 51, process: 50, priority: 20, via: false };

struct Program {
    relations: Relations,
    now: u64,
}

fn thread(tid: i32) -> Thread {
    Thread { tid, name: Name::new(&format!("worker-{tid}")) }
}

/// A thread that waits and is not critical itself.
fn via(tid: i32, process: i32) -> Member {
    Member { tid, process, priority: 40, via: true }
}

impl Program {
    fn new() -> Self {
        Self::with(InheritSettings::default())
    }

    fn with(inherit: InheritSettings) -> Self {
        let settings = KthreadSettings::default();
        let relations = Relations::new(settings, inherit, Vec::new(), HashMap::new());
        Self { relations, now: 1000 * MS }
    }

    fn notify(&mut self, what: What) -> &mut Self {
        self.relations.take(&Event { time: self.now, woke: true, lost: false, what });
        self
    }

    fn lock(&mut self, member: Member, holder: i32) -> &mut Self {
        let (holder, owner, evidence) = (thread(holder), Some(member.process), Evidence::Found);
        self.notify(What::LockAwaited { member, lock: 0x1000, holder, owner, evidence })
    }

    /// The BPF programs guess the owner.
    fn lock_guessed(&mut self, member: Member, holder: i32) -> &mut Self {
        let (holder, owner, evidence) = (thread(holder), Some(member.process), Evidence::Guessed);
        self.notify(What::LockAwaited { member, lock: 0x1000, holder, owner, evidence })
    }

    fn unlocked(&mut self, member: Member) -> &mut Self {
        self.notify(What::LockEnded { member, lock: 0x1000 })
    }

    fn ask(&mut self, member: Member, server: i32) -> &mut Self {
        let (server, evidence) = (thread(server), Evidence::Found);
        self.notify(What::AnswerAwaited { member, server, owner: None, evidence })
    }

    fn answered(&mut self, member: Member, server: i32) -> &mut Self {
        self.notify(What::AnswerEnded { member, server })
    }

    fn wait(&mut self, ms: u64) -> &mut Self {
        self.now += ms * MS;
        self.relations.expire(self.now);
        self
    }

    fn wanted(&self, thread: i32) -> Option<u8> {
        self.relations.wanted(thread).map(|priority| priority.get())
    }
}

#[test]
fn the_owner_of_a_lock_is_one_step_below_its_most_urgent_waiter_until_that_has_the_lock() {
    let mut program = Program::new();
    program.lock(TOUCH, 41);
    assert_eq!(program.wanted(41), Some(39));
    program.lock(AUDIO, 41);
    assert_eq!(program.wanted(41), Some(39));
    program.unlocked(TOUCH);
    assert_eq!(program.wanted(41), Some(19));
    program.unlocked(AUDIO);
    assert_eq!(program.wanted(41), None);
    assert!(program.relations.is_empty());
}

#[test]
fn another_owner_of_the_lock_takes_the_lift_over() {
    let mut program = Program::new();
    program.lock(TOUCH, 41).lock(TOUCH, 42);
    assert_eq!((program.wanted(41), program.wanted(42)), (None, Some(39)));
}

#[test]
fn the_owner_of_the_lock_that_an_owner_waits_for_is_lifted_too() {
    let mut program = Program::new();
    // The chain is known before and after its last lock.
    program.lock(via(41, 30), 42).lock(TOUCH, 41).lock(via(42, 30), 43);
    assert_eq!([41, 42, 43].map(|tid| program.wanted(tid)), [Some(39); 3]);
    program.unlocked(TOUCH);
    assert_eq!([41, 42, 43].map(|tid| program.wanted(tid)), [None; 3]);
}

#[test]
fn threads_in_a_deadlock_are_not_lifted() {
    let mut program = Program::new();
    program.lock(TOUCH, 41).lock(via(41, 30), 42).lock(via(42, 30), 39);
    assert_eq!([39, 41, 42].map(|tid| program.wanted(tid)), [None; 3]);
    assert_eq!(program.relations.circles(), [vec![39, 41, 42]]);
    program.notify(What::TaskExited { tid: 42, process: 30 });
    assert_eq!((program.wanted(41), program.relations.circles().len()), (Some(39), 0));
}

#[test]
fn a_server_is_lifted_until_it_has_answered() {
    let mut program = Program::new();
    program.ask(TOUCH, 71);
    assert_eq!(program.wanted(71), Some(39));
    program.ask(AUDIO, 71);
    assert_eq!(program.wanted(71), Some(30)); // (40 + 20) / 2
    program.answered(TOUCH, 71);
    assert_eq!(program.wanted(71), Some(19));
    program.answered(AUDIO, 71);
    assert!(program.wanted(71).is_none() && program.relations.is_empty());
}

#[test]
fn a_server_behind_a_server_is_lifted_for_the_client() {
    let mut program = Program::new();
    program.ask(TOUCH, 71).ask(via(71, 70), 81);
    assert_eq!((program.wanted(71), program.wanted(81)), (Some(39), Some(39)));
    program.answered(TOUCH, 71);
    assert_eq!((program.wanted(71), program.wanted(81)), (None, None));
}

#[test]
fn a_server_that_does_not_answer_is_lifted_for_the_longest_wait_and_at_the_next_question() {
    let mut program = Program::new();
    program.ask(TOUCH, 71).wait(49);
    assert_eq!(program.wanted(71), Some(39));
    program.ask(TOUCH, 71).wait(1); // reported again: it is the same wait
    assert_eq!((program.wanted(71), program.relations.counts().too_long), (None, 1));
    program.answered(TOUCH, 71).wait(100).ask(TOUCH, 71);
    assert_eq!(program.wanted(71), Some(39));
    // The time of an earlier wait does not end a later one.
    program.answered(TOUCH, 71).wait(10).ask(TOUCH, 71).wait(45);
    assert_eq!(program.wanted(71), Some(39));
    assert!(program.relations.next_end_ns().is_some());
}

#[test]
fn a_guessed_owner_is_lifted_for_the_longest_wait_and_then_doubted_for_a_while() {
    let mut program = Program::new();
    program.lock_guessed(TOUCH, 41);
    assert_eq!(program.wanted(41), Some(39));
    program.wait(51);
    assert_eq!((program.wanted(41), program.relations.counts().too_long), (None, 1));
    program.unlocked(TOUCH).lock_guessed(TOUCH, 41);
    assert_eq!(program.wanted(41), None);
    // A lock that names its owner is no guess.
    program.lock(TOUCH, 41).wait(500);
    assert_eq!(program.wanted(41), Some(39));
    program.unlocked(TOUCH).wait(1000).lock_guessed(TOUCH, 41);
    assert_eq!(program.wanted(41), Some(39));
    // One that released the lock in time is lifted at each wait.
    for _ in 0..3 {
        program.unlocked(TOUCH).wait(40).lock_guessed(TOUCH, 41).wait(40);
        assert_eq!(program.wanted(41), Some(39));
    }
}

#[test]
fn what_tekd_toml_switches_off_lifts_no_thread() {
    let usual = InheritSettings::default();
    let mut program = Program::with(InheritSettings { locks: false, ..usual });
    program.lock(TOUCH, 41).ask(TOUCH, 71);
    assert_eq!((program.wanted(41), program.wanted(71)), (None, Some(39)));
    program.relations.change_inherit(InheritSettings { answers: false, ..usual });
    assert_eq!((program.wanted(41), program.wanted(71)), (Some(39), None));
}

#[test]
fn a_thread_that_tekd_has_made_fast_is_not_lifted_but_passes_the_lift_on() {
    let mut program = Program::new();
    program.relations.add_fast(51, 50, 8);
    program.lock(TOUCH, 51).lock(AUDIO, 42);
    assert_eq!((program.wanted(51), program.wanted(42)), (None, Some(39)));
    program.relations.remove_fast(51);
    assert_eq!(program.wanted(51), Some(39));
}

#[test]
fn no_more_threads_are_lifted_for_a_process_than_its_grant_has() {
    let mut program = Program::new();
    program.relations.add_fast(39, 30, 2);
    let asks = |program: &mut Program, tid: i32, server| {
        program.ask(Member { tid, ..TOUCH }, server);
    };
    (71..76).for_each(|server| asks(&mut program, 39, server));
    let lifted = |program: &Program| (71..76).filter(|it| program.wanted(*it).is_some()).count();
    assert_eq!((lifted(&program), program.relations.counts().too_many), (2, 3));
    // More waiters of a lifted thread cost nothing, and another process has its own number.
    asks(&mut program, 38, 71);
    program.ask(AUDIO, 75);
    assert_eq!((lifted(&program), program.relations.counts().too_many), (3, 3));
    program.answered(Member { tid: 39, ..TOUCH }, 72);
    asks(&mut program, 39, 73);
    assert_eq!(lifted(&program), 3);
}

#[test]
fn ten_thousand_waiters_of_one_owner_are_one_lift() {
    let mut program = Program::new();
    let waiter = |n: i32| Member { tid: 1000 + n, process: 30, priority: 30, via: false };
    let began = std::time::Instant::now();
    for n in 0..10_000 {
        program.lock(waiter(n), 41);
    }
    assert_eq!(program.wanted(41), Some(29));
    program.lock(TOUCH, 41);
    assert_eq!(program.wanted(41), Some(39));
    for n in 0..10_000 {
        program.unlocked(waiter(n));
    }
    assert_eq!(program.wanted(41), Some(39));
    program.unlocked(TOUCH);
    assert!(program.relations.is_empty());
    assert!(began.elapsed().as_secs() < 20, "each event searches all waiters");
}

#[test]
fn a_wait_at_the_end_of_the_longest_chain_is_counted_as_refused() {
    let mut program = Program::new();
    program.relations.add_fast(39, 30, 100);
    program.lock(TOUCH, 100);
    let chain = |program: &mut Program, holders| {
        for n in 100..100 + holders - 1 {
            program.lock(via(n, 30), n + 1);
        }
    };
    chain(&mut program, 32);
    assert_eq!(program.relations.refused(), Refused::default());
    chain(&mut program, 34);
    assert_eq!(program.relations.refused(), Refused { too_many: 0, too_deep: 1 });
}

#[test]
fn the_memory_for_waits_is_bounded() {
    let mut program = Program::new();
    let waiter = |n: i32| Member { tid: 1000 + n, process: 30, priority: 30, via: false };
    for n in 0..30_000 {
        program.ask(waiter(n), 71);
    }
    assert_eq!(program.relations.all_waits().len(), MOST_EDGES);
    assert_eq!(program.relations.refused().too_many, 30_000 - MOST_EDGES as u64);
    for n in 0..100_000 {
        program.ask(AUDIO, 71).answered(AUDIO, 71);
        assert!(n % 1000 > 0 || program.relations.remembered_ends() <= 4 * MOST_EDGES + 1);
    }
}

#[test]
fn nothing_is_left_of_a_thread_that_ends_or_executes_a_program() {
    let mut program = Program::new();
    program.lock(TOUCH, 41).ask(AUDIO, 41);
    program.notify(What::TaskExited { tid: 41, process: 30 });
    assert!(program.relations.is_empty() && program.relations.served(41).is_none());
    program.lock(TOUCH, 41);
    program.relations.end_waits_for(41);
    assert_eq!(program.wanted(41), None);
    program.lock(TOUCH, 41).notify(What::TaskExited { tid: 39, process: 30 });
    assert!(program.relations.is_empty());
    program.lock(TOUCH, 41).ask(AUDIO, 71);
    program.relations.end_all_waits();
    assert!(program.relations.is_empty());
}

#[test]
fn a_wait_for_a_thread_that_may_not_be_lifted_ends_the_wait_for_the_owner_before() {
    let mut program = Program::new();
    program.lock(TOUCH, 41);
    program.relations.refuse(TOUCH, true);
    assert_eq!((program.wanted(41), program.relations.counts().not_allowed), (None, 1));
}

#[test]
fn the_chain_of_waits_is_reported() {
    let mut program = Program::new();
    program.lock(TOUCH, 41).wait(3).lock(via(41, 30), 42);
    let mut waits = program.relations.all_waits();
    waits.sort_unstable();
    let (first, later) = (1000 * MS, 1003 * MS);
    assert_eq!(waits, [(39, 41, Because::Lock, first), (41, 42, Because::Lock, later)]);
}
