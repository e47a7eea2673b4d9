// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entry of an archive in apt's list of sources.
use std::path::PathBuf;

/// One entry of apt's list of sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Top of the archive.
    pub uri: String,
    /// Suite.
    pub suite: String,
    /// Keys; those that apt trusts for everything without it.
    pub keyring: Option<PathBuf>,
}
