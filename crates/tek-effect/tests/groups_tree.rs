// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Fast and the Lazy Region as groups, in the hierarchies of this machine.
mod common;

use common::ground::Ground;
use common::victim::{Does, Victim};
use common::{cpu_groups, set, unified_groups, wait_until, Seen, Sleeper};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tek_effect::{Effect, Error, Groups, Hierarchy, Identity, Place, Placed, Version};
use tek_policy::{Floor, Group, Weight, Weights};

const RR: Seen = (libc::SCHED_RR, 0, 1);
const OTHER: Seen = (libc::SCHED_OTHER, 0, 0);

struct Bench {
    effect: Effect,
    groups: Option<Groups>,
    within: Hierarchy,
    ground: Ground,
    state: tempfile::TempDir,
}

impl Bench {
    fn new(within: Hierarchy) -> Self {
        let ground = Ground::below(within.mount_point());
        let state = tempfile::tempdir().unwrap();
        let (mut effect, _) = Effect::open(&state.path().join("state")).unwrap();
        let place = Place::new(within.clone(), &ground.0, "tek").unwrap();
        let groups = Groups::open(&mut effect, &place, Weights::default()).unwrap();
        Self { effect, groups: Some(groups), within, ground, state }
    }

    fn v1() -> Option<Self> {
        cpu_groups()?;
        Some(Self::new(Hierarchy::with("cpu").unwrap().unwrap()))
    }

    /// In the version that has the controller cpu.
    fn with_weights() -> Option<Self> {
        let v2 = unified_groups().filter(|_| {
            Hierarchy::with("cpu").unwrap().is_some_and(|one| one.version() == Version::V2)
        });
        match v2 {
            Some(_) => Some(Self::new(Hierarchy::unified().unwrap().unwrap())),
            None => Self::v1(),
        }
    }

    /// In both versions, as far as there are.
    fn all() -> Vec<Self> {
        let v2 = unified_groups().map(|_| Self::new(Hierarchy::unified().unwrap().unwrap()));
        Self::v1().into_iter().chain(v2).collect()
    }

    fn parts(&mut self) -> (&mut Groups, &mut Effect) {
        (self.groups.as_mut().unwrap(), &mut self.effect)
    }

    fn place(&mut self, pid: i32, group: Group) -> Result<Placed, Error> {
        let (groups, effect) = self.parts();
        groups.place_process(effect, Identity::of(pid)?, group)
    }

    fn fast(&mut self, tid: i32) {
        let (groups, effect) = self.parts();
        groups.fast(effect, thread_id(tid)).unwrap();
    }

    fn lazy_again(&mut self, tid: i32) {
        let (groups, effect) = self.parts();
        groups.lazy_again(effect, thread_id(tid)).unwrap();
    }

    /// The group of a thread, within the test's own; its whole path if it is elsewhere.
    fn is_at(&self, tid: i32) -> Option<PathBuf> {
        let directory = self.within.directory_of(tid).ok()?;
        Some(directory.strip_prefix(&self.ground.0).map_or(directory.clone(), Path::to_owned))
    }

    fn are_all_at(&self, victim: &Victim, place: &str) -> bool {
        // The kernel calls the topmost group that of a thread which is being made or, on version 1,
        // is ending.
        let is_there = |tid| Identity::of(tid).is_ok();
        let mut tids = victim.tids().into_iter().filter(|&tid| !common::has_never_run(tid));
        tids.all(|tid| self.is_at(tid).is_none_or(|at| at == Path::new(place) || !is_there(tid)))
    }

    fn remove(&mut self) {
        let groups = self.groups.take().unwrap();
        let restored = groups.remove(&mut self.effect);
        assert_eq!((restored.changed, restored.failed), (0, vec![]));
        assert_eq!(self.effect.count(), 0);
        assert!(self.ground.groups().is_empty());
    }

