// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something was not changed, or not undone.
use std::io;
use std::path::{Path, PathBuf};

/// The call that returns an error has changed nothing, unless the variant states otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The thread ended, or another one has its id now.
    #[error("thread {tid} has ended: there is nothing to do for it")]
    Gone {
        /// Its id.
        tid: i32,
    },
    /// It seems to be executing a program, and so to become the first thread of its process.
    #[error("thread {tid} is executing a program: try again when it has")]
    Executing {
        /// Its id.
        tid: i32,
    },
    /// Its policy was set repeatedly while its own was being restored.
    #[error(
        "thread {tid} is given another policy again and again: find the process that does so, and \
         try again"
    )]
    Contended {
        /// Its id.
        tid: i32,
    },
    /// SCHED_DEADLINE is reserved CPU time that could not be given back once it was let go.
    #[error(
        "thread {tid} is under SCHED_DEADLINE and is left alone: take that from it first (chrt \
         --other -p 0 {tid})"
    )]
    Deadline {
        /// Its id.
        tid: i32,
    },
    /// The request is invalid.
    #[error("{what}: {advice}")]
    Invalid {
        /// The mistake.
        what: String,
        /// The cure.
        advice: &'static str,
    },
    /// The kernel refused something about a thread.
    #[error("cannot {tried} thread {tid}: {advice}")]
    Thread {
        /// Its id.
        tid: i32,
        /// The operation that failed, as in "give SCHED_RR 20 to".
        tried: String,
        /// The cure.
        advice: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel refused something about a file or a directory.
    #[error("cannot {tried} {path}: {advice}")]
    File {
        /// Which.
        path: PathBuf,
        /// The operation that failed.
        tried: &'static str,
        /// The cure.
        advice: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another process changed it since; that change stays.
    #[error(
        "{what} was changed by another program since, and that change stays: undo it, then try \
         again"
    )]
    Changed {
        /// The thing that was changed.
        what: String,
    },
    /// A change that is not in force (any more).
    #[error("change {change} is not in force: it was undone, or is another owner's")]
    NotInForce {
        /// Its number.
        change: u64,
    },
    /// Another process has the journal.
    #[error(
        "the journal in {directory} belongs to another process that is running: stop that one first"
    )]
    Busy {
        /// The journal's directory.
        directory: PathBuf,
    },
    /// Another user could have written the journal.
    #[error(
        "the journal {path} cannot be trusted, {what}: remove it, or give it to the user that runs \
         this, writable by no other user"
    )]
    Untrusted {
        /// It, or its directory.
        path: PathBuf,
        /// Why.
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn thread(tid: i32, tried: impl Into<String>, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ESRCH) => Self::Gone { tid },
            code => Self::Thread { tid, tried: tried.into(), advice: thread_advice(code), source },
        }
    }

    pub(crate) fn file(path: &Path, tried: &'static str, source: io::Error) -> Self {
        let advice = file_advice(source.raw_os_error());
        Self::File { path: path.to_owned(), tried, advice, source }
    }

    pub(crate) fn invalid(what: impl Into<String>, advice: &'static str) -> Self {
        Self::Invalid { what: what.into(), advice }
    }

    /// The errno value that fits best, for a caller that must return one number.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Gone { .. } => libc::ESRCH,
            Self::Executing { .. } | Self::Contended { .. } => libc::EAGAIN,
            Self::Deadline { .. } | Self::Busy { .. } | Self::Changed { .. } => libc::EBUSY,
            Self::Invalid { .. } | Self::NotInForce { .. } => libc::EINVAL,
            Self::Untrusted { .. } => libc::EPERM,
            Self::Thread { source, .. } | Self::File { source, .. } => {
                source.raw_os_error().unwrap_or(libc::EIO)
            }
        }
    }

    /// The error and the kernel's error, in one line.
    pub(crate) fn reported(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self} ({source})"),
            None => self.to_string(),
        }
    }
}

fn thread_advice(code: Option<i32>) -> &'static str {
    match code {
        Some(libc::EPERM) => {
            "CAP_SYS_NICE is needed (CAP_SYS_RESOURCE for limits), and for a real-time policy a \
             cgroup with real-time runtime (cpu.rt_runtime_us)"
        }
        Some(libc::EINVAL) => "the kernel has no such value, or keeps this thread as it is",
        _ => "see what the kernel said",
    }
}

fn file_advice(code: Option<i32>) -> &'static str {
    match code {
        Some(libc::EPERM | libc::EACCES) => {
            "run as root, or have the directory delegated to this user"
        }
        Some(libc::EROFS) => "mount its file system writable",
        Some(libc::ENOENT | libc::ENODEV) => {
            "it does not exist; check the path, and which controllers its group has"
        }
        Some(libc::EEXIST) => "it belongs to another program; choose another name, or remove it",
        Some(libc::ENOSPC | libc::EDQUOT) => "make room on its file system",
        Some(libc::EINVAL | libc::ERANGE) => "the kernel takes no such value there",
        Some(libc::EBUSY | libc::EOPNOTSUPP) => {
            "a group holds either processes or controlled groups, and threads only when threaded: \
             see cgroups(7)"
        }
        _ => "see what the kernel said",
    }
}
