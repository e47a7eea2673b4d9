// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal's file and directory.
mod common;

use common::{seen, Sleeper};
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::PathBuf;
use tek_effect::{Effect, Error, Identity, Scheduling};

/// A policy that any user may give and take away.
const BATCH: Scheduling = Scheduling { policy: 3, nice: 0, priority: 0, reset_on_fork: false };
const OTHER: Scheduling = Scheduling { policy: 0, ..BATCH };

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn journal(&self) -> PathBuf {
        self.state().join("journal")
    }

    fn open(&self) -> (Effect, tek_effect::Restored) {
        Effect::open(&self.state()).unwrap()
    }

    fn length(&self) -> u64 {
        fs::metadata(self.journal()).unwrap().len()
    }

    /// Leaves a change in force without an owner.
    fn leave_change(&self, sleeper: &Sleeper) {
        let (mut effect, _) = self.open();
        effect.set_scheduling(Identity::of(sleeper.tid).unwrap(), BATCH).unwrap();
        assert_eq!(seen(sleeper.tid), (3, 0, 0));
    }
}

#[test]
fn only_its_owner_may_read_it() {
    let place = Place::new();
    let (_effect, _) = place.open();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(place.state()), mode(place.journal())), (0o700, 0o600));
}

#[test]
fn it_has_one_owner() {
    let place = Place::new();
    let (effect, _) = place.open();
    let second = Effect::open(&place.state()).err().unwrap();
    assert!(matches!(second, Error::Busy { .. }), "{second}");
    assert!(second.to_string().contains("stop that one first"), "{second}");
    drop(effect);
    place.open();
}

#[test]
fn it_is_empty_while_nothing_is_in_force() {
    let (place, sleeper) = (Place::new(), Sleeper::new());
    let (mut effect, _) = place.open();
    assert_eq!(place.length(), 0);
    let change = effect.set_scheduling(Identity::of(sleeper.tid).unwrap(), BATCH).unwrap();
    assert!(place.length() > 0);
    effect.undo(change).unwrap();
    assert_eq!(place.length(), 0);
}

#[test]
fn it_stays_short_however_often_things_change() {
    let (place, sleeper) = (Place::new(), Sleeper::new());
    let thread_id = Identity::of(sleeper.tid).unwrap();
    let (mut effect, _) = place.open();
    let change = effect.set_scheduling(thread_id, BATCH).unwrap();
    let mut longest = 0;
    for wanted in [OTHER, BATCH].into_iter().cycle().take(4000) {
        effect.set_again(change, wanted).unwrap();
        longest = longest.max(place.length());
    }
    assert!((100_000..300_000).contains(&longest), "{longest} bytes");
    drop(effect);
    let (_effect, restored) = place.open();
    assert_eq!((restored.undone, restored.failed.len()), (1, 0));
    assert_eq!(seen(sleeper.tid), (0, 0, 0));
}

#[test]
fn a_clean_end_leaves_neither_changes_nor_files() {
    let (place, sleeper) = (Place::new(), Sleeper::new());
    let (mut effect, _) = place.open();
    effect.set_scheduling(Identity::of(sleeper.tid).unwrap(), BATCH).unwrap();
    assert_eq!(effect.close().undone, 1);
    assert!(!place.state().exists());
    assert_eq!(seen(sleeper.tid), (0, 0, 0));
}

#[test]
fn a_last_line_that_was_cut_off_is_ignored_without_a_word() {
    let (place, sleeper) = (Place::new(), Sleeper::new());
    place.leave_change(&sleeper);
    let mut file = OpenOptions::new().append(true).open(place.journal()).unwrap();
    file.write_all(b"[\"0123456789abcdef\",{\"note\":{\"chan").unwrap();
    let (_effect, restored) = place.open();
    assert_eq!((restored.undone, restored.failed.len()), (1, 0));
    assert_eq!(seen(sleeper.tid), (0, 0, 0));
}

