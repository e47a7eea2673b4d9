// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of the kernel, such as the attributes of a cgroup: one write sets the whole.
//!
//! The kernel may show a written value in other words ("max" becomes "max 100000"). So the file is
//! read again after a write, and both texts count as TEK's value.
use crate::step;
use crate::{Error, Undone};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// More than any attribute has.
const MOST_BYTES: u64 = 1 << 20;

/// The controllers of the groups below: shown as a list, written as "+this -that".
const CONTROLLERS: &str = "cgroup.subtree_control";
/// Once "threaded" it stays so until the group is removed.
const TYPE: &str = "cgroup.type";

/// The content of a file: in the journal text, or numbers where it is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

impl Content {
    pub(crate) fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The words of a text, such as controllers, that are separated by white space.
    fn words(&self) -> BTreeSet<&str> {
        match self {
            Self::Text(text) => text.split_ascii_whitespace().collect(),
            Self::Bytes(_) => BTreeSet::new(),
        }
    }
}

/// A file, written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileChange {
    pub(crate) path: PathBuf,
    pub(crate) was: Content,
    pub(crate) ours: Vec<Content>,
    /// The file was not read again yet, so that any content may be ours.
    pub(crate) is_unsettled: bool,
}

impl FileChange {
    pub(crate) fn planned(path: &Path, content: &[u8]) -> Result<Self, Error> {
        check_path(path)?;
        let was = Content::from(read(path)?);
        let content = Content::from(content.to_vec());
        let ours = vec![if is_named(path, CONTROLLERS) { result(&was, &content) } else { content }];
        Ok(Self { path: path.to_owned(), was, ours, is_unsettled: true })
    }

    /// Writes it, and returns what the file then shows.
    pub(crate) fn act(&self, content: &[u8]) -> Result<Content, Error> {
        write(&self.path, content)?;
        Ok(read(&self.path).map_or_else(|_| self.latest(), Content::from))
    }

    pub(crate) fn undo(&self) -> Result<Undone, Error> {
        let Some(present) = none_if_gone(read(&self.path))?.map(Content::from) else {
            return Ok(Undone::Gone);
        };
        if self.is_same(&present, &self.was) || is_threaded_type(&self.path) {
            return Ok(Undone::Undone);
        }
        if !self.is_unsettled && !self.is_ours(&present) {
            return Ok(Undone::Changed);
        }
        let content = match is_named(&self.path, CONTROLLERS) {
            true => difference(&present, &self.was),
            false => self.was.bytes().to_vec(),
        };
        Ok(none_if_gone(write(&self.path, &content))?.map_or(Undone::Gone, |()| Undone::Undone))
    }

    fn latest(&self) -> Content {
        self.ours.last().unwrap_or(&self.was).clone()
    }

    fn is_ours(&self, present: &Content) -> bool {
        self.ours.iter().any(|ours| self.is_same(ours, present))
    }

    fn is_same(&self, one: &Content, other: &Content) -> bool {
        match is_named(&self.path, CONTROLLERS) {
            true => one.words() == other.words(),
            false => one.bytes().trim_ascii_end() == other.bytes().trim_ascii_end(),
        }
    }

    pub(crate) fn is_sensible(&self) -> bool {
        check_path(&self.path).is_ok() && !self.ours.is_empty()
    }
}

/// The list of controllers after "+this -that" is applied.
fn result(was: &Content, content: &Content) -> Content {
    let mut words = was.words();
    for word in content.words() {
        match word.split_at_checked(1) {
            Some(("+", name)) => words.insert(name),
            Some(("-", name)) => words.remove(name),
            _ => false,
        };
    }
    Content::Text(words.into_iter().collect::<Vec<_>>().join(" "))
}

/// The "+this -that" that makes one list of controllers of another.
fn difference(present: &Content, was: &Content) -> Vec<u8> {
    let (present, was) = (present.words(), was.words());
    let added = was.difference(&present).map(|name| format!("+{name}"));
    let removed = present.difference(&was).map(|name| format!("-{name}"));
    added.chain(removed).collect::<Vec<_>>().join(" ").into_bytes()
}

fn is_named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|own| own == name)
}

/// Whether this is the type of a cgroup, which cannot be changed back.
pub(crate) fn is_threaded_type(path: &Path) -> bool {
    is_named(path, TYPE)
}

/// Absolute and without `..`, so that a noted path names one place for each reader.
pub(crate) fn check_path(path: &Path) -> Result<(), Error> {
    let mut components = path.components();
    let first = components.next();
    if first == Some(Component::RootDir) && components.all(|c| matches!(c, Component::Normal(_))) {
        return Ok(());
    }
    let what = format!("{} is no absolute path without \"..\"", path.display());
    Err(Error::invalid(what, "give the whole path"))
}

/// A file that no longer exists, or a file of a group that no longer exists, is no error.
fn none_if_gone<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if [libc::ENOENT, libc::ENODEV, libc::ENOTDIR].contains(&error.errno()) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// At most this file itself, and never a program's pipe or device that one would wait for.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::file(path, "read", source);
    let mut content = Vec::new();
    let file = open(path, OpenOptions::new().read(true)).map_err(failed)?;
    let length = file.take(MOST_BYTES).read_to_end(&mut content).map_err(failed)?;
    match (length as u64) < MOST_BYTES {
        true => Ok(content),
        false => Err(failed(io::Error::from_raw_os_error(libc::EFBIG))),
    }
}

/// Writes it by one write(2), without which the kernel would take pieces for values.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::file(path, "write", source);
    let mut file = open(path, OpenOptions::new().write(true)).map_err(failed)?;
    step::here();
    let written = file.write(content);
    step::here();
    match written {
        Ok(length) if length == content.len() => {}
        Ok(_) => return Err(failed(io::Error::from_raw_os_error(libc::EIO))),
        Err(error) => return Err(failed(error)),
    }
    // Only a file that is no attribute has more in it, and keeps it.
    if file.metadata().is_ok_and(|about| about.len() > content.len() as u64) {
        let _ = file.set_len(content.len() as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Content {
        Content::Text(text.into())
    }

    #[test]
    fn controllers_are_added_and_taken_away_by_name() {
        assert_eq!(result(&text("cpu pids\n"), &text("+memory -pids")), text("cpu memory"));
        assert_eq!(difference(&text("cpu memory\n"), &text("pids cpu\n")), b"+pids -memory");
    }

    #[test]
    fn a_path_names_one_place() {
        assert!(check_path(Path::new("/sys/fs/cgroup/a")).is_ok());
        for wrong in ["", "a", "./a", "/a/../b", "/..", "../a"] {
            assert!(check_path(Path::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_come_back_from_json() {
        for bytes in [&b"100\n"[..], b"\xff\0\x01", b""] {
            let content = Content::from(bytes.to_vec());
            let json = serde_json::to_string(&content).unwrap();
            assert_eq!(serde_json::from_str::<Content>(&json).unwrap().bytes(), bytes);
        }
    }
}
