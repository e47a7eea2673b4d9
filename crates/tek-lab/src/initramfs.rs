// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's file system, packed for the kernel: a cpio archive in the format `newc`.
use crate::kernel::Obtained;
use crate::libraries::{self, Finder};
use crate::manifest::Contents;
use crate::tree::{Node, Tree};
use crate::{added, guest, Kind};
use cpio::newc::{self, ModeFileType};
use nix::sys::memfd::{memfd_create, MFdFlags};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

/// Why there is no initramfs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A common part of all guests is missing.
    #[error(transparent)]
    Guest(#[from] guest::Error),
    /// A file that a program needs is missing.
    #[error(transparent)]
    Libraries(#[from] libraries::Error),
    /// A file or directory to add cannot be added.
    #[error(transparent)]
    Added(#[from] added::Error),
    /// A name that the format does not allow.
    #[error("{path} cannot lie in a guest: its name is no UTF-8; rename it", path = .0.display())]
    Name(PathBuf),
    /// A file that the format does not allow.
    #[error(
        "{path} is too large for a guest: {bytes} bytes, at most 4 GB",
        path = .0.display(), bytes = .1
    )]
    Large(PathBuf, u64),
    /// There is no memory to pack it in.
    #[error("cannot pack the guest's files: {0}; they are kept in memory: free some, or add less")]
    Memory(io::Error),
}

/// Packs all that a guest of that kind needs beside its own init into a file in memory (memfd),
/// which ends with the process.
pub fn pack(kind: &Kind, kernel: &Obtained, contents: &Contents) -> Result<File, Error> {
    let mut tree = guest::tree(kind, kernel, contents)?;
    for (from, to) in &contents.added {
        added::add(&mut tree, from, to)?;
    }
    if contents.sysroot.is_none() {
        added::add_interpreters(&mut tree)?;
    }
    add_libraries(&mut tree, contents.sysroot.as_deref())?;
    let file = memfd_create(c"tek-lab-initramfs", MFdFlags::MFD_CLOEXEC)
        .map_err(|error| Error::Memory(error.into()))?;
    write(&tree, File::from(file))
}

/// Whether such a guest has a program of that name in its PATH.
pub fn has_program(
    kind: &Kind,
    kernel: &Obtained,
    contents: &Contents,
    name: &str,
) -> Result<bool, Error> {
    let mut tree = guest::tree(kind, kernel, contents)?;
    for (from, to) in &contents.added {
        added::add(&mut tree, from, to)?;
    }
    let places = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];
    Ok(places.iter().any(|place| tree.get(&Path::new(place).join(name)).is_some()))
}

/// Adds the files that the added programs need.
fn add_libraries(tree: &mut Tree, sysroot: Option<&Path>) -> Result<(), Error> {
    let mut finder = Finder::new(sysroot);
    let here = tree.nodes().filter_map(|(path, node)| Some((path, node.file()?)));
    let files: Vec<(PathBuf, PathBuf)> =
        here.map(|(path, file)| (file.to_owned(), Path::new("/").join(path))).collect();
    for (file, place) in files {
        for library in finder.needs_of(&file, &place)? {
            if tree.get(&library.place).is_none() {
                let put = tree.put_file(&library.place, &library.file);
                put.map_err(|error| added::Error::Read(library.file.clone(), error))?;
            }
        }
    }
    Ok(())
}

/// Writes the archive, and seeks to its start.
fn write(tree: &Tree, file: File) -> Result<File, Error> {
    let mut to = BufWriter::with_capacity(1 << 18, file);
    for (number, (path, node)) in tree.nodes().enumerate() {
        to = entry(number as u32 + 1, path, node, to)?;
    }
    newc::trailer(&mut to).map_err(Error::Memory)?;
    let mut file = to.into_inner().map_err(|error| Error::Memory(error.into_error()))?;
    file.rewind().map_err(Error::Memory)?;
    Ok(file)
}

