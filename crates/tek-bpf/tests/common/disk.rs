// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that become dirty and are written back.
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A directory on a file system with writeback: /tmp may lack it.
pub fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// Writes to a file, which stays dirty for a while.
pub fn write_a_page(path: &Path) {
    File::create(path).unwrap().write_all(&[1; 4096]).unwrap();
}
