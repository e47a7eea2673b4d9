// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of the Fast and the Lazy Region in a hierarchy of this machine, below a group of the
//! test's own.
#![allow(dead_code)] // each test uses some of it
use crate::common::ground::Ground;
use crate::common::victim::Victim;
use crate::common::{cpu_groups, has_never_run, unified_groups};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tek_effect::{Effect, Error, Groups, Hierarchy, Identity, Place, Placed, Version};
use tek_policy::{Group, Weights};

pub struct Bench {
    pub effect: Effect,
    pub groups: Option<Groups>,
    pub within: Hierarchy,
    pub ground: Ground,
    pub state: tempfile::TempDir,
}

impl Bench {
    pub fn new(within: Hierarchy) -> Self {
        let ground = Ground::below(within.mount_point());
        let state = tempfile::tempdir().unwrap();
        let (mut effect, _) = Effect::open(&state.path().join("state")).unwrap();
        let place = Place::new(within.clone(), &ground.0, "tek").unwrap();
        let groups = Groups::open(&mut effect, &place, Weights::default()).unwrap();
        Self { effect, groups: Some(groups), within, ground, state }
    }

    pub fn v1() -> Option<Self> {
        cpu_groups()?;
        Some(Self::new(Hierarchy::with("cpu").unwrap().unwrap()))
    }

    /// In the version that has the controller cpu.
    pub fn with_weights() -> Option<Self> {
        let v2 = unified_groups().filter(|_| {
            Hierarchy::with("cpu").unwrap().is_some_and(|one| one.version() == Version::V2)
        });
        match v2 {
            Some(_) => Some(Self::new(Hierarchy::unified().unwrap().unwrap())),
            None => Self::v1(),
        }
    }

    /// In both versions, as far as there are.
    pub fn all() -> Vec<Self> {
        let v2 = unified_groups().map(|_| Self::new(Hierarchy::unified().unwrap().unwrap()));
        Self::v1().into_iter().chain(v2).collect()
    }

    pub fn parts(&mut self) -> (&mut Groups, &mut Effect) {
        (self.groups.as_mut().unwrap(), &mut self.effect)
    }

    pub fn place(&mut self, pid: i32, group: Group) -> Result<Placed, Error> {
        let (groups, effect) = self.parts();
        groups.place_process(effect, Identity::of(pid)?, group)
    }

    pub fn fast(&mut self, tid: i32) {
        let (groups, effect) = self.parts();
        groups.fast(effect, thread_id(tid)).unwrap();
    }

    pub fn lazy_again(&mut self, tid: i32) {
        let (groups, effect) = self.parts();
        groups.lazy_again(effect, thread_id(tid)).unwrap();
    }

    /// The group of a thread, within the test's own; its whole path if it is elsewhere.
    pub fn is_at(&self, tid: i32) -> Option<PathBuf> {
        let directory = self.within.directory_of(tid).ok()?;
        Some(directory.strip_prefix(&self.ground.0).map_or(directory.clone(), Path::to_owned))
    }

    pub fn are_all_at(&self, victim: &Victim, place: &str) -> bool {
        // The kernel calls the topmost group that of a thread which is being made or, on version 1,
        // is ending.
        let is_there = |tid| Identity::of(tid).is_ok();
        let mut tids = victim.tids().into_iter().filter(|&tid| !has_never_run(tid));
        tids.all(|tid| self.is_at(tid).is_none_or(|at| at == Path::new(place) || !is_there(tid)))
    }

    pub fn remove(&mut self) {
        let groups = self.groups.take().unwrap();
        let restored = groups.remove(&mut self.effect);
        assert_eq!((restored.changed, restored.failed), (0, vec![]));
        assert_eq!(self.effect.count(), 0);
        assert!(self.ground.groups().is_empty());
    }

    /// As if the owner had been killed and started again.
    pub fn reopen(&mut self) {
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
    pub fn weight(&self, group: &str) -> f64 {
        let (file, own) = match self.within.version() {
            Version::V1 => ("cpu.shares", 1024.0),
            Version::V2 => ("cpu.weight", 100.0),
        };
        self.text(&format!("{group}/{file}")).parse::<f64>().unwrap() / own
    }

    pub fn text(&self, file: &str) -> String {
        fs::read_to_string(self.ground.0.join(file)).unwrap().trim_end().to_owned()
    }
}

pub fn thread_id(tid: i32) -> Identity {
    Identity::of(tid).unwrap()
}

/// All groups of all threads of a process, as the kernel says it.
pub fn picture(victim: &Victim) -> BTreeMap<i32, String> {
    let text = |tid| fs::read_to_string(format!("/proc/{tid}/cgroup")).ok();
    victim.tids().into_iter().filter_map(|tid| Some((tid, text(tid)?))).collect()
}
