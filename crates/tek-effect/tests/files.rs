// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and directories; ordinary ones stand for those of a hierarchy of cgroups.
mod common;

use nix::mount::{mount, umount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tek_effect::{Effect, Undone};

struct Bench {
    directory: tempfile::TempDir,
    effect: Effect,
}

fn bench() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let (effect, _) = Effect::open(&directory.path().join("state")).unwrap();
    Bench { directory, effect }
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, content: &[u8]) -> PathBuf {
        fs::write(self.path("weight"), content).unwrap();
        self.path("weight")
    }

    fn reopen(self) -> (Self, tek_effect::Restored) {
        drop(self.effect);
        let (effect, restored) = Effect::open(&self.directory.path().join("state")).unwrap();
        (Self { directory: self.directory, effect }, restored)
    }
}

#[test]
fn a_file_is_written_and_gets_its_content_back() {
    for content in [&b"100\n"[..], b"", b"no text \xff\0"] {
        let mut bench = bench();
        let file = bench.file(content);
        let change = bench.effect.write_file(&file, b"950").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"950");
        assert_eq!(bench.effect.undo(change).unwrap(), Undone::Undone);
        assert_eq!(fs::read(&file).unwrap(), content);
    }
}

#[test]
fn a_file_is_given_back_by_the_next_owner_of_the_journal() {
    let mut bench = bench();
    let file = bench.file(b"100\n");
    bench.effect.write_file(&file, b"950").unwrap();
    let (_bench, restored) = bench.reopen();
    assert_eq!(restored.undone, 1);
    assert_eq!(fs::read(&file).unwrap(), b"100\n");
}

#[test]
fn what_somebody_else_wrote_meanwhile_stays() {
    let mut bench = bench();
    let file = bench.file(b"100\n");
    bench.effect.write_file(&file, b"950").unwrap();
    fs::write(&file, "400").unwrap();
    let (_bench, restored) = bench.reopen();
    assert_eq!((restored.undone, restored.changed), (0, 1));
    assert_eq!(fs::read(&file).unwrap(), b"400");
}

#[test]
fn a_file_that_is_no_more_is_gone() {
    let mut bench = bench();
    let file = bench.file(b"100\n");
    let change = bench.effect.write_file(&file, b"950").unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(bench.effect.undo(change).unwrap(), Undone::Gone);
    assert!(!file.exists());
}

#[test]
fn a_file_that_is_not_there_is_not_made() {
    let mut bench = bench();
    let error = bench.effect.write_file(&bench.path("none"), b"1").unwrap_err();
    assert_eq!(error.errno(), libc::ENOENT);
    assert!(error.to_string().contains("/none"), "{error}");
    assert!(!bench.path("none").exists());
    assert_eq!(bench.effect.count(), 0);
}

