// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hierarchies of cgroups, of both versions: their mount points, and the group of each thread.
//!
//! A group is named as /proc/TID/cgroup does ("/a/b"), or by its directory, which depends on where
//! and from which group on the hierarchy is mounted.
use crate::file::{self, check_path};
use crate::identity::{is_none, process_of};
use crate::Error;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use tek_procfs::path;

/// Where groups have real-time runtime of their own, new ones have none.
pub(crate) const REAL_TIME: &str = "cpu.rt_runtime_us";

/// Of cgroups: see cgroups(7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// One hierarchy for each controller or few of them; threads move one by one.
    V1,
    /// One for all controllers; threads of one process may be in several groups of a threaded
    /// subtree.
    V2,
}

thread_local! {
    /// The hierarchies that were mounted at the last check.
    static KNOWN: RefCell<Vec<Hierarchy>> = const { RefCell::new(Vec::new()) };
}

/// A hierarchy that is mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    key: String,
    mount: PathBuf,
    root: String,
}

impl Hierarchy {
    /// All that are mounted where this process can see them.
    pub fn all() -> Result<Vec<Self>, Error> {
        let read = |path: &str| file::read(Path::new(path));
        let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
        Ok(parse(&String::from_utf8_lossy(&groups), &String::from_utf8_lossy(&mounts)))
    }

    /// The one that has a controller ("cpu"); `None` if none has.
    pub fn with(controller: &str) -> Result<Option<Self>, Error> {
        let all = Self::all()?;
        let v1 = all.iter().find(|one| one.key.split(',').any(|name| name == controller));
        Ok(v1.or_else(|| all.iter().find(|one| one.has_available(controller))).cloned())
    }

    /// The one that keeps a thread from real-time policies, because the thread's group has no
    /// real-time runtime (version 1, RT_GROUP_SCHED); `None` if none does. In its topmost group the
    /// thread could have them.
    pub fn without_real_time(tid: i32) -> Result<Option<Self>, Error> {
        let Some(within) = Self::with("cpu")?.filter(|one| one.version() == Version::V1) else {
            return Ok(None);
        };
        let group = within.directory_of(tid)?;
        let runtime = file::read(&group.join(REAL_TIME)).unwrap_or_default();
        let has_none = runtime.trim_ascii() == b"0" && group != within.mount;
        Ok(has_none.then_some(within))
    }

    /// The hierarchy of version 2; `None` if it is not mounted.
    pub fn unified() -> Result<Option<Self>, Error> {
        Self::named("")
    }

    /// By what the journal calls it. It is looked for again only where it is not mounted any more
    /// as it was: each thread that moves back needs it.
    pub(crate) fn named(key: &str) -> Result<Option<Self>, Error> {
        let of_key = |all: &Vec<Self>| all.iter().find(|one| one.key == key).cloned();
        let known = KNOWN.with_borrow(of_key);
        if let Some(known) = known.filter(|one| one.mount.join("cgroup.procs").exists()) {
            return Ok(Some(known));
        }
        let all = Self::all()?;
        let found = of_key(&all);
        KNOWN.set(all);
        Ok(found)
    }

    /// Its name in the journal: its controllers as in /proc/PID/cgroup, so "" is version 2.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Its version.
    pub fn version(&self) -> Version {
        if self.key.is_empty() {
            Version::V2
        } else {
            Version::V1
        }
    }

    /// The directory of its topmost group that can be seen.
    pub fn mount_point(&self) -> &Path {
        &self.mount
    }

    /// The directory of the group that a thread is in.
    pub fn directory_of(&self, tid: i32) -> Result<PathBuf, Error> {
        let group = self.group_of(tid)?;
        self.directory(&group).ok_or_else(|| self.outside(&group))
    }

    /// The group that a thread is in.
    pub(crate) fn group_of(&self, tid: i32) -> Result<String, Error> {
        let text =
            path(tid, "cgroup").and_then(fs::read).map_err(|error| match is_none(&error) {
                true => Error::Gone { tid },
                false => Error::thread(tid, "read /proc/TID/cgroup of", error),
            })?;
        let text = String::from_utf8_lossy(&text);
        let group = text.lines().filter_map(entry).find(|&(key, _)| key == self.key);
        // A zombie that was never in a group is in none of version 2.
        group.map(|(_, group)| group.to_owned()).ok_or(Error::Gone { tid })
    }

