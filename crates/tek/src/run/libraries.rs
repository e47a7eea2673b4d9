// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run --alloc`, `--libm`: other libraries in the places of the C library's own.
use crate::system::elf::{self, Elf, Machine};
use crate::system::library::BUILD_AGAIN;
use crate::system::loader;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tek_advice::Package;
use tek_command::values::alloc::{Alloc, ALLOCS, INSTALLED};

/// Variable for the allocator: from `--alloc` of `tek run`, and read by libtek-alloc.so.
pub const ALLOC_VARIABLE: &str = "TEK_ALLOC";

/// Variable for the mathematical functions: from `--libm` of `tek run`. libtek.so reads it to take
/// them out for programs that cannot have them.
pub const LIBM_VARIABLE: &str = "TEK_LIBM";

/// TEK's own allocators are in this file, beside libtek.so.
pub const ALLOC: &str = "libtek-alloc.so";
/// The mathematical functions of musl, likewise, if they were there when TEK was built.
pub const LIBM_MUSL: &str = "libtek-libm-musl.so";

/// The options.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Libraries")]
pub struct Options {
    /// Which allocator: the C library's (glibc), one that is installed (mimalloc, jemalloc,
    /// tcmalloc), one of bounded time that grows (tlsf), or that one in so much memory, which is
    /// present and locked from the start and all there is, for each process anew (pool=64M)
    #[arg(long, value_name = "NAME", value_parser = ALLOCS, hide_possible_values = true)]
    pub alloc: Option<Alloc>,

    /// Which mathematical functions: the C library's (glibc), those of musl, or a shared library
    #[arg(long, value_name = "glibc|musl|PATH", value_hint = clap::ValueHint::FilePath)]
    pub libm: Option<Libm>,
}

/// Debian's package with musl's archive, of which TEK's library of mathematical functions is made.
pub const MUSL: Package = Package { names: &[("musl-dev", 0)] };

/// The largest pool of a 32-bit program.
const MOST_POOL_OF_32_BITS: u64 = 1 << 30;

/// The beginnings of allocators' file names, to recognise a preloaded one; lib/exec/preload_list.c
/// has them too.
const ALLOCATORS: [&str; 4] = ["libmimalloc", "libjemalloc", "libtcmalloc", "libtek-alloc"];
/// The same for mathematical functions.
const LIBMS: [&str; 2] = ["libm.so", "libtek-libm-"];

/// Mathematical functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Libm {
    /// The C library's.
    Glibc,
    /// musl's.
    Musl,
    /// The functions of this file.
    File(PathBuf),
}

impl FromStr for Libm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "glibc" => Ok(Self::Glibc),
            "musl" => Ok(Self::Musl),
            "newlib" => Err("newlib is an archive for bare metal, and none of it is in a program \
                             for Linux: make a shared library of its libm.a (all of it built with \
                             -fPIC) and give the path of that"
                .to_owned()),
            path if path.contains('/') => Ok(Self::File(path.into())),
            _ => Err("write glibc, musl, or a path with a slash".to_owned()),
        }
    }
}

/// The libraries of a program besides TEK's library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// To be preloaded behind TEK's.
    pub libraries: Vec<PathBuf>,
    /// The beginnings of the file names that these replace.
    replaced: Vec<&'static str>,
    /// And the libm that a run around this one preloaded by its path.
    replaced_libm: Option<PathBuf>,
    /// A library of TEK's own that is not installed.
    pub missing: Option<String>,
    /// A note for the user that asked for them.
    pub note: Option<String>,
    /// For [`ALLOC_VARIABLE`].
    pub alloc: Option<Alloc>,
    /// For [`LIBM_VARIABLE`].
    pub libm: Option<Libm>,
}

/// The environment's settings, for options that are not given.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    alloc: Option<OsString>,
    libm: Option<OsString>,
}

impl Inherited {
    /// As tek found it.
    pub fn of_tek() -> Self {
        Self { alloc: env::var_os(ALLOC_VARIABLE), libm: env::var_os(LIBM_VARIABLE) }
    }
}

