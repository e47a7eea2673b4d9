// SPDX-License-Identifier: MIT OR Apache-2.0
//! The column weights: two control groups of this benchmark. They are removed at its end.

use crate::guardian::Guardian;
use anyhow::Context;
use nix::unistd::write;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tek_advice::as_root;
use tek_command::system::cgroup::{self, Hierarchy};

/// Removes the groups as soon as their last processes have ended.
const REMOVAL: &str = r#"
tries=0
while [ -d "$1" -o -d "$2" ] && [ $tries -lt 100 ]; do
	rmdir "$1" "$2" 2>/dev/null || sleep 0.05
	tries=$((tries + 1))
done
"#;

/// The processes in them must have ended before this is dropped.
pub struct Groups {
    /// Of the highest weight.
    program: PathBuf,
    /// Of the lowest weight.
    hogs: PathBuf,
    _guardian: Guardian,
}

impl Groups {
    /// Makes the groups. An error is why the column is empty.
    pub fn make() -> Result<Self, String> {
        let (hierarchy, own) = cgroup::of_cpu()
            .ok_or_else(|| format!("no control groups are mounted; {}", cgroup::mount_cpu()))?;
        let above = place(&hierarchy, &own)?;
        Self::below(&above, hierarchy.version).map_err(|error| format!("{error:#}"))
    }

    fn below(above: &Path, version: u8) -> anyhow::Result<Self> {
        let named = |what| above.join(format!("tek-bench-{}-{what}", std::process::id()));
        let (program, hogs) = (named("program"), named("hogs"));
        let guardian = Guardian::start(REMOVAL, [&program, &hogs])?;
        let (file, [highest, lowest]) = match version {
            1 => ("cpu.shares", [262_144, 2]),
            _ => ("cpu.weight", [10_000, 1]),
        };
        for (group, weight) in [(&program, highest), (&hogs, lowest)] {
            let made = fs::create_dir(group)
                .and_then(|()| fs::write(group.join(file), format!("{weight}")));
            made.with_context(|| format!("cannot make the control group {}", group.display()))
                .context("run tek bench as root")?;
        }
        Ok(Self { program, hogs, _guardian: guardian })
    }

    /// The group for hogs, which enter it themselves.
    pub fn hogs(&self) -> &Path {
        &self.hogs
    }

    /// The program of this command begins in its group.
    pub fn place(&self, command: &mut Command) -> anyhow::Result<()> {
        let file = self.program.join("cgroup.procs");
        let procs: File = OpenOptions::new().write(true).open(&file)?;
        // SAFETY: it makes one system call. "0" is the calling process.
        unsafe { command.pre_exec(move || Ok(write(&procs, b"0").map(drop)?)) };
        Ok(())
    }
}

/// The group whose subgroups have weights: this benchmark's own one, or the one above it.
fn place(hierarchy: &Hierarchy, own: &Path) -> Result<PathBuf, String> {
    if hierarchy.version == 1 {
        return Ok(own.to_owned());
    }
    // A group of version 2 that has processes cannot enable a controller for its subgroups.
    let enables_cpu = |group: &Path| {
        let enabled = fs::read_to_string(group.join("cgroup.subtree_control"));
        enabled.is_ok_and(|names| names.split_ascii_whitespace().any(|name| name == "cpu"))
    };
    let mut candidates = own.ancestors().take(2).filter(|it| it.starts_with(&hierarchy.mount));
    candidates.find(|group| enables_cpu(group)).map(Path::to_owned).ok_or_else(|| {
        let topmost = hierarchy.mount.join("cgroup.subtree_control");
        let cure = as_root(&format!("echo +cpu > {}", topmost.display()));
        format!("{} has no controller cpu; {cure}", own.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory in place of a hierarchy of version 2.
    fn hierarchy(mount: &Path) -> Hierarchy {
        let line = format!("30 25 0:26 / {} rw - cgroup2 cgroup2 rw", mount.display());
        cgroup::hierarchies(&line).remove(0)
    }

    #[test]
    fn in_version_2_the_groups_lie_where_weights_are_enabled() {
        let mount = tempfile::tempdir().unwrap();
        let own = mount.path().join("scope");
        fs::create_dir(&own).unwrap();
        let of = |own: &Path| place(&hierarchy(mount.path()), own);
        assert!(of(&own).unwrap_err().contains("cgroup.subtree_control"));
        fs::write(mount.path().join("cgroup.subtree_control"), "cpuset cpu\n").unwrap();
        assert_eq!(of(&own).unwrap(), mount.path());
        assert_eq!(of(mount.path()).unwrap(), mount.path());
        assert!(of(&own.join("deep")).is_err());
    }

    #[test]
    fn the_groups_have_the_extreme_weights_and_are_removed_when_dropped() {
        let above = tempfile::tempdir().unwrap();
        let groups = Groups::below(above.path(), 1).unwrap();
        let weight = |group: &Path| fs::read_to_string(group.join("cpu.shares")).unwrap();
        assert_eq!(weight(&groups.program), "262144");
        assert_eq!(weight(groups.hogs()), "2");
        for group in [&groups.program, &groups.hogs] {
            fs::remove_file(group.join("cpu.shares")).unwrap(); // unlike in a real hierarchy
        }
        drop(groups);
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }
}
