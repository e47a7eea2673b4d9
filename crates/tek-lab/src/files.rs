// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that a job left, unpacked on the host: the tar archive comes from the guest, where the job
//! may have written what it likes.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// Most files and directories of one job.
const MOST_ENTRIES: u64 = 100_000;

/// Bytes of an archive beside those of its files: for each file a header, and the rest of its last
/// block.
const BESIDE: u64 = MOST_ENTRIES * 1024;

/// Why not all files are there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// They are larger than was allowed.
    #[error("the files in $OUT are more than the {0} bytes that --most allows")]
    Large(u64),
    /// They are too many.
    #[error("there are more than {MOST_ENTRIES} files in $OUT; pack them into one")]
    Many,
    /// The bytes are no archive.
    #[error("what the guest sent is no tar archive: {0}")]
    Archive(io::Error),
    /// A name that leads out of the directory.
    #[error("the guest sent a file named {0:?}, which leads out of $OUT")]
    Outside(PathBuf),
    /// A failure of the host.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The operation.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Collects the pieces of an archive in a file without a name.
pub struct Spool {
    file: Option<File>,
    length: u64,
    most: u64,
}

impl Spool {
    /// One that takes files of so many bytes together, and no more.
    pub fn new(most: u64) -> Self {
        Self { file: None, length: 0, most }
    }

    /// Takes a piece. Bytes beyond the limit are counted and dropped.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.length = self.length.saturating_add(bytes.len() as u64);
        if self.is_too_long() {
            self.file = None;
            return Ok(());
        }
        let write = |source| Error::Write { path: std::env::temp_dir(), source };
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile().map_err(write)?),
        };
        file.write_all(bytes).map_err(write)
    }

    /// Unpacks regular files and directories into a directory, which is made with the first one.
    /// Returns the names of the rest: links, devices and the like, which are left out.
    pub fn unpack(self, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        if self.is_too_long() {
            return Err(Error::Large(self.most));
        }
        let Some(mut file) = self.file else { return Ok(Vec::new()) };
        file.rewind().map_err(Error::Archive)?;
        if bytes_in(&file)? > self.most {
            return Err(Error::Large(self.most));
        }
        file.rewind().map_err(Error::Archive)?;
        unpack(io::BufReader::new(file), directory, self.most)
    }

    fn is_too_long(&self) -> bool {
        self.length > self.most.saturating_add(BESIDE)
    }
}

/// The total size of an archive's files, by their headers.
fn bytes_in(archive: &File) -> Result<u64, Error> {
    let mut archive = tar::Archive::new(archive);
    let mut sizes = archive.entries_with_seek().map_err(Error::Archive)?;
    sizes.try_fold(0_u64, |bytes, entry| {
        Ok(bytes.saturating_add(entry.map_err(Error::Archive)?.size()))
    })
}

fn unpack(archive: impl Read, directory: &Path, most: u64) -> Result<Vec<PathBuf>, Error> {
    let mut left_out = Vec::new();
    let mut room = most;
    let mut archive = tar::Archive::new(archive);
    for (number, entry) in archive.entries().map_err(Error::Archive)?.enumerate() {
        if number as u64 >= MOST_ENTRIES {
            return Err(Error::Many);
        }
        let mut entry = entry.map_err(Error::Archive)?;
        let name = entry.path().map_err(Error::Archive)?.into_owned();
        let path = directory.join(inside(&name)?);
        let kind = entry.header().entry_type();
        let write = |source| Error::Write { path: path.clone(), source };
        if kind.is_dir() {
            fs::create_dir_all(&path).map_err(write)?;
        } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            fs::create_dir_all(path.parent().unwrap_or(directory)).map_err(write)?;
            let executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
            let mode = if executable { 0o777 } else { 0o666 };
            let mut options = OpenOptions::new();
            // Never through a link, and never over an existing file.
            options.write(true).create_new(true).mode(mode);
            let mut file = options.open(&path).map_err(write)?;
            // The header's size can be wrong: a sparse file has more bytes than the archive.
            let copied = copy(&mut entry, &mut file, room + 1, &path)?;
            room = room.checked_sub(copied).ok_or(Error::Large(most))?;
        } else {
            left_out.push(name);
        }
    }
    Ok(left_out)
}

/// Copies at most so many bytes.
fn copy(from: &mut impl Read, to: &mut File, most: u64, path: &Path) -> Result<u64, Error> {
    let mut bytes = [0; 1 << 16];
    let mut copied = 0;
    while copied < most {
        let length = match from.read(&mut bytes).map_err(Error::Archive)? {
            0 => break,
            length => length.min((most - copied) as usize),
        };
        to.write_all(&bytes[..length])
            .map_err(|source| Error::Write { path: path.to_owned(), source })?;
        copied += length as u64;
    }
    Ok(copied)
}

