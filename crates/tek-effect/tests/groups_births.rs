// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads and processes that begin and end while their groups change.
mod common;
mod tree;

use common::victim::{Does, Victim};
use common::wait_until;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tek_effect::Error;
use tek_policy::Group;
use tree::{thread_id, Bench};

#[test]
fn threads_that_are_born_and_end_meanwhile_are_placed_and_get_back() {
    for mut bench in Bench::all() {
        let victim = Victim::new(3, Does::Threads);
        let base_directory = bench.within.mount_point().to_str().unwrap().to_owned();
        bench.place(victim.pid, Group::Background).unwrap();
        for _ in 0..20 {
            assert!(bench.are_all_at(&victim, "tek/lazy/background"));
            sleep(Duration::from_millis(1));
        }
        bench.remove();
        assert!(bench.are_all_at(&victim, &base_directory));
    }
}

#[test]
fn a_process_that_forks_takes_its_children_along_and_back() {
    for mut bench in Bench::all() {
        let victim = Victim::new(2, Does::Forks);
        bench.place(victim.pid, Group::Background).unwrap();
        let children = format!("/proc/{0}/task/{0}/children", victim.pid);
        let is_inside = |pid: &str| match pid.parse().ok().and_then(|pid| bench.is_at(pid)) {
            Some(is_at) => is_at == Path::new("tek/lazy/background"),
            None => false,
        };
        wait_until(|| {
            let pids = fs::read_to_string(&children).unwrap();
            pids.split_ascii_whitespace().any(is_inside)
        });
        bench.remove();
        assert!(bench.are_all_at(&victim, bench.within.mount_point().to_str().unwrap()));
    }
}

#[test]
fn a_child_whose_parent_has_ended_goes_to_the_group_above() {
    for mut bench in Bench::all() {
        let mut shell = Command::new("sh")
            .args(["-c", "read line; sleep 30 >/dev/null & echo $!"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        bench.place(shell.id() as i32, Group::Service).unwrap();
        shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut text = String::new();
        shell.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        shell.wait().unwrap();
        let orphan: i32 = text.trim().parse().unwrap();
        assert_eq!(bench.is_at(orphan).unwrap(), Path::new("tek/lazy/service"));
        bench.remove();
        let is_at = bench.is_at(orphan).unwrap();
        let status = fs::read_to_string(format!("/proc/{orphan}/status")).unwrap();
        kill(Pid::from_raw(orphan), Signal::SIGKILL).unwrap();
        if status.contains("PPid:\t1\n") {
            assert_eq!(is_at, Path::new(""));
        }
        wait_until(|| bench.is_at(orphan).is_none_or(|at| at != Path::new("")));
    }
}

#[test]
fn a_thread_that_is_born_in_the_fast_region_is_returned_to_its_group() {
    for mut bench in Bench::all() {
        let victim = Victim::new(2, Does::Threads);
        bench.place(victim.pid, Group::Service).unwrap();
        bench.fast(victim.pid);
        sleep(Duration::from_millis(20));
        let (mut returned, start) = (0, Instant::now());
        while returned <= 3 && start.elapsed() < Duration::from_secs(10) {
            let (groups, effect) = bench.parts();
            returned += groups.return_strays(effect).unwrap();
            groups.forget_ended(effect).unwrap();
        }
        assert!(returned > 3, "only {returned}");
        assert_eq!(bench.is_at(victim.pid).unwrap(), Path::new("tek/fast"));
        bench.lazy_again(victim.pid);
        bench.remove();
        assert!(bench.are_all_at(&victim, bench.within.mount_point().to_str().unwrap()));
    }
}

#[test]
fn a_thread_that_has_ended_is_forgotten() {
    for mut bench in Bench::all() {
        let victim = Victim::new(10, Does::Sleep);
        let before = bench.effect.count();
        bench.place(victim.pid, Group::Urgent).unwrap();
        bench.fast(victim.pid);
        let pid = thread_id(victim.pid);
        drop(victim);
        let (groups, effect) = bench.parts();
        assert!(matches!(groups.fast(effect, pid), Err(Error::Gone { .. })));
        groups.lazy_again(effect, pid).unwrap();
        groups.forget_ended(effect).unwrap();
        assert_eq!(bench.effect.count(), before);
        bench.remove();
    }
}

#[test]
fn threads_that_a_real_time_thread_made_are_returned() {
    let Some(mut bench) = Bench::v1().filter(|_| common::may_use_real_time()) else { return };
    if !bench.ground.0.join("cpu.rt_runtime_us").exists() {
        println!("skipped: needs a kernel with RT_GROUP_SCHED");
        return;
    }
    let victim = Victim::new(1, Does::Threads);
    bench.place(victim.pid, Group::Service).unwrap();
    let (groups, effect) = bench.parts();
    groups.for_real_time(effect, thread_id(victim.pid)).unwrap();
    let (mut returned, start) = (0, Instant::now());
    while returned == 0 && start.elapsed() < Duration::from_secs(20) {
        let (groups, effect) = bench.parts();
        returned += groups.return_from_topmost(effect, |pid| pid == victim.pid).unwrap();
    }
    assert!(returned > 0);
    bench.lazy_again(victim.pid);
    bench.remove();
    assert!(bench.are_all_at(&victim, bench.within.mount_point().to_str().unwrap()));
}
