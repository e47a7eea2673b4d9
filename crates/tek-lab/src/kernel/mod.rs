// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels in the cache.
mod fetch;
mod modules;

use crate::archive::{self, Package, Source};
use crate::cache::{Damage, Lock, Log};
use crate::{cache, checksum, Cache, Kernel, Kinds};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

pub use modules::modules;

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub struct Obtained {
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// Debian's name of the architecture.
    pub architecture: String,
    /// Its image: vmlinuz.
    pub image: PathBuf,
    /// The directory of its modules (with `kernel/`), if there are any.
    pub modules: Option<PathBuf>,
    /// Its configuration, where the package has it.
    pub config: Option<PathBuf>,
}

/// Options of [`obtain`].
pub struct Wanted<'a> {
    /// Its modules too, even where they are a large package of their own.
    pub modules: bool,
    /// Query the archive for a newer one, instead of taking the one in the cache.
    pub newest: bool,
    /// Take at once the kernel that it fell back to before, if it did, instead of querying the
    /// archive each time.
    pub settle: bool,
    /// The archive.
    pub source: &'a Source,
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not in the cache, and cannot be got.
    #[error("no kernel {kernel}: {source}")]
    Archive {
        /// Its name.
        kernel: String,
        /// The error.
        source: archive::Error,
    },
    /// The cache cannot be written.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// A package lacks a file that it should have.
    #[error(
        "package {package} has no {what}: Debian's packages have changed, so name others in \
         lab/kinds.toml"
    )]
    Package {
        /// Its name.
        package: String,
        /// "boot/vmlinuz-…".
        what: &'static str,
    },
    /// A module that the kernel neither has built in nor as a file.
    #[error("kernel {release} has no module {module}: {cure}")]
    NoModule {
        /// Release of the kernel.
        release: String,
        /// Its name.
        module: String,
        /// The cure.
        cure: &'static str,
    },
    /// modinfo failed.
    #[error("modinfo cannot read {}: {why}; install the package kmod", .path.display())]
    Modinfo {
        /// The module's file.
        path: PathBuf,
        /// Its error message.
        why: String,
    },
}

impl Error {
    /// Whether another package could not be got either.
    fn is_about_this_machine(&self) -> bool {
        match self {
            Self::Archive { source, .. } => source.is_about_this_machine(),
            _ => true,
        }
    }
}

/// A kernel's entry in the cache: the note beside it, which makes the network unnecessary later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub kernel: String,
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// The archive that it came from.
    pub mirror: String,
    /// The suite there.
    pub suite: String,
    /// Debian's name of the architecture.
    pub architecture: String,
    /// The pattern that its package's name matched.
    pub image: String,
    /// The packages that it was made of, with their exact versions and checksums.
    pub packages: Vec<Package>,
    /// The image as it was unpacked; `None`: an earlier version of tek did that.
    #[serde(default)]
    vmlinuz: Option<Sum>,
    /// Below the cache: the directory with the image, its configuration, and its lists of modules.
    directory: String,
    /// Below the cache: the directory with all of its modules, once they were asked for.
    modules: Option<String>,
}

/// The size and checksum that a file must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sum {
    size: u64,
    sha256: String,
}

impl Sum {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { size: path.metadata()?.len(), sha256: checksum::sha256(path)? })
    }
}

/// The cache's entry of that kernel. It checks only the size of the image.
pub fn cached(cache: &Cache, kernel: &Kernel) -> Result<Option<Record>, Damage> {
    let same = |record: &Record| {
        record.suite == kernel.suite
            && record.architecture == kernel.architecture
            && record.image == filled(&kernel.image, kernel)
            && cache.directory().join(&record.directory).is_dir()
    };
    let Some(record) = cache.noted::<Record>(&note(kernel))?.filter(same) else { return Ok(None) };
    record.check_size(cache)?;
    Ok(Some(record))
}

/// The kernel of that name, or the one that it falls back to, from the cache or else the archive.
/// `log` receives a message before each slow operation: "Downloading linux-… (163 MB)".
pub fn obtain(
    kinds: &Kinds,
    kernel: &Kernel,
    cache: &Cache,
    wanted: &Wanted,
    log: &mut dyn FnMut(&str),
) -> Result<Obtained, Error> {
    Ok(record(kinds, kernel, cache, wanted, log)?.obtained(cache))
}

