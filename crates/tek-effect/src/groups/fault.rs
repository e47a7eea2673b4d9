// SPDX-License-Identifier: MIT OR Apache-2.0
//! The owner of groups is killed before and after each of its system calls that change something.
use super::{Groups, Place};
use crate::fault::common::{
    self, cpu_groups, ended_well, ground::Ground, in_child, unified_groups, victim::Does,
    victim::Victim, Seen,
};
use crate::fault::open_until;
use crate::{step, Effect, Error, Hierarchy, Identity, Scheduling, Version};
use std::fs;
use std::path::PathBuf;
use tek_policy::{Group, Weights};

const RR: Scheduling = Scheduling { policy: 2, nice: 0, priority: 5, reset_on_fork: true };

struct Scene {
    place: Place,
    ground: Ground,
    state: tempfile::TempDir,
    victim: Victim,
}

impl Scene {
    fn new(within: &Hierarchy) -> Self {
        let ground = Ground::below(within.mount_point());
        let place = Place::new(within.clone(), &ground.0, "tek").unwrap();
        let (state, victim) = (tempfile::tempdir().unwrap(), Victim::new(3, Does::Sleep));
        // With processes in it, which make room.
        let is_delegated = within.version() == Version::V2;
        if is_delegated {
            fs::write(ground.0.join("cgroup.procs"), victim.pid.to_string()).unwrap();
        }
        Self { place: Place { is_delegated, ..place }, ground, state, victim }
    }

    fn journal(&self) -> PathBuf {
        self.state.path().join("state")
    }

    /// All that the owner may change.
    fn picture(&self) -> (Vec<(String, Seen)>, Vec<PathBuf>, String) {
        let text = |path: String| fs::read_to_string(path).unwrap_or_default();
        let of = |tid| (text(format!("/proc/{tid}/cgroup")), common::seen(tid));
        let threads = self.victim.tids().into_iter().map(of).collect();
        let enabled = text(format!("{}/cgroup.subtree_control", self.ground.0.display()));
        (threads, self.ground.groups(), enabled)
    }

    /// A life of groups, with each call in it.
    fn play(&self) -> Result<(), Error> {
        let (mut effect, _) = Effect::open(&self.journal())?;
        let effect = &mut effect;
        let mut groups = Groups::open(effect, &self.place, Weights::default())?;
        let process = Identity::of(self.victim.pid)?;
        let thread = Identity::of(self.victim.tids()[1])?;
        groups.place_process(effect, process, Group::Normal)?;
        groups.place_thread(effect, thread, Group::Urgent)?;
        groups.fast(effect, thread)?;
        if groups.without_weights().is_none() {
            groups.enter(effect)?;
        }
        groups.place_process(effect, process, Group::Background)?;
        if self.place.within.version() == Version::V1 {
            groups.for_real_time(effect, process)?;
            let change = effect.set_scheduling(process, RR)?;
            effect.undo(change)?;
            groups.lazy_again(effect, process)?;
        }
        groups.lazy_again(effect, thread)?;
        groups.leave(effect)?;
        groups.fast(effect, process)?;
        assert_eq!(groups.remove(effect).failed, [""; 0]);
        assert_eq!(effect.count(), 0);
        Ok(())
    }
}

/// Kills at the first place, at the second, and so on, until it was not reached.
fn kill_everywhere(within: &Hierarchy) -> u64 {
    let scene = Scene::new(within);
    let before = scene.picture();
    let mut place = 1;
    loop {
        let ended = ended_well(in_child(|| {
            step::kill_at(place);
            scene.play().is_ok()
        }));
        // Not even if the one that undoes is killed, too.
        open_until(&scene.journal(), place % 13 + 1);
        let (effect, restored) = Effect::open(&scene.journal()).unwrap();
        assert_eq!(restored.failed, [""; 0], "killed at step {place}");
        assert_eq!((restored.changed, effect.count()), (0, 0), "killed at step {place}");
        assert_eq!(scene.picture(), before, "killed at step {place}");
        if ended {
            return place;
        }
        place += 1;
    }
}

#[test]
fn a_process_killed_at_any_step_with_groups_leaves_nothing_different() {
    if !common::alone() {
        return;
    }
    if cpu_groups().is_some() && common::may_use_real_time() {
        let steps = kill_everywhere(&Hierarchy::with("cpu").unwrap().unwrap());
        common::report(&format!("killed at each of {steps} steps with version 1"));
        assert!(steps > 100, "only {steps} steps");
    }
    if unified_groups().is_some() {
        let steps = kill_everywhere(&Hierarchy::unified().unwrap().unwrap());
        common::report(&format!("killed at each of {steps} steps with version 2"));
        assert!(steps > 100, "only {steps} steps");
    }
}

#[test]
fn groups_that_cannot_all_be_made_leave_nothing() {
    let Some(mount) = cpu_groups() else { return };
    let (ground, state) = (Ground::below(&mount), tempfile::tempdir().unwrap());
    let (mut effect, _) = Effect::open(&state.path().join("state")).unwrap();
    let within = Hierarchy::with("cpu").unwrap().unwrap();
    let place = Place::new(within.clone(), &ground.0.join("none"), "tek").unwrap();
    let error = Groups::open(&mut effect, &place, Weights::default()).err().unwrap();
    assert_eq!((error.errno(), effect.count()), (libc::ENOENT, 0));
    assert!(ground.groups().is_empty());
}
