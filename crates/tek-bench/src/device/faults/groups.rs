// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of the control groups that the benchmark is in: all that tekd may change, and the
//! groups with the benchmark's own name.

use crate::daemon::group_name;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that are settings. All other files count something.
const SETTINGS: [&str; 10] = [
    "cgroup.subtree_control",
    "cgroup.type",
    "cpu.cfs_quota_us",
    "cpu.idle",
    "cpu.max",
    "cpu.rt_period_us",
    "cpu.rt_runtime_us",
    "cpu.shares",
    "cpu.weight",
    "cpu.weight.nice",
];

/// Content by file; a group of the benchmark's own is there by its path, without content.
pub fn read() -> BTreeMap<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut files = BTreeMap::new();
    for directory in directories(&mounts, &own) {
        for name in SETTINGS {
            let path = directory.join(name);
            if let Ok(content) = fs::read_to_string(&path) {
                files.insert(path, content);
            }
        }
        let groups = fs::read_dir(&directory).into_iter().flatten().flatten();
        let is_ours = |path: &PathBuf| path.file_name().is_some_and(|name| *name == *group_name());
        files.extend(groups.map(|it| it.path()).filter(is_ours).map(|path| (path, String::new())));
    }
    files
}

/// The groups that this process is in and those above, in the hierarchies that control CPUs.
fn directories(mountinfo: &str, cgroup: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let kind: Vec<&str> = right.split(' ').collect();
        let is_of_cpu = |controllers: &str| controllers.split(',').any(|name| name == "cpu");
        let wanted = |entry: &&str| {
            let controllers = entry.split(':').nth(1).unwrap_or("");
            match kind[0] {
                "cgroup2" => entry.starts_with("0::"),
                "cgroup" => kind.get(2).is_some_and(|it| is_of_cpu(it)) && is_of_cpu(controllers),
                _ => false,
            }
        };
        let Some(own) = cgroup.lines().find(wanted) else { continue };
        let fields: Vec<&str> = left.split(' ').collect();
        let (Some(root), Some(mount)) = (fields.get(3), fields.get(4)) else { continue };
        let path = own.splitn(3, ':').nth(2).unwrap_or("/");
        let below = path.strip_prefix(*root).unwrap_or("").trim_start_matches('/');
        let lowest = Path::new(mount).join(below);
        let within = |directory: &&Path| directory.starts_with(mount);
        found.extend(lowest.ancestors().take_while(within).map(Path::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_above_count_in_version_1_and_2() {
        let mounts = "\
            30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            31 29 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            32 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "4:memory:/m\n2:cpu:/a/b\n0::/c\n";
        let paths = directories(mounts, own);
        let paths: Vec<&str> = paths.iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(paths.len(), 5, "{paths:?}");
        assert!(paths.contains(&"/sys/fs/cgroup/cpu/a/b") && paths.contains(&"/sys/fs/cgroup/cpu"));
        assert!(paths.contains(&"/sys/fs/cgroup/unified/c"), "{paths:?}");
    }
}