#[test]
fn a_link_is_not_followed_and_a_pipe_not_waited_for() {
    let mut bench = bench();
    let file = bench.file(b"100\n");
    symlink(&file, bench.path("link")).unwrap();
    nix::unistd::mkfifo(&bench.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for name in ["link", "pipe", "state"] {
        assert!(bench.effect.write_file(&bench.path(name), b"1").is_err(), "{name}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"100\n");
}

#[test]
fn a_path_that_is_not_absolute_is_refused() {
    let mut bench = bench();
    let up = bench.path("state/../weight");
    bench.file(b"100\n");
    for path in [up, PathBuf::from("weight")] {
        let error = bench.effect.write_file(&path, b"1").unwrap_err();
        assert!(error.to_string().contains("give the whole path"), "{error}");
        assert!(bench.effect.make_directory(&path).is_err());
    }
}

#[test]
fn the_type_of_a_group_of_another_program_is_not_changed() {
    let mut bench = bench();
    fs::write(bench.path("cgroup.type"), "domain\n").unwrap();
    let error = bench.effect.write_file(&bench.path("cgroup.type"), b"threaded").unwrap_err();
    assert!(error.to_string().contains("could not be given back"), "{error}");
}

#[test]
fn a_directory_is_made_and_removed() {
    let mut bench = bench();
    let outer = bench.effect.make_directory(&bench.path("a")).unwrap();
    let inner = bench.effect.make_directory(&bench.path("a/b")).unwrap();
    assert!(bench.path("a/b").is_dir());
    assert_eq!(bench.effect.undo(inner).unwrap(), Undone::Undone);
    assert_eq!(bench.effect.undo(outer).unwrap(), Undone::Undone);
    assert!(!bench.path("a").exists());
}

#[test]
#[ignore = "needs root"]
fn a_directory_is_removed_after_the_one_in_it_that_was_busy_at_first() {
    let mut bench = bench();
    bench.effect.make_directory(&bench.path("a")).unwrap();
    bench.effect.make_directory(&bench.path("a/b")).unwrap();
    let (none, inner) = (None::<&str>, bench.path("a/b"));
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some(&inner), &inner, none, MsFlags::MS_BIND, none).unwrap();
    let restored = bench.effect.undo_all();
    assert_eq!((restored.undone, restored.changed, restored.failed.len()), (0, 0, 2));
    umount(&inner).unwrap();
    let restored = bench.effect.undo_all();
    assert_eq!((restored.undone, restored.changed, restored.failed.len()), (2, 0, 0));
    assert!(!bench.path("a").exists());
}

#[test]
fn a_directory_that_was_there_is_somebody_elses() {
    let mut bench = bench();
    fs::create_dir(bench.path("a")).unwrap();
    let error = bench.effect.make_directory(&bench.path("a")).unwrap_err();
    assert_eq!(error.errno(), libc::EEXIST);
    let (bench, _) = bench.reopen();
    assert!(bench.path("a").is_dir());
}

#[test]
fn a_directory_that_another_program_uses_or_made_anew_stays() {
    let mut bench = bench();
    bench.effect.make_directory(&bench.path("used")).unwrap();
    bench.effect.make_directory(&bench.path("anew")).unwrap();
    bench.effect.make_directory(&bench.path("gone")).unwrap();
    fs::write(bench.path("used/file"), "").unwrap();
    fs::rename(bench.path("anew"), bench.path("kept")).unwrap();
    fs::create_dir(bench.path("anew")).unwrap();
    fs::remove_dir(bench.path("gone")).unwrap();
    let restored = bench.effect.undo_all();
    assert_eq!((restored.undone, restored.gone, restored.changed), (0, 1, 2));
    assert!(bench.path("used/file").exists() && bench.path("anew").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn however_files_are_written_and_undone_in_the_end_they_are_as_before(
        steps in prop::collection::vec(
            (0..4, 0..2, 0..1000u32, any::<prop::sample::Index>()),
            1..16,
        ),
    ) {
        let mut bench = bench();
        let files = [bench.path("one"), bench.path("two")];
        let mut changes = Vec::new();
        for (number, file) in files.iter().enumerate() {
            fs::write(file, format!("{number:4}\n")).unwrap();
        }
        for (kind, file, value, which) in steps {
            match kind {
                0 if !changes.is_empty() => {
                    let change = changes.remove(which.index(changes.len()));
                    prop_assert_eq!(bench.effect.undo(change).unwrap(), Undone::Undone);
                }
                1 if value % 5 == 0 => {
                    bench = bench.reopen().0;
                    changes.clear();
                }
                _ => {
                    let text = format!("{value:4}\n");
                    let change = bench.effect.write_file(&files[file as usize], text.as_bytes());
                    changes.push(change.unwrap());
                }
            }
        }
        let (_bench, restored) = bench.reopen();
        prop_assert_eq!((restored.changed, restored.gone, restored.failed.len()), (0, 0, 0));
        for (number, file) in files.iter().enumerate() {
            prop_assert_eq!(fs::read_to_string(file).unwrap(), format!("{number:4}\n"));
        }
    }
}