/// As [`obtain`], with the entry in the cache.
pub fn record(
    kinds: &Kinds,
    kernel: &Kernel,
    cache: &Cache,
    wanted: &Wanted,
    log: &mut dyn FnMut(&str),
) -> Result<Record, Error> {
    let mut kernel = kernel;
    let is_here = |kernel| {
        let cached = cached(cache, kernel).ok().flatten();
        cached.is_some_and(|record| record.is_enough(cache, wanted.modules))
    };
    loop {
        if wanted.settle && !wanted.newest && !is_here(kernel) {
            let before = cache.noted::<String>(&instead(kernel));
            let before = before.ok().flatten();
            let before = before.and_then(|name| kinds.kernel(&name)).filter(|other| is_here(other));
            if let Some(other) = before {
                log(&format!(
                    "Taking kernel {}, as before: there was no {}; tek lab fetch looks again",
                    other.name, kernel.name
                ));
                kernel = other;
            }
        }
        let error = match this_one(kernel, cache, wanted, log) {
            Ok(record) => return Ok(record),
            Err(error) => error,
        };
        match kinds.instead_of(kernel) {
            // The cause that keeps any package from arriving also affects the other one.
            Some(other) if !error.is_about_this_machine() || is_here(other) => {
                log(&error.to_string());
                log(&format!("Taking kernel {} instead: {}", other.name, other.about));
                // Without the note the next run queries the archive too, which only takes longer.
                if let Ok(lock) = cache.lock(log) {
                    let _ = lock.note(&instead(kernel), &other.name);
                }
                kernel = other;
            }
            _ => return Err(error),
        }
    }
}

fn this_one(
    kernel: &Kernel,
    cache: &Cache,
    wanted: &Wanted,
    log: &mut dyn FnMut(&str),
) -> Result<Record, Error> {
    let here = || {
        let Some(record) = cached(cache, kernel)? else { return Ok(None) };
        record.check_sum(cache)?;
        Ok(Some(record).filter(|it| it.is_enough(cache, wanted.modules)))
    };
    let fetch = |lock: &Lock, log: &mut Log| fetch::fetch(kernel, cache, lock, wanted, log);
    cache.have(wanted.newest, here, fetch, |record| record.release.clone(), log)
}

impl Record {
    /// Whether its modules are here, if they are asked for or the guest needs them: the lab uses
    /// virtio.
    fn is_enough(&self, cache: &Cache, modules: bool) -> bool {
        let obtained = self.obtained(cache);
        let files = obtained.image.is_file();
        files && (obtained.has_all_modules() || !(modules || obtained.needs_modules()))
    }

    fn check_size(&self, cache: &Cache) -> Result<(), Damage> {
        let Some(sum) = &self.vmlinuz else { return Ok(()) };
        let path = self.obtained(cache).image;
        let why = match path.metadata() {
            Ok(about) if about.len() == sum.size => return Ok(()),
            Ok(about) => format!("{} bytes instead of {}", about.len(), sum.size),
            Err(error) => error.to_string(),
        };
        Err(Damage::File { path, why })
    }

    /// Checks the image against its checksum: some 50 ms, little beside a boot.
    fn check_sum(&self, cache: &Cache) -> Result<(), Damage> {
        let Some(sum) = &self.vmlinuz else { return Ok(()) };
        let path = self.obtained(cache).image;
        let why = match checksum::sha256(&path) {
            Ok(sha256) if sha256 == sum.sha256 => return Ok(()),
            Ok(_) => "its SHA-256 is not what it was".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(Damage::File { path, why })
    }

    /// The exact version of its package.
    pub fn version(&self) -> &str {
        self.packages.first().map_or("", |image| &image.version)
    }

    /// The files to boot it with.
    pub fn obtained(&self, cache: &Cache) -> Obtained {
        let directory = cache.directory().join(&self.directory);
        let modules = match &self.modules {
            Some(modules) => cache.directory().join(modules),
            None => directory.join("modules"),
        };
        Obtained {
            release: self.release.clone(),
            architecture: self.architecture.clone(),
            image: directory.join("vmlinuz"),
            modules: Some(modules).filter(|path| path.is_dir()),
            config: Some(directory.join("config")).filter(|path| path.is_file()),
        }
    }
}

impl Obtained {
    /// Whether the cache has more of its modules than the list of the built-in ones.
    pub fn has_all_modules(&self) -> bool {
        self.modules.as_ref().is_some_and(|modules| modules.join("kernel").is_dir())
    }

    /// Whether the guest cannot talk to the host without modules.
    fn needs_modules(&self) -> bool {
        let config = self.config.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let modular = |text: String| {
            let mut lines = text.lines();
            lines.any(|line| line == "CONFIG_VIRTIO_CONSOLE=m" || line == "CONFIG_VIRTIO_PCI=m")
        };
        config.is_some_and(modular)
    }
}

/// Path of the note about a kernel's entry in the cache.
fn note(kernel: &Kernel) -> String {
    format!("kernels/{}.json", kernel.name)
}

/// Path of the note about the kernel that was taken instead.
fn instead(kernel: &Kernel) -> String {
    format!("instead/{}.json", kernel.name)
}

/// A pattern with the series in it.
fn filled(pattern: &str, kernel: &Kernel) -> String {
    pattern.replace("{series}", &kernel.series)
}
