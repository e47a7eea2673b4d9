// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads get another policy and their own one back.
mod changes;
mod common;

use changes::{thread_id, Bench, RR, USUAL};
use common::victim::Executer;
use common::{may_use_real_time, process_with_id, seen, set, set_nice, Process, Seen, Sleeper};
use nix::sys::wait::waitpid;
use std::os::unix::process::CommandExt;
use std::thread::sleep;
use std::time::Duration;
use tek_effect::{Error, Identity, Scheduling, Undone};

const FLAG: i32 = libc::SCHED_RESET_ON_FORK;

/// Policy with flag, nice value, priority.
const ALL: [Seen; 8] = [
    (libc::SCHED_OTHER, 0, 0),
    (libc::SCHED_OTHER | FLAG, 5, 0),
    (libc::SCHED_OTHER, -20, 0),
    (libc::SCHED_BATCH, -3, 0),
    (libc::SCHED_IDLE, 2, 0),
    (libc::SCHED_FIFO, 4, 10),
    (libc::SCHED_RR | FLAG, -1, 40),
    (libc::SCHED_RR, 19, 1),
];

fn scheduling((policy, nice, priority): Seen) -> Scheduling {
    Scheduling {
        policy: (policy & !FLAG) as u32,
        nice,
        priority: priority as u32,
        reset_on_fork: policy & FLAG != 0,
    }
}

fn sets_nice((policy, ..): Seen) -> bool {
    [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(policy & !FLAG))
}

#[test]
fn every_policy_gives_way_to_every_other_and_comes_back_exactly() {
    if !may_use_real_time() {
        return;
    }
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    for before in ALL {
        for wanted in ALL {
            assert!(set(sleeper.tid, before));
            let had = Scheduling::of(sleeper.tid).unwrap();
            assert_eq!(had, scheduling(before));
            let change =
                bench.effect().set_scheduling(thread_id(&sleeper), scheduling(wanted)).unwrap();
            let nice = if sets_nice(wanted) { wanted.1 } else { before.1 };
            assert_eq!(seen(sleeper.tid), (wanted.0, nice, wanted.2), "from {before:?}");
            if wanted.2 % 2 == 0 {
                assert_eq!(bench.effect().undo(change).unwrap(), Undone::Undone);
            } else {
                assert_eq!(bench.reopen().undone, 1);
            }
            assert_eq!(seen(sleeper.tid), before, "after {wanted:?}");
        }
    }
}

#[test]
fn another_value_for_a_change_does_not_change_what_is_given_back() {
    if !may_use_real_time() {
        return;
    }
    for reopened in [false, true] {
        let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
        assert!(set(sleeper.tid, (libc::SCHED_BATCH, 6, 0)));
        let change = bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap();
        for wanted in ALL {
            bench.effect().set_again(change, scheduling(wanted)).unwrap();
            let (policy, _, priority) = seen(sleeper.tid);
            assert_eq!((policy, priority), (wanted.0, wanted.2));
        }
        if reopened {
            assert_eq!(bench.reopen().undone, 1);
        } else {
            assert_eq!(bench.effect().undo(change).unwrap(), Undone::Undone);
        }
        assert_eq!(seen(sleeper.tid), (libc::SCHED_BATCH, 6, 0));
    }
}

#[test]
fn a_change_that_rests_has_given_back_what_there_was_and_can_be_resumed() {
    if !may_use_real_time() {
        return;
    }
    for reopened in [false, true] {
        let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
        let own = (libc::SCHED_BATCH, 6, 0);
        assert!(set(sleeper.tid, own));
        let change = bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap();
        for priority in [40, 48, 40, 48, 12] {
            assert_eq!(bench.effect().rest(change).unwrap(), Undone::Undone);
            assert_eq!(seen(sleeper.tid), own);
            let wanted = Scheduling { priority, ..RR };
            bench.effect().resume(change, wanted).unwrap();
            let (policy, _, now) = seen(sleeper.tid);
            assert_eq!((policy as u32, now as u32), (wanted.policy, priority));
        }
        if reopened {
            assert_eq!(bench.reopen().undone, 1);
        } else {
            assert_eq!(bench.effect().undo(change).unwrap(), Undone::Undone);
        }
        assert_eq!(seen(sleeper.tid), own);
    }
}

