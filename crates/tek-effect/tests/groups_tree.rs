// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Fast and the Lazy Region as groups, in the hierarchies of this machine.
mod common;
mod tree;

use common::victim::{Does, Victim};
use common::{set, unified_groups, Seen, Sleeper};
use std::fs;
use std::path::Path;
use std::time::Instant;
use tek_effect::{Error, Groups, Hierarchy, Identity, Place, Placed, Version};
use tek_policy::{Floor, Group, Weight, Weights};
use tree::{picture, thread_id, Bench};

const RR: Seen = (libc::SCHED_RR, 0, 1);
const OTHER: Seen = (libc::SCHED_OTHER, 0, 0);

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