/// A name without `.`, if it stays below its start.
fn inside(name: &Path) -> Result<PathBuf, Error> {
    let mut path = PathBuf::new();
    for component in name.components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => return Err(Error::Outside(name.to_owned())),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tar::{Builder, EntryType, Header};

    const MOST: u64 = 1 << 20;

    fn header(kind: EntryType, name: &str, size: u64) -> Header {
        let mut header = Header::new_gnu();
        // Not set_path(), which refuses the names of this test.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o755);
        header.set_cksum();
        header
    }

    fn archive(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (kind, name, bytes) in entries {
            builder.append(&header(*kind, name, bytes.len() as u64), *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn unpacked(bytes: &[u8], most: u64) -> (tempfile::TempDir, Result<Vec<PathBuf>, Error>) {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(most);
        for piece in bytes.chunks(1000) {
            spool.push(piece).unwrap();
        }
        let result = spool.unpack(&directory.path().join("files"));
        (directory, result)
    }

    #[test]
    fn files_and_directories_are_there() {
        let bytes = archive(&[
            (EntryType::Directory, "./", b""),
            (EntryType::Directory, "./empty/", b""),
            (EntryType::Regular, "./deep/down/file", b"text"),
        ]);
        let (directory, left_out) = unpacked(&bytes, MOST);
        assert!(left_out.unwrap().is_empty());
        let files = directory.path().join("files");
        assert!(files.join("empty").is_dir());
        assert_eq!(fs::read(files.join("deep/down/file")).unwrap(), b"text");
    }

    #[test]
    fn no_files_make_no_directory() {
        let (directory, left_out) = unpacked(b"", MOST);
        assert!(left_out.unwrap().is_empty());
        assert!(!directory.path().join("files").exists());
    }

    #[test]
    fn a_name_that_leads_out_is_refused() {
        for name in ["../evil", "/tmp/evil", "a/../../evil"] {
            let (directory, result) = unpacked(&archive(&[(EntryType::Regular, name, b"x")]), MOST);
            assert!(matches!(result, Err(Error::Outside(_))), "{name}: {result:?}");
            assert!(!directory.path().join("evil").exists());
        }
    }

    #[test]
    fn links_and_devices_are_left_out() {
        let kinds = [
            EntryType::Symlink,
            EntryType::Link,
            EntryType::Char,
            EntryType::Block,
            EntryType::Fifo,
        ];
        for kind in kinds {
            let (directory, left_out) = unpacked(
                &archive(&[(kind, "odd", b""), (EntryType::Regular, "odd/file", b"x")]),
                MOST,
            );
            assert_eq!(left_out.unwrap(), [PathBuf::from("odd")]);
            assert!(directory.path().join("files/odd/file").is_file());
        }
    }

    #[test]
    fn a_file_that_comes_twice_is_not_overwritten() {
        let (directory, result) = unpacked(
            &archive(&[(EntryType::Regular, "a", b"1"), (EntryType::Regular, "a", b"2")]),
            MOST,
        );
        assert!(matches!(result, Err(Error::Write { .. })));
        assert_eq!(fs::read(directory.path().join("files/a")).unwrap(), b"1");
    }

    #[test]
    fn an_archive_that_is_too_large_leaves_no_files() {
        let bytes =
            archive(&[(EntryType::Regular, "a", b"1"), (EntryType::Regular, "b", &[1; 5000])]);
        let (directory, result) = unpacked(&bytes, 4096);
        assert!(matches!(result, Err(Error::Large(4096))));
        assert!(!directory.path().join("files").exists());
    }

    #[test]
    fn files_may_have_all_the_bytes_that_are_allowed() {
        let bytes =
            archive(&[(EntryType::Regular, "a", &[1; 5000]), (EntryType::Regular, "b", b"")]);
        let (directory, result) = unpacked(&bytes, 5000);
        assert!(result.unwrap().is_empty());
        assert_eq!(fs::read(directory.path().join("files/a")).unwrap().len(), 5000);
    }

    #[test]
    fn an_endless_archive_is_not_stored() {
        let mut spool = Spool::new(1 << 20);
        let piece = vec![1; 1 << 20];
        for _ in 0..(BESIDE >> 20) + 3 {
            spool.push(&piece).unwrap();
        }
        assert!(spool.file.is_none());
        assert!(matches!(spool.unpack(Path::new("/no/such")), Err(Error::Large(_))));
    }

    #[test]
    fn an_archive_that_is_cut_off_is_an_error() {
        let bytes = archive(&[(EntryType::Regular, "a", &[1; 5000])]);
        let (_directory, result) = unpacked(&bytes[..3000], MOST);
        assert!(matches!(result, Err(Error::Archive(_))), "{result:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_unpacked_or_refused(bytes: Vec<u8>) {
            let _ = unpacked(&bytes, MOST);
        }

        #[test]
        fn an_archive_with_any_damage_stays_inside(
            damage in proptest::collection::vec((0..4096_usize, any::<u8>()), 0..8),
        ) {
            let mut bytes = archive(&[
                (EntryType::Directory, "d", b""),
                (EntryType::Regular, "d/a", &[7; 700]),
                (EntryType::Symlink, "d/b", b""),
            ]);
            for (at, byte) in damage {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            let (directory, _) = unpacked(&bytes, MOST);
            let there: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().collect();
            prop_assert!(there.iter().all(|entry| entry.file_name() == "files"));
        }
    }
}