    /// The directory of a group; `None` if it cannot be seen from here.
    pub(crate) fn directory(&self, group: &str) -> Option<PathBuf> {
        let below = Path::new(group).strip_prefix(&self.root).ok()?;
        let directory = self.mount.join(below);
        check_path(&directory).ok().map(|()| directory)
    }

    /// The group that has this directory.
    pub(crate) fn group(&self, directory: &Path) -> Result<String, Error> {
        check_path(directory)?;
        let below = directory.strip_prefix(&self.mount).map_err(|_| {
            let what = format!("{} is no group of {}", directory.display(), self.mount.display());
            Error::invalid(what, "give a directory of that hierarchy")
        })?;
        let group = Path::new(&self.root).join(below);
        Ok(format!("/{}", group.to_string_lossy().trim_matches('/')))
    }

    /// Moves a thread into a group; on version 2 all its process, if the group is of another
    /// domain.
    ///
    /// Such a process must not have its threads in several groups.
    pub(crate) fn put(&self, tid: i32, group: &str) -> Result<(), Error> {
        let all = self.moves_all(tid, group)?;
        if all {
            self.check_together(tid)?;
        }
        self.write(tid, group, all)
    }

    /// The same for one that goes back to where it was: threads that were born elsewhere in the
    /// domain that it leaves go with it.
    pub(crate) fn put_back(&self, tid: i32, group: &str) -> Result<(), Error> {
        self.write(tid, group, self.moves_all(tid, group)?)
    }

    fn write(&self, tid: i32, group: &str, all: bool) -> Result<(), Error> {
        let file = match self.version() {
            Version::V1 => "tasks",
            Version::V2 if all => "cgroup.procs",
            Version::V2 => "cgroup.threads",
        };
        let directory = self.directory(group).ok_or_else(|| self.outside(group))?;
        file::write(&directory.join(file), tid.to_string().as_bytes()).map_err(|error| match error
            .errno()
        {
            libc::ESRCH => Error::Gone { tid },
            _ => error,
        })
    }

    /// Whether a thread takes its whole process with it.
    fn moves_all(&self, tid: i32, group: &str) -> Result<bool, Error> {
        if self.version() == Version::V1 {
            return Ok(false);
        }
        let to = self.directory(group).ok_or_else(|| self.outside(group))?;
        Ok(self.domain(&self.directory_of(tid)?) != self.domain(&to))
    }

    /// The group that is the nearest above or itself and not threaded.
    fn domain(&self, directory: &Path) -> PathBuf {
        let mut at = directory;
        while at != self.mount && is_threaded(at) {
            at = at.parent().unwrap_or(&self.mount);
        }
        at.to_owned()
    }

    /// If threads of one process are apart, a move of the process would lose the group of each.
    fn check_together(&self, tid: i32) -> Result<(), Error> {
        let own = self.group_of(tid)?;
        let process = process_of(tid)?;
        let threads = path(process, "task")
            .and_then(fs::read_dir)
            .map_err(|error| Error::thread(tid, "list the process of", error))?;
        let tids = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        if tids.filter_map(|tid| self.group_of(tid).ok()).all(|group| group == own) {
            return Ok(());
        }
        let what = format!("the threads of process {process} are in several groups");
        Err(Error::invalid(what, "move them into one group first, each within its domain"))
    }

    /// The group, or the nearest above it that there is.
    pub(crate) fn nearest(&self, group: &str) -> String {
        let is_there = |group: &&Path| {
            let directory = group.to_str().and_then(|group| self.directory(group));
            directory.is_some_and(|directory| directory.is_dir())
        };
        let found = Path::new(group).ancestors().find(is_there);
        found.map_or_else(|| self.root.clone(), |found| found.to_string_lossy().into_owned())
    }

    /// The hierarchy that a directory is a group of, and not its topmost.
    pub(crate) fn around(directory: &Path) -> Option<Self> {
        let all = Self::all().ok()?;
        all.into_iter().find(|one| directory.starts_with(&one.mount) && directory != one.mount)
    }