    /// As if the owner had been killed and started again.
    fn reopen(&mut self) {
        let spare = tempfile::tempdir().unwrap();
        let (other, _) = Effect::open(spare.path()).unwrap();
        drop(std::mem::replace(&mut self.effect, other));
        self.groups = None;
        let (effect, restored) = Effect::open(&self.state.path().join("state")).unwrap();
        assert_eq!((restored.changed, restored.failed), (0, vec![]));
        self.effect = effect;
        assert!(self.ground.groups().is_empty());
    }

    /// The weight of a group, in units of the kernel's own: 1 is what each group begins with.
    fn weight(&self, group: &str) -> f64 {
        let (file, own) = match self.within.version() {
            Version::V1 => ("cpu.shares", 1024.0),
            Version::V2 => ("cpu.weight", 100.0),
        };
        self.text(&format!("{group}/{file}")).parse::<f64>().unwrap() / own
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.ground.0.join(file)).unwrap().trim_end().to_owned()
    }
}

fn thread_id(tid: i32) -> Identity {
    Identity::of(tid).unwrap()
}

/// All groups of all threads of a process, as the kernel says it.
fn picture(victim: &Victim) -> BTreeMap<i32, String> {
    let text = |tid| fs::read_to_string(format!("/proc/{tid}/cgroup")).ok();
    victim.tids().into_iter().filter_map(|tid| Some((tid, text(tid)?))).collect()
}

/// Writes that the calling thread has made by now.
fn writes() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("syscw: "));
    line.unwrap().parse().unwrap()
}

#[test]
fn the_groups_have_their_weights_and_are_gone_afterwards() {
    let Some(mut bench) = Bench::with_weights() else { return };
    let lazy = ["urgent", "normal", "service", "background"];
    let weights = lazy.map(|group| bench.weight(&format!("tek/lazy/{group}")));
    assert_eq!(weights.map(|weight| (weight * 10.0).round()), [40.0, 10.0, 5.0, 1.0]);
    assert_eq!(["tek/lazy", "tek/fast", "tek"].map(|group| bench.weight(group)), [1.0; 3]);
    bench.remove();
}

#[test]
fn other_weights_are_in_force_at_once_and_the_first_are_given_back() {
    let Some(mut bench) = Bench::with_weights() else { return };
    let (groups, effect) = bench.parts();
    let count = effect.count();
    let weights = Weights {
        service: Weight::new(7).unwrap(),
        floor: Floor::new(10).unwrap(),
        ..Weights::default()
    };
    groups.set_weights(effect, weights).unwrap();
    groups.enter(effect).unwrap();
    groups.set_weights(effect, Weights { floor: Floor::new(50).unwrap(), ..weights }).unwrap();
    assert_eq!(groups.weights().floor.percent(), 50);
    assert_eq!(effect.count(), count + 1);
    assert_eq!((bench.weight("tek/lazy/service") * 100.0).round(), 7.0);
    assert_eq!(bench.weight("tek/fast"), 1.0);
    let (groups, effect) = bench.parts();
    groups.set_weights(effect, weights).unwrap();
    assert_eq!(bench.weight("tek/fast"), 9.0);
    let (groups, effect) = bench.parts();
    groups.leave(effect).unwrap();
    assert_eq!(bench.weight("tek/fast"), 1.0);
    bench.remove();
}

#[test]
fn on_version_2_everything_below_the_top_is_threaded() {
    let Some(mut bench) =
        unified_groups().map(|_| Bench::new(Hierarchy::unified().unwrap().unwrap()))
    else {
        return;
    };
    assert_eq!(bench.text("tek/cgroup.type"), "domain threaded");
    for group in ["fast", "lazy", "lazy/urgent", "lazy/normal", "lazy/service", "lazy/background"] {
        assert_eq!(bench.text(&format!("tek/{group}/cgroup.type")), "threaded", "{group}");
    }
    let (groups, effect) = bench.parts();
    if let Some(why) = groups.without_weights() {
        assert!(why.contains("without controller cpu"), "{why}");
        assert_eq!(groups.enter(effect).unwrap_err().errno(), libc::EINVAL);
        println!("weights of version 2 skipped: {why}");
    }
    bench.remove();
}

