// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of scheduling, with a journal that is opened again as after a crash.
#![allow(dead_code)] // each test uses some of it
use crate::common::Sleeper;
use std::path::PathBuf;
use tek_effect::{Effect, Identity, Restored, Scheduling};

pub const USUAL: Scheduling = Scheduling { policy: 0, nice: 0, priority: 0, reset_on_fork: false };
pub const RR: Scheduling = Scheduling { policy: libc::SCHED_RR as u32, priority: 20, ..USUAL };

pub struct Bench {
    directory: tempfile::TempDir,
    effect: Option<Effect>,
}

impl Bench {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut bench = Self { directory, effect: None };
        bench.reopen();
        bench
    }

    pub fn journal(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// As after a crash.
    pub fn reopen(&mut self) -> Restored {
        self.effect = None;
        let (effect, restored) = Effect::open(&self.journal()).unwrap();
        self.effect = Some(effect);
        restored
    }

    pub fn effect(&mut self) -> &mut Effect {
        self.effect.as_mut().unwrap()
    }
}

pub fn thread_id(sleeper: &Sleeper) -> Identity {
    Identity::of(sleeper.tid).unwrap()
}
