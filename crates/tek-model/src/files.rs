// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of table files on the device.
use crate::Error;
use std::collections::{BTreeMap, HashSet};
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names that are read in a directory of tables and those of its runs. Its owner may have filled it
/// with millions.
const MOST_NAMES: usize = 100_000;
/// In the name of a table of native user-level threads, before its end.
const NATIVE: &str = ".native";
/// Table files that are read for one process in it.
const MOST_FILES: usize = 16;

/// The directories in which processes of this device put their tables. It includes their private
/// `run-*` directories; missing or unreadable ones are skipped.
pub fn directories() -> Vec<PathBuf> {
    let given = env::var_os("TEK_RUN_DIR").map(PathBuf::from);
    let own = env::var_os("XDG_RUNTIME_DIR").map(|parent| PathBuf::from(parent).join("tek"));
    let mut names_left = MOST_NAMES;
    let users = names_in(Path::new("/run/user"), &mut names_left);
    let users = users.into_iter().map(|user| user.join("tek"));
    let temporary = [env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let temporary = temporary.into_iter().flat_map(|parent| {
        let mut names_left = MOST_NAMES;
        names_in(&parent, &mut names_left)
    });
    let temporary = temporary.filter(|path| is_a_users(path));
    let fixed = given.into_iter().chain([PathBuf::from("/run/tek")]).chain(own);
    let mut seen = HashSet::new();
    fixed
        .chain(users)
        .chain(temporary)
        .filter(|directory| directory.is_absolute() && seen.insert(directory.clone()))
        .collect()
}

/// Whether it is called tek-UID and belongs to that user: each user has one such directory to fill.
fn is_a_users(path: &Path) -> bool {
    let user = name_of(path).strip_prefix("tek-").and_then(|user| user.parse().ok());
    user.is_some_and(|user: u32| {
        fs::symlink_metadata(path).is_ok_and(|metadata| metadata.uid() == user)
    })
}

/// The table files of each process, by the pid in their names.
pub(crate) fn tables_in(
    directories: &[PathBuf],
    problems: &mut Vec<Error>,
) -> BTreeMap<u32, Vec<PathBuf>> {
    let mut tables = BTreeMap::<u32, Vec<PathBuf>>::new();
    for directory in directories {
        let mut names_left = MOST_NAMES;
        let mut names = names_in(directory, &mut names_left);
        let runs = names.iter().filter(|path| name_of(path).starts_with("run-"));
        let runs: Vec<_> = runs.map(|run| names_in(run, &mut names_left)).collect();
        names.extend(runs.into_iter().flatten());
        if names_left == 0 {
            problems.push(Error::TooMany { path: directory.clone() });
        }
        let mut own = BTreeMap::<u32, Vec<PathBuf>>::new();
        for path in names {
            let Some(pid) = pid_of(&path) else { continue };
            let files = own.entry(pid).or_default();
            if files.len() < MOST_FILES {
                files.push(path);
            }
        }
        for (pid, files) in own {
            tables.entry(pid).or_default().extend(files);
        }
    }
    tables
}

fn pid_of(path: &Path) -> Option<u32> {
    let name = name_of(path).strip_suffix(".table")?;
    name.strip_suffix(NATIVE).unwrap_or(name).parse().ok()
}

/// Whether it is the table of a program's native user-level threads. The program may have another
/// table of its kernel threads.
pub(crate) fn is_native(path: &Path) -> bool {
    name_of(path).strip_suffix(".table").is_some_and(|name| name.ends_with(NATIVE))
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The entries of a directory, as far as the limit allows. A link in its place is not followed.
fn names_in(directory: &Path, names_left: &mut usize) -> Vec<PathBuf> {
    if !fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir()) {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names: Vec<_> = entries.take(*names_left).map(|entry| entry.path()).collect();
    *names_left -= names.len();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_in_a_directory_and_in_those_of_its_runs() {
        let base = tempfile::tempdir().unwrap();
        let run = base.path().join("run-7-x");
        fs::create_dir(&run).unwrap();
        for name in ["5.table", "x.table", "6.txt"] {
            fs::write(base.path().join(name), "").unwrap();
        }
        fs::write(run.join("5.table"), "").unwrap();
        fs::write(run.join("8.table"), "").unwrap();
        std::os::unix::fs::symlink(&run, base.path().join("run-8-link")).unwrap();
        let mut problems = Vec::new();
        let tables = tables_in(&[base.path().to_owned(), "/nowhere".into()], &mut problems);
        assert_eq!(tables.keys().collect::<Vec<_>>(), [&5, &8]);
        assert_eq!(tables[&5], [base.path().join("5.table"), run.join("5.table")]);
        assert!(problems.is_empty());
    }
}