#[test]
fn all_threads_of_a_process_are_placed_and_get_back_to_where_they_were() {
    for mut bench in Bench::all() {
        let victim = Victim::new(20, Does::Sleep);
        let before = picture(&victim);
        let placed = bench.place(victim.pid, Group::Service).unwrap();
        assert_eq!(placed, Placed { moved: 20, left: 0 });
        assert!(bench.are_all_at(&victim, "tek/lazy/service"));
        assert_eq!(bench.place(victim.pid, Group::Service).unwrap().moved, 0);
        bench.remove();
        assert_eq!(picture(&victim), before);
    }
}

#[test]
fn placing_again_moves_without_leaving_traces_in_the_journal() {
    for mut bench in Bench::all() {
        let victim = Victim::new(5, Does::Sleep);
        let before = picture(&victim);
        bench.place(victim.pid, Group::Service).unwrap();
        let count = bench.effect.count();
        for group in [Group::Urgent, Group::Background, Group::Normal] {
            assert_eq!(bench.place(victim.pid, group).unwrap().moved, 5);
            assert!(bench.are_all_at(&victim, &format!("tek/lazy/{group}")));
        }
        assert_eq!(bench.effect.count(), count);
        bench.reopen();
        assert_eq!(picture(&victim), before);
    }
}

#[test]
fn a_thread_is_placed_alone() {
    for mut bench in Bench::all() {
        let victim = Victim::new(3, Does::Sleep);
        let before = picture(&victim);
        let tids = victim.tids();
        let (groups, effect) = bench.parts();
        assert!(groups.place_thread(effect, thread_id(tids[1]), Group::Urgent).unwrap());
        assert_eq!(groups.group_of(thread_id(tids[1])), Some(Group::Urgent));
        assert_eq!(bench.is_at(tids[1]).unwrap(), Path::new("tek/lazy/urgent"));
        let remaining = match bench.within.version() {
            Version::V1 => bench.within.mount_point(),
            Version::V2 => Path::new("tek/lazy/normal"),
        };
        assert_eq!(bench.is_at(tids[2]).unwrap(), remaining);
        bench.remove();
        assert_eq!(picture(&victim), before);
    }
}

#[test]
fn a_thread_becomes_fast_and_lazy_again_by_one_write_each() {
    for mut bench in Bench::all() {
        let victim = Victim::new(4, Does::Sleep);
        bench.place(victim.pid, Group::Normal).unwrap();
        let tid = victim.tids()[2];
        let (count, start) = (bench.effect.count(), writes());
        bench.fast(tid);
        let middle = writes();
        assert_eq!(bench.is_at(tid).unwrap(), Path::new("tek/fast"));
        bench.lazy_again(tid);
        let end = writes();
        assert_eq!(bench.is_at(tid).unwrap(), Path::new("tek/lazy/normal"));
        // One of the two is the journal's.
        assert_eq!((middle - start, end - middle), (2, 2));
        assert_eq!(bench.effect.count(), count);
        bench.fast(tid);
        bench.fast(tid);
        bench.reopen();
        assert!(bench.are_all_at(&victim, bench.within.mount_point().to_str().unwrap()));
    }
}

