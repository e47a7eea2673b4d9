// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether libtek is loaded in a process: it then has a table in a directory that libtek(7) names.
//!
//! Any user can make names in /tmp, and has directories of its own: a link or a file system in
//! their place could lead anywhere, or keep tekd waiting. A directory counts only if the process's
//! user or root made it and no other user can write to it.
use crate::process::{self, Status};
use nix::fcntl::{open, openat2, AtFlags, OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::{fstat, fstatat, FileStat, Mode, SFlag};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// The most names that are read in one directory, which its owner may have filled with millions.
const MOST_NAMES: usize = 4096;

/// Whether a process has a table.
pub fn has_table(pid: i32) -> bool {
    let Some((uid, _)) = Status::of(pid).ok().and_then(|status| status.user_and_groups()) else {
        return false;
    };
    let table = format!("{pid}.table");
    is_in(Path::new(&format!("/run/user/{uid}")), "tek", &table, uid)
        || is_in(Path::new("/tmp"), &format!("tek-{uid}"), &table, uid)
        || is_in(Path::new("/var/tmp"), &format!("tek-{uid}"), &table, uid)
        || is_in(Path::new("/run"), "tek", &table, uid)
}

/// Whether a directory in `parent` has the file, or a run directory in it has the file.
fn is_in(parent: &Path, name: &str, table: &str, uid: u32) -> bool {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let Ok(parent) = open(parent, flags, Mode::empty()) else { return false };
    let Some(directory) = open_below(&parent, name, uid) else { return false };
    has_file(&directory, table, uid)
        || runs_in(&directory)
            .filter_map(|run| open_below(&directory, &run, uid))
            .any(|run| has_file(&run, table, uid))
}

fn runs_in(directory: &OwnedFd) -> impl Iterator<Item = String> {
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let names = process::names_in(Path::new(&path)).take(MOST_NAMES);
    names.filter(|name| name.starts_with("run-"))
}

fn open_below(parent: &OwnedFd, name: &str, uid: u32) -> Option<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_XDEV;
    let directory = openat2(parent, name, OpenHow::new().flags(flags).resolve(resolve)).ok()?;
    let about = fstat(&directory).ok()?;
    (is_of(&about, uid) && about.st_mode & 0o022 == 0).then_some(directory)
}

fn has_file(directory: &OwnedFd, name: &str, uid: u32) -> bool {
    fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|about| {
        let kind = SFlag::from_bits_truncate(about.st_mode & SFlag::S_IFMT.bits());
        kind == SFlag::S_IFREG && is_of(&about, uid)
    })
}

fn is_of(about: &FileStat, uid: u32) -> bool {
    about.st_uid == uid || about.st_uid == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{chown, symlink, PermissionsExt};

    const TABLE: &str = "7.table";

    fn own_uid() -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    /// A directory `tek` with a run in it that has the table; both for their owner alone.
    fn make() -> tempfile::TempDir {
        let parent = tempfile::tempdir().unwrap();
        let run = parent.path().join("tek/run-1");
        fs::create_dir_all(&run).unwrap();
        for directory in [run.as_path(), run.parent().unwrap()] {
            fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(run.join(TABLE), "").unwrap();
        parent
    }

    #[test]
    fn a_table_in_a_run_of_its_user_is_found() {
        let parent = make();
        assert!(is_in(parent.path(), "tek", TABLE, own_uid()));
        assert!(!is_in(parent.path(), "tek", "8.table", own_uid()));
        fs::rename(parent.path().join("tek/run-1/7.table"), parent.path().join("tek/7.table"))
            .unwrap();
        assert!(is_in(parent.path(), "tek", TABLE, own_uid()));
    }

    #[test]
    fn links_are_not_followed() {
        let there = make();
        let parent = tempfile::tempdir().unwrap();
        symlink(there.path().join("tek"), parent.path().join("tek")).unwrap();
        assert!(!is_in(parent.path(), "tek", TABLE, own_uid()));
        let tek = there.path().join("tek");
        fs::rename(tek.join("run-1"), there.path().join("elsewhere")).unwrap();
        symlink(there.path().join("elsewhere"), tek.join("run-1")).unwrap();
        assert!(!is_in(there.path(), "tek", TABLE, own_uid()));
        symlink(there.path().join("elsewhere").join(TABLE), tek.join(TABLE)).unwrap();
        assert!(!is_in(there.path(), "tek", TABLE, own_uid()));
    }

    #[test]
    fn what_other_users_can_write_to_does_not_count() {
        let parent = make();
        let tek = parent.path().join("tek");
        fs::set_permissions(&tek, Permissions::from_mode(0o777)).unwrap();
        assert!(!is_in(parent.path(), "tek", TABLE, own_uid()));
    }

    #[test]
    #[ignore = "needs root"]
    fn what_another_user_made_does_not_count() {
        let (user, other) = (65533, 65534);
        let parent = make();
        for path in ["tek/run-1/7.table", "tek/run-1", "tek"] {
            chown(parent.path().join(path), Some(user), None).unwrap();
        }
        assert!(is_in(parent.path(), "tek", TABLE, user));
        assert!(!is_in(parent.path(), "tek", TABLE, other));
    }
}
