// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends the files that a job leaves in `$OUT`, as a tar archive.
use super::error::Error;
use super::port::Port;
use crate::protocol::{Frame, MOST_BYTES};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Most bytes that are brought back: a sparse file's size is not bounded by the disk.
const MOST: u64 = 1 << 30;

/// Sends all files, directories and links in a directory. Returns those that it cannot send, and
/// why.
pub(super) fn send(port: &mut Port, directory: &Path) -> Result<Vec<String>, Error> {
    let mut failure = None;
    let (skipped, result) = {
        let mut pieces = Pieces { port, bytes: Vec::new(), failure: &mut failure };
        let packed = pack(directory, MOST, &mut pieces);
        (packed, pieces.flush())
    };
    if let Some(error) = failure {
        return Err(error);
    }
    Ok(match (skipped, result) {
        (Ok(skipped), Ok(())) => skipped,
        (Err(error), _) | (_, Err(error)) => vec![format!("$OUT: {error}")],
    })
}

/// Packs at most so many bytes of a directory, and returns the names of the rest.
fn pack(directory: &Path, most: u64, to: impl Write) -> io::Result<Vec<String>> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    archive.sparse(false);
    let (mut left_out, mut bytes) = (Vec::new(), 0);
    let mut open = vec![PathBuf::new()];
    while let Some(name) = open.pop() {
        let path = directory.join(&name);
        let log = Path::new("$OUT").join(&name);
        let about = match fs::symlink_metadata(&path) {
            Ok(about) => about,
            // For example a path that is too long: the rest can still be sent.
            Err(error) => {
                left_out.push(why(&error, &log));
                continue;
            }
        };
        if about.is_dir() {
            match entries(&path) {
                Ok(names) => open.extend(names.iter().rev().map(|entry| name.join(entry))),
                Err(error) => left_out.push(why(&error, &log)),
            }
            if name.as_os_str().is_empty() {
                continue;
            }
        } else if about.is_file() {
            if bytes + about.len() > most {
                let reason = "is not brought back: together more than";
                left_out.push(format!("{} {reason} {} MB", log.display(), most >> 20));
                continue;
            }
            bytes += about.len();
        } else if !about.is_symlink() {
            left_out.push(format!("{} is not brought back: it is no file", log.display()));
            continue;
        }
        // A failure after part of an entry is written would make the rest of the archive invalid.
        if about.is_file() {
            if let Err(error) = File::open(&path) {
                left_out.push(why(&error, &log));
                continue;
            }
        }
        archive.append_path_with_name(&path, &name)?;
    }
    archive.into_inner()?.flush()?;
    Ok(left_out)
}

/// The cause first: a path may be so long that its end is cut off.
fn why(error: &io::Error, path: &Path) -> String {
    format!("{error}: {}", path.display())
}

/// The names in a directory, sorted.
fn entries(directory: &Path) -> io::Result<Vec<OsString>> {
    let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Cuts the archive into frames.
struct Pieces<'a> {
    port: &'a mut Port,
    bytes: Vec<u8>,
    /// The failure of the connection to the host: after it, no further frame is sent.
    failure: &'a mut Option<Error>,
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(MOST_BYTES - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..count]);
        if self.bytes.len() == MOST_BYTES {
            self.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.port.send(&Frame::Files(std::mem::take(&mut self.bytes)));
        self.port.make_room().map_err(|error| {
            let log = io::Error::other(error.to_string());
            *self.failure = Some(error);
            log
        })
    }
}

#[cfg(test)]
mod tests {
    use super::pack;
    use std::collections::BTreeMap;
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn packed(directory: &Path, most: u64) -> (BTreeMap<String, String>, Vec<String>) {
        let mut bytes = Vec::new();
        let left_out = pack(directory, most, &mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (entry.path().unwrap().display().to_string(), text)
        });
        (entries.collect(), left_out)
    }

    #[test]
    fn files_links_and_directories_are_packed() {
        let out = tempfile::tempdir().unwrap();
        fs::create_dir(out.path().join("d")).unwrap();
        fs::write(out.path().join("d/file"), "text").unwrap();
        symlink("nowhere", out.path().join("link")).unwrap();
        let (entries, left_out) = packed(out.path(), 100);
        assert_eq!(entries.keys().map(String::as_str).collect::<Vec<_>>(), ["d", "d/file", "link"]);
        assert_eq!(entries["d/file"], "text");
        assert_eq!(left_out, [] as [&str; 0]);
        assert_eq!(packed(&out.path().join("d"), 100).0.len(), 1);
    }

    #[test]
    fn a_path_that_is_too_long_is_left_out_and_the_rest_is_packed() {
        let out = tempfile::tempdir().unwrap();
        fs::write(out.path().join("z"), "text").unwrap();
        let deep = "d/".repeat(2500);
        // Made in two steps, because each path must be short enough for the system call.
        let (first, second) = deep.split_at(2500);
        fs::create_dir_all(out.path().join(first)).unwrap();
        let half = File::open(out.path().join(first)).unwrap();
        let here = std::path::PathBuf::from(format!("/proc/self/fd/{}", half.as_raw_fd()));
        fs::create_dir_all(here.join(second)).unwrap();
        let (entries, left_out) = packed(out.path(), 100);
        assert_eq!(entries["z"], "text");
        assert_eq!(left_out.len(), 1);
        assert!(left_out[0].starts_with("File name too long (os error 36): $OUT/d/"));
    }

    #[test]
    fn what_only_seems_long_is_left_out() {
        let out = tempfile::tempdir().unwrap();
        File::create(out.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
        fs::write(out.path().join("text"), "text").unwrap();
        nix::unistd::mkfifo(&out.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (entries, left_out) = packed(out.path(), 2 << 20);
        assert_eq!(entries.keys().map(String::as_str).collect::<Vec<_>>(), ["text"]);
        assert!(left_out[0].contains("$OUT/fifo is not brought back: it is no file"));
        assert!(left_out[1].contains("$OUT/sparse is not brought back: together more than 2 MB"));
    }
}
