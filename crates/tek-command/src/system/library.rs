// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paths of libtek.so and libtek-uthread.so, and the names of the libraries beside them.
use super::elf::{self, Elf};
use std::env;
use std::env::consts::ARCH;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// File name of the library.
pub const TEK: &str = "libtek.so";

/// And of the one for user-level threads.
pub const UTHREAD: &str = "libtek-uthread.so";

/// And of the one with other locks for the program.
pub const SYNC: &str = "libtek-sync.so";

/// And of the one with the spin lock for threads of one real-time priority.
pub const RTFIFO: &str = "libtek-rtfifo.so";

/// And of the profiler.
pub const PROFILE: &str = "libtek-profile.so";

/// The cure where a file of TEK's is missing.
pub const BUILD_AGAIN: &str =
    "run `make build` in TEK's source tree, and `make install` there if TEK was installed from it";

/// Name of the thread with which libtek.so measures the stacks of a process.
pub const WATCH: &str = "tek-stack";

/// Names of the threads that libtek.so itself may have in a process.
const HELPERS: [&str; 2] = ["tek-guard", WATCH];

/// Whether a thread of that name is one of libtek.so's own.
pub fn is_helper(name: &str) -> bool {
    HELPERS.contains(&name)
}

/// Why there is no library to preload.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No file in any of the places.
    #[error("{name} is not installed: looked for {}", list(.places))]
    Missing {
        /// Of the file.
        name: &'static str,
        /// Where it could be.
        places: Vec<PathBuf>,
    },
    /// A file that the dynamic loader would refuse.
    #[error("{path} cannot be preloaded: {why}", path = .0.display(), why = .1)]
    Unfit(PathBuf, String),
    /// There is no libtek-uthread.so for this processor.
    #[error("{UTHREAD} is for x86-64 and aarch64 (64-bit ARM), and this processor is {0}")]
    Processor(&'static str),
    /// tek cannot determine its own path, and so not that of the libraries.
    #[error("cannot find out where tek itself is installed: {0}")]
    Lost(std::io::Error),
}

