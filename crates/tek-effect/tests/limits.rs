// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of a process, which is a child of the test.
mod common;

use common::{ended_well, in_child, kill_child, wait_until, Process, Sleeper};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tek_effect::{Effect, Error, Identity, Limits, Resource, Undone};

struct Bench {
    _directory: tempfile::TempDir,
    effect: Effect,
    process: Process,
}

fn bench() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let (effect, _) = Effect::open(&directory.path().join("state")).unwrap();
    Bench { _directory: directory, effect, process: Process::new() }
}

impl Bench {
    fn thread_id(&self) -> Identity {
        Identity::of(self.process.pid()).unwrap()
    }

    fn limits(&self, resource: Resource) -> Limits {
        Limits::of(self.process.pid(), resource).unwrap()
    }
}

#[test]
fn a_limit_is_set_and_comes_back() {
    let mut bench = bench();
    let was = bench.limits(Resource::Nofile);
    let change = bench.effect.set_limit(bench.thread_id(), Resource::Nofile, 17, was.hard).unwrap();
    assert_eq!(bench.limits(Resource::Nofile), Limits { soft: 17, hard: was.hard });
    assert_eq!(bench.effect.undo(change).unwrap(), Undone::Undone);
    assert_eq!(bench.limits(Resource::Nofile), was);
}

#[test]
fn a_limit_that_somebody_else_set_meanwhile_stays() {
    let mut bench = bench();
    let was = bench.limits(Resource::Nofile);
    let first = bench.effect.set_limit(bench.thread_id(), Resource::Nofile, 17, was.hard).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (mut other, _) = Effect::open(directory.path()).unwrap();
    other.set_limit(bench.thread_id(), Resource::Nofile, 18, was.hard).unwrap();
    assert_eq!(bench.effect.undo(first).unwrap(), Undone::Changed);
    assert_eq!(bench.limits(Resource::Nofile).soft, 18);
    assert_eq!(other.close().undone, 1);
    assert_eq!(bench.limits(Resource::Nofile).soft, 17);
}

#[test]
fn a_child_that_inherited_a_raised_limit_gets_what_there_was_before() {
    let mut bench = bench();
    let was = bench.limits(Resource::Nofile);
    let low = Limits { soft: 17, hard: was.hard };
    bench.effect.set_limit(bench.thread_id(), Resource::Nofile, low.soft, low.hard).unwrap();
    let raised =
        bench.effect.set_limit(bench.thread_id(), Resource::Nofile, 100, was.hard).unwrap();
    let child = Process::new();
    let limits = || Limits::of(child.pid(), Resource::Nofile).unwrap();
    let thread_id = Identity::of(child.pid()).unwrap();
    let mut set = |soft| {
        bench.effect.set_limit(thread_id, Resource::Nofile, soft, was.hard).unwrap();
        bench.effect.disinherit_limit(raised, thread_id).unwrap();
        limits()
    };
    assert_eq!(set(100), low);
    assert_eq!(set(10), Limits { soft: 10, hard: was.hard });
    let again = bench.effect.undo(raised).unwrap();
    assert_eq!(again, Undone::Undone);
    assert!(matches!(
        bench.effect.disinherit_limit(raised, thread_id),
        Err(Error::NotInForce { .. })
    ));
}

#[test]
fn a_right_to_real_time_is_given_and_taken_or_the_error_names_what_it_needs() {
    let mut bench = bench();
    let was = bench.limits(Resource::Rtprio);
    match bench.effect.set_limit(bench.thread_id(), Resource::Rtprio, 40, 40.max(was.hard)) {
        Ok(change) => {
            assert_eq!(bench.limits(Resource::Rtprio).soft, 40);
            assert_eq!(bench.effect.undo(change).unwrap(), Undone::Undone);
        }
        Err(error) => {
            assert_eq!(error.errno(), libc::EPERM);
            assert!(error.to_string().contains("CAP_SYS_RESOURCE"), "{error}");
            assert_eq!(bench.effect.count(), 0);
        }
    }
    assert_eq!(bench.limits(Resource::Rtprio), was);
}

#[test]
fn limits_are_those_of_a_process_and_not_of_a_thread() {
    let mut bench = bench();
    let sleeper = Sleeper::new();
    let thread_id = Identity::of(sleeper.tid).unwrap();
    let error = bench.effect.set_limit(thread_id, Resource::Nofile, 17, 17).unwrap_err();
    assert!(error.to_string().contains("give the id of its process"), "{error}");
}

#[test]
fn a_soft_limit_above_the_hard_one_is_refused() {
    let mut bench = bench();
    let error = bench.effect.set_limit(bench.thread_id(), Resource::Nofile, 18, 17).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
}

#[test]
fn a_process_whose_first_thread_ended_gets_its_limit_back() {
    let mut bench = bench();
    let (mut report, mut reported) = UnixStream::pair().unwrap();
    let child = in_child(|| {
        std::thread::spawn(|| std::thread::sleep(Duration::from_secs(60)));
        // Its limit is set.
        reported.read_exact(&mut [0]).unwrap();
        // SAFETY: it ends this thread alone, which holds nothing.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        false
    });
    let thread_id = Identity::of(child.as_raw()).unwrap();
    let was = Limits::of(thread_id.tid, Resource::Nofile).unwrap();
    let change = bench.effect.set_limit(thread_id, Resource::Nofile, 17, was.hard).unwrap();
    report.write_all(b"!").unwrap();
    wait_until(|| !thread_id.is_there());
    let undone = bench.effect.undo(change);
    let after = Limits::of(thread_id.tid, Resource::Nofile).unwrap();
    kill_child(child);
    ended_well(child);
    assert_eq!((undone.unwrap(), after), (Undone::Undone, was));
}

#[test]
fn a_process_that_ended_is_gone() {
    let mut bench = bench();
    let was = bench.limits(Resource::Nofile);
    let thread_id = bench.thread_id();
    let change = bench.effect.set_limit(thread_id, Resource::Nofile, 17, was.hard).unwrap();
    bench.process.become_zombie();
    assert_eq!(bench.effect.undo(change).unwrap(), Undone::Gone);
    let late = bench.effect.set_limit(thread_id, Resource::Nofile, 17, 17);
    assert!(matches!(late, Err(Error::Gone { .. })), "{late:?}");
}
