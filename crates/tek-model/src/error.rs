// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors in reading a table.
use std::io;
use std::path::PathBuf;

/// Why a table, or a record of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed; for a symbolic link with "Too many levels of symbolic links".
    #[error("cannot read the thread table {path}")]
    Io {
        /// The table file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A directory, device or socket.
    #[error("{path} is not a regular file, so it is no thread table")]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// It is empty so far.
    #[error("{path} is a thread table that its process has not finished making: try again")]
    Unfinished {
        /// The file.
        path: PathBuf,
    },
    /// It does not begin as a table does.
    #[error("{path} is not a thread table of TEK")]
    NotATable {
        /// The file.
        path: PathBuf,
    },
    /// Another version of the structs.
    #[error(
        "{path} has table version {found}, this tek reads version {expected}: use the tek and \
         libtek.so of one release"
    )]
    Version {
        /// The table file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// It contradicts itself.
    #[error("the thread table {path} is damaged: {what}")]
    Damaged {
        /// The table file.
        path: PathBuf,
        /// The contradiction.
        what: String,
    },
    /// It is not the table of the process in its name.
    #[error("the thread table {path} is not that of process {pid}: {what}")]
    Stranger {
        /// The table file.
        path: PathBuf,
        /// The process.
        pid: u32,
        /// The evidence against it.
        what: String,
    },
    /// Records were being written at each of a bounded number of reads; their writer may have
    /// been stopped or killed in mid-write.
    #[error("{path} has records that are being written ({count}): try again")]
    Changing {
        /// The table file.
        path: PathBuf,
        /// Number of records.
        count: usize,
    },
    /// A directory of tables was not read to its end.
    #[error("{path} holds too many files: not all tables in it were looked at")]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
}