#[test]
fn what_somebody_else_set_while_a_change_rested_stays() {
    if !may_use_real_time() {
        return;
    }
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    let change = bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap();
    bench.effect().rest(change).unwrap();
    let theirs = (libc::SCHED_FIFO, 0, 3);
    assert!(set(sleeper.tid, theirs));
    let resumed = bench.effect().resume(change, RR);
    assert!(matches!(resumed, Err(Error::Changed { .. })), "{resumed:?}");
    assert_eq!(bench.effect().undo(change).unwrap(), Undone::Changed);
    assert_eq!((seen(sleeper.tid), bench.effect().count()), (theirs, 0));
}

#[test]
fn another_value_that_is_refused_leaves_the_change_as_it_was() {
    if !may_use_real_time() {
        return;
    }
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    let change = bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap();
    let impossible = Scheduling { priority: 100, ..RR };
    assert!(bench.effect().set_again(change, impossible).is_err());
    let without_sched_ext = Scheduling { policy: 7, ..USUAL };
    let refused = bench.effect().set_again(change, without_sched_ext);
    if refused.is_err() {
        assert_eq!(seen(sleeper.tid), (libc::SCHED_RR, 0, 20));
    }
    assert_eq!(bench.reopen().undone, 1);
    assert_eq!(seen(sleeper.tid), (0, 0, 0));
}

#[test]
fn a_nice_value_that_was_set_meanwhile_is_in_force_afterwards() {
    if !may_use_real_time() {
        return;
    }
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    let change = bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap();
    assert!(set_nice(sleeper.tid, 7));
    assert_eq!(bench.effect().undo(change).unwrap(), Undone::Undone);
    assert_eq!(seen(sleeper.tid), (0, 7, 0));
}

#[test]
fn what_somebody_else_set_meanwhile_is_the_last_word() {
    if !may_use_real_time() {
        return;
    }
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    let change = bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap();
    let theirs = (libc::SCHED_FIFO, 0, 3);
    assert!(set(sleeper.tid, theirs));
    let again = bench.effect().set_again(change, Scheduling { priority: 21, ..RR });
    assert!(matches!(again, Err(Error::Changed { .. })), "{again:?}");
    assert_eq!(bench.effect().undo(change).unwrap(), Undone::Changed);
    assert_eq!(seen(sleeper.tid), theirs);
    assert_eq!(bench.effect().count(), 0);
}

/// A process of another user that has no rights, killed at the end.
fn without_rights() -> Process {
    let mut command = std::process::Command::new("sleep");
    Process(command.arg("60").uid(65534).gid(65534).spawn().unwrap())
}

#[test]
fn what_a_thread_without_rights_made_of_a_real_time_policy_is_undone() {
    if !may_use_real_time() {
        return;
    }
    let given = Scheduling { priority: 49, reset_on_fork: true, ..RR };
    for reopened in [false, true] {
        for priority in [1, 20, 48, 49] {
            let (mut bench, process) = (Bench::new(), without_rights());
            assert!(set_nice(process.pid(), 0));
            let thread_id = Identity::of(process.pid()).unwrap();
            let change = bench.effect().set_scheduling(thread_id, given).unwrap();
            assert!(set(thread_id.tid, (libc::SCHED_RR | FLAG, 0, priority)));
            match reopened {
                true => assert_eq!(bench.reopen().undone, 1),
                false => assert_eq!(bench.effect().undo(change).unwrap(), Undone::Undone),
            }
            assert_eq!(seen(thread_id.tid), (0, 0, 0), "{priority}");
        }
    }
}

#[test]
fn a_policy_that_comes_back_after_it_was_taken_away_is_taken_away_again() {
    if !may_use_real_time() {
        return;
    }
    let given = Scheduling { priority: 49, reset_on_fork: true, ..RR };
    let (mut bench, process) = (Bench::new(), without_rights());
    assert!(set_nice(process.pid(), 0));
    let thread_id = Identity::of(process.pid()).unwrap();
    // As if a call of its own had been let pass before.
    let late = |priority| assert!(set(thread_id.tid, (libc::SCHED_RR | FLAG, 0, priority)));
    let change = bench.effect().set_scheduling(thread_id, given).unwrap();
    bench.effect().undo(change).unwrap();
    late(48);
    assert!(bench.effect().next_check_ns().is_some());
    bench.effect().check_returned(u64::MAX);
    assert_eq!(seen(thread_id.tid), (0, 0, 0));
    // Before it is changed again, that is looked at, too.
    late(49);
    let change = bench.effect().set_scheduling(thread_id, given).unwrap();
    bench.effect().check_returned(u64::MAX);
    assert_eq!(seen(thread_id.tid), (libc::SCHED_RR | FLAG, 0, 49));
    bench.effect().undo(change).unwrap();
    assert_eq!(seen(thread_id.tid), (0, 0, 0));
}

