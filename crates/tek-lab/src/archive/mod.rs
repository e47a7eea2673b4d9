// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packages from a Debian archive, by apt with a state of its own: the state of the machine's apt
//! stays unchanged.
mod apt;
mod entry;
mod error;
mod settings;
mod source;
mod targets;

use crate::{cache, checksum};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::path::Path;
use tempfile::TempDir;

use apt::Apt;
pub use error::{Cause, Error};
pub use source::Source;

/// A package as a signed index lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its exact version.
    pub version: String,
    /// SHA-256 of the `.deb` file, as in the index; apt has compared it.
    pub sha256: String,
    /// Size of the `.deb` file in bytes.
    pub size: u64,
    /// Size of its files in bytes, as in the index.
    #[serde(default)]
    pub unpacked: u64,
}

/// The index of one suite for one architecture.
pub(crate) struct Archive {
    apt: Apt,
    suite: String,
    mirror: String,
    /// The reason why a part of the index is missing.
    missing: Option<Error>,
    /// apt's state; it is removed with the index.
    _state: TempDir,
}

impl Archive {
    /// Gets the index. `state` is an empty directory for apt.
    pub fn open(
        source: &Source,
        suite: &str,
        architecture: &str,
        state: TempDir,
    ) -> Result<Self, Error> {
        let entries = source.entries(suite)?;
        let mirror = entries[0].uri.clone();
        let apt = Apt::new(state.path(), &entries, architecture)?;
        let missing = apt.update(suite, &mirror).err();
        if let Some(Error::Program { .. } | Error::Cache(_)) = &missing {
            return Err(missing.expect("it was matched"));
        }
        Ok(Self { apt, suite: suite.to_owned(), mirror, missing, _state: state })
    }

    /// The archive's address.
    pub fn mirror(&self) -> &str {
        &self.mirror
    }

    /// The packages whose names match the pattern, each with the text that `*` matched, the newest
    /// first.
    pub fn matching(
        &self,
        pattern: &str,
        log: &mut dyn FnMut(&str),
    ) -> Result<Vec<(Package, String)>, Error> {
        let prefix = pattern.split('*').next().unwrap_or_default();
        let names = self.apt.names(prefix)?;
        let named: Vec<_> = names
            .lines()
            .filter_map(|name| Some((name, star(pattern, name)?.to_owned())))
            .collect();
        let mut found = Vec::new();
        if !named.is_empty() {
            let shown = self.apt.show(named.iter().map(|(name, _)| *name))?;
            for package in apt::packages(&shown) {
                let star = named.iter().find(|(name, _)| *name == package.name);
                found.extend(star.map(|(_, star)| (package, star.clone())));
            }
        }
        match &self.missing {
            Some(error) if found.is_empty() => Err(error.clone()),
            None if found.is_empty() => Err(Error::NoPackage {
                pattern: pattern.to_owned(),
                suite: self.suite.clone(),
                mirror: self.mirror.clone(),
            }),
            missing => {
                if let Some(error) = missing {
                    log(&format!("{error}; taking the newest of what the rest lists"));
                }
                sort(&mut found)?;
                Ok(found)
            }
        }
    }

    /// The package of exactly that name and version, if the index has it.
    pub fn exactly(&self, name: &str, version: &str) -> Result<Option<Package>, Error> {
        let shown = self.apt.show([name].into_iter())?;
        let mut versions = apt::packages(&shown);
        Ok(versions.find(|package| package.name == name && package.version == version))
    }

    /// These packages and all their dependencies.
    pub fn with_dependencies(
        &self,
        names: &[String],
        log: &mut dyn FnMut(&str),
    ) -> Result<Vec<Package>, Error> {
        // Otherwise apt would report a missing package instead of the missing part of the index.
        let chosen =
            self.apt.closure(names).map_err(|error| self.missing.clone().unwrap_or(error))?;
        if let Some(error) = &self.missing {
            log(&format!("{error}; taking the newest of what the rest lists"));
        }
        let shown = self.apt.show(chosen.iter().map(|(name, _)| name.as_str()))?;
        let is_chosen = |package: &Package| {
            chosen
                .iter()
                .any(|(name, version)| *name == package.name && *version == package.version)
        };
        let mut packages: Vec<_> = apt::packages(&shown).filter(is_chosen).collect();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        packages.dedup_by(|a, b| a.name == b.name);
        Ok(packages)
    }

    /// Downloads packages, compares their checksums, and unpacks all into a directory. `room` is a
    /// directory for the files.
    pub fn unpack(
        &self,
        packages: &[Package],
        room: &Path,
        into: &Path,
        log: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        has_room(packages, room)?;
        log(&format!("Downloading {}", listed(packages)));
        for file in self.apt.download(packages, room)? {
            check(&file, packages)?;
            apt::unpack(&file, into)?;
            std::fs::remove_file(&file).map_err(cache::Error::doing("remove", &file))?;
        }
        Ok(())
    }
}

