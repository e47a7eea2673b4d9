// SPDX-License-Identifier: MIT OR Apache-2.0
//! A child is killed before and after each of its system calls that change something. After the
//! next owner has opened its journal, nothing differs from before.
#[path = "../tests/common/mod.rs"]
pub(crate) mod common;

use crate::{step, Effect, Error, Hierarchy, Identity, Resource, Scheduling};
use common::{ended_well, in_child, seen, set, Process, Seen, Sleeper, Swept};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

const OTHER: Scheduling = Scheduling { policy: 0, nice: 0, priority: 0, reset_on_fork: false };
const RR: Scheduling = Scheduling { policy: 2, priority: 20, ..OTHER };
const BATCH: Scheduling = Scheduling { policy: 3, nice: 7, ..OTHER };

struct Scene {
    directory: tempfile::TempDir,
    threads: [Sleeper; 3],
    process: Process,
    groups: Option<(Hierarchy, Swept)>,
}

/// All that the child may change.
#[derive(Debug, PartialEq)]
struct Picture {
    threads: Vec<Seen>,
    groups: Vec<String>,
    limits: String,
    file: String,
    directories: Vec<bool>,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            directory: tempfile::tempdir().unwrap(),
            threads: [Sleeper::new(), Sleeper::new(), Sleeper::new()],
            process: Process::new(),
            groups: common::cpu_groups().map(|top| {
                let hierarchy = Hierarchy::with("cpu").unwrap().unwrap();
                (hierarchy, Swept(top.join(common::name())))
            }),
        };
        assert!(set(scene.threads[0].tid, (0, -5, 0)));
        assert!(set(scene.threads[1].tid, (libc::SCHED_BATCH | 0x4000_0000, 3, 0)));
        assert!(set(scene.threads[2].tid, (libc::SCHED_FIFO, 4, 10)));
        fs::write(scene.file(), "100\n").unwrap();
        scene
    }

    fn journal(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("weight")
    }

    fn made(&self) -> PathBuf {
        self.directory.path().join("made")
    }

    fn picture(&self) -> Picture {
        let text = |path: String| fs::read_to_string(path).unwrap();
        let tids = self.threads.iter().map(|thread| thread.tid);
        let group = self.groups.as_ref().map(|(_, group)| group.0.exists());
        Picture {
            threads: tids.clone().map(seen).collect(),
            groups: tids.map(|tid| text(format!("/proc/{tid}/cgroup"))).collect(),
            limits: text(format!("/proc/{}/limits", self.process.pid())),
            file: text(self.file().display().to_string()),
            directories: [Some(self.made().exists()), group].into_iter().flatten().collect(),
        }
    }

    fn thread_id(&self, thread: usize) -> Result<Identity, Error> {
        Identity::of(self.threads[thread].tid)
    }

    /// One of each, in nested, repeated and interrupted ways.
    fn play(&self) -> Result<(), Error> {
        let (mut effect, _) = Effect::open(&self.journal())?;
        let first = effect.set_scheduling(self.thread_id(0)?, RR)?;
        let second = effect.set_scheduling(self.thread_id(1)?, BATCH)?;
        effect.set_again(first, Scheduling { priority: 30, ..RR })?;
        effect.set_again(first, Scheduling { nice: 3, ..OTHER })?;
        let weight = effect.write_file(&self.file(), b"950\n")?;
        effect.write_file(&self.file(), b"951\n")?;
        effect.make_directory(&self.made())?;
        let limits = crate::Limits::of(self.process.pid(), Resource::Nofile)?;
        let process = Identity::of(self.process.pid())?;
        effect.set_limit(process, Resource::Nofile, 17, limits.hard)?;
        effect.set_scheduling(self.thread_id(0)?, Scheduling { policy: 1, ..RR })?;
        effect.undo(first)?;
        if let Some((hierarchy, group)) = &self.groups {
            effect.make_directory(&group.0)?;
            effect.move_to(self.thread_id(1)?, hierarchy, &group.0)?;
            effect.write_file(&group.0.join("cpu.shares"), b"1")?; // which is shown as 2
        }
        effect.undo(weight)?;
        effect.undo(second)?;
        assert_eq!(effect.undo_all().failed, [""; 0]);
        effect.set_scheduling(self.thread_id(2)?, Scheduling { nice: -2, ..OTHER })?;
        // Its flag goes, and its policy is another one.
        let third = effect.set_scheduling(self.thread_id(1)?, Scheduling { nice: 9, ..OTHER })?;
        effect.set_again(third, Scheduling { reset_on_fork: true, ..RR })?;
        effect.set_again(third, OTHER)?;
        effect.write_file(&self.file(), b"952\n")?;
        Ok(())
    }
}

/// Plays in a child that is killed at a place; whether it ended before that.
fn play_until(scene: &Scene, place: u64) -> bool {
    ended_well(in_child(|| {
        step::kill_at(place);
        scene.play().is_ok()
    }))
}

/// Opens the journal in a child that is killed while it undoes.
pub(crate) fn open_until(journal: &Path, place: u64) {
    ended_well(in_child(|| {
        step::kill_at(place);
        Effect::open(journal).is_ok()
    }));
}

#[test]
fn a_process_killed_while_it_writes_the_journal_anew_loses_nothing() {
    if !common::alone() {
        return;
    }
    let (directory, sleeper) = (tempfile::tempdir().unwrap(), Sleeper::new());
    let journal = directory.path().join("state");
    let before = seen(sleeper.tid);
    for place in 1..16 {
        let (mut effect, _) = Effect::open(&journal).unwrap();
        let thread_id = Identity::of(sleeper.tid).unwrap();
        effect.set_scheduling(thread_id, Scheduling { nice: before.1, ..BATCH }).unwrap();
        drop(effect);
        let damaged = OpenOptions::new().append(true).open(journal.join("journal"));
        damaged.unwrap().write_all(b"nonsense\n").unwrap();
        open_until(&journal, place);
        Effect::open(&journal).unwrap();
        assert_eq!(seen(sleeper.tid), before, "killed at step {place}");
        assert!(!journal.join("journal.new").exists());
    }
}

#[test]
fn a_process_killed_at_any_step_leaves_nothing_changed_once_its_journal_is_opened() {
    if !common::alone() {
        return;
    }
    if !common::may_use_real_time() {
        return;
    }
    let scene = Scene::new();
    let before = scene.picture();
    let mut place = 1;
    loop {
        let ended = play_until(&scene, place);
        // Not even if the one that undoes is killed, too.
        open_until(&scene.journal(), place % 9 + 1);
        let (effect, restored) = Effect::open(&scene.journal()).unwrap();
        assert_eq!(restored.failed, [""; 0], "killed at step {place}");
        assert_eq!(restored.changed, 0, "killed at step {place}");
        assert_eq!(scene.picture(), before, "killed at step {place}");
        assert_eq!(effect.count(), 0);
        assert_eq!(fs::metadata(scene.journal().join("journal")).unwrap().len(), 0);
        if ended {
            break;
        }
        place += 1;
    }
    println!("{place} steps");
    assert!(place > 80, "only {place} steps");
}
