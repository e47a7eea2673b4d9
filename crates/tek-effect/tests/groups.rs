// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads in groups that the tests make under the hierarchies of this machine, and remove.
mod common;

use common::{cpu_groups, name, unified_groups, wait_until, Process, Sleeper, Swept};
use std::fs;
use std::path::{Path, PathBuf};
use tek_effect::{Effect, Error, Hierarchy, Identity, Undone, Version};

struct Bench {
    // Dropped in this order: the group is removed when no thread is in it.
    effect: Effect,
    hierarchy: Hierarchy,
    group: PathBuf,
    directory: tempfile::TempDir,
    _swept: Swept,
}

impl Bench {
    fn new(hierarchy: Hierarchy, top: PathBuf) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (effect, _) = Effect::open(&directory.path().join("state")).unwrap();
        let group = top.join(name());
        Self { effect, hierarchy, group: group.clone(), directory, _swept: Swept(group) }
    }

    fn v1() -> Option<Self> {
        let top = cpu_groups()?;
        let hierarchy = Hierarchy::with("cpu").unwrap().unwrap();
        assert_eq!((hierarchy.version(), hierarchy.mount_point()), (Version::V1, top.as_path()));
        Some(Self::new(hierarchy, top))
    }

    fn v2() -> Option<Self> {
        let top = unified_groups()?;
        let hierarchy = Hierarchy::unified().unwrap().unwrap();
        assert_eq!((hierarchy.version(), hierarchy.mount_point()), (Version::V2, top.as_path()));
        Some(Self::new(hierarchy, top))
    }

    fn is_at(&self, tid: i32) -> PathBuf {
        self.hierarchy.directory_of(tid).unwrap()
    }

    fn move_to(&mut self, tid: i32, to: &Path) -> Result<tek_effect::Change, Error> {
        self.effect.move_to(Identity::of(tid).unwrap(), &self.hierarchy, to)
    }

    fn reopen(&mut self) -> tek_effect::Restored {
        let other = tempfile::tempdir().unwrap();
        let (spare, _) = Effect::open(other.path()).unwrap();
        drop(std::mem::replace(&mut self.effect, spare));
        let (effect, restored) = Effect::open(&self.directory.path().join("state")).unwrap();
        self.effect = effect;
        restored
    }
}

#[test]
fn a_thread_is_moved_to_a_group_and_back_without_the_other_threads_of_its_process() {
    let Some(mut bench) = Bench::v1() else { return };
    let (moved, stays) = (Sleeper::new(), Sleeper::new());
    let base_directory = bench.is_at(moved.tid);
    let group = bench.group.clone();
    let made = bench.effect.make_directory(&group).unwrap();
    let change = bench.move_to(moved.tid, &group).unwrap();
    assert_eq!(
        (bench.is_at(moved.tid), bench.is_at(stays.tid)),
        (group.clone(), base_directory.clone())
    );
    assert_eq!(bench.effect.undo(change).unwrap(), Undone::Undone);
    assert_eq!(bench.is_at(moved.tid), base_directory);
    assert_eq!(bench.effect.undo(made).unwrap(), Undone::Undone);
    assert!(!group.exists());
}

#[test]
fn groups_weights_and_members_are_as_before_once_the_journal_is_opened() {
    let Some(mut bench) = Bench::v1() else { return };
    let (thread, process) = (Sleeper::new(), Process::new());
    let base_directory = bench.is_at(thread.tid);
    let group = bench.group.clone();
    bench.effect.make_directory(&group).unwrap();
    bench.effect.write_file(&group.join("cpu.shares"), b"19456").unwrap();
    bench.effect.make_directory(&group.join("in")).unwrap();
    bench.move_to(thread.tid, &group).unwrap();
    bench.move_to(process.pid(), &group).unwrap();
    bench.move_to(thread.tid, &group.join("in")).unwrap();
    assert_eq!(fs::read_to_string(group.join("cpu.shares")).unwrap(), "19456\n");
    let restored = bench.reopen();
    assert_eq!((restored.undone, restored.failed.len()), (6, 0), "{restored:?}");
    assert_eq!(
        (bench.is_at(thread.tid), bench.is_at(process.pid())),
        (base_directory.clone(), base_directory)
    );
    assert!(!group.exists());
}

#[test]
fn a_weight_that_the_kernel_rounds_is_still_ours() {
    let Some(mut bench) = Bench::v1() else { return };
    let group = bench.group.clone();
    bench.effect.make_directory(&group).unwrap();
    let shares = group.join("cpu.shares");
    let change = bench.effect.write_file(&shares, b"1").unwrap(); // 2 is the least
    assert_eq!(fs::read_to_string(&shares).unwrap(), "2\n");
    assert_eq!(bench.effect.undo(change).unwrap(), Undone::Undone);
    assert_eq!(fs::read_to_string(&shares).unwrap(), "1024\n");
    assert_eq!(bench.effect.close().undone, 1);
}

