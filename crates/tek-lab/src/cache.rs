// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where downloaded kernels and packages lie.
use nix::fcntl::{Flock, FlockArg};
use serde::{de::DeserializeOwned, Serialize};
use std::fmt::Display;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Unfinished entries have names that begin so; the next [`Cache::lock`] removes them.
const MAKING: &str = ".making-";

/// Receives a message before each operation that takes long.
pub(crate) type Log<'a> = dyn FnMut(&str) + 'a;

/// A directory of complete entries: each is made beside its place and moved into it, by one process
/// at a time.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
}

/// An error of the cache.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {doing} {}: {why}{}", .path.display(), cure(.why))]
    Io {
        /// "create", "write".
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The error. It is no `source`, which would be reported a second time after the cure.
        why: io::Error,
    },
    /// There is no usual place.
    #[error(
        "neither XDG_CACHE_HOME nor HOME names a directory for downloads: name one with --cache \
         DIR or TEK_LAB_CACHE"
    )]
    NoPlace,
}

/// An entry of the cache is not as it was put there: it counts as missing, and is fetched again.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// A note about an entry.
    #[error("{} makes no sense ({why})", .path.display())]
    Note {
        /// Path of the note.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
    },
    /// A file.
    #[error("{} is damaged ({why})", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
    },
}

fn cure(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; make room there (a kernel with its modules takes 500 MB while it is unpacked), or \
             name another directory with --cache DIR or TEK_LAB_CACHE"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; name a directory that you can write with --cache DIR or TEK_LAB_CACHE"
        }
        _ => "",
    }
}

impl Error {
    /// For `map_err`: adds the operation and its path.
    pub fn doing(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |why| Self::Io { doing, path, why }
    }
}

impl Cache {
    /// At a directory, which need not exist.
    pub fn at(directory: &Path) -> Self {
        // apt wants absolute paths; without a current directory there is nothing better.
        let absolute = std::path::absolute(directory);
        Self { directory: absolute.unwrap_or_else(|_| directory.to_owned()) }
    }

    /// At its usual place: tek/lab in XDG_CACHE_HOME, else in ~/.cache.
    pub fn usual() -> Result<Self, Error> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        usual(variable).map(|directory| Self { directory }).ok_or(Error::NoPlace)
    }

    /// The cache's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Marks the cache as in use: no other process removes an entry that this one reads. `None`
    /// where this user cannot even create the lock file.
    pub fn in_use(&self) -> Option<InUse> {
        let file = self.users_file().ok()?;
        Flock::lock(file, FlockArg::LockShared).ok().map(InUse)
    }

    /// The file that readers of the cache lock (shared).
    fn users_file(&self) -> Result<File, Error> {
        fs::create_dir_all(&self.directory).map_err(Error::doing("create", &self.directory))?;
        let path = self.directory.join("in-use");
        let mut options = OpenOptions::new();
        let created = options.create(true).truncate(false).write(true).open(&path);
        // A lock needs no right to write.
        created.or_else(|_| File::open(&path)).map_err(Error::doing("open", &path))
    }

    /// The note under that name, if there is one.
    pub(crate) fn noted<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Damage> {
        let path = self.directory.join(name);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Damage::Note { path, why: error.to_string() }),
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| Damage::Note { path, why: error.to_string() })
    }

    /// Returns the entry that `here` finds; fetches it if it is missing or `newest` is set. If
    /// fetching fails, the entry of the cache is used; `name` is its name in messages.
    pub(crate) fn have<T, E: From<Error> + Display>(
        &self,
        newest: bool,
        here: impl Fn() -> Result<Option<T>, Damage>,
        fetch: impl FnOnce(&Lock, &mut Log) -> Result<T, E>,
        name: impl FnOnce(&T) -> String,
        log: &mut Log,
    ) -> Result<T, E> {
        match here() {
            Ok(Some(it)) if !newest => return Ok(it),
            Ok(_) => (),
            Err(damage) => log(&format!("{damage}: it is fetched anew")),
        }
        let lock = self.lock(log)?;
        // Another process may have fetched it while this one waited.
        if let Some(it) = here().ok().flatten().filter(|_| !newest) {
            return Ok(it);
        }
        let error = match fetch(&lock, log) {
            Ok(it) => return Ok(it),
            Err(error) => error,
        };
        let Ok(Some(it)) = here() else { return Err(error) };
        log(&error.to_string());
        log(&format!("Taking {} from the cache", name(&it)));
        Ok(it)
    }

    /// Waits until no other process changes the cache, then locks it against changes. Removes
    /// unfinished entries of processes that were killed.
    pub(crate) fn lock(&self, log: &mut dyn FnMut(&str)) -> Result<Lock<'_>, Error> {
        fs::create_dir_all(&self.directory).map_err(Error::doing("create", &self.directory))?;
        let path = self.directory.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(Error::doing("create", &path))?;
        let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((file, nix::Error::EWOULDBLOCK)) => {
                log(&format!(
                    "Waiting for another tek that fetches into {}",
                    self.directory.display()
                ));
                Flock::lock(file, FlockArg::LockExclusive)
                    .map_err(|(_, error)| Error::doing("lock", &path)(error.into()))?
            }
            Err((_, error)) => return Err(Error::doing("lock", &path)(error.into())),
        };
        let lock = Lock { cache: self, _file: file };
        lock.clear_leftovers()?;
        Ok(lock)
    }
}

