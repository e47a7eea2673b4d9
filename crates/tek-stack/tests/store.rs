// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store, used by several processes at once.
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tek_stack::{Key, Kind, Label, Place, Program, Store, StoreError};

const WRITER: &str = "TEK_TEST_WRITER";
const TIMES: u64 = 1000;
const KINDS: u64 = 100;

fn fridge() -> Program {
    Program::new(&[0xab; 20], b"/bin/fridge")
}

fn add(store: &Store, offset: u64) -> Result<usize, StoreError> {
    store.update(&fridge(), |profile| {
        profile.program = "fridge".into();
        let function = Place { module: "@fridge".into(), offset };
        let key = Key { function, caller: None, label: Label::None };
        profile.add(key, &Kind { bound: offset, threads: 1, ..Kind::default() });
    })
}

/// Not a test: a process of the test below.
#[test]
fn writer() {
    let Ok(what) = std::env::var(WRITER) else { return };
    let (directory, number) = what.split_once('=').unwrap();
    let store = Store::create(directory).unwrap();
    let number: u64 = number.parse().unwrap();
    for time in 0..TIMES {
        add(&store, time % KINDS * 2 + number).unwrap();
    }
}

#[test]
fn two_processes_that_write_the_same_profile_a_thousand_times_each_lose_no_kind() {
    let directory = tempfile::tempdir().unwrap();
    let writers: Vec<_> = (0..2)
        .map(|number| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "writer", "--quiet"])
                .stdout(Stdio::null()) // its own report of tests must not be counted
                .env(WRITER, format!("{}={number}", directory.path().display()))
                .spawn()
                .unwrap()
        })
        .collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let parsed = Store::at(directory.path()).load(&fridge()).unwrap().unwrap();
    assert!(parsed.problems.is_empty());
    let offsets: Vec<_> = parsed.profile.kinds.keys().map(|key| key.function.offset).collect();
    assert_eq!(offsets, (0..2 * KINDS).collect::<Vec<_>>());
    // Every addition to a kind is there, too.
    assert!(parsed.profile.kinds.values().all(|kind| kind.threads == TIMES / KINDS));
}

#[test]
fn a_store_that_is_not_there_is_empty_and_is_made() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("a/b");
    let mut problems = Vec::new();
    assert!(Store::at(&path).load(&fridge()).unwrap().is_none());
    assert!(Store::at(&path).list(&mut problems).is_empty());
    assert!(matches!(Store::create(&path), Err(StoreError::Io { .. })));
    let store = Store::create_all(&path).unwrap();
    add(&store, 7).unwrap();
    let stored = store.list(&mut problems);
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].program, fridge());
    assert_eq!(stored[0].path, path.join(format!("{}.stack", "ab".repeat(20))));
    assert!(store.forget(&fridge()).unwrap());
    assert!(!store.forget(&fridge()).unwrap());
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn what_a_killed_writer_left_and_what_is_no_profile_is_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    fs::write(directory.path().join(".new"), "tek-stack-pro").unwrap();
    fs::write(store.path(&fridge()), "garbage").unwrap();
    assert!(matches!(store.load(&fridge()), Err(StoreError::Format { .. })));
    add(&store, 7).unwrap();
    assert_eq!(store.load(&fridge()).unwrap().unwrap().profile.kinds.len(), 1);
    assert!(!directory.path().join(".new").exists());
}

#[test]
fn a_profile_of_a_later_version_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    fs::write(store.path(&fridge()), "tek-stack-profile 2\n").unwrap();
    let error = add(&store, 7).unwrap_err().to_string();
    assert!(error.ends_with("it is a profile of version 2, this tek reads version 1"), "{error}");
    assert_eq!(fs::read_to_string(store.path(&fridge())).unwrap(), "tek-stack-profile 2\n");
}

#[test]
fn what_other_users_can_write_is_not_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    add(&store, 7).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(directory.path(), 0o777);
    assert!(matches!(store.load(&fridge()), Err(StoreError::NotTrusted { .. })));
    assert!(matches!(Store::create(directory.path()), Err(StoreError::NotTrusted { .. })));
    mode(directory.path(), 0o755);
    mode(&store.path(&fridge()), 0o666);
    assert!(matches!(store.load(&fridge()), Err(StoreError::NotTrusted { .. })));
    let mut problems = Vec::new();
    assert!(store.list(&mut problems).is_empty());
    assert_eq!(problems.len(), 1);
}

#[test]
fn names_that_could_leave_the_directory_are_no_programs() {
    for bad in ["", "@", "@a/b", "@..\0", "../x", "ag"] {
        assert_eq!(Program::parse(bad), None, "{bad:?}");
    }
    let named = Program::new(&[], b"/bin/fridge");
    assert_eq!(Program::parse("@fridge"), Some(named));
}
