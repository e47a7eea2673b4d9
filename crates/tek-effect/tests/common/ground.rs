// SPDX-License-Identifier: MIT OR Apache-2.0
//! A group of a test's own in which the test makes its groups. The next test removes the groups
//! that a killed test left.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

const PREFIX: &str = "tek-ground-";

/// A directory below the topmost group of a hierarchy.
pub struct Ground(pub PathBuf);

impl Ground {
    pub fn below(mount: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        for left in fs::read_dir(mount).unwrap().flatten().filter(|entry| is_left(&entry.path())) {
            clear(&left.path(), mount);
        }
        let (own, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = mount.join(format!("{PREFIX}{own}-{count}"));
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    /// Groups that are in it, by their paths within.
    pub fn groups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        list(&self.0, &mut found);
        found.iter().map(|group| group.strip_prefix(&self.0).unwrap().to_owned()).collect()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        clear(&self.0, self.0.parent().unwrap());
    }
}

/// Whether it is of a test that has ended.
fn is_left(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
}

/// The inner ones first.
fn list(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&entry.path(), found);
            found.push(entry.path());
        }
    }
}

/// Removes it with all groups in it; their threads go to `to`.
fn clear(directory: &Path, to: &Path) {
    let mut groups = Vec::new();
    list(directory, &mut groups);
    groups.push(directory.to_owned());
    for group in groups {
        for _ in 0..200 {
            if fs::remove_dir(&group).is_ok() || !group.exists() {
                break;
            }
            for file in ["tasks", "cgroup.procs", "cgroup.threads"] {
                let ids = fs::read_to_string(group.join(file)).unwrap_or_default();
                let target = if file == "tasks" { "tasks" } else { "cgroup.procs" };
                for id in ids.lines() {
                    let _ = fs::write(to.join(target), id);
                }
            }
            sleep(Duration::from_millis(5));
        }
    }
}
