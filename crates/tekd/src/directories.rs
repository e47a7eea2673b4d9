// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories that tekd makes for its files, and removes at the end.
use anyhow::{Context, Result};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directories that were made, the last first. Dropping it removes those that are empty.
pub struct Directories(Vec<PathBuf>);

impl Directories {
    /// Makes the missing directories for a file.
    pub fn make_for(file: &Path, option: &str) -> Result<Self> {
        let mut made = Self(Vec::new());
        let parents = file.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        let missing: Vec<&Path> = parents.take_while(|parent| !parent.exists()).collect();
        for directory in missing.into_iter().rev() {
            match DirBuilder::new().mode(0o755).create(directory) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                done => {
                    done.with_context(|| {
                        format!("cannot make {}: name another with {option}", directory.display())
                    })?;
                    made.0.insert(0, directory.to_owned());
                }
            }
        }
        // By its name this directory is tekd's: a killed tekd may have left it.
        let own = Path::new(tek_abi::SOCKET_PATH).parent();
        if made.0.is_empty() && file.parent() == own {
            made.0.extend(own.map(Path::to_owned));
        }
        Ok(made)
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        for directory in &self.0 {
            let _ = fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_removed_and_what_was_there_is_not() {
        let there = tempfile::tempdir().unwrap();
        let (first, second) = (there.path().join("a"), there.path().join("a/b"));
        let made = Directories::make_for(&second.join("file"), "--x").unwrap();
        assert!(second.is_dir());
        let again = Directories::make_for(&second.join("another"), "--x").unwrap();
        drop(again);
        assert!(second.is_dir());
        fs::write(first.join("file"), "").unwrap();
        drop(made);
        assert!(first.is_dir() && !second.exists());
    }

    #[test]
    fn where_none_can_be_made_the_option_is_named_and_nothing_left() {
        let there = tempfile::tempdir().unwrap();
        fs::write(there.path().join("file"), "").unwrap();
        let failed = Directories::make_for(&there.path().join("file/a/b"), "--x").err().unwrap();
        assert!(format!("{failed:#}").contains("--x"), "{failed:#}");
    }
}
