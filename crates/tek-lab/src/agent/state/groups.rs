// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control groups, of both versions.
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TOP: &str = "/sys/fs/cgroup";

/// How long a group may be busy with processes that are gone.
const EMPTY_WITHIN: Duration = Duration::from_secs(1);

/// The groups that existed at boot.
pub(super) struct Groups(BTreeSet<PathBuf>);

impl Groups {
    pub(super) fn take() -> Self {
        Self(all(Path::new(TOP)))
    }

    /// Removes new groups; reports those that stay. No process may be left.
    pub(super) fn restore(&self) -> Vec<String> {
        let now = all(Path::new(TOP));
        let missing = self.0.iter().filter(|path| !now.contains(*path));
        let mut left: Vec<String> =
            missing.map(|path| format!("cgroup {} is gone", path.display())).collect();
        // The deepest first: a group sorts before its children.
        for path in now.iter().rev().filter(|path| !self.0.contains(*path)) {
            if let Err(error) = remove(path) {
                left.push(format!("cgroup {} cannot be removed: {error}", path.display()));
            }
        }
        left
    }
}

fn all(top: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![top.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
                found.insert(entry.path());
            }
        }
    }
    found
}

fn remove(path: &Path) -> std::io::Result<()> {
    let start = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                if start.elapsed() > EMPTY_WITHIN {
                    return Err(error);
                }
            }
            other => return other,
        }
        // Only process 1 and kernel threads can still be in it.
        for task in fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(root_of(path).join("cgroup.procs"), task);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The root of a group's hierarchy: of version 1 there are several.
fn root_of(path: &Path) -> PathBuf {
    let top = Path::new(TOP);
    match top.join("cgroup.procs").exists() {
        true => top.to_owned(),
        false => {
            let below = path.strip_prefix(top).unwrap_or(path);
            below.components().next().map_or(top.to_owned(), |first| top.join(first))
        }
    }
}

/// Thaws frozen groups so that their processes can die: those of version 2 die frozen.
pub(in super::super) fn thaw() {
    for group in all(Path::new("/sys/fs/cgroup/freezer")) {
        let _ = fs::write(group.join("freezer.state"), "THAWED");
    }
}