#[test]
fn a_thread_that_was_placed_while_fast_gets_there_afterwards() {
    for mut bench in Bench::all() {
        let victim = Victim::new(3, Does::Sleep);
        let before = picture(&victim);
        bench.fast(victim.pid);
        bench.place(victim.pid, Group::Background).unwrap();
        assert_eq!(bench.is_at(victim.pid).unwrap(), Path::new("tek/fast"));
        bench.lazy_again(victim.pid);
        assert!(bench.are_all_at(&victim, "tek/lazy/background"));
        bench.remove();
        assert_eq!(picture(&victim), before);
    }
}

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
fn entering_and_leaving_takes_as_many_writes_with_2000_threads_as_with_20() {
    let Some(mut bench) = Bench::with_weights() else { return };
    let mut counts = Vec::new();
    for threads in [20, 2000] {
        let victim = Victim::new(threads, Does::Sleep);
        let before = picture(&victim);
        let start = Instant::now();
        assert_eq!(bench.place(victim.pid, Group::Normal).unwrap().moved, threads);
        let placed = start.elapsed();
        let (groups, effect) = bench.parts();
        let (start, from) = (Instant::now(), writes());
        groups.enter(effect).unwrap();
        groups.enter(effect).unwrap();
        let middle = writes();
        assert!(groups.is_entered());
        assert_eq!(bench.weight("tek/fast"), 19.0);
        let (groups, effect) = bench.parts();
        let again = writes();
        groups.leave(effect).unwrap();
        groups.leave(effect).unwrap();
        counts.push((middle - from, writes() - again));
        let pair = start.elapsed();
        common::report(&format!(
            "{threads} threads: placed in {placed:?}, entered and left in {pair:?}"
        ));
        assert_eq!(bench.weight("tek/fast"), 1.0);
        bench.remove();
        assert_eq!(picture(&victim), before);
        bench = Bench::with_weights().unwrap();
    }
    // The journal's, the group's, and what was found then; the group's, and the journal's.
    common::report(&format!("writes to enter and to leave: {counts:?}"));
    assert_eq!(counts, [(3, 2), (3, 2)]);
}

#[test]
fn two_thousand_threads_get_back_once_the_journal_is_opened() {
    for mut bench in Bench::all() {
        let victim = Victim::new(2000, Does::Sleep);
        let before = picture(&victim);
        assert_eq!(bench.place(victim.pid, Group::Background).unwrap().moved, 2000);
        let start = Instant::now();
        bench.reopen();
        common::report(&format!("2,000 threads are back after {:?}", start.elapsed()));
        assert_eq!(picture(&victim), before);
    }
}

