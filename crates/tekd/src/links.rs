// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files behind the links that a pattern for programs matches.
//!
//! The kernel reports the path of a process's file without links, but an administrator writes
//! /usr/bin/python3. A link that another user could change grants nothing: that user could redirect
//! it to any program.
use nix::errno::Errno;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tek_policy::Pattern;

/// The most links that a useful pattern matches.
const MOST: usize = 4096;

/// The kernel's limit.
const MOST_HOPS: usize = 40;

/// The files behind the paths that match the pattern now. It omits files whose own paths match, and
/// files to which another user can change the way. An error: no path matches, or the matches cannot
/// be read.
pub fn behind(pattern: &Pattern) -> Result<Vec<PathBuf>, Errno> {
    behind_trusted(pattern, is_trusted)
}

fn behind_trusted(
    pattern: &Pattern,
    is_trusted: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, Errno> {
    let paths = fitting(pattern)?;
    let mut files: Vec<PathBuf> = paths
        .iter()
        .take(MOST)
        .filter(|path| is_trusted(path))
        .filter_map(|path| fs::canonicalize(path).ok())
        .filter(|file| file.is_file() && !file.to_str().is_some_and(|own| pattern.is_path_of(own)))
        .collect();
    tek_sort::ascending(&mut files);
    files.dedup();
    Ok(files)
}

/// Whether only root, or tekd's user, can change the target of a path.
fn is_trusted(path: &Path) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    let is_ours = |directory: &Path| {
        fs::metadata(directory)
            .is_ok_and(|about| [0, own].contains(&about.uid()) && about.mode() & 0o022 == 0)
    };
    let mut path = path.to_owned();
    for _ in 0..MOST_HOPS {
        if !path.ancestors().skip(1).all(is_ours) {
            return false;
        }
        let Ok(target) = fs::read_link(&path) else { return true };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    false
}

/// The paths that match the pattern: glob(3), with the same syntax as fnmatch(3).
fn fitting(pattern: &Pattern) -> Result<Vec<PathBuf>, Errno> {
    // SAFETY: an all-zero glob_t is a value of that type. glob() fills it, and on success, until
    // globfree(), gl_pathv has gl_pathc strings.
    unsafe {
        let mut found: libc::glob_t = std::mem::zeroed();
        let result = libc::glob(pattern.as_c_str().as_ptr(), libc::GLOB_NOSORT, None, &mut found);
        let paths = match result {
            0 => (0..found.gl_pathc)
                .map(|index| CStr::from_ptr(*found.gl_pathv.add(index)).to_bytes())
                .map(|path| Path::new(OsStr::from_bytes(path)).to_owned())
                .collect(),
            _ => Vec::new(),
        };
        libc::globfree(&mut found);
        match result {
            0 => Ok(paths),
            libc::GLOB_NOSPACE => Err(Errno::ENOMEM),
            _ => Err(Errno::ENOENT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_files_and_of_directories_lead_to_files() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("usr/bin")).unwrap();
        fs::write(base.join("usr/bin/python3.11"), "").unwrap();
        fs::create_dir(base.join("usr/bin/python3.d")).unwrap();
        symlink("usr/bin", base.join("bin")).unwrap();
        symlink("python3.11", base.join("usr/bin/python3")).unwrap();
        symlink("nowhere", base.join("usr/bin/python4")).unwrap();
        let behind = |pattern: &str| {
            let pattern = Pattern::new(&format!("{}/{pattern}", base.display())).unwrap();
            behind_trusted(&pattern, |_| true)
        };
        let file = base.join("usr/bin/python3.11");
        for link in ["usr/bin/python3", "bin/python3", "bin/python3.11", "*/python3", "b*/py*"] {
            assert_eq!(behind(link), Ok(vec![file.clone()]), "{link}");
        }
        for without in ["usr/bin/python3.11", "usr/bin/py*", "usr/bin/python4", "usr/bin/python3.d"]
        {
            assert_eq!(behind(without), Ok(Vec::new()), "{without}");
        }
        assert_eq!(behind("usr/bin/perl"), Err(Errno::ENOENT));
    }

    #[test]
    fn a_way_that_another_user_can_change_leads_nowhere() {
        let base = tempfile::tempdir().unwrap();
        symlink("/bin/sh", base.path().join("sh")).unwrap();
        // Every user can write to the directory for temporary files, but not to another user's
        // files there.
        assert!(!is_trusted(Path::new("/tmp/sh")) && !is_trusted(&base.path().join("sh")));
        assert!(is_trusted(Path::new("/bin/sh")));
        symlink("sh", base.path().join("loop")).unwrap();
        assert!(!is_trusted(&base.path().join("loop")));
    }
}
