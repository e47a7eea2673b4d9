// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a guest: lab/manifest.toml.
use crate::packages;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Default directory of a manifest's files in the guest.
const TOP: &str = "/tek";

/// The content of a guest.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// TEK's programs for the guest's architecture: a directory with bin/tek and lib/libtek.so.
    pub tek: PathBuf,
    /// Directory with the libraries of a foreign architecture; `None`: the machine's own.
    pub sysroot: Option<PathBuf>,
    /// All other files: from here, to there. A directory is taken whole.
    pub added: Vec<(PathBuf, PathBuf)>,
}

/// Sets of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    top: PathBuf,
    sets: BTreeMap<String, Set>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    top: PathBuf,
    #[serde(default)]
    set: BTreeMap<String, Set>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Set {
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    packages: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {path}: {error}", path = .0.display(), error = .1)]
    Read(PathBuf, io::Error),
    /// It is no manifest.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Parse(PathBuf, toml::de::Error),
    /// It has no such set.
    #[error("the manifest has no set {name}; it has {known}")]
    NoSet {
        /// The set's name.
        name: String,
        /// The existing sets.
        known: String,
    },
    /// Files that are not there.
    #[error(
        "set {set}: nothing is at {path}; build it first (`make build`), or take it out of the set",
        path = .path.display()
    )]
    Nothing {
        /// The set.
        set: String,
        /// The path without files.
        path: PathBuf,
    },
    /// An invalid pattern.
    #[error("set {set}: {pattern}: {why}")]
    Pattern {
        /// The set.
        set: String,
        /// The pattern.
        pattern: String,
        /// The error.
        why: String,
    },
    /// Packages whose files are unknown.
    #[error("set {set}: {error}")]
    Packages {
        /// The set.
        set: String,
        /// The error.
        error: packages::Error,
    },
}

impl Manifest {
    /// Reads one. Its paths are relative to `top`, which is relative to the manifest's directory.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let unread = |error| Error::Read(file.to_owned(), error);
        let text = fs::read_to_string(file).map_err(unread)?;
        let Text { top, set } =
            toml::from_str(&text).map_err(|error| Error::Parse(file.to_owned(), error))?;
        let directory = std::path::absolute(file).map_err(unread)?;
        let top = directory.parent().unwrap_or(Path::new("/")).join(top);
        let top = top.canonicalize().map_err(|error| Error::Read(top, error))?;
        Ok(Self { top, sets: set })
    }

    /// The files of these sets, and of those that they include: from here, to there.
    pub fn select(&self, names: &[String]) -> Result<Vec<(PathBuf, PathBuf)>, Error> {
        let mut files = Vec::new();
        let mut seen = HashSet::new();
        let mut open: Vec<&String> = names.iter().rev().collect();
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            let set = self.sets.get(name).ok_or_else(|| self.no_set(name))?;
            open.extend(set.include.iter().rev());
            for pattern in &set.files {
                files.extend(self.matching(name, pattern)?);
            }
            let packages = packages::files(&set.packages)
                .map_err(|error| Error::Packages { set: name.clone(), error })?;
            let left_out = patterns(name, &set.without)?;
            let wanted = packages
                .into_iter()
                .filter(|path| !left_out.iter().any(|pattern| pattern.matches_path(path)));
            files.extend(wanted.map(|path| (path.clone(), path)));
        }
        Ok(files)
    }

    fn no_set(&self, name: &str) -> Error {
        let known: Vec<&str> = self.sets.keys().map(String::as_str).collect();
        Error::NoSet { name: name.into(), known: known.join(", ") }
    }

    fn matching(&self, set: &str, text: &str) -> Result<Vec<(PathBuf, PathBuf)>, Error> {
        let wrong = |why: &str| Error::Pattern {
            set: set.to_owned(),
            pattern: text.to_owned(),
            why: why.into(),
        };
        let (here, there) = match text.split_once(" -> ") {
            Some((here, there)) => (here.trim(), Some(Path::new(there.trim()))),
            None => (text, None),
        };
        if there.is_some_and(|there| !there.is_absolute()) {
            return Err(wrong("the place in the guest must begin with /"));
        }
        let path = self.top.join(here);
        let name = path.file_name().ok_or_else(|| wrong("it names no file"))?;
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        if directory.to_string_lossy().contains(['*', '?']) {
            return Err(wrong("* and ? can only be in the last component"));
        }
        let name = name.to_string_lossy().into_owned();
        if !name.contains(['*', '?']) {
            let there = there.map_or_else(|| self.place(here, &path), Path::to_owned);
            return match path.exists() {
                true => Ok(vec![(path, there)]),
                false => Err(Error::Nothing { set: set.to_owned(), path }),
            };
        }
        // [ and ] stand for themselves.
        let escaped = name.replace('[', "[[]");
        let pattern = glob::Pattern::new(&escaped).map_err(|error| wrong(error.msg))?;
        let mut found: Vec<PathBuf> = fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_str().is_some_and(|name| pattern.matches(name)))
            .map(|entry| entry.path())
            .filter(|path| path.is_file())
            .collect();
        found.sort();
        if found.is_empty() {
            return Err(Error::Nothing { set: set.to_owned(), path });
        }
        let below = |path: PathBuf| {
            let name = path.file_name().unwrap_or_default().to_owned();
            let there = match there {
                Some(there) => there.join(name),
                None => self.place(&Path::new(here).with_file_name(&name).to_string_lossy(), &path),
            };
            (path, there)
        };
        Ok(found.into_iter().map(below).collect())
    }

    /// Default path of a file in the guest.
    fn place(&self, text: &str, path: &Path) -> PathBuf {
        match Path::new(text).is_absolute() {
            true => path.to_owned(),
            false => Path::new(TOP).join(text),
        }
    }
}