#[test]
fn a_thread_that_was_born_in_a_group_leaves_it_before_it_is_removed() {
    let Some(mut bench) = Bench::v1() else { return };
    let base_directory = bench.is_at(std::process::id() as i32);
    let group = bench.group.clone();
    bench.effect.make_directory(&group).unwrap();
    let born = Process::new();
    // As if a thread in the group had made it.
    fs::write(group.join("tasks"), born.pid().to_string()).unwrap();
    let restored = bench.effect.undo_all();
    assert_eq!((restored.undone, restored.failed.len()), (1, 0), "{restored:?}");
    assert_eq!(bench.is_at(born.pid()), base_directory);
    assert!(!group.exists());
}

#[test]
fn a_group_in_which_another_program_made_groups_stays() {
    let Some(mut bench) = Bench::v1() else { return };
    let group = bench.group.clone();
    bench.effect.make_directory(&group).unwrap();
    fs::create_dir(group.join("theirs")).unwrap();
    let restored = bench.effect.undo_all();
    assert_eq!((restored.changed, restored.failed.len()), (1, 0), "{restored:?}");
    assert!(group.join("theirs").exists());
}

#[test]
fn a_thread_moved_by_another_program_meanwhile_stays_there() {
    let Some(mut bench) = Bench::v1() else { return };
    let thread = Sleeper::new();
    let base_directory = bench.is_at(thread.tid);
    let group = bench.group.clone();
    bench.effect.make_directory(&group).unwrap();
    bench.effect.make_directory(&group.join("a")).unwrap();
    let change = bench.move_to(thread.tid, &group.join("a")).unwrap();
    fs::write(group.join("tasks"), thread.tid.to_string()).unwrap();
    assert_eq!(bench.effect.undo(change).unwrap(), Undone::Changed);
    assert_eq!(bench.is_at(thread.tid), group);
    assert_eq!(bench.effect.undo_all().failed, [""; 0]);
    assert_eq!(bench.is_at(thread.tid), base_directory);
}

#[test]
fn a_thread_without_its_own_group_goes_to_the_one_above() {
    let Some(mut bench) = Bench::v1() else { return };
    let thread = Sleeper::new();
    let base_directory = bench.is_at(thread.tid);
    let group = bench.group.clone();
    fs::create_dir(&group).unwrap();
    fs::write(group.join("tasks"), thread.tid.to_string()).unwrap();
    let change = bench.move_to(thread.tid, &base_directory).unwrap();
    fs::remove_dir(&group).unwrap();
    assert_eq!(bench.effect.undo(change).unwrap(), Undone::Changed);
    assert_eq!(bench.is_at(thread.tid), base_directory);
}

#[test]
fn a_thread_that_ended_is_gone() {
    let Some(mut bench) = Bench::v1() else { return };
    let mut thread = Sleeper::new();
    let group = bench.group.clone();
    bench.effect.make_directory(&group).unwrap();
    let change = bench.move_to(thread.tid, &group).unwrap();
    thread.end();
    assert_eq!(bench.effect.undo(change).unwrap(), Undone::Gone);
    assert_eq!(bench.effect.undo_all().undone, 1);
}

#[test]
fn a_directory_of_no_hierarchy_is_no_group() {
    let Some(mut bench) = Bench::v1() else { return };
    let thread = Sleeper::new();
    let error = bench.move_to(thread.tid, Path::new("/tmp")).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    assert!(error.to_string().contains("give a directory of that hierarchy"), "{error}");
}

#[test]
fn threads_of_one_process_are_in_several_groups_of_a_threaded_subtree() {
    let Some(mut bench) = Bench::v2() else { return };
    let process = Process::new();
    let (base_directory, group) = (bench.is_at(process.pid()), bench.group.clone());
    let fast = group.join("fast");
    bench.effect.make_directory(&group).unwrap();
    bench.effect.make_directory(&fast).unwrap();
    bench.effect.write_file(&fast.join("cgroup.type"), b"threaded").unwrap();
    bench.move_to(process.pid(), &group).unwrap();
    assert_eq!(bench.is_at(process.pid()), group);
    bench.move_to(process.pid(), &fast).unwrap();
    assert_eq!(bench.is_at(process.pid()), fast);
    let restored = bench.reopen();
    assert_eq!((restored.undone, restored.failed.len()), (5, 0), "{restored:?}");
    assert_eq!(bench.is_at(process.pid()), base_directory);
    assert!(!group.exists());
}

#[test]
fn in_a_threaded_group_of_the_same_domain_one_thread_is_moved_alone() {
    let Some(mut bench) = Bench::v2() else { return };
    let (moved, stays) = (Sleeper::new(), Sleeper::new());
    let base_directory = bench.is_at(moved.tid);
    if base_directory != bench.hierarchy.mount_point() {
        println!("skipped: needs to be in the topmost group");
        return;
    }
    let group = bench.group.clone();
    bench.effect.make_directory(&group).unwrap();
    bench.effect.write_file(&group.join("cgroup.type"), b"threaded").unwrap();
    bench.move_to(moved.tid, &group).unwrap();
    assert_eq!(
        (bench.is_at(moved.tid), bench.is_at(stays.tid)),
        (group.clone(), base_directory.clone())
    );
    let restored = bench.effect.undo_all();
    assert_eq!((restored.undone, restored.failed.len()), (3, 0), "{restored:?}");
    assert_eq!(bench.is_at(moved.tid), base_directory);
    wait_until(|| !group.exists());
}
