// SPDX-License-Identifier: MIT OR Apache-2.0
//! `LD_PRELOAD`: the libraries that a program loads before its own, ld.so(8).
use crate::system::{library, loader};
use anyhow::ensure;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

const VARIABLE: &str = "LD_PRELOAD";

/// TEK's own libraries, in the required order; all other libraries come behind them. So the
/// profiler counts all calls. The program's locks are not the engine's. The C library's spin lock
/// is only replaced where no lock is.
const ORDER: [&str; 5] =
    [library::PROFILE, library::SYNC, library::TEK, library::UTHREAD, library::RTFIFO];

/// A program has one of these.
const ONE_OF: [&str; 2] = [library::TEK, library::UTHREAD];

/// The list.
#[derive(Debug, PartialEq, Eq)]
pub struct Preload(Vec<OsString>);

impl Preload {
    /// The list with which tek itself was started.
    pub fn inherited() -> Self {
        Self::of(&env::var_os(VARIABLE).unwrap_or_default())
    }

    fn of(list: &OsStr) -> Self {
        let words = list.as_bytes().split(|byte| matches!(byte, b' ' | b':'));
        let words = words.filter(|word| !word.is_empty());
        Self(words.map(|word| OsStr::from_bytes(word).to_owned()).collect())
    }

    /// Removes the matching ones.
    pub fn remove(&mut self, unwanted: impl Fn(&Path) -> bool) {
        self.0.retain(|word| !unwanted(Path::new(word)));
    }

    /// Puts a library before all other libraries of its rank, instead of one of the same name.
    /// `Err`: the list cannot hold its path.
    pub fn add(&mut self, library: &Path) -> anyhow::Result<()> {
        ensure!(
            loader::can_be_preloaded(library),
            "{} cannot be preloaded, because LD_PRELOAD cannot hold a path with a space or a \
             colon: install TEK, or set TEK_LIBRARY to a copy or symbolic link, in a directory \
             without them",
            library.display()
        );
        let name = library.file_name();
        let is_one = |name: Option<&OsStr>| ONE_OF.iter().any(|one| is_called(name, one));
        self.remove(|other| {
            other.file_name() == name || (is_one(name) && is_one(other.file_name()))
        });
        self.0.insert(0, library.as_os_str().to_owned());
        tek_sort::by_key(&mut self.0, |word| rank(Path::new(word)));
        Ok(())
    }

    /// Passes it to the programs that tek starts.
    pub fn store(self) {
        // SAFETY of set_var, which the 2024 edition will require: tek has one thread.
        env::set_var(VARIABLE, self.list());
    }

    fn list(self) -> OsString {
        let words: Vec<_> = self.0.into_iter().map(OsString::into_vec).collect();
        OsString::from_vec(words.join(&b':'))
    }
}

fn rank(library: &Path) -> usize {
    let name = library.file_name();
    ORDER.iter().position(|own| is_called(name, own)).unwrap_or(ORDER.len())
}

/// Whether a file has the name of one of TEK's libraries, with a version behind it or not.
fn is_called(file: Option<&OsStr>, own: &str) -> bool {
    let version = file.and_then(|name| name.as_bytes().strip_prefix(own.as_bytes()));
    version.is_some_and(|version| version.is_empty() || version.starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(list: &str, libraries: &[&str]) -> String {
        let mut preload = Preload::of(OsStr::new(list));
        for library in libraries {
            preload.add(Path::new(library)).unwrap();
        }
        preload.list().into_string().unwrap()
    }

    #[test]
    fn the_library_comes_first_and_other_libraries_stay() {
        assert_eq!(with("", &["/lib/libtek.so"]), "/lib/libtek.so");
        assert_eq!(with("a.so b.so", &["/lib/libtek.so"]), "/lib/libtek.so:a.so:b.so");
    }

    #[test]
    fn a_run_inside_a_run_does_not_name_it_twice() {
        assert_eq!(with("/lib/libtek.so:a.so", &["/lib/libtek.so"]), "/lib/libtek.so:a.so");
        assert_eq!(with("/x/libtek.so:a.so", &["/lib/libtek.so"]), "/lib/libtek.so:a.so");
        assert_eq!(with("/x/libtek.so.0:a.so", &["/lib/libtek.so"]), "/lib/libtek.so:a.so");
    }

    #[test]
    fn of_the_two_libraries_the_one_that_is_asked_for_is_preloaded() {
        for (list, library) in [
            ("/opt/lib/libtek.so:a.so b.so", "/lib/libtek-uthread.so"),
            ("a.so b.so /x/libtek-uthread.so", "/lib/libtek.so"),
        ] {
            assert_eq!(with(list, &[library]), format!("{library}:a.so:b.so"));
        }
    }

    #[test]
    fn teks_own_have_an_order_and_other_libraries_come_behind_them() {
        let all = "/l/libtek-profile.so:/l/libtek-sync.so:/l/libtek.so:/l/libtek-rtfifo.so:\
                   /m/libmimalloc.so.2:a.so";
        let added = [
            "/l/libtek.so",
            "/m/libmimalloc.so.2",
            "/l/libtek-rtfifo.so",
            "/l/libtek-sync.so",
            "/l/libtek-profile.so",
        ];
        assert_eq!(with("a.so", &added), all);
        assert_eq!(with(all, &["/l/libtek-sync.so"]), all);
        assert_eq!(
            with("/l/libtek-sync.so:/l/libtek.so", &["/l/libtek-uthread.so"]),
            "/l/libtek-sync.so:/l/libtek-uthread.so"
        );
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_an_error() {
        for path in ["/a b/libtek.so", "/a:b/libtek.so"] {
            assert!(Preload::of(OsStr::new("")).add(Path::new(path)).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_library_is_there_once_and_what_the_user_preloads_keeps_its_order(
            list in "([a-c]\\.so|/l/libtek(-sync|-uthread)?\\.so|[ :]){0,12}",
            library in "/l/libtek(-sync|-uthread|-profile)?\\.so",
        ) {
            let users = |list: &Preload| -> Vec<_> {
                let is_users = |word: &&OsString| !word.to_str().unwrap().contains("tek");
                list.0.iter().filter(is_users).cloned().collect()
            };
            let before = Preload::of(OsStr::new(&list));
            let mut after = Preload::of(OsStr::new(&list));
            after.add(Path::new(&library)).unwrap();
            prop_assert_eq!(users(&after), users(&before));
            prop_assert_eq!(after.0.iter().filter(|word| *word == library.as_str()).count(), 1);
            let ranks: Vec<_> = after.0.iter().map(|word| rank(Path::new(word))).collect();
            prop_assert!(ranks.is_sorted());
        }
    }
}
