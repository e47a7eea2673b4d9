// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's own files, which are read-only unless a job remounts them.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Identifies an unchanged file: its inode number, and the time of its last change, which cannot be
/// set.
#[derive(PartialEq, Eq)]
struct Stamp {
    inode: u64,
    changed: (i64, i64),
}

/// Files on the root file system, and devices.
pub(super) struct Files {
    root: BTreeMap<PathBuf, Stamp>,
    devices: BTreeMap<PathBuf, Device>,
}

/// A device, or a link or a directory beside them.
#[derive(PartialEq, Eq)]
struct Device {
    mode: u32,
    owner: (u32, u32),
    number: u64,
    target: Option<PathBuf>,
}

impl Files {
    pub(super) fn take() -> Self {
        let mut root = BTreeMap::new();
        walk(Path::new("/"), &mut |path, about| {
            let changed = (about.ctime(), about.ctime_nsec());
            root.insert(path.to_owned(), Stamp { inode: about.ino(), changed });
        });
        Self { root, devices: devices() }
    }

    /// Restores devices; reports those that it cannot restore, and files that changed.
    pub(super) fn restore(&self) -> Vec<String> {
        let now = Self::take();
        let mut left = Vec::new();
        let changed = self.root.iter().filter(|(path, stamp)| now.root.get(*path) != Some(stamp));
        let new = now.root.keys().filter(|path| !self.root.contains_key(*path));
        // One is enough to need a new guest.
        left.extend(changed.map(|(path, _)| path).chain(new).take(1).map(|path| {
            format!("{} or more of the guest's own files are not as they were", path.display())
        }));
        for (path, is) in &now.devices {
            match self.devices.get(path) {
                Some(was) if was == is => {}
                Some(was) => drop(was.mend(path)),
                None => drop(remove(path, is)),
            }
        }
        let now = devices();
        let gone = self.devices.iter().filter(|(path, was)| now.get(*path) != Some(was));
        let new = now.keys().filter(|path| !self.devices.contains_key(*path));
        let odd = gone.map(|(path, _)| path).chain(new);
        left.extend(odd.map(|path| format!("{} is not as it was", path.display())));
        left
    }
}

impl Device {
    fn mend(&self, path: &Path) -> std::io::Result<()> {
        if self.target.is_some() {
            return Ok(());
        }
        std::os::unix::fs::lchown(path, Some(self.owner.0), Some(self.owner.1))?;
        fs::set_permissions(path, fs::Permissions::from_mode(self.mode & 0o7777))
    }
}

fn remove(path: &Path, device: &Device) -> std::io::Result<()> {
    match device.mode & libc::S_IFMT == libc::S_IFDIR {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    }
}

/// Calls the function for each path on the file system of a directory.
fn walk(directory: &Path, report: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let Ok(top) = directory.metadata() else { return };
    report(directory, &top);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            if entry.path().metadata().is_ok_and(|about| about.dev() == top.dev()) {
                walk(&entry.path(), report);
            }
        } else {
            report(&entry.path(), &about);
        }
    }
}

fn devices() -> BTreeMap<PathBuf, Device> {
    let mut found = BTreeMap::new();
    walk(Path::new("/dev"), &mut |path, about| {
        let kind = about.file_type();
        let device = kind.is_char_device() || kind.is_block_device();
        found.insert(
            path.to_owned(),
            Device {
                mode: about.mode(),
                owner: (about.uid(), about.gid()),
                number: if device { about.rdev() } else { 0 },
                target: fs::read_link(path).ok(),
            },
        );
    });
    found
}
