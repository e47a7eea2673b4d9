// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control group of this process and of its children.
use std::path::{Path, PathBuf};
use tek_advice::as_root;

/// A mounted cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The part of the hierarchy that the mount shows.
    root: PathBuf,
    /// Version 1 or 2.
    pub version: u8,
    /// Controllers, from the mount's options (v1 only).
    pub controllers: Vec<String>,
}

impl Hierarchy {
    /// Whether a group, or one above it besides the topmost, has a weight of its own.
    pub fn weighs(&self, group: &Path) -> bool {
        let below = group.ancestors().take_while(|above| *above != self.mount);
        let has = |above: &Path, file: &str| above.join(file).exists();
        below.into_iter().any(|above| has(above, "cpu.shares") || has(above, "cpu.weight"))
    }
}

/// The hierarchies that are mounted, from /proc/self/mountinfo (proc(5)).
pub fn hierarchies(mountinfo: &str) -> Vec<Hierarchy> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(3);
            let (root, mount) = (fields.next()?, fields.next()?);
            let mut fields = after.split(' ');
            let version = match fields.next()? {
                "cgroup" => 1,
                "cgroup2" => 2,
                _ => return None,
            };
            let controllers = fields.nth(1)?.split(',').map(str::to_owned).collect();
            Some(Hierarchy { mount: mount.into(), root: root.into(), version, controllers })
        })
        .collect()
}

/// This process's directory in the hierarchy that has the cpu controller.
pub fn of_cpu() -> Option<(Hierarchy, PathBuf)> {
    of_cpu_in(&super::line("/proc/self/cgroup")?)
}

/// The same for a thread, given the text of its /proc/TID/cgroup.
pub fn of_cpu_in(membership: &str) -> Option<(Hierarchy, PathBuf)> {
    of_in("cpu", membership)
}

/// The same for another controller.
pub fn of_in(controller: &str, membership: &str) -> Option<(Hierarchy, PathBuf)> {
    directory(&super::line("/proc/self/mountinfo")?, membership, controller)
}

fn directory(mountinfo: &str, membership: &str, wanted: &str) -> Option<(Hierarchy, PathBuf)> {
    let all = hierarchies(mountinfo);
    let v1 = all.iter().find(|h| h.version == 1 && h.controllers.iter().any(|c| c == wanted));
    let hierarchy = v1.or_else(|| all.iter().find(|h| h.version == 2))?;
    // A line is ID:CONTROLLERS:PATH; the one of version 2 names no controllers.
    let path = membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let mine = match hierarchy.version {
            1 => controllers.split(',').any(|controller| controller == wanted),
            _ => controllers.is_empty(),
        };
        mine.then_some(path)
    })?;
    // In a container the mount shows only a part of the hierarchy.
    let shown = Path::new(path).strip_prefix(&hierarchy.root).unwrap_or(Path::new(""));
    let directory = hierarchy.mount.join(shown.strip_prefix("/").unwrap_or(shown));
    Some((hierarchy.clone(), directory))
}

/// Real-time run-time of this process's cpu group in microseconds, and its file; `None` where
/// groups have no such limit (version 2, or no CONFIG_RT_GROUP_SCHED).
pub fn rt_runtime() -> Option<(i64, PathBuf)> {
    let (_, directory) = of_cpu()?;
    let file = directory.join("cpu.rt_runtime_us");
    Some((super::number(&file)?, file))
}

/// The command that mounts control groups of version 2 at the usual place.
pub const MOUNT: &str = "mount -t cgroup2 none /sys/fs/cgroup";

/// How to mount the hierarchy that has the cpu controller.
pub fn mount_cpu() -> String {
    mount_cpu_of(&super::line("/proc/cgroups").unwrap_or_default())
}

/// The same, given the text of /proc/cgroups. Its fields are name, number of its hierarchy of
/// version 1 or 0, number of groups, and whether it is enabled.
fn mount_cpu_of(controllers: &str) -> String {
    let fields = controllers.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let fields: Vec<_> = fields.filter(|fields| fields.len() == 4).collect();
    let Some(cpu) = fields.iter().find(|fields| fields[0] == "cpu" && fields[3] == "1") else {
        return "use a kernel with CONFIG_CGROUP_SCHED, without cgroup_disable=cpu on its command \
                line"
            .to_owned();
    };
    if cpu[1] == "0" {
        return as_root(MOUNT);
    }
    // A hierarchy of version 1 has it, so that of version 2 cannot.
    let same = fields.iter().filter(|fields| fields[1] == cpu[1]);
    let names: Vec<_> = same.map(|fields| fields[0]).collect();
    as_root(&format!(
        "mkdir -p /run/cgroup/cpu && mount -t cgroup -o {} none /run/cgroup/cpu",
        names.join(",")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw
26 25 0:23 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
27 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
28 25 0:25 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";

    #[test]
    fn a_group_is_weighed_if_it_or_one_above_it_is_but_not_by_the_topmost() {
        let mount = tempfile::tempdir().unwrap();
        let at = |path: &str| mount.path().join(path);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::create_dir_all(at("c")).unwrap();
        std::fs::write(at("cpu.weight"), "").unwrap();
        std::fs::write(at("a/cpu.weight"), "").unwrap();
        let within = Hierarchy {
            mount: mount.path().to_owned(),
            root: "/".into(),
            version: 2,
            controllers: Vec::new(),
        };
        assert!(within.weighs(&at("a")) && within.weighs(&at("a/b")));
        assert!(!within.weighs(&at("c")) && !within.weighs(mount.path()));
    }

    #[test]
    fn version_1_names_the_group_of_its_cpu_controller() {
        let (hierarchy, directory) =
            directory(V1, "4:cpuset:/other\n3:cpu,cpuacct:/user/shell\n0::/new", "cpu").unwrap();
        assert_eq!(hierarchy.version, 1);
        assert_eq!(directory, Path::new("/sys/fs/cgroup/cpu,cpuacct/user/shell"));
    }

    #[test]
    fn version_2_has_one_group_for_everything() {
        let mountinfo = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
        let (hierarchy, directory) = directory(mountinfo, "0::/user.slice/a:b", "cpu").unwrap();
        assert_eq!(hierarchy.version, 2);
        assert_eq!(directory, Path::new("/sys/fs/cgroup/user.slice/a:b"));
    }

    #[test]
    fn a_container_sees_its_part_of_the_hierarchy_as_the_whole() {
        let mountinfo = "30 25 0:26 /docker/7 /sys/fs/cgroup rw - cgroup2 cgroup rw";
        let (_, directory) = directory(mountinfo, "0::/docker/7/app", "cpu").unwrap();
        assert_eq!(directory, Path::new("/sys/fs/cgroup/app"));
    }

    #[test]
    fn the_cpu_controller_is_mounted_where_it_is() {
        let of = |hierarchy: u32, enabled: u32| {
            mount_cpu_of(&format!(
                "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t3\t1\t1\n\
                 cpu\t{hierarchy}\t1\t{enabled}\ncpuacct\t4\t1\t1\n"
            ))
        };
        assert!(of(0, 1).ends_with(MOUNT));
        assert!(of(4, 1).contains("mount -t cgroup -o cpu,cpuacct none /run/cgroup/cpu"));
        assert!(of(0, 0).contains("cgroup_disable=cpu"));
    }

    #[test]
    fn a_system_without_cgroups_has_none() {
        assert_eq!(directory("", "0::/", "cpu"), None);
    }
}
