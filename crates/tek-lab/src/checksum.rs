// SPDX-License-Identifier: MIT OR Apache-2.0
//! SHA-256 of files.
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::Path;

/// The checksum of a file's content, as sha256sum writes it.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
