// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where table files lie on the device.
use crate::Error;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that are believed to be in a directory of tables. Somebody may have filled his with millions.
const MOST_NAMES: usize = 100_000;
/// Table files that are looked at for one process.
const MOST_FILES: usize = 16;

/// The directories in which processes of this device put their tables. Their private `run-*`
/// directories are found in them; what is missing or may not be entered is passed over.
pub fn directories() -> Vec<PathBuf> {
    let given = env::var_os("TEK_RUN_DIR").map(PathBuf::from);
    let own = env::var_os("XDG_RUNTIME_DIR").map(|parent| PathBuf::from(parent).join("tek"));
    let users = below(Path::new("/run/user"), "").into_iter().map(|user| user.join("tek"));
    let mut directories: Vec<PathBuf> =
        given.into_iter().chain([PathBuf::from("/run/tek")]).chain(own).chain(users).collect();
    directories.extend(below(&env::temp_dir(), "tek-"));
    let mut seen = std::collections::HashSet::new();
    directories.retain(|directory| directory.is_absolute() && seen.insert(directory.clone()));
    directories
}

/// The table files of each process, by the pid in their names.
pub(crate) fn tables_in(
    directories: &[PathBuf],
    problems: &mut Vec<Error>,
) -> BTreeMap<u32, Vec<PathBuf>> {
    let mut tables = BTreeMap::<u32, Vec<PathBuf>>::new();
    for directory in directories {
        let runs = below(directory, "run-");
        for path in [vec![directory.clone()], runs].concat() {
            let names = below(&path, "");
            if names.len() == MOST_NAMES {
                problems.push(Error::TooMany { path });
            }
            for table in names {
                let Some(pid) = pid_of(&table) else { continue };
                let files = tables.entry(pid).or_default();
                if files.len() < MOST_FILES {
                    files.push(table);
                }
            }
        }
    }
    tables
}

fn pid_of(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_suffix(".table")?.parse().ok()
}

/// What is in a directory and begins so. A link in its place is not followed.
fn below(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    if !fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir()) {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().take(MOST_NAMES).flatten();
    let fits = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
    };
    entries.map(|entry| entry.path()).filter(fits).collect()
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
