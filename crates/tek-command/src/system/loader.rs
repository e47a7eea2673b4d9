// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search of the dynamic loader for a library: ld.so(8).
//!
//! `LD_LIBRARY_PATH`, then the cache that ldconfig(8) makes, then the usual directories. A file's
//! own header shows its word size and processor.
use super::elf::{self, Machine};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const CACHE: &str = "/etc/ld.so.cache";

/// Usual directories; those of Debian's architectures lie in the first two.
const DIRECTORIES: [&str; 8] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/lib32",
    "/usr/lib32",
    "/usr/local/lib",
    "/usr/local/lib64",
];

/// The first library of one of these names that such a program can load; the names in the order of
/// preference.
pub fn find(names: &[&str], machine: Machine) -> Option<PathBuf> {
    let cache = fs::read(CACHE).unwrap_or_default();
    let cached = cached(&cache);
    let fits = |path: &PathBuf| {
        let elf = elf::read(path).ok().flatten();
        elf.is_some_and(|elf| elf.is_library() && elf.machine() == machine)
    };
    let asked = asked(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default());
    names.iter().find_map(|name| {
        let of_name = cached.iter().filter(|(known, _)| *known == name.as_bytes());
        let of_cache = of_name.map(|(_, path)| PathBuf::from(OsStr::from_bytes(path)));
        let in_asked = asked.iter().map(|directory| directory.join(name));
        let in_usual = usual().into_iter().map(|directory| directory.join(name));
        in_asked.chain(of_cache).chain(in_usual).find(fits)
    })
}

/// The directories of `LD_LIBRARY_PATH`, separated by colons and semicolons. An empty name is the
/// current directory, made absolute, because a program may run in another one.
fn asked(list: &OsStr) -> Vec<PathBuf> {
    if list.is_empty() {
        return Vec::new();
    }
    let words = list.as_bytes().split(|byte| matches!(byte, b':' | b';'));
    let paths =
        words.map(|word| Path::new(OsStr::from_bytes(if word.is_empty() { b"." } else { word })));
    paths.filter_map(|path| std::path::absolute(path).ok()).collect()
}

fn usual() -> Vec<PathBuf> {
    let multiarch = [env::consts::ARCH, "i386", "arm"].into_iter().flat_map(|cpu| {
        ["/lib", "/usr/lib"].into_iter().flat_map(move |directory| {
            ["gnu", "gnueabihf"].map(|abi| format!("{directory}/{cpu}-linux-{abi}"))
        })
    });
    multiarch.map(PathBuf::from).chain(DIRECTORIES.map(PathBuf::from)).collect()
}

/// Names and paths in ldconfig's cache; nothing in an unknown format. Its layout is that of the GNU
/// C library since 2.2, `struct cache_file_new`: 17 bytes of magic, 3 of version, the number of
/// entries, the length of the strings, 20 bytes; then 24 bytes for each entry. An entry's second
/// and third word are the offsets of name and path from the beginning. An older table may come
/// before it.
fn cached(file: &[u8]) -> Vec<(&[u8], &[u8])> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    const HWCAPS: &[u8] = b"/glibc-hwcaps/";
    let Some(begin) = file.windows(MAGIC.len()).position(|window| window == MAGIC) else {
        return Vec::new();
    };
    let table = &file[begin..];
    let word = |at: usize| {
        let bytes = table.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
    };
    let text = |at: usize| {
        let rest = table.get(at..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(&rest[..end])
    };
    let count = word(MAGIC.len()).unwrap_or(0).min(table.len() / ENTRY);
    let entry = |index: usize| {
        let at = HEADER + index * ENTRY;
        Some((text(word(at + 4)?)?, text(word(at + 8)?)?))
    };
    // Libraries that only newer processors can run are in there too, before the general ones.
    let is_for_all =
        |(_, path): &(&[u8], &[u8])| !path.windows(HWCAPS.len()).any(|part| part == HWCAPS);
    (0..count).filter_map(entry).filter(is_for_all).collect()
}

/// Whether a path can stand in `LD_PRELOAD`: its words end at spaces and colons.
pub fn can_be_preloaded(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own() -> Machine {
        elf::read(Path::new("/proc/self/exe")).unwrap().unwrap().machine()
    }

    #[test]
    fn the_c_library_is_found_where_the_loader_finds_it() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let loaded = maps.lines().find_map(|line| {
            line.split(' ').next_back().filter(|path| path.ends_with("/libc.so.6"))
        });
        let found = find(&["libc.so.6"], own()).unwrap();
        assert_eq!(fs::canonicalize(found).unwrap(), fs::canonicalize(loaded.unwrap()).unwrap());
    }

    #[test]
    fn what_is_not_installed_is_not_found() {
        assert_eq!(find(&["libno-such-library.so.1"], own()), None);
    }

    #[test]
    fn the_first_name_that_is_there_is_taken() {
        let found = find(&["libno-such-library.so.1", "libc.so.6"], own()).unwrap();
        assert!(found.ends_with("libc.so.6"));
    }

    #[test]
    fn the_cache_of_this_machine_is_read() {
        let file = fs::read(CACHE).unwrap_or_default();
        let entries = cached(&file);
        assert!(
            file.is_empty()
                || entries
                    .iter()
                    .any(|(name, path)| name == b"libc.so.6" && path.starts_with(b"/"))
        );
    }

    #[test]
    fn what_only_newer_processors_can_run_is_passed_over() {
        let strings = ["libx.so.1\0", "/l/glibc-hwcaps/x86-64-v3/libx.so.1\0", "/l/libx.so.1\0"];
        let name = 48 + 2 * 24;
        let first = name + strings[0].len();
        let mut file = b"glibc-ld.so.cache1.1".to_vec();
        file.extend(2u32.to_ne_bytes());
        file.resize(48, 0);
        for path in [first, first + strings[1].len()] {
            for word in [1, name, path, 0, 0, 0] {
                file.extend(u32::try_from(word).unwrap().to_ne_bytes());
            }
        }
        file.extend(strings.concat().as_bytes());
        assert_eq!(cached(&file), [(&b"libx.so.1"[..], &b"/l/libx.so.1"[..])]);
    }

    #[test]
    fn directories_are_read_as_the_loader_reads_them_and_hold_in_every_directory() {
        let here = env::current_dir().unwrap();
        let list = |text: &str| asked(OsStr::new(text));
        assert!(list("").is_empty());
        assert_eq!(list("/a;/b:/c"), ["/a", "/b", "/c"].map(PathBuf::from));
        assert_eq!(list("lib:/a:"), [here.join("lib"), "/a".into(), here]);
    }

    proptest! {
        #[test]
        fn a_cache_may_be_anything(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
            has_magic: bool,
        ) {
            if has_magic {
                bytes.splice(0..0, b"glibc-ld.so.cache1.1".iter().copied());
            }
            cached(&bytes);
        }
    }
}