#[test]
fn a_policy_that_a_privileged_process_found_and_sets_again_after_the_undo_is_taken_away() {
    if !may_use_real_time() {
        return;
    }
    let given = Scheduling { priority: 30, reset_on_fork: true, ..RR };
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    let thread_id = thread_id(&sleeper);
    let change = bench.effect().set_scheduling(thread_id, given).unwrap();
    let found = (libc::SCHED_RR | FLAG, 0, 30);
    assert_eq!(seen(sleeper.tid), found);
    let own = (libc::SCHED_FIFO, 0, 40);
    assert!(set(sleeper.tid, own));
    assert_eq!(bench.effect().undo(change).unwrap(), Undone::Changed);
    // A long time later.
    for _ in 0..100 {
        bench.effect().check_returned(u64::MAX);
        assert_eq!(seen(sleeper.tid), own);
    }
    assert!(set(sleeper.tid, found));
    bench.effect().check_returned(u64::MAX);
    assert_eq!(seen(sleeper.tid), (0, 0, 0));
    assert_eq!(bench.effect().next_check_ns(), None);
}

#[test]
fn of_a_policy_and_a_nice_value_each_is_given_back_unless_somebody_else_changed_it() {
    if !may_use_real_time() {
        return;
    }
    let batch = Scheduling { policy: libc::SCHED_BATCH as u32, nice: 9, ..USUAL };
    for (theirs, after) in [((libc::SCHED_BATCH, 4, 0), (0, 4, 0)), ((2, 9, 1), (2, 0, 1))] {
        let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
        let change = bench.effect().set_scheduling(thread_id(&sleeper), batch).unwrap();
        assert!(set(sleeper.tid, theirs));
        assert_eq!(bench.effect().undo(change).unwrap(), Undone::Changed);
        assert_eq!(seen(sleeper.tid), after);
    }
}

#[test]
fn changes_of_one_thread_are_undone_in_any_order() {
    if !may_use_real_time() {
        return;
    }
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
        assert!(set(sleeper.tid, (0, 3, 0)));
        let wanted = [Scheduling { nice: 8, ..USUAL }, RR, Scheduling { priority: 50, ..RR }];
        let changes = wanted
            .map(|wanted| bench.effect().set_scheduling(thread_id(&sleeper), wanted).unwrap());
        for one in order {
            assert_eq!(bench.effect().undo(changes[one]).unwrap(), Undone::Undone);
        }
        assert_eq!(seen(sleeper.tid), (0, 3, 0), "{order:?}");
    }
}

#[test]
fn a_thread_that_ended_is_gone() {
    let (mut bench, mut sleeper) = (Bench::new(), Sleeper::new());
    let thread_id = thread_id(&sleeper);
    assert!(thread_id.is_there());
    let change = bench.effect().set_scheduling(thread_id, Scheduling { nice: 4, ..USUAL }).unwrap();
    sleeper.end();
    assert!(!thread_id.is_there());
    assert_eq!(bench.effect().undo(change).unwrap(), Undone::Gone);
    let late = bench.effect().set_scheduling(thread_id, USUAL);
    assert!(matches!(late, Err(Error::Gone { tid }) if tid == thread_id.tid), "{late:?}");
    assert_eq!(bench.effect().count(), 0);
}

#[test]
fn a_thread_with_another_start_time_is_not_touched() {
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    let mut thread_id = thread_id(&sleeper);
    thread_id.start_ticks += 1;
    assert!(!thread_id.is_there());
    let change = bench.effect().set_scheduling(thread_id, Scheduling { nice: 4, ..USUAL });
    assert!(matches!(change, Err(Error::Gone { .. })), "{change:?}");
    assert_eq!(seen(sleeper.tid), (0, 0, 0));
}

