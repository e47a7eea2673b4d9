// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why there is no package, and what to do about it.
use crate::cache;
use std::path::PathBuf;
use std::sync::Arc;

/// Why there is no package.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A program is missing.
    #[error(
        "{program} cannot be started ({why}): the lab gets its kernels from a Debian archive with \
         apt-get, apt-cache, dpkg and dpkg-deb (packages apt and dpkg, which other distributions \
         have too); install them, or boot a kernel that you have with --kernel FILE"
    )]
    Program {
        /// Its name.
        program: &'static str,
        /// The system's error.
        why: String,
    },
    /// The machine's apt knows no Debian.
    #[error(
        "this machine's apt has no Debian archive in its sources: name one with --mirror URI or \
         TEK_LAB_MIRROR, and the file with its keys with --keyring FILE, or boot a kernel that you \
         have with --kernel FILE"
    )]
    NoArchive,
    /// A mirror's address that apt would not take.
    #[error("\"{0}\" is no address of an archive: http://HOST/debian, or the path of a directory")]
    Address(String),
    /// A path that would mean something else in apt's files.
    #[error("apt cannot use {}, for its blanks or quotes: name another path", .0.display())]
    Path(PathBuf),
    /// No such package.
    #[error(
        "suite {suite} of {mirror} has no package {pattern}: Debian drops versions that newer ones \
         supersede; name a series that it has in lab/kinds.toml"
    )]
    NoPackage {
        /// The name or pattern that was searched for.
        pattern: String,
        /// The suite.
        suite: String,
        /// In which archive.
        mirror: String,
    },
    /// apt failed.
    #[error("cannot {doing}: {message}; {cause}")]
    Apt {
        /// "read suite … of …".
        doing: String,
        /// The first of its errors.
        message: String,
        /// The cause and the cure.
        cause: Cause,
    },
    /// There is less room than the packages need.
    #[error(
        "{what} needs {needed} MB in {}, which has {free} MB: make room there, or name another \
         directory with --cache DIR or TEK_LAB_CACHE",
        .path.display()
    )]
    Room {
        /// The packages.
        what: String,
        /// Megabytes needed, for the packages and their files.
        needed: u64,
        /// The directory.
        path: PathBuf,
        /// Megabytes free there.
        free: u64,
    },
    /// Files could not be written.
    #[error(transparent)]
    Cache(Arc<cache::Error>),
}

impl From<cache::Error> for Error {
    fn from(error: cache::Error) -> Self {
        Self::Cache(Arc::new(error))
    }
}

impl Error {
    /// Whether another package could not be fetched either.
    pub(crate) fn is_about_this_machine(&self) -> bool {
        match self {
            Self::Apt { cause, .. } => *cause == Cause::Full,
            Self::NoPackage { .. } => false,
            _ => true,
        }
    }
}

/// The cause of a failure, each with its cure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// No space left.
    #[error(
        "the disk is full: make room in the cache's directory (a kernel with its modules takes \
         500 MB while it is unpacked), or name another with --cache DIR or TEK_LAB_CACHE"
    )]
    Full,
    /// The signature of an index is missing or wrong.
    #[error(
        "its index is not signed by the keys that may do so, and was not used: update the package \
         debian-archive-keyring, or name the file with the archive's keys with --keyring FILE"
    )]
    Signature,
    /// A file does not match the index.
    #[error(
        "what came is not what the signed index says, and was not used: the mirror may be in the \
         middle of an update, so try again in some minutes, or name another with --mirror URI"
    )]
    Checksum,
    /// An index that has expired, or is not valid yet.
    #[error(
        "its index is not valid at this machine's time, and was not used: set the clock, or name \
         another archive with --mirror URI"
    )]
    Time,
    /// The file is not there.
    #[error(
        "the archive does not have it: look at its address, or name another with --mirror URI"
    )]
    Absent,
    /// The server does not answer.
    #[error(
        "the archive cannot be reached: look at the network and at apt's proxy settings, or name \
         another with --mirror URI; what is in the cache needs no network"
    )]
    Network,
    /// Something else.
    #[error("try again, or name another archive with --mirror URI")]
    Other,
}

impl Cause {
    /// Determines the cause from apt's messages in English.
    pub(super) fn of(message: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if has(&[
            "No space left on device",
            "Disk quota exceeded",
            "enough free space",
            "Wrote only",
            "failed to write",
        ]) {
            Self::Full
        } else if has(&[
            "NO_PUBKEY",
            "BADSIG",
            "EXPKEYSIG",
            "REVKEYSIG",
            "KEYEXPIRED",
            "not signed",
            "signatures were invalid",
            "signatures couldn't be verified",
            "Clearsigned file isn't valid",
            "No good signature",
            "gpgv",
        ]) {
            Self::Signature
        } else if has(&["is expired", "not valid yet"]) {
            Self::Time
        } else if has(&["Hash Sum mismatch", "unexpected size", "Mirror sync in progress"]) {
            Self::Checksum
        } else if has(&[
            "Could not resolve",
            "Temporary failure",
            "Could not connect",
            "Unable to connect",
            "Cannot initiate",
            "Connection failed",
            "Connection timed out",
            "timed out",
            "Network is unreachable",
            "Connection refused",
            "No route to host",
            "Could not handshake",
        ]) {
            Self::Network
        } else if has(&["does not have a Release file", "404", "File not found", "No such file"]) {
            Self::Absent
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cause;

    #[test]
    fn a_message_of_apt_is_understood() {
        for (message, cause) in [
            ("Err:1 ... Write error - write (28: No space left on device)", Cause::Full),
            (
                "The following signatures couldn't be verified because the public key is not \
                 available: NO_PUBKEY 0",
                Cause::Signature,
            ),
            ("E: The repository 'file:/a x InRelease' is not signed.", Cause::Signature),
            (
                "File has unexpected size (334084 != 348592). Mirror sync in progress?",
                Cause::Checksum,
            ),
            ("E: Failed to fetch http://a  Hash Sum mismatch", Cause::Checksum),
            ("Temporary failure resolving 'archive.example'", Cause::Network),
            (
                "Could not connect to 127.0.0.1:1 (127.0.0.1). - connect (111: Connection refused)",
                Cause::Network,
            ),
            ("E: Release file for http://a is expired (invalid since 3d).", Cause::Time),
            ("E: The repository 'http://a x Release' does not have a Release file.", Cause::Absent),
            ("E: something new", Cause::Other),
        ] {
            assert_eq!(Cause::of(message), cause, "{message}");
        }
    }
}
