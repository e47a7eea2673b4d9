// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file in which each change is written down before it is made.
//!
//! One line, one write(2): a process that is killed leaves all of a line or a piece without an end,
//! which is nothing. While no change is in force the file is empty. It is about one boot of the
//! machine: what an earlier one had went with it.
mod held;
mod line;
#[cfg(test)]
mod tests;
mod what;

use crate::step;
use crate::Error;
use held::Content;
pub(crate) use held::Held;
use line::{Line, VERSION};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statvfs::statvfs;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
pub(crate) use what::{Value, What};

const NAME: &str = "journal";
/// The new file that replaces it.
const NEW: &str = "journal.new";
/// A copy of a journal with invalid lines, for inspection.
const DAMAGED: &str = "journal.damaged";

/// A journal that is this long, and twice as long as necessary, is rewritten.
const LONG_BYTES: u64 = 256 << 10;
/// On a small file system a journal is long that takes such a part of it: the new one takes room
/// beside the old one.
const LONG_PART: u64 = 8;

/// An open journal, and what is in force by it.
pub(crate) struct Journal {
    directory: PathBuf,
    /// The directory, locked: the file itself is replaced now and then.
    _lock: Flock<File>,
    file: File,
    length: u64,
    needed: u64,
    /// From so many bytes on it is long.
    long: u64,
    boot: String,
    held: Held,
}

/// The remains of an earlier owner besides the changes that are in force.
#[derive(Default)]
pub(crate) struct Left {
    /// Changes of an earlier boot.
    pub(crate) earlier: usize,
    /// The damage of the file.
    pub(crate) damage: Vec<String>,
}

impl Journal {
    pub(crate) fn open(directory: &Path) -> Result<(Self, Left), Error> {
        let lock = lock(directory)?;
        let _ = fs::remove_file(directory.join(NEW)); // of one that was killed
        let path = directory.join(NAME);
        let mut file = open_file(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| Error::file(&path, "read", error))?;
        let content = held::read(&bytes);
        let mut journal = Self {
            directory: directory.to_owned(),
            _lock: lock,
            file,
            length: content.length as u64,
            needed: 0,
            long: long_bytes(directory),
            boot: boot()?,
            held: Held::default(),
        };
        let left = journal.take(content)?;
        Ok((journal, left))
    }

    fn take(&mut self, content: Content) -> Result<Left, Error> {
        let mut left = Left::default();
        if !content.damaged.is_empty() {
            left.damage.push(keep_damaged(&self.directory, &content));
        }
        if content.boot == self.boot {
            self.held = content.held;
            self.cut(self.length)?;
        } else {
            left.earlier = content.held.all().count();
            self.cut(0)?;
        }
        if !left.damage.is_empty() {
            self.rewrite()?;
        }
        Ok(left)
    }

    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Only to know less than is written: what is written counts after a kill.
    pub(crate) fn held_mut(&mut self) -> &mut Held {
        &mut self.held
    }

    /// Writes down what is about to be changed.
    pub(crate) fn note(&mut self, what: What) -> Result<u64, Error> {
        let change = self.held.next();
        self.append(Line::Note { change, what })?;
        Ok(change)
    }

    /// Writes down another value that a change is about to get, or was found to have.
    pub(crate) fn again(&mut self, change: u64, value: Value) -> Result<(), Error> {
        self.append(Line::Again { change, value })
    }

    /// Ends a change. If this cannot be written, the next owner undoes the change again, which has
    /// no effect.
    pub(crate) fn done(&mut self, change: u64) {
        let line = Line::Done { change };
        let is_last = self.held.all().all(|(other, _)| other == change);
        let is_taken = !(is_last && self.cut(0).is_ok()) && self.append(line.clone()).is_ok();
        if !is_taken {
            let _ = self.held.take(line);
        }
    }

    /// Removes the file, and the directory if nothing else is in it.
    pub(crate) fn remove(self) {
        let _ = fs::remove_file(self.path());
        let _ = fs::remove_dir(&self.directory);
    }

    fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// Nothing that follows is in it any more.
    fn cut(&mut self, length: u64) -> Result<(), Error> {
        step::here();
        let cut = self.file.set_len(length);
        step::here();
        cut.map_err(|error| Error::file(&self.path(), "shorten", error))?;
        self.length = length;
        Ok(())
    }

