// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profiles of all programs: a directory with a file for each.
//!
//! A writer holds the directory's lock, reads the profile, writes a new file beside it and renames
//! that. So a reader, without a lock, finds the old profile or the new one. The next writer
//! overwrites the new file of a writer that was killed.
use crate::profile::{Place, Profile};
use crate::text::{self, Parsed, Problem, MOST_BYTES};
use nix::fcntl::{Flock, FlockArg};
use std::env;
use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOCK: &str = ".lock";
const SUFFIX: &str = ".stack";

/// A writer holds the lock for milliseconds, unless it was stopped in the middle.
const PATIENCE: Duration = Duration::from_secs(10);

/// Profiles that are read in a directory.
const MOST_FILES: usize = 100_000;

/// Why a profile cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another user could have changed it.
    #[error("{path} is not trusted: {why}")]
    NotTrusted {
        /// File or directory.
        path: PathBuf,
        /// How another user could change it.
        why: String,
    },
    /// It is no profile.
    #[error("{path} is no profile: {source}")]
    Format {
        /// The file.
        path: PathBuf,
        /// Why it is no profile.
        source: text::Error,
    },
    /// A process holds the lock and does not release it.
    #[error("{path} is locked by another process, which may have been stopped")]
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// There is no home directory to put it into.
    #[error("there is no place for profiles: set HOME, XDG_STATE_HOME, or give a directory")]
    NoPlace,
}

/// The key of a profile: the build-id of a program, or `@` and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Program(String);

impl Program {
    /// The key of a program's file.
    pub fn new(build_id: &[u8], path: &[u8]) -> Self {
        Self(Place::module(build_id, path))
    }

    /// Parses the output of [`fmt::Display`]; `None` if it can be no part of a file's name.
    pub fn parse(text: &str) -> Option<Self> {
        let is_build_id = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        let is_name = text.len() > 1 && text.starts_with('@') && !text.contains(['/', '\0']);
        let fits = text.len() <= Place::MOST_BYTES;
        ((is_build_id || is_name) && fits).then(|| Self(text.to_owned()))
    }