impl Beside {
    /// Finds the libraries for a program of this kind, which gets the given library of TEK. `Err`
    /// names the missing library and the cure.
    pub fn find(
        options: &Options,
        inherited: &Inherited,
        machine: Machine,
        tek: &Path,
    ) -> Result<Self, String> {
        let alloc = match options.alloc {
            Some(alloc) => Some(alloc),
            None => of_environment(ALLOC_VARIABLE, inherited.alloc.as_deref())?,
        };
        // A libm of a run around this one may be preloaded, even if it is invalid now.
        let replaced_libm = inherited.libm.as_ref().map(PathBuf::from);
        let libm = match &options.libm {
            Some(libm) => Some(libm.absolute()),
            None => of_environment(LIBM_VARIABLE, inherited.libm.as_deref())?,
        };
        let mut beside = Self { alloc, libm, ..Self::default() };
        if let Some(alloc) = alloc {
            beside.replaced.extend(ALLOCATORS);
            beside.take(library_of(alloc, machine, tek))?;
        }
        if let Some(libm) = beside.libm.clone() {
            beside.replaced.extend(LIBMS);
            beside.replaced_libm = replaced_libm;
            beside.take(libm.library(machine, tek))?;
            if let Libm::File(path) = &libm {
                beside.note = (!has_mathematics(path)).then(|| {
                    format!(
                        "--libm {}: there is no sin, cos, exp, log, pow or sqrt in it",
                        path.display()
                    )
                });
            }
        }
        for path in &beside.libraries {
            if !loader::can_be_preloaded(path) {
                return Err(format!(
                    "{} cannot be preloaded, because LD_PRELOAD cannot hold a path with a space or \
                     a colon: give a copy or symbolic link in a directory without them",
                    path.display()
                ));
            }
        }
        Ok(beside)
    }

    fn take(&mut self, found: Result<Option<PathBuf>, Problem>) -> Result<(), String> {
        match found {
            Ok(library) => self.libraries.extend(library),
            Err(Problem::Missing(what)) => self.missing = Some(what),
            Err(Problem::Misused(what)) => return Err(what),
        }
        Ok(())
    }

    /// Whether the program calls functions that only jemalloc has, and the requested allocator
    /// lacks them. It passes their blocks to free(3), so all must come from one allocator.
    pub fn lacks_what_it_calls(&self, program: &Path) -> bool {
        const OF_JEMALLOC: [&str; 4] = ["mallocx", "rallocx", "dallocx", "sdallocx"];
        let needs_jemalloc = || {
            let elf = elf::read(program).ok().flatten();
            elf.is_some_and(|elf| elf.needed.iter().any(|name| name.starts_with("libjemalloc")))
        };
        matches!(self.alloc, Some(Alloc::Installed(installed)) if installed.name != "jemalloc")
            && needs_jemalloc() // the whole of a large program is not read for nothing
            && elf::calls_one_of(program, &OF_JEMALLOC)
    }

    /// Leaves the allocator to the program, which must have its own one. Returns whether there was
    /// another.
    pub fn leave_allocator(&mut self) -> bool {
        let had = self.alloc.is_some_and(|alloc| alloc != Alloc::Glibc);
        if had {
            self.alloc = Some(Alloc::Glibc);
            self.libraries.retain(|path| !is_allocator(path));
        }
        had
    }

    /// Whether an entry of `LD_PRELOAD` makes room for these.
    pub fn replaces(&self, entry: &Path) -> bool {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        self.replaced.iter().any(|start| name.starts_with(start))
            || self.replaced_libm.as_deref() == Some(entry)
    }
}

/// The allocators from outside TEK that this tek's programs can have.
pub fn installed_allocators() -> Vec<&'static str> {
    let own = elf::read(Path::new("/proc/self/exe")).ok().flatten();
    let found = INSTALLED.iter().filter(|known| {
        own.as_ref().is_some_and(|own| loader::find(known.files, own.machine()).is_some())
    });
    found.map(|known| known.name).collect()
}