    fn append(&mut self, line: Line) -> Result<(), Error> {
        if self.is_removed() {
            self.replace()?;
        }
        let mut written = self.write(&line);
        // Most of a long journal may be about changes that are no longer in force.
        if written.as_ref().is_err_and(is_about_room) && self.rewrite().is_ok() {
            written = self.write(&line);
        }
        written.map_err(|error| Error::file(&self.path(), "write", error))?;
        let _ = self.held.take(line);
        if self.length > self.long.max(2 * self.needed) {
            // Where there is no room for that the old one goes on.
            let _ = self.rewrite();
            self.needed = self.length;
        }
        Ok(())
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut bytes = if self.length == 0 { self.beginning() } else { Vec::new() };
        bytes.extend(line.encode());
        step::here();
        let written = self.file.write(&bytes);
        step::here();
        whole(written, bytes.len()).inspect_err(|_| {
            // What follows a piece of a line would be lost with it.
            let _ = self.file.set_len(self.length);
        })?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn beginning(&self) -> Vec<u8> {
        Line::Journal { version: VERSION, boot: self.boot.clone() }.encode()
    }

    /// Writes what is in force into a file that takes the place of this one.
    fn rewrite(&mut self) -> Result<(), Error> {
        match self.held.is_empty() {
            true => self.cut(0),
            false => self.replace(),
        }
    }

    /// Whether the file was removed: its content then ends with this process.
    fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|about| about.nlink() == 0)
    }

    fn replace(&mut self) -> Result<(), Error> {
        if !self.directory.exists() {
            let what = "the journal's directory was removed";
            return Err(Error::invalid(what, "start it again, which undoes what it did"));
        }
        let mut bytes = self.beginning();
        for (change, what) in self.held.all() {
            bytes.extend(Line::Note { change, what: what.clone() }.encode());
        }
        let new = self.directory.join(NEW);
        let _ = fs::remove_file(&new);
        // Where there was no room for it, a piece of it would only take what is left.
        self.file = self.write_new(&new, &bytes).inspect_err(|_| drop(fs::remove_file(&new)))?;
        self.length = bytes.len() as u64;
        Ok(())
    }

    fn write_new(&self, new: &Path, bytes: &[u8]) -> Result<File, Error> {
        let mut file = open_file(new)?;
        file.write_all(bytes).map_err(|error| Error::file(new, "write", error))?;
        let path = self.path();
        step::here();
        fs::rename(new, &path).map_err(|error| Error::file(&path, "replace", error))?;
        step::here();
        Ok(file)
    }
}

fn whole(written: io::Result<usize>, length: usize) -> io::Result<()> {
    match written? {
        all if all == length => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
    }
}

fn is_about_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

/// How long a journal in this directory may become.
#[allow(clippy::unnecessary_cast)] // not with 32 bits
fn long_bytes(directory: &Path) -> u64 {
    match statvfs(directory).map(|about| about.blocks() as u64 * about.fragment_size() as u64) {
        // Zero is a tmpfs without a limit.
        Err(_) | Ok(0) => LONG_BYTES,
        Ok(all) => LONG_BYTES.min(all / LONG_PART),
    }
}

/// Makes the directory if there is none, and takes it for this process alone.
fn lock(directory: &Path) -> Result<Flock<File>, Error> {
    let failed = |error| Error::file(directory, "open the journal's directory", error);
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened =
        OpenOptions::new().read(true).custom_flags(flags).open(directory).map_err(failed)?;
    trust(directory, &opened)?;
    Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        Errno::EWOULDBLOCK => Error::Busy { directory: directory.to_owned() },
        error => failed(error.into()),
    })
}

fn open_file(path: &Path) -> Result<File, Error> {
    let failed = |error| Error::file(path, "open the journal", error);
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
        .map_err(failed)?;
    trust(path, &file)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_file() && about.nlink() == 1 {
        return Ok(file);
    }
    Err(Error::Untrusted { path: path.to_owned(), what: "it is no file of its own" })
}

/// Refuses a journal that another user could have written.
fn trust(path: &Path, file: &File) -> Result<(), Error> {
    let about = file.metadata().map_err(|error| Error::file(path, "look at", error))?;
    let untrusted = |what| Err(Error::Untrusted { path: path.to_owned(), what });
    if about.uid() != nix::unistd::geteuid().as_raw() {
        return untrusted("it is another user's");
    }
    if about.mode() & 0o022 != 0 {
        return untrusted("other users may write to it");
    }
    Ok(())
}

fn boot() -> Result<String, Error> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let id = crate::file::read(path)?;
    Ok(String::from_utf8_lossy(id.trim_ascii()).into_owned())
}

/// The report about a journal with invalid lines; it keeps a copy of the journal.
fn keep_damaged(directory: &Path, content: &Content) -> String {
    let copy = directory.join(DAMAGED);
    let retained = match fs::copy(directory.join(NAME), &copy) {
        Ok(_) => format!("a copy is {}", copy.display()),
        Err(error) => format!("no copy could be kept ({error})"),
    };
    let lines: Vec<_> = content.damaged.iter().take(8).map(usize::to_string).collect();
    format!(
        "the journal is damaged: {} of its lines say nothing and were passed over, the first are \
         {}; {retained}",
        content.damaged.len(),
        lines.join(", ")
    )
}