    fn file(&self) -> String {
        format!("{}{SUFFIX}", self.0)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A profile of the store.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its key.
    pub program: Program,
    /// Its file.
    pub path: PathBuf,
    /// Its content.
    pub profile: Profile,
    /// The problems in it.
    pub problems: Vec<Problem>,
}

/// A directory of profiles.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    /// The directory of this user's profiles: /var/lib/tek/stack for root, else
    /// $XDG_STATE_HOME/tek/stack or ~/.local/state/tek/stack.
    pub fn usual_directory() -> Result<PathBuf, Error> {
        if nix::unistd::geteuid().is_root() {
            return Ok("/var/lib/tek/stack".into());
        }
        let absolute =
            |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| Some(absolute("HOME")?.join(".local/state")))
            .ok_or(Error::NoPlace)?;
        Ok(state.join("tek/stack"))
    }

    /// A store that may not exist yet: then it has no profiles.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// A writable store; it and its parent directories are made if they do not exist.
    pub fn create_all(directory: impl Into<PathBuf>) -> Result<Self, Error> {
        let directory = directory.into();
        if let Some(parent) = directory.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(parent);
            made.map_err(io_error(&directory))?;
        }
        Self::create(directory)
    }

    /// A writable store; it is made if it does not exist, but its parent must exist.
    pub fn create(directory: impl Into<PathBuf>) -> Result<Self, Error> {
        let store = Self::at(directory);
        match DirBuilder::new().mode(0o755).create(&store.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(io_error(&store.directory)(error));
            }
            _ => {}
        }
        store.trust()?;
        nix::unistd::access(&store.directory, nix::unistd::AccessFlags::W_OK)
            .map_err(|errno| io_error(&store.directory)(errno.into()))?;
        Ok(store)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn trust(&self) -> Result<(), Error> {
        let metadata = self.directory.metadata().map_err(io_error(&self.directory))?;
        if !metadata.is_dir() {
            return Err(io_error(&self.directory)(io::ErrorKind::NotADirectory.into()));
        }
        trust(&self.directory, &metadata)
    }

    /// The path of a profile, whether it exists or not.
    pub fn path(&self, program: &Program) -> PathBuf {
        self.directory.join(program.file())
    }

    /// The data on a program; `None` if there is no profile.
    pub fn load(&self, program: &Program) -> Result<Option<Parsed>, Error> {
        let path = self.path(program);
        match self.trust().and_then(|()| read(&path, true)) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// All readable profiles, by their programs; for the rest the reason is added to `problems`.
    pub fn list(&self, problems: &mut Vec<Error>) -> Vec<Stored> {
        let entries = match self
            .trust()
            .and_then(|()| fs::read_dir(&self.directory).map_err(io_error(&self.directory)))
        {
            Ok(entries) => entries,
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Vec::new()
            }
            Err(error) => {
                problems.push(error);
                return Vec::new();
            }
        };
        let names = entries.take(MOST_FILES).flatten().map(|entry| entry.file_name());
        let mut programs: Vec<Program> =
            names.filter_map(|name| Program::parse(name.to_str()?.strip_suffix(SUFFIX)?)).collect();
        tek_sort::ascending(&mut programs);
        let stored = programs.into_iter().filter_map(|program| match self.load(&program) {
            Ok(parsed) => {
                let Parsed { profile, problems } = parsed?;
                Some(Stored { path: self.path(&program), program, profile, problems })
            }
            Err(error) => {
                problems.push(error);
                None
            }
        });
        stored.collect()
    }

    /// Changes a profile, which is empty if there is none yet, or none that can be read. Returns
    /// the number of kinds that had no room in it.
    pub fn update(
        &self,
        program: &Program,
        change: impl FnOnce(&mut Profile),
    ) -> Result<usize, Error> {
        self.trust()?;
        let _lock = self.lock()?;
        let mut profile = match self.load(program) {
            Ok(parsed) => parsed.unwrap_or_default().profile,
            // A file that is no profile is replaced. A profile of a later version is not touched.
            Err(Error::Format {
                source: text::Error::NoProfile | text::Error::TooLarge, ..
            }) => Profile::default(),
            Err(error) => return Err(error),
        };
        change(&mut profile);
        let (text, dropped) = profile.format();
        self.replace(&self.path(program), text.as_bytes())?;
        Ok(dropped)
    }

    /// Removes a profile; false if there is none.
    pub fn forget(&self, program: &Program) -> Result<bool, Error> {
        self.trust()?;
        let _lock = self.lock()?;
        let path = self.path(program);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true).map_err(io_error(&path)),
        }
    }

    fn lock(&self) -> Result<Flock<File>, Error> {
        let path = self.directory.join(LOCK);
        let options = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .open(&path);
        let mut file = options.map_err(io_error(&path))?;
        let until = Instant::now() + PATIENCE;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((back, nix::errno::Errno::EWOULDBLOCK)) if Instant::now() < until => {
                    file = back;
                    std::thread::sleep(Duration::from_micros(500));
                }
                Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Err(Error::Locked { path }),
                Err((_, errno)) => return Err(io_error(&path)(errno.into())),
            }
        }
    }

    /// Only with the lock.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let new = self.directory.join(".new");
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o644)
                .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
                .open(&new)?;
            file.write_all(bytes)?;
            // Else a power cut could leave an empty file under the name.
            file.sync_data()?;
            fs::rename(&new, path)
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&new);
            io_error(path)(error)
        })
    }
}

/// Reads a profile from any path: one that the user named.
pub(crate) fn read(path: &Path, must_be_trusted: bool) -> Result<Parsed, Error> {
    let mut flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    if must_be_trusted {
        flags |= nix::libc::O_NOFOLLOW;
    }
    // A FIFO in its place must not stop this process.
    let file =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(io_error(path))?;
    if must_be_trusted {
        trust(path, &file.metadata().map_err(io_error(path))?)?;
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(io_error(path))?;
    text::parse(&bytes).map_err(|source| Error::Format { path: path.to_owned(), source })
}

impl Parsed {
    /// Reads a profile that the user named, from wherever it lies.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read(path, false)
    }
}

/// Sizes of stacks come from profiles, so these must be root's or the user's.
fn trust(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let user = nix::unistd::geteuid().as_raw();
    let why = if metadata.uid() != 0 && metadata.uid() != user {
        format!("user {} owns it, neither root nor you", metadata.uid())
    } else if metadata.mode() & 0o022 != 0 {
        let mode = metadata.mode() & 0o777;
        let cure = tek_advice::only_owner_writes(path, metadata.uid());
        format!("other users can write to it (mode {mode:o}): {cure}")
    } else {
        return Ok(());
    };
    Err(Error::NotTrusted { path: path.to_owned(), why })
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |source| Error::Io { path: path.to_owned(), source }
}
