// SPDX-License-Identifier: MIT OR Apache-2.0
//! The private directory of a run: its event file and the thread tables of its processes, so that
//! the files of killed processes are removed with the run.
//!
//! It lies in /run/tek (as root) or $XDG_RUNTIME_DIR/tek, else in tek-UID in the first existing
//! directory for temporary files: $TMPDIR, /tmp or /var/tmp. The event file is locked while its tek
//! lives. So the next run recognises the directories that a killed tek left behind.
use anyhow::Context;
use nix::fcntl::{Flock, FlockArg};
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "run-";
const EVENTS: &str = "events";

/// Most names that are read in a directory: a program may have made any number.
const MOST_NAMES: usize = 100_000;

/// A run's directory; removed when dropped, unless a process of the run still has its table there.
pub struct RunDirectory {
    directory: Option<TempDir>,
    events: Flock<File>,
}

impl RunDirectory {
    /// Makes the directory and its event file. Calls `learn_from` with each directory that a killed
    /// tek left behind, before it is removed.
    pub fn create(learn_from: fn(&Path)) -> anyhow::Result<Self> {
        let base = match base() {
            Some(base) => {
                remove_left_behind(&base, learn_from);
                base
            }
            // Shared with all users, so nothing in it is ours to clear away.
            None => temporary().find(|parent| parent.is_dir()).unwrap_or_else(env::temp_dir),
        };
        let directory = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            // Any user may read the tables. Only the owner may read the events.
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(&base)
            .with_context(|| {
                format!("cannot make a directory for this run in {}", base.display())
            })?;
        let path = directory.path().join(EVENTS);
        let events = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot make the event file {}", path.display()))?;
        let events = Flock::lock(events, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, error)| error)
            .with_context(|| format!("cannot lock the event file {}", path.display()))?;
        Ok(Self { directory: Some(directory), events })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.directory.as_ref().expect("only drop takes it").path()
    }

    /// Path of the event file.
    pub fn events_path(&self) -> PathBuf {
        self.path().join(EVENTS)
    }

    /// The event file.
    pub fn events(&self) -> &File {
        &self.events
    }

    /// Removes it now, for a caller that executes another program.
    pub fn remove(&self) {
        // A later run removes the rest.
        let _ = fs::remove_dir_all(self.path());
    }

    /// The thread tables that lie in the directory, with their processes.
    pub fn tables(&self) -> Vec<(i32, PathBuf)> {
        tables_in(self.path())
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let Some(directory) = self.directory.take() else { return };
        if tables_in(directory.path()).iter().any(|&(pid, _)| is_alive(pid)) {
            // A process outlives this tek. A later run clears the directory away.
            let _ = directory.keep();
        }
    }
}

/// Whether a process exists.
pub fn is_alive(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) != Err(nix::errno::Errno::ESRCH)
}

fn tables_in(directory: &Path) -> Vec<(i32, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let table = |path: PathBuf| {
        let pid = path.file_name()?.to_str()?.strip_suffix(".table")?.parse().ok()?;
        Some((pid, path))
    };
    let entries = entries.flatten().take(MOST_NAMES);
    let mut tables: Vec<_> = entries.filter_map(|entry| table(entry.path())).collect();
    tek_sort::ascending(&mut tables);
    tables
}

/// The directory for run-time files, made if need be; `None` if none can be used.
fn base() -> Option<PathBuf> {
    let user = nix::unistd::geteuid();
    let run_time =
        if user.is_root() { Some("/run".into()) } else { env::var_os("XDG_RUNTIME_DIR") };
    let run_time = run_time.map(|parent| PathBuf::from(parent).join("tek"));
    let temporary = temporary().map(|parent| parent.join(format!("tek-{user}")));
    run_time.into_iter().chain(temporary).find(|base| base.is_absolute() && make_own(base))
}

/// The directories for temporary files: TMPDIR may name a missing one.
fn temporary() -> impl Iterator<Item = PathBuf> {
    [env::temp_dir(), "/tmp".into(), "/var/tmp".into()].into_iter()
}

