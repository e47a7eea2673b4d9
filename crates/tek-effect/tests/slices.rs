// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slices of threads with fair policies come back with these.
mod changes;
mod common;

use changes::{thread_id, Bench, RR, USUAL};
use common::{may_use_real_time, Sleeper};
use tek_effect::{Identity, Scheduling, Undone};

/// The slice of a thread with a fair policy, in ns; 0: this kernel has none.
fn slice_ns(tid: i32) -> u64 {
    let mut attributes = [0u64; 6];
    // SAFETY: the kernel writes the 48 bytes of struct sched_attr.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &mut attributes, 48, 0) };
    assert_eq!(done, 0);
    attributes[3]
}

/// SCHED_OTHER with this slice.
fn set_slice(tid: i32, ns: u64) {
    let attributes = [48u64, 0, 0, ns, 0, 0];
    // SAFETY: the kernel reads the 48 bytes of struct sched_attr.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &attributes, 0) };
    assert_eq!(done, 0);
}

const OWN_SLICE_NS: u64 = 1_700_000;

/// Whether threads have slices of their own here, and real-time policies can be set.
fn may_have_slices() -> bool {
    let sleeper = Sleeper::new();
    if !may_use_real_time() || cfg!(target_endian = "big") {
        return false;
    }
    set_slice(sleeper.tid, OWN_SLICE_NS);
    let has = slice_ns(sleeper.tid) == OWN_SLICE_NS;
    if !has {
        common::report("this kernel has no slices of threads");
    }
    has
}

#[test]
fn a_slice_of_its_own_comes_back_with_the_policy() {
    if !may_have_slices() {
        return;
    }
    for reopened in [false, true] {
        let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
        set_slice(sleeper.tid, OWN_SLICE_NS);
        let change = bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap();
        assert_eq!(bench.effect().rest(change).unwrap(), Undone::Undone);
        assert_eq!(slice_ns(sleeper.tid), OWN_SLICE_NS);
        bench.effect().resume(change, RR).unwrap();
        if reopened {
            assert_eq!(bench.reopen().undone, 1);
        } else {
            assert_eq!(bench.effect().undo(change).unwrap(), Undone::Undone);
        }
        assert_eq!(slice_ns(sleeper.tid), OWN_SLICE_NS);
    }
}

#[test]
fn a_slice_that_was_set_meanwhile_stays() {
    if !may_have_slices() {
        return;
    }
    let (mut bench, sleeper) = (Bench::new(), Sleeper::new());
    set_slice(sleeper.tid, OWN_SLICE_NS);
    let change = bench.effect().set_scheduling(thread_id(&sleeper), RR).unwrap();
    set_slice(sleeper.tid, 2 * OWN_SLICE_NS);
    bench.effect().undo(change).unwrap();
    assert_eq!(slice_ns(sleeper.tid), 2 * OWN_SLICE_NS);
}

#[test]
fn children_get_the_slice_that_they_would_have_inherited() {
    if !may_have_slices() {
        return;
    }
    let mut bench = Bench::new();
    let mut shell = std::process::Command::new("sh")
        .args(["-c", "read line; sleep 60 & echo $!; exec sleep 60"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let tid = shell.id() as i32;
    set_slice(tid, OWN_SLICE_NS);
    let parent = Identity::of(tid).unwrap();
    let idle = Scheduling { policy: libc::SCHED_IDLE as u32, ..USUAL };
    let change = bench.effect().set_scheduling_of_line(parent, idle).unwrap();
    drop(shell.stdin.take());
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(shell.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let child: i32 = line.trim().parse().unwrap();
    bench.effect().undo(change).unwrap();
    let slices = [tid, child].map(slice_ns);
    for tid in [tid, child] {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(tid), nix::sys::signal::SIGKILL).unwrap();
    }
    shell.wait().unwrap();
    assert_eq!(slices, [OWN_SLICE_NS; 2]);
}
