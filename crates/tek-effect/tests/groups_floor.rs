// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the Lazy Region really keeps of a CPU that the Fast Region wants whole.
mod common;

use common::ground::Ground;
use common::{cpu_groups, in_child, kill_child, report, unified_groups};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::fs;
use std::hint::spin_loop;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tek_effect::{Effect, Groups, Hierarchy, Identity, Place};
use tek_policy::{Group, Weights};

/// The sum of the CPU times of two hogs at which their shares are compared: one time slice is a
/// small part of it. On a busy machine this takes a while.
const ENOUGH: Duration = Duration::from_millis(1500);
const LONGEST_CHECK: Duration = Duration::from_secs(30);
/// A hog ends by itself, whatever becomes of the test.
const LONGEST: Duration = Duration::from_secs(80);

/// A process that wants all of one CPU.
struct Hog(Pid);

impl Hog {
    fn new(cpu: usize) -> Self {
        Self(in_child(|| {
            pin(cpu);
            let start = Instant::now();
            while start.elapsed() < LONGEST {
                (0..10_000).for_each(|_| spin_loop());
            }
            true
        }))
    }

    fn identity(&self) -> Identity {
        Identity::of(self.0.as_raw()).unwrap()
    }

    fn cpu_ns(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.0)).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        kill_child(self.0);
        let _ = waitpid(self.0, None);
    }
}

fn pin(cpu: usize) {
    // SAFETY: a set is plain numbers, of which the kernel reads its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

/// The last that this process may use.
fn a_cpu() -> usize {
    // SAFETY: a set is plain numbers, of which the kernel writes its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize).rev().find(|&cpu| libc::CPU_ISSET(cpu, &set)).unwrap()
    }
}

/// The second's part, in percent, of what both get until it is so much.
fn share_of_second(first: &Hog, second: &Hog, enough: Duration) -> f64 {
    let (start, before) = (Instant::now(), (first.cpu_ns(), second.cpu_ns()));
    loop {
        sleep(Duration::from_millis(100));
        let (one, other) = (first.cpu_ns() - before.0, second.cpu_ns() - before.1);
        if one + other >= enough.as_nanos() as f64 {
            return other * 100.0 / (one + other);
        }
        assert!(start.elapsed() < LONGEST_CHECK, "they got {one} ns and {other} ns");
    }
}

#[test]
fn in_responsiveness_mode_the_lazy_region_keeps_its_floor() {
    let within = Hierarchy::with("cpu").unwrap();
    let Some(within) = within.filter(|_| cpu_groups().or_else(unified_groups).is_some()) else {
        println!("skipped: needs groups of the controller cpu");
        return;
    };
    let ground = Ground::below(within.mount_point());
    let state = tempfile::tempdir().unwrap();
    let (mut effect, _) = Effect::open(&state.path().join("state")).unwrap();
    let place = Place::new(within, &ground.0, "tek").unwrap();
    let mut groups = Groups::open(&mut effect, &place, Weights::default()).unwrap();

    let cpu = a_cpu();
    let (fast, lazy) = (Hog::new(cpu), Hog::new(cpu));
    for hog in [&fast, &lazy] {
        groups.place_process(&mut effect, hog.identity(), Group::Normal).unwrap();
    }
    groups.fast(&mut effect, fast.identity()).unwrap();
    groups.enter(&mut effect).unwrap();
    let entered = share_of_second(&fast, &lazy, ENOUGH);
    groups.leave(&mut effect).unwrap();
    let left = share_of_second(&fast, &lazy, ENOUGH / 4);
    report(&format!(
        "the Lazy Region gets {entered:.2}% in responsiveness mode, {left:.0}% in normal mode"
    ));
    assert!((2.0..=8.0).contains(&entered), "{entered:.2}%");
    assert!((35.0..=65.0).contains(&left), "{left:.0}%");
    assert_eq!(groups.remove(&mut effect).failed, [""; 0]);
}