    fn has_available(&self, controller: &str) -> bool {
        let controllers = file::read(&self.mount.join("cgroup.controllers")).unwrap_or_default();
        let controllers = String::from_utf8_lossy(&controllers);
        let found = controllers.split_ascii_whitespace().any(|name| name == controller);
        self.version() == Version::V2 && found
    }

    fn outside(&self, group: &str) -> Error {
        let what = format!("the group {group} is not below {}", self.mount.display());
        Error::invalid(what, "run this where the whole hierarchy is mounted")
    }
}

fn is_threaded(directory: &Path) -> bool {
    file::read(&directory.join("cgroup.type")).is_ok_and(|kind| kind.trim_ascii() == b"threaded")
}

/// Controllers and group of a line of /proc/PID/cgroup.
fn entry(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_once(':')
}

/// From the texts of /proc/self/cgroup, which names the hierarchies, and /proc/self/mountinfo.
fn parse(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    let keys = groups.lines().filter_map(entry).map(|(key, _)| key);
    let hierarchy = |key: &str| {
        let mut fitting: Vec<&Mount> = mounts.iter().filter(|mount| mount.shows(key)).collect();
        // One that shows all groups, if there is one.
        tek_sort::by_key(&mut fitting, |mount| mount.root.len());
        let mount = fitting.first()?;
        Some(Hierarchy { key: key.into(), mount: mount.point.clone(), root: mount.root.clone() })
    };
    keys.filter_map(hierarchy).collect()
}

/// A line of mountinfo that shows cgroups.
struct Mount {
    version: Version,
    root: String,
    point: PathBuf,
    options: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (plain(mount.next()?), plain(mount.next()?));
        let mut system = system.split(' ');
        let version = match system.next()? {
            "cgroup" => Version::V1,
            "cgroup2" => Version::V2,
            _ => return None,
        };
        let options = system.nth(1)?.to_owned();
        Some(Self { version, root, point: point.into(), options })
    }

    fn shows(&self, key: &str) -> bool {
        let has = |name: &str| self.options.split(',').any(|option| option == name);
        match self.version {
            Version::V1 => !key.is_empty() && key.split(',').all(has),
            Version::V2 => key.is_empty(),
        }
    }
}

/// A path without the octal escapes of mountinfo.
fn plain(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, byte)| text.replace(escape, byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = "3:cpu,cpuacct:/a\n2:name=systemd:/\n0::/user.slice\n";
    const MOUNTS: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 /a /somewhere rw - cgroup cgroup rw,cpu,cpuacct\n\
        33 31 0:29 / /sys/fs/cgroup/cpu\\040s rw shared:4 - cgroup cgroup rw,cpu,cpuacct\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
        41 31 0:38 /user.slice /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn hierarchies_of_version_1_and_2_are_found_where_they_are_mounted() {
        let all = parse(GROUPS, MOUNTS);
        let found: Vec<_> = all.iter().map(|one| (one.version(), one.mount_point())).collect();
        assert_eq!(
            found,
            [
                (Version::V1, Path::new("/sys/fs/cgroup/cpu s")),
                (Version::V1, Path::new("/sys/fs/cgroup/systemd")),
                (Version::V2, Path::new("/sys/fs/cgroup/unified")),
            ]
        );
    }

    #[test]
    fn a_group_and_its_directory_are_two_names_of_one() {
        let unified = parse(GROUPS, MOUNTS).pop().unwrap();
        let directory = Path::new("/sys/fs/cgroup/unified/app");
        assert_eq!(unified.group(directory).unwrap(), "/user.slice/app");
        assert_eq!(unified.directory("/user.slice/app").unwrap(), directory);
        assert_eq!(unified.directory("/user.slice").unwrap(), unified.mount);
    }

    #[test]
    fn what_is_not_below_the_mount_has_no_directory() {
        let unified = parse(GROUPS, MOUNTS).pop().unwrap();
        for outside in ["/", "/system.slice", "/../x", "/user.slice/../../x", ""] {
            assert_eq!(unified.directory(outside), None, "{outside}");
        }
        assert!(unified.group(Path::new("/sys/fs/cgroup/cpu")).is_err());
        assert!(unified.group(Path::new("/sys/fs/cgroup/unified/../cpu")).is_err());
    }
}
