// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of Debian packages that are installed on this machine.
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that a guest does not need.
const UNREAD: [&str; 7] = [
    "/usr/share/bug/",
    "/usr/share/doc/",
    "/usr/share/doc-base/",
    "/usr/share/info/",
    "/usr/share/lintian/",
    "/usr/share/locale/",
    "/usr/share/man/",
];

/// Why the files of packages are unknown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No dpkg.
    #[error("cannot run dpkg-query: {0}; packages can only be taken on a Debian machine")]
    NoDpkg(io::Error),
    /// A package is not there.
    #[error("{0}; install the package")]
    NotInstalled(String),
}

/// All files and links of these packages but their documentation.
pub fn files(packages: &[String]) -> Result<Vec<PathBuf>, Error> {
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for package in packages {
        match package.contains(['*', '?', '[']) {
            true => names.extend(installed(package)?),
            false => names.push(package.clone()),
        }
    }
    let listed = query(&["--listfiles"], &names)?;
    let mut files: BTreeSet<PathBuf> = wanted(&listed)
        .filter(|path| path.symlink_metadata().is_ok_and(|about| !about.is_dir()))
        .collect();
    let compiled: Vec<PathBuf> = files.iter().flat_map(|file| compiled(file)).collect();
    files.extend(compiled);
    Ok(files.into_iter().collect())
}

/// The packages with such a name (shell pattern) that are installed; an error if there are none.
fn installed(pattern: &str) -> Result<Vec<String>, Error> {
    let format = "--showformat=${db:Status-Status} ${binary:Package}\n";
    let known = query(&["--show", format], &[pattern.to_owned()])?;
    let names: Vec<String> = known
        .lines()
        .filter_map(|line| line.strip_prefix("installed "))
        .map(String::from)
        .collect();
    match names.is_empty() {
        true => Err(Error::NotInstalled(format!("no package is called {pattern}"))),
        false => Ok(names),
    }
}

fn query(options: &[&str], packages: &[String]) -> Result<String, Error> {
    let mut query = Command::new("dpkg-query");
    query.env("LC_ALL", "C").args(options).arg("--").args(packages);
    let answer = query.output().map_err(Error::NoDpkg)?;
    if !answer.status.success() {
        let why = String::from_utf8_lossy(&answer.stderr);
        let why =
            why.lines().next().unwrap_or("dpkg-query failed").trim_start_matches("dpkg-query: ");
        return Err(Error::NotInstalled(why.into()));
    }
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}

/// The paths of interest in the output of dpkg-query, which also lists diversions.
fn wanted(listed: &str) -> impl Iterator<Item = PathBuf> + '_ {
    let paths = listed.lines().filter(|line| line.starts_with('/') && *line != "/.");
    paths.filter(|path| !UNREAD.iter().any(|unread| path.starts_with(unread))).map(PathBuf::from)
}

/// The files that Python compiled when a package was installed: no guest has the time to repeat it.
fn compiled(file: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (file.parent(), file.file_stem()) else {
        return Vec::new();
    };
    if file.extension() != Some(OsStr::new("py")) {
        return Vec::new();
    }
    let prefix = format!("{}.cpython-", name.to_string_lossy());
    let cached = std::fs::read_dir(directory.join("__pycache__")).into_iter().flatten().flatten();
    cached
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::path::Path;

    #[test]
    fn documentation_and_remarks_are_left_out() {
        let listed = "/.\n/bin\n/bin/sh\ndiverted by dash to: /bin/sh.distrib\n\
                      package diverts others to: /x\n/usr/share/doc/sh/copyright\n\n\
                      /usr/share/docs";
        let wanted: Vec<_> = super::wanted(listed).collect();
        assert_eq!(wanted, ["/bin", "/bin/sh", "/usr/share/docs"].map(std::path::PathBuf::from));
    }

    #[test]
    fn compiled_python_comes_with_its_source() {
        let top = tempfile::tempdir().unwrap();
        let cache = top.path().join("__pycache__");
        std::fs::create_dir(&cache).unwrap();
        for name in ["a.cpython-311.pyc", "ab.cpython-311.pyc"] {
            std::fs::write(cache.join(name), "").unwrap();
        }
        assert_eq!(super::compiled(&top.path().join("a.py")), [cache.join("a.cpython-311.pyc")]);
        assert_eq!(super::compiled(&top.path().join("a.txt")), [] as [&Path; 0]);
    }

    proptest! {
        #[test]
        fn of_any_output_of_dpkg_only_paths_are_taken(
            listed in "(/[a-z./]{0,9}|[ a-z/:]{0,9}|\n){0,9}",
        ) {
            for path in super::wanted(&listed) {
                prop_assert!(path.is_absolute());
            }
        }
    }
}