fn usual(variable: impl Fn(&'static str) -> Option<PathBuf>) -> Option<PathBuf> {
    // The XDG specification: a path that is not absolute counts as none.
    let base = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| {
        variable("HOME")
            .filter(|path| path.is_absolute())
            .map(|base_directory| base_directory.join(".cache"))
    })?;
    Some(base.join("tek/lab"))
}

/// Protects the cache's entries from removal until it is dropped.
pub struct InUse(#[allow(dead_code)] Flock<File>);

/// The right to change the cache, until it is dropped.
pub(crate) struct Lock<'a> {
    cache: &'a Cache,
    _file: Flock<File>,
}

impl Lock<'_> {
    /// An empty directory for a new entry, on the cache's file system.
    pub fn temporary(&self) -> Result<TempDir, Error> {
        let directory = self.cache.directory();
        tempfile::Builder::new()
            .prefix(MAKING)
            .tempdir_in(directory)
            .map_err(Error::doing("create a directory in", directory))
    }

    /// Whether that place has an entry.
    pub fn has(&self, place: &str) -> bool {
        self.cache.directory.join(place).exists()
    }

    /// Moves a finished entry to its place (a path below the cache), where it replaces the old one,
    /// and returns its path.
    pub fn keep(&self, made: &Path, place: &str) -> Result<PathBuf, Error> {
        let place = self.cache.directory.join(place);
        let parent = place.parent().expect("a place is below the cache");
        fs::create_dir_all(parent).map_err(Error::doing("create", parent))?;
        // Otherwise, after a power cut, the name could be there without the bytes.
        let whole =
            File::open(made).and_then(|made| nix::unistd::syncfs(&made).map_err(io::Error::from));
        whole.map_err(Error::doing("write", made))?;
        if place.is_dir() {
            self.remove(&place)?;
        }
        fs::rename(made, &place).map_err(Error::doing("create", &place))?;
        Ok(place)
    }

    /// Writes a note under a name.
    pub fn note(&self, name: &str, what: &impl Serialize) -> Result<(), Error> {
        let place = self.cache.directory.join(name);
        let parent = place.parent().expect("a note is below the cache");
        fs::create_dir_all(parent).map_err(Error::doing("create", parent))?;
        let mut text = serde_json::to_vec_pretty(what).expect("it has no maps with odd keys");
        text.push(b'\n');
        let directory = self.temporary()?;
        let made = directory.path().join("note");
        File::create(&made)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
            .map_err(Error::doing("write", &place))?;
        fs::rename(&made, &place).map_err(Error::doing("write", &place))
    }

    /// Removes the directories of a folder that no note in it names. If a process uses the cache,
    /// it does nothing, and a later sweep does it.
    pub fn sweep(&self, folder: &str) -> Result<(), Error> {
        let Ok(_unused) = Flock::lock(self.cache.users_file()?, FlockArg::LockExclusiveNonblock)
        else {
            return Ok(());
        };
        let folder = self.cache.directory.join(folder);
        let entries: Vec<_> =
            fs::read_dir(&folder).map_err(Error::doing("read", &folder))?.flatten().collect();
        let is_note = |entry: &&DirEntry| entry.path().extension() == Some("json".as_ref());
        let mut notes = String::new();
        for entry in entries.iter().filter(is_note) {
            let path = entry.path();
            notes += &fs::read_to_string(&path).map_err(Error::doing("read", &path))?;
        }
        for entry in entries.iter().filter(|entry| entry.path().is_dir()) {
            let quoted = format!("/{}\"", entry.file_name().to_string_lossy());
            if !notes.contains(&quoted) {
                self.remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes a directory. It loses its name first: if this process is killed meanwhile, the next
    /// one must not take a partly removed directory for a complete one.
    fn remove(&self, path: &Path) -> Result<(), Error> {
        let room = self.temporary()?;
        fs::rename(path, room.path().join("old")).map_err(Error::doing("remove", path))?;
        room.close().map_err(Error::doing("remove", path))
    }

    fn clear_leftovers(&self) -> Result<(), Error> {
        let directory = self.cache.directory();
        for entry in fs::read_dir(directory).map_err(Error::doing("read", directory))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(MAKING) {
                let path = entry.path();
                fs::remove_dir_all(&path).map_err(Error::doing("remove", &path))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{usual, Cache};
    use std::fs;
    use std::path::{Path, PathBuf};

    fn quiet(_: &str) {}

    #[test]
    fn the_usual_place_is_the_cache_of_xdg_or_else_of_the_user() {
        let place = |xdg: Option<&str>, base_directory: Option<&str>| {
            let (xdg, base_directory) = (xdg.map(PathBuf::from), base_directory.map(PathBuf::from));
            usual(|name| if name == "HOME" { base_directory.clone() } else { xdg.clone() })
        };
        assert_eq!(place(Some("/x"), Some("/h")), Some("/x/tek/lab".into()));
        assert_eq!(place(Some(""), Some("/h")), Some("/h/.cache/tek/lab".into()));
        assert_eq!(place(Some("relative"), Some("/h")), Some("/h/.cache/tek/lab".into()));
        assert_eq!(place(None, None), None);
    }

    #[test]
    fn what_a_killed_process_left_is_gone_after_the_next_lock() {
        let top = tempfile::tempdir().unwrap();
        let cache = Cache::at(&top.path().join("made/by/lock"));
        let left = {
            let lock = cache.lock(&mut quiet).unwrap();
            let left = lock.temporary().unwrap().keep();
            fs::write(left.join("half"), "a ker").unwrap();
            left
        };
        assert!(left.exists());
        drop(cache.lock(&mut quiet).unwrap());
        assert!(!left.exists());
    }

    #[test]
    fn what_was_made_is_moved_to_its_place_instead_of_what_was_there() {
        let top = tempfile::tempdir().unwrap();
        let cache = Cache::at(top.path());
        let lock = cache.lock(&mut quiet).unwrap();
        for text in ["old", "new"] {
            let room = lock.temporary().unwrap();
            let made = room.path().join("made");
            fs::create_dir(&made).unwrap();
            fs::write(made.join("text"), text).unwrap();
            assert_eq!(lock.keep(&made, "folder/thing").unwrap(), top.path().join("folder/thing"));
        }
        assert_eq!(fs::read_to_string(top.path().join("folder/thing/text")).unwrap(), "new");
    }

    #[test]
    fn a_second_process_waits_and_reports_it() {
        let top = tempfile::tempdir().unwrap();
        let cache = Cache::at(top.path());
        let lock = cache.lock(&mut quiet).unwrap();
        let (waits, log) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                drop(cache.lock(&mut |what| waits.send(what.to_owned()).unwrap()).unwrap());
            });
            assert!(log.recv().unwrap().starts_with("Waiting for another tek"));
            assert!(!waiter.is_finished());
            drop(lock);
        });
    }

    #[test]
    fn a_sweep_leaves_what_notes_name() {
        let top = tempfile::tempdir().unwrap();
        let cache = Cache::at(top.path());
        let lock = cache.lock(&mut quiet).unwrap();
        for name in ["a", "a+modules", "b"] {
            fs::create_dir_all(top.path().join("kernels").join(name)).unwrap();
        }
        lock.note("kernels/k.json", &["kernels/a+modules"]).unwrap();
        lock.sweep("kernels").unwrap();
        let there = |name: &str| top.path().join("kernels").join(name).exists();
        assert_eq!(["a", "a+modules", "b", "k.json"].map(there), [false, true, false, true]);
    }

    #[test]
    fn a_note_that_makes_no_sense_is_distinguished_from_a_missing_one() {
        let top = tempfile::tempdir().unwrap();
        let cache = Cache::at(top.path());
        cache.lock(&mut quiet).unwrap().note("kernels/k.json", &["a"]).unwrap();
        let noted = cache.noted::<Vec<String>>("kernels/k.json").unwrap();
        assert_eq!(noted, Some(vec!["a".to_owned()]));
        assert_eq!(cache.noted::<Vec<String>>("kernels/other.json").unwrap(), None);
        let damage = cache.noted::<Vec<u32>>("kernels/k.json").unwrap_err().to_string();
        assert!(damage.contains("kernels/k.json makes no sense (invalid type"), "{damage}");
    }

    #[test]
    fn a_sweep_leaves_what_somebody_uses() {
        let top = tempfile::tempdir().unwrap();
        let cache = Cache::at(top.path());
        let users = [cache.in_use().unwrap(), cache.in_use().unwrap()];
        let lock = cache.lock(&mut quiet).unwrap();
        let old = top.path().join("kernels/old");
        fs::create_dir_all(&old).unwrap();
        lock.sweep("kernels").unwrap();
        assert!(old.exists());
        drop(users);
        lock.sweep("kernels").unwrap();
        assert!(!old.exists());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named_with_what_to_do() {
        let error = Cache::at(Path::new("/proc/tek")).lock(&mut quiet).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with("cannot create /proc/tek: "), "{error}");
        assert!(std::error::Error::source(&error).is_none(), "its text tells the cause");
        let full = super::Error::doing("write", Path::new("x"))(std::io::Error::from_raw_os_error(
            libc::ENOSPC,
        ));
        assert!(full.to_string().contains("make room"), "{full}");
    }
}