fn is_allocator(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ALLOCATORS.iter().any(|start| name.starts_with(start))
}

fn has_mathematics(library: &Path) -> bool {
    const USUAL: [&str; 6] = ["sin", "cos", "exp", "log", "pow", "sqrt"];
    tek_model::Functions::default().has_one_of(library, &USUAL)
}

/// Why a library is unavailable.
#[derive(Debug)]
enum Problem {
    /// The request makes no sense here, or a library from outside TEK is not installed.
    Misused(String),
    /// A library of TEK's own is not installed.
    Missing(String),
}

/// The value of a variable, checked as that of an option is.
fn of_environment<T: FromStr<Err = String>>(
    name: &str,
    text: Option<&OsStr>,
) -> Result<Option<T>, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let text = text.to_string_lossy();
    text.parse().map(Some).map_err(|why| format!("{name} is {text}: {why}"))
}

/// The file of an allocator, for a program of this kind.
fn library_of(alloc: Alloc, machine: Machine, tek: &Path) -> Result<Option<PathBuf>, Problem> {
    match alloc {
        Alloc::Glibc => Ok(None),
        Alloc::Installed(installed) => {
            loader::find(installed.files, machine).map(Some).ok_or_else(|| {
                Problem::Misused(format!(
                    "--alloc {}: there is no {} for a program for {machine}: {}",
                    installed.name,
                    installed.files[0],
                    tek_advice::install(&[installed.package], foreign(machine))
                ))
            })
        }
        Alloc::Pool(bytes) if machine.bits == 32 && bytes > MOST_POOL_OF_32_BITS => {
            Err(Problem::Misused(format!(
                "--alloc {alloc}: a program for {machine} can have a pool of 1G at most"
            )))
        }
        Alloc::Tlsf | Alloc::Pool(_) => ours(ALLOC, machine, tek).map(Some).map_err(|place| {
            Problem::Missing(format!("--alloc {alloc}: {place} is not installed: {BUILD_AGAIN}"))
        }),
    }
}

/// Debian's name of the architecture of such programs, if it is not this machine's usual one.
fn foreign(machine: Machine) -> Option<&'static str> {
    let own = elf::read(Path::new("/proc/self/exe")).ok()??.machine();
    (own != machine && machine.bits == 32 && cfg!(target_arch = "x86_64")).then_some("i386")
}

impl Libm {
    /// For [`LIBM_VARIABLE`].
    pub fn value(&self) -> &OsStr {
        match self {
            Self::Glibc => OsStr::new("glibc"),
            Self::Musl => OsStr::new("musl"),
            Self::File(path) => path.as_os_str(),
        }
    }

