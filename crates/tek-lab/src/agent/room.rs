// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a job can write: one file system in memory, new for each job, of at most half of the
//! memory. Everything else is read-only.
use super::error::{Doing, Error};
use super::shown;
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use std::fs;
use std::io;
use std::os::unix::fs::{chown, symlink, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// Its path for the agent.
const TOP: &str = "/usr/lib/tek-lab/job";

/// Its parts: a directory in it, its path for the job, and its permissions.
const PLACES: [(&str, &str, u32); 7] = [
    ("tmp", "/tmp", 0o1777),
    ("out", "/out", 0o1777),
    ("run", "/run", 0o755),
    ("var", "/var", 0o755),
    ("root", "/root", 0o700),
    ("home", "/home", 0o755),
    ("shm", "/dev/shm", 0o1777),
];

/// Directories that programs expect, and their permissions.
const WITHIN: [(&str, u32); 8] = [
    ("home/tester", 0o755),
    ("run/lock", 0o1777),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/spool", 0o755),
    ("var/tmp", 0o1777),
    ("out", 0o1777),
];

/// The other user of lab/guest/passwd than root.
const TESTER: u32 = 1000;

/// The disk, where a kind has one.
const DISK: &str = "/dev/vda";

/// Makes an empty one, and empties the disk.
pub(super) fn furnish() -> Result<(), Error> {
    // Jobs may make devices and programs with capabilities.
    mount(Some("job"), TOP, Some("tmpfs"), MsFlags::empty(), Some("mode=755"))
        .doing("mount a file system for the job")?;
    let directories = PLACES.iter().map(|&(name, _, mode)| (name, mode));
    for (name, mode) in directories.chain(WITHIN) {
        let path = Path::new(TOP).join(name);
        let made = fs::create_dir_all(&path)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)));
        made.doing(format!("make {}", path.display()))?;
    }
    let top = Path::new(TOP);
    chown(top.join("home/tester"), Some(TESTER), Some(TESTER)).doing("make a user's home")?;
    symlink("/run", top.join("var/run")).doing("make /var/run")?;
    symlink("/run/lock", top.join("var/lock")).doing("make /var/lock")?;
    match Path::new(DISK).exists() {
        true => format_disk().doing(format!("make a file system on {DISK}")),
        false => Ok(()),
    }
}

fn format_disk() -> io::Result<()> {
    let mut command = Command::new("/usr/sbin/mke2fs");
    // The data of the job before is discarded, so it need not be overwritten.
    let made = command.args(["-q", "-F", "-t", "ext4", "-E", "nodiscard", DISK]).output()?;
    match made.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&made.stderr).trim().to_owned())),
    }
}

/// Mounts it for the job: called in a process that has its own mounts.
pub(super) fn enter() -> Result<(), Error> {
    let none = None::<&str>;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none).doing("have mounts of its own")?;
    for (name, place, _) in PLACES {
        let path = Path::new(TOP).join(name);
        let shown = shown::show(Path::new(place), &path);
        shown.doing(format!("show what came with the guest in {place}"))?;
        let all = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(&path), place, none, all, none).doing(format!("mount {place}"))?;
    }
    umount2(TOP, MntFlags::MNT_DETACH).doing(format!("unmount {TOP}"))?;
    if Path::new("/sys/fs/bpf").is_dir() {
        // An instance without pinned objects; a kernel need not have bpffs.
        let _ = mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), MsFlags::empty(), none);
    }
    if Path::new(DISK).exists() {
        mount(Some(DISK), "/disk", Some("ext4"), MsFlags::empty(), none).doing("mount /disk")?;
    }
    Ok(())
}

/// The job's `$OUT`, as long as it is furnished.
pub(super) fn out() -> &'static Path {
    Path::new("/usr/lib/tek-lab/job/out")
}

/// Removes it, with all that is in it.
pub(super) fn clear() -> Result<(), Error> {
    umount2(TOP, MntFlags::empty()).doing("take away the job's files")
}