fn entry<W: Write>(number: u32, path: &Path, node: &Node, to: W) -> Result<W, Error> {
    let name =
        |path: &Path| path.to_str().map(str::to_owned).ok_or_else(|| Error::Name(path.to_owned()));
    let builder = newc::Builder::new(&name(path)?).ino(number);
    let finished = match node {
        Node::Directory(mode) => {
            let header = builder.mode(*mode).set_mode_file_type(ModeFileType::Directory).nlink(2);
            header.write(to, 0).finish()
        }
        Node::Link(target) => {
            let target = name(target)?;
            let header = builder.mode(0o777).set_mode_file_type(ModeFileType::Symlink);
            let mut header = header.write(to, target.len() as u32);
            header.write_all(target.as_bytes()).map_err(Error::Memory)?;
            header.finish()
        }
        Node::Device(major, minor) => {
            let header = builder.mode(0o600).set_mode_file_type(ModeFileType::Char);
            header.rdev_major(*major).rdev_minor(*minor).write(to, 0).finish()
        }
        Node::File(mode, bytes) => {
            let from = node.file().unwrap_or(path).to_owned();
            let unread = |error| added::Error::Read(from.clone(), error);
            let (length, mut reader) = bytes.open().map_err(unread)?;
            // Python uses its compiled file only if the source still has the same time.
            let time = u32::try_from(node.modified()).unwrap_or(0);
            let header = builder.mode(*mode).set_mode_file_type(ModeFileType::Regular).mtime(time);
            let length = u32::try_from(length).map_err(|_| Error::Large(from.clone(), length))?;
            let mut header = header.write(to, length);
            io::copy(&mut reader, &mut header).map_err(unread)?;
            header.finish()
        }
    };
    finished.map_err(Error::Memory)
}

#[cfg(test)]
mod tests {
    use super::{write, Error};
    use crate::tree::{Node, Tree};
    use cpio::newc;
    use nix::sys::memfd::{memfd_create, MFdFlags};
    use std::collections::BTreeMap;
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn packed(tree: &Tree) -> Result<File, Error> {
        write(tree, File::from(memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap()))
    }

    /// Mode and bytes of each entry.
    fn entries(tree: &Tree) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut file = packed(tree).unwrap();
        let mut found = BTreeMap::new();
        loop {
            let mut entry = newc::Reader::new(file).unwrap();
            if entry.entry().is_trailer() {
                return found;
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            found.insert(entry.entry().name().to_owned(), (entry.entry().mode(), bytes));
            file = entry.finish().unwrap();
        }
    }

    #[test]
    fn what_is_packed_can_be_read_again() {
        let own = std::env::current_exe().unwrap();
        let mut tree = Tree::new();
        tree.put_text("/etc/hosts", 0o644, "text");
        tree.put_file(Path::new("/bin/own"), &own).unwrap();
        tree.put(Path::new("/dev/console"), Node::Device(5, 1));
        let entries = entries(&tree);
        assert_eq!(entries["etc/hosts"], (0o100_644, b"text".to_vec()));
        assert_eq!(entries["bin"], (0o120_777, b"usr/bin".to_vec()));
        assert_eq!(entries["usr"], (0o040_755, Vec::new()));
        assert_eq!(entries["dev/console"].0, 0o020_600);
        assert_eq!(entries["usr/bin/own"].1, std::fs::read(own).unwrap());
    }

    #[test]
    fn what_cannot_be_packed_is_named() {
        let mut tree = Tree::new();
        tree.put(Path::new(OsStr::from_bytes(b"/a\xff")), Node::Directory(0o755));
        assert!(packed(&tree).unwrap_err().to_string().ends_with("is no UTF-8; rename it"));
        let directory = tempfile::tempdir().unwrap();
        let large = directory.path().join("large");
        File::create(&large).unwrap().set_len(1 << 33).unwrap();
        let mut tree = Tree::new();
        tree.put_file(Path::new("/large"), &large).unwrap();
        let error = packed(&tree).unwrap_err().to_string();
        assert!(error.contains("large is too large for a guest: 8589934592 bytes"), "{error}");
        std::fs::remove_file(&large).unwrap();
        let error = packed(&tree).unwrap_err().to_string();
        assert!(error.contains("large for the guest: No such file"), "{error}");
    }
}
