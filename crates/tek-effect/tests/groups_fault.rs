// SPDX-License-Identifier: MIT OR Apache-2.0
//! The owner of the groups is killed at random moments; the next owner moves all threads back.
mod common;

use common::ground::Ground;
use common::numbers::Numbers;
use common::victim::{Does, Victim};
use common::{cpu_groups, ended_well, in_child, kill_child, may_use_real_time, unified_groups};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tek_effect::{Change, Effect, Error, Groups, Hierarchy, Identity, Place, Scheduling, Version};
use tek_policy::{Group, Weights};

/// As many at least, and so many times as many at most until enough changes were in force at the
/// kills: how much CPU an owner gets in its life is left to chance.
const ROUNDS: usize = 30;
const MOST_TIMES: usize = 10;
/// An owner lives so long at most, as long as it takes to make groups so often where that is more:
/// in an emulated machine.
const LIFE: Duration = Duration::from_millis(120);
const LIVES: u32 = 3;
const RR: Scheduling = Scheduling { policy: 2, nice: 0, priority: 5, reset_on_fork: true };

/// The groups, threads and processes of a test.
struct Scene {
    place: Place,
    within: Hierarchy,
    ground: Ground,
    state: tempfile::TempDir,
    sleeping: Victim,
    busy: [Victim; 2],
}

impl Scene {
    fn new(within: Hierarchy) -> Self {
        let ground = Ground::below(within.mount_point());
        let place = Place::new(within.clone(), &ground.0, "tek").unwrap();
        let state = tempfile::tempdir().unwrap();
        let sleeping = Victim::new(12, Does::Sleep);
        let busy = [Victim::new(3, Does::Threads), Victim::new(2, Does::Forks)];
        Self { place, within, ground, state, sleeping, busy }
    }

    fn journal(&self) -> PathBuf {
        self.state.path().join("state")
    }

    /// Group, policy and priority of each thread of the sleeping process, which makes no threads.
    fn picture(&self) -> BTreeMap<i32, (String, common::Seen)> {
        let text = |tid| fs::read_to_string(format!("/proc/{tid}/cgroup")).unwrap();
        let tids = self.sleeping.tids();
        tids.into_iter().map(|tid| (tid, (text(tid), common::seen(tid)))).collect()
    }

    /// Threads of the busy processes, and their children, that are not in their original group.
    fn strayed(&self) -> Vec<(i32, PathBuf)> {
        let tids = self.busy.iter().flat_map(|victim| {
            let children = format!("/proc/{0}/task/{0}/children", victim.pid);
            let children = fs::read_to_string(children).unwrap_or_default();
            let children: Vec<i32> =
                children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            victim.tids().into_iter().chain(children)
        });
        let is_at = |tid| Some((tid, self.within.directory_of(tid).ok()?));
        let strayed = tids.filter_map(is_at).filter(|(_, at)| at != self.within.mount_point());
        // A thread that is ending, or a zombie, is still listed in its last group.
        strayed.filter(|(tid, _)| Identity::of(*tid).is_ok()).collect()
    }
}

/// Fast threads, as the daemon has them.
struct Owner {
    effect: Effect,
    groups: Groups,
    real_time: Vec<(Identity, Change)>,
}

impl Owner {
    fn new(scene: &Scene) -> Result<Self, Error> {
        let (mut effect, _) = Effect::open(&scene.journal())?;
        let groups = Groups::open(&mut effect, &scene.place, Weights::default())?;
        Ok(Self { effect, groups, real_time: Vec::new() })
    }

    fn act(&mut self, scene: &Scene, numbers: &mut Numbers) -> Result<(), Error> {
        let Self { effect, groups, real_time } = self;
        let group = numbers.one_of(&Group::ALL);
        let victims = [scene.sleeping.pid, scene.busy[0].pid, scene.busy[1].pid];
        let pid = numbers.one_of(&victims);
        let thread_id = Identity::of(numbers.one_of(&scene.sleeping.tids()))?;
        let is_v1 = scene.within.version() == Version::V1;
        let is_rr = real_time.iter().any(|(one, _)| *one == thread_id);
        match numbers.below(12) {
            0..3 => groups.place_process(effect, Identity::of(pid)?, group).map(drop),
            3 => groups.place_thread(effect, thread_id, group).map(drop),
            4 if !is_rr => groups.fast(effect, thread_id),
            5 if !is_rr => groups.lazy_again(effect, thread_id),
            6 => {
                groups.fast(effect, Identity::of(pid)?).and(groups.return_strays(effect)).map(drop)
            }
            7 if groups.without_weights().is_none() => groups.enter(effect),
            8 => groups.leave(effect),
            9 if is_v1 && !is_rr => {
                groups.for_real_time(effect, thread_id)?;
                real_time.push((thread_id, effect.set_scheduling(thread_id, RR)?));
                Ok(())
            }
            10 if !real_time.is_empty() => {
                let (thread_id, change) = real_time.remove(0);
                effect.undo(change)?;
                groups.lazy_again(effect, thread_id)
            }
            _ => groups.forget_ended(effect),
        }
    }
}

/// Goes on until it is killed.
fn play_for_ever(scene: &Scene, numbers: &mut Numbers) -> Result<(), Error> {
    loop {
        let mut owner = Owner::new(scene)?;
        for _ in 0..40 + numbers.below(100) {
            match owner.act(scene, numbers) {
                Ok(()) | Err(Error::Gone { .. }) => {}
                // Their turn comes when they are ordinary again.
                Err(error) if error.errno() == libc::EINVAL && !owner.real_time.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        let restored = owner.effect.close();
        assert_eq!(restored.failed, [""; 0]);
    }
}

fn play(within: Hierarchy) {
    let scene = Scene::new(within);
    let before = scene.picture();
    let mut numbers = Numbers(0x6e0b_51ab_5eed);
    let start = Instant::now();
    Owner::new(&scene).unwrap().effect.close();
    let life = LIFE.max(start.elapsed() * LIVES).as_micros() as u64;
    let (mut undone, mut round) = (0, 0);
    while round < ROUNDS || (undone <= 10 * ROUNDS && round < MOST_TIMES * ROUNDS) {
        let mut theirs = Numbers(numbers.below(u64::MAX) | 1);
        let child = in_child(|| match play_for_ever(&scene, &mut theirs) {
            Ok(()) => true,
            Err(error) => {
                eprintln!("{error}");
                false
            }
        });
        sleep(Duration::from_micros(2_000 + numbers.below(life)));
        kill_child(child);
        assert!(!ended_well(child));
        let (effect, restored) = Effect::open(&scene.journal()).unwrap();
        assert_eq!((restored.changed, &restored.failed[..]), (0, &[][..]), "round {round}");
        assert_eq!(effect.count(), 0);
        assert_eq!(scene.picture(), before, "round {round}");
        assert_eq!(scene.strayed(), [], "round {round}");
        assert!(scene.ground.groups().is_empty(), "round {round}");
        undone += restored.undone;
        round += 1;
    }
    assert!(undone > 10 * ROUNDS, "only {undone} changes were in force at the kills");
    common::report(&format!("{round} kills, {undone} changes undone, no difference"));
}

#[test]
fn whenever_the_owner_is_killed_everybody_gets_back_and_no_group_is_left() {
    if !common::alone() {
        return;
    }
    if cpu_groups().is_some() && may_use_real_time() {
        play(Hierarchy::with("cpu").unwrap().unwrap());
    }
}

#[test]
fn the_same_with_the_groups_of_version_2() {
    if !common::alone() {
        return;
    }
    if unified_groups().is_some() {
        play(Hierarchy::unified().unwrap().unwrap());
    }
}