/// Patterns of whole paths, in which * stands for / too.
fn patterns(set: &str, texts: &[String]) -> Result<Vec<glob::Pattern>, Error> {
    let wrong = |text: &str, error: glob::PatternError| Error::Pattern {
        set: set.to_owned(),
        pattern: text.to_owned(),
        why: error.msg.into(),
    };
    texts.iter().map(|text| glob::Pattern::new(text).map_err(|error| wrong(text, error))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Error, Manifest};
    use proptest::prelude::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn project(manifest: &str) -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        for directory in ["lab", "build/tests/test_a.p"] {
            fs::create_dir_all(top.path().join(directory)).unwrap();
        }
        for file in ["build/tests/test_a", "build/tests/test_b", "build/tests/other", "build/x[1]"]
        {
            fs::write(top.path().join(file), "").unwrap();
        }
        let file = top.path().join("lab/manifest.toml");
        fs::write(&file, manifest).unwrap();
        (top, file)
    }

    fn selected(manifest: &str, sets: &[&str]) -> Result<Vec<(String, String)>, Error> {
        let (top, file) = project(manifest);
        let top = top.path().canonicalize().unwrap();
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let files = Manifest::read(&file)?.select(&sets)?;
        let short = |path: &Path| path.strip_prefix(&top).unwrap_or(path).display().to_string();
        Ok(files.iter().map(|(here, there)| (short(here), there.display().to_string())).collect())
    }

    fn pair(here: &str, there: &str) -> (String, String) {
        (here.into(), there.into())
    }

    #[test]
    fn a_pattern_takes_files_and_no_directories() {
        let files =
            selected("top = '..'\n[set.c]\nfiles = ['build/tests/test_*']", &["c"]).unwrap();
        let a = pair("build/tests/test_a", "/tek/build/tests/test_a");
        assert_eq!(files, [a, pair("build/tests/test_b", "/tek/build/tests/test_b")]);
    }

    #[test]
    fn a_place_in_the_guest_can_be_named() {
        let text = "top = '..'\n[set.x]\nfiles = ['build -> /opt/b', 'build/tests/*_b -> /bin', \
                    '/etc/hosts', 'build/x[1]', 'build/?[1]']";
        let files = selected(text, &["x"]).unwrap();
        let expected = [
            pair("build", "/opt/b"),
            pair("build/tests/test_b", "/bin/test_b"),
            pair("/etc/hosts", "/etc/hosts"),
            pair("build/x[1]", "/tek/build/x[1]"),
            pair("build/x[1]", "/tek/build/x[1]"),
        ];
        assert_eq!(files, expected);
    }

    #[test]
    fn sets_that_include_each_other_come_once() {
        let text = "top = '..'\n[set.a]\ninclude = ['b']\nfiles = ['build/tests/test_a']\n\
                    [set.b]\ninclude = ['a']\nfiles = ['build/tests/test_b']";
        assert_eq!(selected(text, &["a", "b"]).unwrap().len(), 2);
        assert_eq!(selected(text, &[]).unwrap(), []);
    }

    #[test]
    fn packages_can_be_named_by_patterns_and_parts_of_them_left_out() {
        let text = "[set.x]\npackages = ['dpk[g]']\nwithout = ['/usr/share/*', '*/dpkg-deb']";
        let files: Vec<String> =
            selected(text, &["x"]).unwrap().into_iter().map(|(here, _)| here).collect();
        assert!(files.contains(&"/usr/bin/dpkg".to_owned()), "{files:?}");
        assert!(!files
            .iter()
            .any(|path| path.starts_with("/usr/share/") || path.ends_with("-deb")));
        let error = selected("[set.x]\npackages = ['tek-no-such-*']", &["x"]).unwrap_err();
        assert!(error.to_string().contains("tek-no-such-*"), "{error}");
    }

    #[test]
    fn what_is_missing_is_reported() {
        let error = |text: &str, set: &str| selected(text, &[set]).unwrap_err().to_string();
        let text =
            "top = '..'\n[set.a]\nfiles = ['build/none']\n[set.b]\nfiles = ['build/none*']\n\
                    [set.c]\nfiles = ['bu*/x']\n[set.d]\nfiles = ['build -> x']\n\
                    [set.e]\npackages = ['tek-no-such-package']";
        assert!(error(text, "a").contains("build/none; build it first"));
        assert!(error(text, "b").contains("build/none*; build it first"));
        assert!(error(text, "c").contains("last component"));
        assert!(error(text, "d").contains("must begin with /"));
        assert!(error(text, "e").contains("tek-no-such-package"));
        assert_eq!(error(text, "f"), "the manifest has no set f; it has a, b, c, d, e");
        assert!(error("[set.a]\nfile = []", "a").contains("unknown field"));
    }

    #[test]
    fn the_own_manifest_can_be_parsed() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/manifest.toml");
        let manifest = Manifest::read(&own).unwrap();
        assert!(manifest.top.join("Cargo.toml").exists());
    }

    proptest! {
        #[test]
        fn any_pattern_is_taken_or_refused(pattern in ".{0,30}") {
            let manifest = Manifest { top: "/nonexistent".into(), sets: Default::default() };
            let _ = manifest.matching("x", &pattern);
        }
    }
}