#[test]
fn a_damaged_line_is_reported_and_stays_and_the_other_lines_count() {
    let (place, sleeper) = (Place::new(), Sleeper::new());
    place.leave_change(&sleeper);
    let mut file = OpenOptions::new().append(true).open(place.journal()).unwrap();
    file.write_all(b"nonsense\n").unwrap();
    let (_effect, restored) = place.open();
    assert_eq!(restored.undone, 1);
    assert!(restored.failed[0].contains("the first are 3"), "{restored:?}");
    let retained = fs::read_to_string(place.state().join("journal.damaged")).unwrap();
    assert!(retained.ends_with("nonsense\n"));
    assert_eq!(place.length(), 0);
}

#[test]
fn what_was_changed_before_the_machine_was_booted_is_gone() {
    let (place, sleeper) = (Place::new(), Sleeper::new());
    place.leave_change(&sleeper);
    // Its first line, as an earlier boot would have written it.
    let text = fs::read_to_string(place.journal()).unwrap();
    let rest = text.split_once('\n').unwrap().1;
    let first = r#"{"journal":{"version":1,"boot":"an earlier one"}}"#;
    let first = format!("[\"{:016x}\",{first}]", sum(first.as_bytes()));
    fs::write(place.journal(), format!("{first}\n{rest}")).unwrap();
    let (_effect, restored) = place.open();
    assert_eq!((restored.gone, restored.failed.len()), (1, 0), "{restored:?}");
    assert_eq!(seen(sleeper.tid), (3, 0, 0));
}

/// 64-bit FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn one_that_another_user_could_have_written_is_not_believed() {
    let place = Place::new();
    place.open();
    let untrusted = || {
        let error = Effect::open(&place.state()).err().unwrap();
        assert!(matches!(error, Error::Untrusted { .. }), "{error}");
    };
    fs::set_permissions(place.journal(), Permissions::from_mode(0o622)).unwrap();
    untrusted();
    fs::set_permissions(place.journal(), Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(place.journal(), place.state().join("second")).unwrap();
    untrusted();
    fs::remove_file(place.state().join("second")).unwrap();
    fs::set_permissions(place.state(), Permissions::from_mode(0o777)).unwrap();
    untrusted();
}

#[test]
fn a_link_is_not_followed_to_it() {
    let place = Place::new();
    fs::create_dir(place.0.path().join("elsewhere")).unwrap();
    symlink(place.0.path().join("elsewhere"), place.state()).unwrap();
    assert!(Effect::open(&place.state()).is_err());
    assert!(fs::read_dir(place.0.path().join("elsewhere")).unwrap().next().is_none());
}

#[test]
fn one_that_somebody_removed_is_written_anew_with_all_that_is_in_force() {
    let place = Place::new();
    let sleepers = [Sleeper::new(), Sleeper::new()];
    let (mut effect, _) = place.open();
    for sleeper in &sleepers {
        fs::remove_file(place.journal()).unwrap();
        effect.set_scheduling(Identity::of(sleeper.tid).unwrap(), BATCH).unwrap();
    }
    drop(effect);
    assert_eq!(place.open().1.undone, 2);
    assert!(sleepers.iter().all(|sleeper| seen(sleeper.tid) == (0, 0, 0)));
}

#[test]
fn without_its_directory_nothing_is_changed_and_what_was_is_given_back() {
    let place = Place::new();
    let (first, second) = (Sleeper::new(), Sleeper::new());
    let (mut effect, _) = place.open();
    effect.set_scheduling(Identity::of(first.tid).unwrap(), BATCH).unwrap();
    fs::remove_dir_all(place.state()).unwrap();
    let refused = effect.set_scheduling(Identity::of(second.tid).unwrap(), BATCH).unwrap_err();
    assert!(refused.to_string().contains("was removed"), "{refused}");
    assert_eq!((seen(first.tid), seen(second.tid)), ((3, 0, 0), (0, 0, 0)));
    assert_eq!(effect.close().undone, 1);
    assert_eq!(seen(first.tid), (0, 0, 0));
    assert!(!place.state().exists());
}
