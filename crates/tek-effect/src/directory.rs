// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories, which in a hierarchy of cgroups are groups.
use crate::file::check_path;
use crate::member;
use crate::step;
use crate::{Error, Undone};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// A group may have new members, and the kernel be busy with those that ended, for so long.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The identity of a directory, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    device: u64,
    inode: u64,
}

/// A directory, made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DirectoryChange {
    pub(crate) path: PathBuf,
    /// Not known yet when the change is noted.
    pub(crate) made: Option<Place>,
}

impl DirectoryChange {
    pub(crate) fn planned(path: &Path) -> Result<Self, Error> {
        check_path(path)?;
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self { path: path.to_owned(), made: None })
            }
            Err(error) => Err(Error::file(path, "make the directory", error)),
            Ok(_) => {
                let exists = io::Error::from_raw_os_error(libc::EEXIST);
                Err(Error::file(path, "make the directory", exists))
            }
        }
    }

    pub(crate) fn act(&self) -> Result<Place, Error> {
        let failed = |error| Error::file(&self.path, "make the directory", error);
        step::here();
        let made = fs::create_dir(&self.path);
        step::here();
        made.map_err(failed)?;
        self.place().map_err(|error| {
            let _ = fs::remove_dir(&self.path);
            failed(error)
        })
    }

    fn place(&self) -> io::Result<Place> {
        let about = self.path.symlink_metadata()?;
        match about.is_dir() {
            true => Ok(Place { device: about.dev(), inode: about.ino() }),
            false => Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
        }
    }

    pub(crate) fn undo(&self) -> Result<Undone, Error> {
        match self.place() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::Gone),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Ok(Undone::Changed)
            }
            Err(error) => return Err(Error::file(&self.path, "look at", error)),
            Ok(place) if self.made.is_some_and(|made| made != place) => return Ok(Undone::Changed),
            Ok(_) => {}
        }
        self.remove()
    }

    fn remove(&self) -> Result<Undone, Error> {
        for _ in 0..TRIES {
            step::here();
            let removed = fs::remove_dir(&self.path);
            step::here();
            let Err(error) = removed else { return Ok(Undone::Undone) };
            match error.raw_os_error() {
                Some(libc::ENOENT) => return Ok(Undone::Gone),
                // Another program made an entry in it.
                Some(libc::ENOTEMPTY) => return Ok(Undone::Changed),
                Some(libc::EBUSY) if self.made.is_none() || self.has_groups() => {
                    return Ok(Undone::Changed)
                }
                Some(libc::EBUSY) => member::empty(&self.path)?,
                _ => return Err(Error::file(&self.path, "remove the directory", error)),
            }
            sleep(PAUSE);
        }
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        Err(Error::file(&self.path, "remove the directory", busy))
    }

    fn has_groups(&self) -> bool {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    }

    pub(crate) fn is_sensible(&self) -> bool {
        check_path(&self.path).is_ok()
    }
}