#[test]
fn a_process_that_got_the_id_of_another_is_not_touched() {
    if !may_use_real_time() {
        return;
    }
    let mut bench = Bench::new();
    let first = Process::new();
    let thread_id = Identity::of(first.pid()).unwrap();
    bench.effect().set_scheduling(thread_id, RR).unwrap();
    drop(first);
    sleep(Duration::from_millis(30)); // start times are told in ticks of 10 ms
    let Some(second) = process_with_id(thread_id.tid) else {
        println!("skipped: needs CAP_CHECKPOINT_RESTORE");
        return;
    };
    let theirs = (libc::SCHED_RR, 0, 20); // as if it were ours
    let was_set = set(second.as_raw(), theirs);
    let restored = bench.reopen();
    let after = seen(second.as_raw());
    let (is_there, is_known) = (Identity::of(thread_id.tid).is_ok(), thread_id.is_there());
    common::kill_child(second);
    waitpid(second, None).unwrap();
    assert!(was_set && is_there && !is_known);
    assert_eq!((restored.gone, restored.undone), (1, 0));
    assert_eq!(after, theirs);
}

#[test]
fn whichever_thread_executes_a_program_its_own_is_given_back() {
    if !may_use_real_time() {
        return;
    }
    let own = [(libc::SCHED_BATCH, 5, 0), (libc::SCHED_OTHER, 0, 0)];
    for (first_executes, remaining_first) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let (mut bench, mut executer) = (Bench::new(), Executer::new(first_executes));
        let (first, other) = executer.threads().unwrap();
        assert!(set(first, own[0]) && set(other, own[1]));
        let ordered = if remaining_first { [other, first] } else { [first, other] };
        for tid in ordered {
            // The same for both, so that it does not tell them apart.
            bench.effect().set_scheduling(Identity::of(tid).unwrap(), RR).unwrap();
        }
        executer.execute();
        assert!(bench.reopen().failed.is_empty());
        let expected = if first_executes { own[0] } else { own[1] };
        assert_eq!(seen(first), expected, "{first_executes}, {remaining_first}");
    }
}

#[test]
fn a_zombie_is_gone() {
    let mut bench = Bench::new();
    let mut process = Process::new();
    let thread_id = Identity::of(process.pid()).unwrap();
    let change = bench.effect().set_scheduling(thread_id, Scheduling { nice: 4, ..USUAL }).unwrap();
    process.become_zombie();
    assert!(!thread_id.is_there());
    assert!(matches!(Identity::of(process.pid()), Err(Error::Gone { .. })));
    assert_eq!(bench.effect().undo(change).unwrap(), Undone::Gone);
}

#[test]
fn a_thread_with_a_deadline_is_left_alone() {
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    if !set_deadline(sleeper.tid) {
        println!("skipped: needs CAP_SYS_NICE, and room for a deadline");
        return;
    }
    let refused = bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap_err();
    assert!(matches!(refused, Error::Deadline { .. }));
    assert!(refused.to_string().contains("is left alone"), "{refused}");
    assert_eq!(seen(sleeper.tid).0, libc::SCHED_DEADLINE);
    assert_eq!(bench.effect().count(), 0);
    follow(&refused);
    bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap();
}

/// Runs the command in the parentheses of a message.
fn follow(error: &Error) {
    let message = error.to_string();
    let command = message.split(['(', ')']).nth(1).unwrap_or_default();
    let status = std::process::Command::new("sh").args(["-c", command]).status().unwrap();
    assert!(status.success(), "{message}");
}

/// 1 ms in 100 ms, of which a thread that sleeps uses none.
fn set_deadline(tid: i32) -> bool {
    const MS: u64 = 1_000_000;
    let attributes = [48 | (6 << 32), 0, 0, MS, 100 * MS, 100 * MS];
    // SAFETY: the kernel reads the 48 bytes of struct sched_attr, little-endian.
    cfg!(target_endian = "little")
        && unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &attributes, 0) } == 0
}

#[test]
fn there_is_no_thread_with_the_id_0_or_a_negative_one() {
    for tid in [0, -1, i32::MIN, i32::MAX] {
        assert!(matches!(Identity::of(tid), Err(Error::Gone { .. })));
    }
}

#[test]
fn an_error_names_the_thread_what_was_tried_and_what_to_do() {
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    let wrong = Scheduling { priority: 3, ..USUAL };
    let error = bench.effect().set_scheduling(thread_id(&sleeper), wrong).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    assert!(error.to_string().contains("priority 3"), "{error}");
    let change = bench.effect().set_scheduling(thread_id(&sleeper), USUAL).unwrap();
    bench.effect().undo(change).unwrap();
    let error = bench.effect().undo(change).unwrap_err();
    assert!(error.to_string().contains("not in force"), "{error}");
}