/// Makes a directory unless it is there; true if it is ours alone to write to. The owner of another
/// directory, or of a link, could swap our files.
fn make_own(base: &Path) -> bool {
    match DirBuilder::new().mode(0o755).create(base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return false,
        _ => {}
    }
    fs::symlink_metadata(base).is_ok_and(|metadata| {
        metadata.is_dir()
            && metadata.uid() == nix::unistd::geteuid().as_raw()
            && metadata.mode() & 0o022 == 0
            && nix::unistd::access(base, nix::unistd::AccessFlags::W_OK).is_ok()
    })
}

/// Removes directories if their tek was killed and their processes are gone.
fn remove_left_behind(base: &Path, learn_from: fn(&Path)) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        let ours = fs::symlink_metadata(&path)
            .is_ok_and(|m| m.is_dir() && m.uid() == nix::unistd::geteuid().as_raw());
        // A tek that is alive may not have locked its new event file yet.
        if !ours || maker_lives(&path) || tables_in(&path).iter().any(|&(pid, _)| is_alive(pid)) {
            continue;
        }
        // If several start at the same time, one of them learns from it and removes it. The lock of
        // the event file is not enough: that file may be gone before the rest of the directory is.
        let Some(_mine) = lock_directory(&path) else { continue };
        let free = match open_own(&path.join(EVENTS)) {
            // The lock is free only if the tek that made it is dead.
            Ok(events) => Flock::lock(events, FlockArg::LockExclusiveNonblock).is_ok(),
            // A process that outlived its tek made the directory anew for its table.
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)
            }
        };
        if free {
            learn_from(&path);
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// `None`: another process has it, or it is gone.
fn lock_directory(path: &Path) -> Option<Flock<File>> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let directory = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    Flock::lock(directory, FlockArg::LockExclusiveNonblock).ok()
}

/// Opens an ordinary file of ours in a directory that a program of ours could write to. A file of
/// another kind in its place, such as a FIFO, must not stop tek.
pub fn open_own(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() == nix::unistd::geteuid().as_raw() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file of ours"))
}

/// Whether the tek exists that has the pid in a directory's name.
fn maker_lives(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
    pid.is_some_and(is_alive)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Above what Linux allows, so no process has it.
    const DEAD: i32 = i32::MAX;

    #[test]
    fn what_a_daemon_that_outlived_its_tek_made_anew_goes_with_the_daemon() {
        let base = tempfile::tempdir().unwrap();
        let own = std::process::id() as i32;
        let make = |maker: i32, process: i32| {
            let directory = base.path().join(format!("{PREFIX}{maker}-x{process}"));
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join(format!("{process}.table")), "").unwrap();
            directory
        };
        let (left, daemon) = (make(DEAD, DEAD), make(DEAD, own));
        let beginning = base.path().join(format!("{PREFIX}{own}-y"));
        fs::create_dir(&beginning).unwrap();
        remove_left_behind(base.path(), |_| ());
        assert!(!left.exists());
        assert!(daemon.exists() && beginning.exists());
    }

    #[test]
    fn nobody_waits_for_a_fifo_that_a_program_left() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join(format!("{PREFIX}{DEAD}-x"));
        fs::create_dir(&directory).unwrap();
        for name in [EVENTS, "profiles", "1-1.ended"] {
            nix::unistd::mkfifo(&directory.join(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        remove_left_behind(base.path(), |_| ());
        assert!(!directory.exists());
    }

    #[test]
    fn the_directory_of_a_tek_that_lives_stays_and_one_tek_alone_removes_it_later() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join(format!("{PREFIX}{DEAD}-x"));
        fs::create_dir(&directory).unwrap();
        let events = File::create(directory.join(EVENTS)).unwrap();
        let lock = Flock::lock(events, FlockArg::LockExclusiveNonblock).unwrap();
        remove_left_behind(base.path(), |_| ());
        assert!(directory.exists());
        drop(lock);
        let other = lock_directory(&directory).unwrap();
        remove_left_behind(base.path(), |_| ());
        assert!(directory.exists(), "another tek is about to remove it");
        drop(other);
        remove_left_behind(base.path(), |_| ());
        assert!(!directory.exists());
    }
}