impl Error {
    /// The cure for it.
    pub fn cure(&self) -> String {
        match self {
            Self::Missing { name: TEK, .. } => {
                format!("{BUILD_AGAIN}, or set TEK_LIBRARY to the path of a libtek.so")
            }
            Self::Missing { .. } => {
                format!("{BUILD_AGAIN}, or set TEK_LIBRARY to the path of the libtek.so beside it")
            }
            Self::Processor(_) => {
                "run the program without it; one that is written for <tek/uthread.h> has \
                 user-level threads here too, by libtek-uthread-native.so"
                    .into()
            }
            Self::Unfit(..) => "set TEK_LIBRARY to a libtek.so built for this machine".into(),
            Self::Lost(_) => "set TEK_LIBRARY to the path of libtek.so".into(),
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}

/// The library that `tek run` preloads, as an absolute path, and its ELF facts.
///
/// `$TEK_LIBRARY`; without it `../lib/libtek.so`, then `../lib/MULTIARCH/libtek.so`, relative to
/// the directory of tek's own file.
pub fn find() -> Result<(PathBuf, Elf), Error> {
    first(TEK, places()?)
}

/// The library for user-level threads: in the directory of libtek.so, even if that file is missing.
pub fn find_uthread() -> Result<(PathBuf, Elf), Error> {
    let places = places()?.into_iter().map(|path| path.with_file_name(UTHREAD)).collect();
    first(UTHREAD, places).map_err(|error| match error {
        Error::Missing { .. } if !has_uthread(ARCH) => Error::Processor(ARCH),
        error => error,
    })
}

/// Whether lib/meson.build makes libtek-uthread.so for a processor.
fn has_uthread(processor: &str) -> bool {
    ["x86_64", "aarch64"].contains(&processor)
}

/// The library of `tek profile`: in the same directory.
pub fn find_profile() -> Result<(PathBuf, Elf), Error> {
    first(PROFILE, places()?.into_iter().map(|path| path.with_file_name(PROFILE)).collect())
}

/// Where libtek.so could be.
fn places() -> Result<Vec<PathBuf>, Error> {
    match env::var_os("TEK_LIBRARY").filter(|path| !path.is_empty()) {
        Some(path) => Ok(vec![absolute(path).map_err(Error::Lost)?]),
        None => Ok(beside(&env::current_exe().map_err(Error::Lost)?)),
    }
}

/// The first existing one, if it can be preloaded.
fn first(name: &'static str, places: Vec<PathBuf>) -> Result<(PathBuf, Elf), Error> {
    let Some(path) = places.iter().find(|path| path.exists()) else {
        return Err(Error::Missing { name, places });
    };
    let unfit = |why: String| Error::Unfit(path.clone(), why);
    let elf = elf::read(path).map_err(|error| unfit(error.to_string()))?;
    let elf = elf.ok_or_else(|| unfit("it is no ELF file".into()))?;
    if !elf.is_library() {
        return Err(unfit("it is no shared library".into()));
    }
    if let Ok(Some(own)) = elf::read(Path::new("/proc/self/exe")) {
        if own.machine() != elf.machine() {
            let (theirs, ours) = (elf.machine(), own.machine());
            return Err(unfit(format!("it is made for {theirs}, this tek for {ours}")));
        }
    }
    Ok((path.clone(), elf))
}

/// The directories of a library for 64-bit programs and its sibling for 32-bit ones: those of
/// `make install`, and of a system of many architectures. libtek.so knows the same (lib/exec).
const DIRECTORIES: [(&str, &str); 2] =
    [("/lib/", "/lib32/"), ("/lib/x86_64-linux-gnu/", "/lib/i386-linux-gnu/")];

/// The library for the programs of the other word size, and its ELF facts: it lies in the sibling
/// of the directory of this one. `None`: there is none.
pub fn sibling(library: &Path, elf: &Elf) -> Option<(PathBuf, Elf)> {
    let path = sibling_of(library)?;
    let other = elf::read(&path).ok()??;
    (other.is_library() && other.machine().bits != elf.machine().bits).then_some((path, other))
}

/// The path of a library's sibling, even if it does not exist.
pub fn sibling_of(library: &Path) -> Option<PathBuf> {
    let name = library.file_name()?;
    let directory = format!("{}/", library.parent()?.to_str()?.trim_end_matches('/'));
    let pair = DIRECTORIES.iter().flat_map(|&(wide, narrow)| [(wide, narrow), (narrow, wide)]);
    let mut found = pair.filter_map(|(from, to)| {
        let prefix = directory.strip_suffix(from)?;
        Some(Path::new(&format!("{prefix}{to}")).join(name))
    });
    found.next()
}

/// An absolute path, because the program may change its directory.
fn absolute(path: OsString) -> std::io::Result<PathBuf> {
    std::path::absolute(path)
}

fn beside(tek: &Path) -> Vec<PathBuf> {
    // /proc/self/exe, which current_exe() reads, has its symbolic links resolved.
    let prefix = tek.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let lib = prefix.join("lib");
    vec![lib.join("libtek.so"), lib.join(multiarch(ARCH)).join("libtek.so")]
}

/// The directory of a processor's libraries on systems of many architectures.
fn multiarch(processor: &str) -> String {
    match processor {
        "arm" => "arm-linux-gnueabihf".into(),
        "x86" => "i386-linux-gnu".into(),
        other => format!("{other}-linux-gnu"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_lies_beside_the_command() {
        let places = beside(Path::new("/opt/tek/bin/tek"));
        assert_eq!(places[0], Path::new("/opt/tek/lib/libtek.so"));
        assert!(places[1].starts_with("/opt/tek/lib"));
    }

    #[test]
    fn user_level_threads_are_refused_by_the_processors_name_where_it_lacks_them() {
        assert!(has_uthread("x86_64") && has_uthread("aarch64"));
        assert!(!has_uthread("arm") && !has_uthread("x86"));
        let error = Error::Processor("arm");
        let printed =
            "libtek-uthread.so is for x86-64 and aarch64 (64-bit ARM), and this processor is arm";
        assert_eq!(error.to_string(), printed);
        assert!(error.cure().contains("without it"));
    }

    #[test]
    fn directories_of_many_architectures_have_debians_names() {
        let named = ["aarch64", "arm", "x86", "x86_64"].map(multiarch);
        let wanted =
            ["aarch64-linux-gnu", "arm-linux-gnueabihf", "i386-linux-gnu", "x86_64-linux-gnu"];
        assert_eq!(named, wanted);
    }

    #[test]
    fn the_sibling_lies_in_the_directory_for_the_other_word_size() {
        let pairs = [
            ("/opt/tek/lib/libtek.so", "/opt/tek/lib32/libtek.so"),
            ("/lib/libtek.so", "/lib32/libtek.so"),
            ("/usr/lib/x86_64-linux-gnu/libtek.so", "/usr/lib/i386-linux-gnu/libtek.so"),
        ];
        for (wide, narrow) in pairs {
            assert_eq!(sibling_of(Path::new(wide)), Some(narrow.into()));
            assert_eq!(sibling_of(Path::new(narrow)), Some(wide.into()));
        }
        for path in ["/opt/tek/libtek.so", "/opt/lib/tek/libtek.so", "libtek.so", "/"] {
            assert_eq!(sibling_of(Path::new(path)), None, "{path}");
        }
    }
}
