// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C library of a program that brings its own loader (Nix, Guix, snap, a bundle). If it is
//! older than TEK's libraries need, it lacks versions of functions, and the loader would refuse to
//! start the program.
//!
//! lib/exec/c_library.c does the same for programs that the program starts later.
use crate::system::elf::{self, Elf};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAME: &str = "libc.so.6";

/// Whether a program's C library has all that TEK's library needs of it. tek's own loader is known
/// to have it, so only a different loader is examined.
pub fn serves(file: &Path, program: &Elf, own: Option<&Elf>, library: &Path) -> bool {
    let loader =
        if program.is_loader() { Some(file) } else { program.loader.as_deref().map(Path::new) };
    let (Some(loader), Some(own)) = (loader, own.and_then(|own| own.loader.as_deref())) else {
        return true;
    };
    if !loader.exists() || is_same(loader, Path::new(own)) {
        return true;
    }
    find(file, program, loader).is_some_and(|c_library| elf::serves(&c_library, library))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|data| (data.dev(), data.ino())).ok();
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// As the loader finds it: in the program's search path, then beside the loader.
fn find(file: &Path, program: &Elf, loader: &Path) -> Option<PathBuf> {
    let resolved = |path: &Path| path.canonicalize().ok()?.parent().map(Path::to_owned);
    let origin = resolved(file);
    let searched = program.search.iter().map(|directory| of_origin(directory, origin.as_deref()));
    searched
        .chain(loader.parent().map(Path::to_owned))
        .chain(resolved(loader))
        .map(|directory| directory.join(NAME))
        .find(|path| path.is_file())
}

/// A directory of DT_RUNPATH; `$ORIGIN` is that of the program.
fn of_origin(directory: &str, origin: Option<&Path>) -> PathBuf {
    let rest = ["$ORIGIN", "${ORIGIN}"].iter().find_map(|name| directory.strip_prefix(name));
    match (rest, origin) {
        (Some(rest), Some(origin)) => origin.join(rest.trim_start_matches('/')),
        _ => directory.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_directory_stands_for_origin() {
        let of = |directory| of_origin(directory, Some(Path::new("/opt/app/bin")));
        assert_eq!(of("$ORIGIN/../lib"), Path::new("/opt/app/bin/../lib"));
        assert_eq!(of("${ORIGIN}"), Path::new("/opt/app/bin"));
        assert_eq!(of("/usr/lib"), Path::new("/usr/lib"));
    }

    #[test]
    fn the_loader_of_tek_needs_no_examination() {
        let own = elf::read(Path::new("/proc/self/exe")).unwrap().unwrap();
        assert!(serves(Path::new("/proc/self/exe"), &own, Some(&own), Path::new("/none")));
    }

    #[test]
    fn a_library_is_served_by_the_c_library_that_it_was_linked_with() {
        let own = elf::read(Path::new("/proc/self/exe")).unwrap().unwrap();
        let loader = own.loader.clone().unwrap();
        let program = Path::new("/proc/self/exe").canonicalize().unwrap();
        let c_library = find(&program, &own, Path::new(&loader)).unwrap();
        assert!(elf::serves(&c_library, &program));
    }
}
