// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian packages of another architecture, unpacked into one directory: to build programs against,
//! and to take what a guest of that architecture runs from.
use crate::archive::{self, Archive, Package, Source};
use crate::cache::{self, Cache, Damage, Lock, Log};
use crate::kinds::Sysroot;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Why there is no sysroot.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not in the cache, and cannot be got.
    #[error("no packages for {sysroot}: {source}")]
    Archive {
        /// Its name.
        sysroot: String,
        /// The error.
        source: archive::Error,
    },
    /// The cache cannot be written.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

/// A sysroot's entry in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub sysroot: String,
    /// The archive that it came from.
    pub mirror: String,
    /// The suite there.
    pub suite: String,
    /// Debian's name of the architecture.
    pub architecture: String,
    /// The requested packages.
    pub wanted: Vec<String>,
    /// The requested packages and all their dependencies, with exact versions and checksums.
    pub packages: Vec<Package>,
    /// Its path below the cache.
    directory: String,
}

impl Record {
    /// Its path.
    pub fn directory(&self, cache: &Cache) -> PathBuf {
        cache.directory().join(&self.directory)
    }
}

/// The cache's entry of that sysroot.
pub fn cached(cache: &Cache, sysroot: &Sysroot) -> Result<Option<Record>, Damage> {
    let same = |record: &Record| {
        record.suite == sysroot.suite
            && record.architecture == sysroot.architecture
            && record.wanted == sysroot.packages
            && record.directory(cache).is_dir()
    };
    Ok(cache.noted(&note(sysroot))?.filter(same))
}

/// The sysroot, from the cache, or else the archive; with `newest`, query for newer packages first.
pub fn obtain(
    sysroot: &Sysroot,
    cache: &Cache,
    newest: bool,
    source: &Source,
    log: &mut dyn FnMut(&str),
) -> Result<Record, Error> {
    let here = || cached(cache, sysroot);
    let fetch = |lock: &Lock, log: &mut Log| fetch(sysroot, lock, source, log);
    cache.have(newest, here, fetch, |record| format!("the packages for {}", record.sysroot), log)
}

fn fetch(
    sysroot: &Sysroot,
    lock: &Lock,
    source: &Source,
    log: &mut dyn FnMut(&str),
) -> Result<Record, Error> {
    let error = |source: archive::Error| Error::Archive { sysroot: sysroot.name.clone(), source };
    let state = lock.temporary()?;
    let archive =
        Archive::open(source, &sysroot.suite, &sysroot.architecture, state).map_err(error)?;
    let packages = archive.with_dependencies(&sysroot.packages, log).map_err(error)?;
    let directory = format!("sysroots/{}-{}", sysroot.architecture, key(&packages));
    if !lock.has(&directory) {
        let room = lock.temporary()?;
        let tree = room.path().join("tree");
        fs::create_dir(&tree).map_err(cache::Error::doing("create", &tree))?;
        archive.unpack(&packages, room.path(), &tree, log).map_err(error)?;
        make_links_relative(&tree, &tree)
            .map_err(cache::Error::doing("make links relative in", &tree))?;
        lock.keep(&tree, &directory)?;
    }
    let record = Record {
        sysroot: sysroot.name.clone(),
        mirror: archive.mirror().to_owned(),
        suite: sysroot.suite.clone(),
        architecture: sysroot.architecture.clone(),
        wanted: sysroot.packages.clone(),
        packages,
        directory,
    };
    lock.note(&note(sysroot), &record)?;
    lock.sweep("sysroots")?;
    Ok(record)
}

fn note(sysroot: &Sysroot) -> String {
    format!("sysroots/{}.json", sysroot.name)
}

/// Equal for the same packages in the same versions.
fn key(packages: &[Package]) -> String {
    let mut names: Vec<_> =
        packages.iter().map(|package| format!("{}={}\n", package.name, package.version)).collect();
    names.sort();
    let hash = Sha256::digest(names.concat());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An absolute link means a place in the sysroot, not in this machine.
fn make_links_relative(directory: &Path, top: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            make_links_relative(&path, top)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&path)?;
            if target.is_absolute() {
                let place = path.strip_prefix(top).unwrap_or(&path);
                fs::remove_file(&path)?;
                std::os::unix::fs::symlink(relative(place, &target), &path)?;
            }
        }
    }
    Ok(())
}

/// The target as seen from a link at that place below the top.
fn relative(place: &Path, target: &Path) -> PathBuf {
    let up = place.components().count().saturating_sub(1);
    let mut seen: PathBuf = std::iter::repeat_n("..", up).collect();
    for component in target.components() {
        match component {
            Component::Normal(name) => seen.push(name),
            Component::ParentDir => seen.push(".."),
            _ => (),
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::{key, make_links_relative};
    use crate::archive::Package;
    use std::fs;

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            sha256: String::new(),
            size: 1,
            unpacked: 1,
        }
    }

    #[test]
    fn other_versions_have_another_directory_and_the_order_does_not_matter() {
        let (a, b) = (package("a", "1"), package("b", "2"));
        assert_eq!(key(&[a.clone(), b.clone()]), key(&[b.clone(), a.clone()]));
        assert_ne!(key(&[a.clone(), b]), key(&[a, package("b", "3")]));
    }

    #[test]
    fn absolute_links_lead_to_places_in_the_sysroot() {
        let top = tempfile::tempdir().unwrap();
        let usr = top.path().join("usr/lib/arm-linux-gnueabihf");
        let lib = top.path().join("lib/arm-linux-gnueabihf");
        fs::create_dir_all(&usr).unwrap();
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libm.so.6"), "the library").unwrap();
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, usr.join(name)).unwrap();
        };
        link("/lib/arm-linux-gnueabihf/libm.so.6", "libm.so");
        link("libother.so.1", "libother.so");
        make_links_relative(top.path(), top.path()).unwrap();
        assert_eq!(fs::read_to_string(usr.join("libm.so")).unwrap(), "the library");
        assert_eq!(
            fs::read_link(usr.join("libm.so")).unwrap().to_str(),
            Some("../../../lib/arm-linux-gnueabihf/libm.so.6")
        );
        assert_eq!(fs::read_link(usr.join("libother.so")).unwrap().to_str(), Some("libother.so.1"));
    }
}