#[test]
fn a_thread_can_be_real_time_once_it_was_moved_for_that() {
    let Some(mut bench) = Bench::v1().filter(|_| common::may_use_real_time()) else { return };
    let victim = Victim::new(2, Does::Sleep);
    let before = picture(&victim);
    bench.place(victim.pid, Group::Normal).unwrap();
    if !bench.ground.0.join("cpu.rt_runtime_us").exists() {
        println!("skipped: needs a kernel with RT_GROUP_SCHED");
        return;
    }
    assert!(!set(victim.pid, RR), "the group has real-time runtime");
    let (groups, effect) = bench.parts();
    groups.for_real_time(effect, thread_id(victim.pid)).unwrap();
    assert!(set(victim.pid, RR));
    assert_eq!(bench.is_at(victim.pid).unwrap(), bench.within.mount_point());
    assert_eq!(bench.place(victim.pid, Group::Service).unwrap(), Placed { moved: 1, left: 0 });
    assert!(set(victim.pid, OTHER));
    bench.lazy_again(victim.pid);
    assert!(bench.are_all_at(&victim, "tek/lazy/service"));
    bench.remove();
    assert_eq!(picture(&victim), before);
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

#[test]
fn a_thread_that_is_away_keeps_a_group_of_its_own_while_strays_are_returned() {
    for mut bench in Bench::all() {
        let victim = Victim::new(3, Does::Sleep);
        bench.place(victim.pid, Group::Service).unwrap();
        let tids = victim.tids();
        let (groups, effect) = bench.parts();
        for &tid in &tids[..2] {
            groups.place_thread(effect, thread_id(tid), Group::Urgent).unwrap();
        }
        groups.for_real_time(effect, thread_id(tids[0])).unwrap();
        groups.fast(effect, thread_id(tids[1])).unwrap();
        assert_eq!(groups.return_strays(effect).unwrap(), 0);
        assert_eq!(groups.return_from_topmost(effect, |pid| pid == victim.pid).unwrap(), 0);
        for &tid in &tids[..2] {
            groups.lazy_again(effect, thread_id(tid)).unwrap();
            assert_eq!(groups.group_of(thread_id(tid)), Some(Group::Urgent));
        }
        assert_eq!(bench.is_at(tids[0]).unwrap(), Path::new("tek/lazy/urgent"));
        assert_eq!(bench.is_at(tids[1]).unwrap(), Path::new("tek/lazy/urgent"));
        assert_eq!(bench.is_at(tids[2]).unwrap(), Path::new("tek/lazy/service"));
        bench.remove();
    }
}

#[test]
fn a_real_time_thread_stays_where_it_can_run() {
    let Some(mut bench) = Bench::v1().filter(|_| common::may_use_real_time()) else { return };
    if !bench.ground.0.join("cpu.rt_runtime_us").exists() {
        println!("skipped: needs a kernel with RT_GROUP_SCHED");
        return;
    }
    let victim = Victim::new(3, Does::Sleep);
    let tids = victim.tids();
    assert!(set(tids[1], RR));
    let placed = bench.place(victim.pid, Group::Normal).unwrap();
    assert_eq!(placed, Placed { moved: 2, left: 1 });
    assert_eq!(bench.is_at(tids[1]).unwrap(), bench.within.mount_point());
    bench.remove();
}

#[test]
fn threads_of_the_kernel_are_never_moved() {
    let Some(mut bench) = Bench::with_weights() else { return };
    let Ok(kthreadd) = Identity::of(2) else { return };
    if fs::read_to_string("/proc/2/comm").unwrap() != "kthreadd\n" {
        println!("skipped: needs to see the kernel's threads");
        return;
    }
    let count = bench.effect.count();
    let (groups, effect) = bench.parts();
    let refused = [
        groups.place_process(effect, kthreadd, Group::Normal).unwrap_err(),
        groups.place_thread(effect, kthreadd, Group::Normal).unwrap_err(),
        groups.fast(effect, kthreadd).unwrap_err(),
        groups.for_real_time(effect, kthreadd).err().unwrap_or(Error::Gone { tid: 2 }),
    ];
    assert!(refused[..3].iter().all(|error| error.to_string().contains("is the kernel's")));
    assert_eq!(bench.effect.count(), count);
}

#[test]
fn a_tree_that_is_there_already_is_left_alone() {
    for mut bench in Bench::all() {
        let place = Place::new(bench.within.clone(), &bench.ground.0, "tek").unwrap();
        let count = bench.effect.count();
        let error = Groups::open(&mut bench.effect, &place, Weights::default()).err().unwrap();
        assert_eq!(error.errno(), libc::EEXIST);
        assert_eq!(bench.effect.count(), count);
        bench.remove();
    }
}

#[test]
fn a_thread_moved_out_by_another_program_meanwhile_stays_there() {
    for mut bench in Bench::all() {
        let victim = Victim::new(1, Does::Sleep);
        let theirs = bench.ground.0.join("theirs");
        bench.place(victim.pid, Group::Normal).unwrap();
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("cgroup.procs"), victim.pid.to_string()).unwrap();
        let restored = bench.groups.take().unwrap().remove(&mut bench.effect);
        assert_eq!(restored.failed, [""; 0]);
        assert!(restored.changed > 0);
        assert_eq!(bench.is_at(victim.pid).unwrap(), Path::new("theirs"));
        assert_eq!(bench.ground.groups(), [Path::new("theirs")]);
    }
}

#[test]
fn a_sleeper_of_the_test_itself_is_placed_by_its_thread() {
    let Some(mut bench) = Bench::v1() else { return };
    let (sleeper, other) = (Sleeper::new(), Sleeper::new());
    let base_directory = bench.is_at(other.tid);
    let (groups, effect) = bench.parts();
    groups.place_thread(effect, thread_id(sleeper.tid), Group::Urgent).unwrap();
    assert_eq!(bench.is_at(sleeper.tid).unwrap(), Path::new("tek/lazy/urgent"));
    assert_eq!(bench.is_at(other.tid), base_directory);
    bench.remove();
    assert_eq!(bench.is_at(sleeper.tid), base_directory);
}