    /// An absolute path, because programs may run in other directories.
    fn absolute(&self) -> Self {
        match self {
            Self::File(path) => {
                Self::File(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
            }
            other => other.clone(),
        }
    }

    fn library(&self, machine: Machine, tek: &Path) -> Result<Option<PathBuf>, Problem> {
        match self {
            Self::Glibc => Ok(None),
            Self::Musl => ours(LIBM_MUSL, machine, tek).map(Some).map_err(|place| {
                let own = elf::read(Path::new("/proc/self/exe")).ok().flatten();
                match own.map(|own| own.machine()) {
                    // No build of TEK makes it for this machine type.
                    Some(own) if own != machine => Problem::Misused(format!(
                        "--libm musl: TEK has musl's functions for programs for {own}, and this \
                         one is for {machine}: give the path of a library for it"
                    )),
                    _ => Problem::Missing(format!(
                        "--libm musl: {place} is not installed: it is made of musl's archive when \
                         TEK is built: {}, then {BUILD_AGAIN}",
                        tek_advice::install(&[MUSL], None)
                    )),
                }
            }),
            Self::File(path) => {
                let refuse =
                    |why: &str| Problem::Misused(format!("--libm {}: {why}", path.display()));
                let elf = elf::read(path).map_err(|error| refuse(&error.to_string()))?;
                let Some(elf) = elf.filter(Elf::is_library) else {
                    return Err(refuse("it is no shared library"));
                };
                if elf.machine() != machine {
                    return Err(refuse(&format!(
                        "it is made for {}, the program for {machine}",
                        elf.machine()
                    )));
                }
                if elf.name().is_some_and(|name| name.starts_with("libc.")) {
                    return Err(refuse(
                        "it is a whole C library, and a program can have one: give a library that \
                         has mathematical functions alone",
                    ));
                }
                Ok(Some(path.clone()))
            }
        }
    }
}

/// A library of TEK's own, in the directory of its library for such programs; `Err`: its expected
/// path.
fn ours(name: &str, machine: Machine, tek: &Path) -> Result<PathBuf, String> {
    let path = tek.with_file_name(name);
    let elf = elf::read(&path).ok().flatten();
    match elf {
        Some(elf) if elf.machine() == machine => Ok(path),
        _ => Err(path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tek_command::values::alloc::Installed;

    #[test]
    fn mathematical_functions_are_named_or_in_a_file() {
        assert_eq!("musl".parse(), Ok(Libm::Musl));
        assert_eq!("./libm.so".parse(), Ok(Libm::File("./libm.so".into())));
        for text in ["", "libm.so", "newlib"] {
            assert!(text.parse::<Libm>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_library_that_is_not_installed_is_named_with_its_package() {
        static MISSING: Installed =
            Installed { name: "other", files: &["libno-such-library.so.7"], package: MUSL };
        let own = elf::read(Path::new("/proc/self/exe")).unwrap().unwrap().machine();
        let found = library_of(Alloc::Installed(&MISSING), own, Path::new("/lib/libtek.so"));
        let Err(Problem::Misused(refused)) = found else { panic!("{found:?}") };
        assert!(
            refused.contains("libno-such-library.so.7") && refused.contains("musl-dev"),
            "{refused}"
        );
    }

    #[test]
    fn the_values_in_the_environment_are_checked_too() {
        let alloc = |text| of_environment::<Alloc>(ALLOC_VARIABLE, Some(OsStr::new(text)));
        assert_eq!(alloc(""), Ok(None));
        assert_eq!(alloc("tlsf"), Ok(Some(Alloc::Tlsf)));
        assert!(alloc("tlfs").unwrap_err().starts_with("TEK_ALLOC is tlfs: "));
        let libm = of_environment::<Libm>(LIBM_VARIABLE, Some(OsStr::new("newlib")));
        assert!(libm.unwrap_err().starts_with("TEK_LIBM is newlib: "));
    }

    #[test]
    fn the_mathematical_functions_of_a_run_around_this_one_are_replaced() {
        let inherited = Inherited { libm: Some("/opt/libfast.so".into()), alloc: None };
        let own = elf::read(Path::new("/proc/self/exe")).unwrap().unwrap().machine();
        let options = Options { libm: Some(Libm::Glibc), alloc: None };
        let beside = Beside::find(&options, &inherited, own, Path::new("/lib/libtek.so")).unwrap();
        assert!(beside.replaces(Path::new("/opt/libfast.so")));
        assert!(!beside.replaces(Path::new("/usr/libfast.so")));
        assert_eq!(beside.libm, Some(Libm::Glibc));
    }

    #[test]
    fn a_pool_that_a_32_bit_program_cannot_have_is_refused() {
        let own = elf::read(Path::new("/proc/self/exe")).unwrap().unwrap().machine();
        let mut small = own;
        small.bits = 32;
        let library = |bytes| library_of(Alloc::Pool(bytes), small, Path::new("/none/libtek.so"));
        assert!(
            matches!(library(2 << 30), Err(Problem::Misused(why)) if why.contains("1G at most"))
        );
        let Err(Problem::Missing(why)) = library(1 << 30) else { panic!("it is found") };
        assert!(why.contains("is not installed"));
    }
}
