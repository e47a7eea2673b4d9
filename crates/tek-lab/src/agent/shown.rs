// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of the guest at places where a job has a directory of its own, such as a program in a
//! user's home directory: the job finds them there, read-only.
use nix::mount::{mount, MsFlags};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Shows what is in a directory of the guest in one of the job's.
pub(super) fn show(own: &Path, jobs: &Path) -> io::Result<()> {
    for (from, to) in missing(own, jobs)? {
        mount(Some(&from), &to, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    Ok(())
}

/// The entries of the guest's directory that the job's lacks, with a mount point for each. It
/// descends into directories that exist in both. Links need no mount.
fn missing(own: &Path, jobs: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut missing = Vec::new();
    for entry in fs::read_dir(own)? {
        let entry = entry?;
        let (from, to) = (entry.path(), jobs.join(entry.file_name()));
        let kind = entry.file_type()?;
        let there = to.symlink_metadata().ok();
        match there {
            Some(there) if kind.is_dir() && there.is_dir() => {
                missing.extend(self::missing(&from, &to)?);
                continue;
            }
            Some(_) => continue, // the job's own
            None if kind.is_symlink() => {
                symlink(fs::read_link(&from)?, &to)?;
                continue;
            }
            None if kind.is_dir() => fs::create_dir(&to)?,
            None => drop(File::create(&to)?),
        }
        missing.push((from, to));
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_job_does_not_have_gets_a_place() {
        let top = tempfile::tempdir().unwrap();
        let [own, jobs] = ["own", "jobs"].map(|name| top.path().join(name));
        for directory in [own.join("lib/package"), own.join("lib/both"), jobs.join("lib/both")] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(own.join("file"), "").unwrap();
        symlink("file", own.join("link")).unwrap();
        symlink("/run", own.join("run")).unwrap();
        symlink("/elsewhere", jobs.join("run")).unwrap();

        let mut found = missing(&own, &jobs).unwrap();
        found.sort();
        let pair = |name: &str| (own.join(name), jobs.join(name));
        assert_eq!(found, [pair("file"), pair("lib/package")]);
        assert!(jobs.join("file").is_file() && jobs.join("lib/package").is_dir());
        assert_eq!(fs::read_link(jobs.join("link")).unwrap(), Path::new("file"));
        assert_eq!(fs::read_link(jobs.join("run")).unwrap(), Path::new("/elsewhere"));
        assert_eq!(missing(&own, &jobs).unwrap(), []);
    }
}