/// Checks the room for packages and their files before the download, which would be in vain.
fn has_room(packages: &[Package], path: &Path) -> Result<(), Error> {
    let free = nix::sys::statvfs::statvfs(path)
        .map_err(|error| cache::Error::doing("look at", path)(error.into()))?;
    // Both fields have 32 bits on some machines and 64 on other machines, as has their product.
    let free = u128::from(free.blocks_available()) * u128::from(free.fragment_size());
    let free = u64::try_from(free).unwrap_or(u64::MAX);
    let needed: u64 = packages.iter().map(|package| package.size + package.unpacked).sum();
    if needed <= free {
        return Ok(());
    }
    Err(Error::Room {
        what: listed(packages),
        needed: needed.div_ceil(1_000_000),
        path: path.parent().unwrap_or(path).to_owned(),
        free: free / 1_000_000,
    })
}

/// Whether a file has the checksum of one of the packages. apt has compared the download, but does
/// not notice that a copy of it failed on a full disk.
fn check(file: &Path, packages: &[Package]) -> Result<(), Error> {
    let hash = checksum::sha256(file).map_err(cache::Error::doing("read", file))?;
    if packages.iter().any(|package| package.sha256 == hash) {
        return Ok(());
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Err(Error::Apt {
        doing: format!("use {name}"),
        message: "its checksum is wrong".to_owned(),
        cause: Cause::Checksum,
    })
}

/// Packages in a message: the names of a few, the number of many.
fn listed(packages: &[Package]) -> String {
    let size = packages.iter().map(|package| package.size).sum::<u64>().div_ceil(1_000_000);
    if packages.len() > 3 {
        return format!("{} packages ({size} MB)", packages.len());
    }
    let names: Vec<_> =
        packages.iter().map(|package| format!("{} {}", package.name, package.version)).collect();
    format!("{} ({size} MB)", names.join(" and "))
}

/// The text that `*` matches, if the name matches; it matches any text without "-".
fn star<'a>(pattern: &str, name: &'a str) -> Option<&'a str> {
    let Some((before, after)) = pattern.split_once('*') else {
        return (pattern == name).then_some("");
    };
    let star = name.strip_prefix(before)?.strip_suffix(after)?;
    (!star.is_empty() && !star.contains('-')).then_some(star)
}

/// The newest first. Names have versions too (linux-image-6.1.0-9, -10), but only the package's
/// version has an order that Debian guarantees.
fn sort(found: &mut [(Package, String)]) -> Result<(), Error> {
    let mut failure = None;
    found.sort_by(|(a, a_star), (b, b_star)| {
        let mut compare = |a: &str, b: &str| {
            apt::compare_versions(a, b).unwrap_or_else(|error| {
                failure = Some(error);
                Ordering::Equal
            })
        };
        compare(&b.version, &a.version).then_with(|| compare(b_star, a_star))
    });
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::{listed, sort, star, Package};
    use proptest::prelude::*;

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            sha256: String::new(),
            size: 1_500_000,
            unpacked: 0,
        }
    }

    #[test]
    fn a_star_stands_for_all_but_another_part_of_the_name() {
        let pattern = "linux-binary-7.2.*-amd64";
        assert_eq!(star(pattern, "linux-binary-7.2.12+deb13-amd64"), Some("12+deb13"));
        for not in [
            "linux-binary-7.2.12+deb13-rt-amd64",
            "linux-binary-7.2.-amd64",
            "linux-binary-7.20.1-amd64",
            "linux-binary-unsigned-7.2.12+deb13-amd64",
            "linux-binary-7.2.12+deb13-amd64-dbg",
        ] {
            assert_eq!(star(pattern, not), None, "{not}");
        }
        assert_eq!(star("linux-image-6.1.0-*-armmp", "linux-image-6.1.0-50-armmp"), Some("50"));
        assert_eq!(star("busybox", "busybox"), Some(""));
        assert_eq!(star("busybox", "busybox-static"), None);
    }

    #[test]
    fn versions_are_in_debians_order() {
        let mut found: Vec<_> = ["7.2.9-1~bpo13+1", "7.2.12-1~bpo13+1", "7.2.12-1", "7.2.6-1"]
            .map(|version| (package("linux", version), String::new()))
            .into();
        found.extend(
            [("9", "6.1.0-9"), ("10", "6.1.0-10")]
                .map(|(star, name)| (package(name, "1"), star.into())),
        );
        sort(&mut found).unwrap();
        let names: Vec<_> = found.iter().map(|(package, _)| package.version.as_str()).collect();
        assert_eq!(names, ["7.2.12-1", "7.2.12-1~bpo13+1", "7.2.9-1~bpo13+1", "7.2.6-1", "1", "1"]);
        assert_eq!(found[4].0.name, "6.1.0-10");
    }

    #[test]
    fn few_packages_are_named_and_many_are_counted() {
        let one = package("busybox", "1");
        assert_eq!(listed(std::slice::from_ref(&one)), "busybox 1 (2 MB)");
        assert_eq!(listed(&vec![one; 4]), "4 packages (6 MB)");
    }

    proptest! {
        #[test]
        fn what_a_star_stands_for_makes_the_name_again(
            pattern in "[a-z0-9.-]{0,8}\\*[a-z0-9.-]{0,8}",
            name in "[a-z0-9.-]{0,20}",
        ) {
            if let Some(found) = star(&pattern, &name) {
                prop_assert_eq!(pattern.replace('*', found), name);
            }
        }
    }
}
