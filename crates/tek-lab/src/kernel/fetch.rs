// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel from the archive into the cache.
use super::{cached, filled, note, Error, Obtained, Record, Sum, Wanted};
use crate::archive::{self, Archive, Package};
use crate::cache::{self, Lock};
use crate::{Cache, Kernel};
use std::fs;
use std::path::{Path, PathBuf};

/// Gets the newest one, unless the cache has it.
pub(super) fn fetch(
    kernel: &Kernel,
    cache: &Cache,
    lock: &Lock,
    wanted: &Wanted,
    log: &mut dyn FnMut(&str),
) -> Result<Record, Error> {
    let archive_error =
        |source: archive::Error| Error::Archive { kernel: kernel.name.clone(), source };
    let state = lock.temporary()?;
    let archive = Archive::open(wanted.source, &kernel.suite, &kernel.architecture, state)
        .map_err(archive_error)?;
    let parts = newest(kernel, &archive, log).map_err(archive_error)?;

    let directory = format!("kernels/{}", parts.id(kernel));
    let with_modules = format!("{directory}+modules");
    let place = cache.directory().join(&directory);
    let unpack = |packages: &[Package], log: &mut dyn FnMut(&str)| -> Result<_, Error> {
        let room = lock.temporary()?;
        let tree = room.path().join("tree");
        fs::create_dir(&tree).map_err(cache::Error::doing("create", &tree))?;
        archive.unpack(packages, room.path(), &tree, log).map_err(archive_error)?;
        Ok((room, tree))
    };
    // An intact entry with this directory's name has the same packages.
    let whole = cached(cache, kernel).ok().flatten().filter(|record| {
        record.directory == directory
            && record.check_sum(cache).is_ok()
            && record.obtained(cache).image.is_file()
    });
    let vmlinuz = whole.and_then(|record| record.vmlinuz);
    if vmlinuz.is_none() {
        let (room, tree) = unpack(&parts.small, log)?;
        let made = room.path().join("kernel");
        arrange(&tree, &made, &parts.small[0].name)?;
        lock.keep(&made, &directory)?;
    }
    let image = place.join("vmlinuz");
    let vmlinuz = match vmlinuz {
        Some(sum) => sum,
        None => Sum::of(&image).map_err(cache::Error::doing("read", &image))?,
    };
    let mut record = Record {
        kernel: kernel.name.clone(),
        release: release(&place)?,
        mirror: archive.mirror().to_owned(),
        suite: kernel.suite.clone(),
        architecture: kernel.architecture.clone(),
        image: filled(&kernel.image, kernel),
        packages: parts.small.clone(),
        vmlinuz: Some(vmlinuz),
        directory,
        modules: None,
    };
    let obtained = record.obtained(cache);
    let place = cache.directory().join(&with_modules);
    let missing = !obtained.has_all_modules() && (wanted.modules || obtained.needs_modules());
    if let Some(package) = &parts.modules {
        if missing && !place.is_dir() {
            let (_room, tree) = unpack(std::slice::from_ref(package), log)?;
            let made = modules_directory(&tree)
                .ok_or(Error::Package { package: package.name.clone(), what: "lib/modules" })?;
            add_builtin(&obtained, &made)?;
            lock.keep(&made, &with_modules)?;
        }
        if place.is_dir() {
            record.packages.push(package.clone());
            record.modules = Some(with_modules);
        }
    }
    lock.note(&note(kernel), &record)?;
    if wanted.newest {
        lock.sweep("kernels")?;
    }
    Ok(record)
}

/// The packages of one version of a kernel.
struct Parts {
    /// The image first.
    small: Vec<Package>,
    /// Its modules, where they are a package of their own.
    modules: Option<Package>,
}

impl Parts {
    fn id(&self, kernel: &Kernel) -> String {
        let image = &self.small[0];
        format!("{}_{}_{}", image.name, image.version, kernel.architecture)
    }
}

/// The newest version of which the archive has all packages: in the middle of a mirror's update,
/// some may be missing.
fn newest(
    kernel: &Kernel,
    archive: &Archive,
    log: &mut dyn FnMut(&str),
) -> Result<Parts, archive::Error> {
    let pattern = filled(&kernel.image, kernel);
    let images = archive.matching(&pattern, log)?;
    let mut lacking = String::new();
    for (image, star) in images {
        let mut partner = |pattern: &Option<String>| -> Result<_, archive::Error> {
            let Some(pattern) = pattern else { return Ok(Some(None)) };
            let name = filled(pattern, kernel).replace('*', &star);
            let found = archive.exactly(&name, &image.version)?;
            if found.is_none() {
                lacking = name;
            }
            Ok(found.map(Some))
        };
        if let (Some(base), Some(modules)) = (partner(&kernel.base)?, partner(&kernel.modules)?) {
            return Ok(Parts { small: std::iter::once(image).chain(base).collect(), modules });
        }
    }
    Err(archive::Error::NoPackage {
        pattern: lacking,
        suite: kernel.suite.clone(),
        mirror: archive.mirror().to_owned(),
    })
}

/// Makes a directory with `vmlinuz`, `config` and `modules` of an unpacked kernel.
fn arrange(tree: &Path, made: &Path, package: &str) -> Result<(), Error> {
    let lacks = |what| Error::Package { package: package.to_owned(), what };
    fs::create_dir(made).map_err(cache::Error::doing("create", made))?;
    let modules = modules_directory(tree).ok_or_else(|| lacks("lib/modules"))?;
    let release = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let boot = tree.join("boot");
    let take = |candidates: [PathBuf; 2], name: &str| {
        let there = candidates.iter().find(|path| path.is_file())?;
        let place = made.join(name);
        Some(fs::rename(there, &place).map_err(cache::Error::doing("create", &place)))
    };
    take([boot.join(format!("vmlinuz-{release}")), modules.join("vmlinuz")], "vmlinuz")
        .ok_or_else(|| lacks("vmlinuz"))??;
    take([boot.join(format!("config-{release}")), modules.join("config")], "config").transpose()?;
    let place = made.join("modules");
    fs::rename(&modules, &place).map_err(cache::Error::doing("create", &place))?;
    let place = made.join("release");
    fs::write(&place, release).map_err(cache::Error::doing("write", &place))?;
    Ok(())
}

fn release(place: &Path) -> Result<String, Error> {
    let path = place.join("release");
    Ok(fs::read_to_string(&path).map_err(cache::Error::doing("read", &path))?)
}

/// The one directory in lib/modules of an unpacked package, which is named after the release.
fn modules_directory(tree: &Path) -> Option<PathBuf> {
    ["lib/modules", "usr/lib/modules"].iter().find_map(|top| {
        let entries = fs::read_dir(tree.join(top)).ok()?;
        entries.flatten().map(|entry| entry.path()).find(|path| path.is_dir())
    })
}

/// The list of the built-in modules, which is in another package.
fn add_builtin(kernel: &Obtained, made: &Path) -> Result<(), Error> {
    let Some(known) = &kernel.modules else { return Ok(()) };
    for name in ["modules.builtin", "modules.order"] {
        let (from, to) = (known.join(name), made.join(name));
        if from.is_file() && !to.exists() {
            fs::copy(&from, &to).map_err(cache::Error::doing("write", &to))?;
        }
    }
    Ok(())
}
