// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the agent cannot go on.
use crate::protocol::{self, Frame};
use std::io;

/// Why the agent cannot go on; it reports this on the console and powers off.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("it is not process 1; `tek lab run` boots a guest in which it is")]
    NotInit,
    #[error("the host sent {0}")]
    Protocol(#[from] protocol::Error),
    #[error("the host sent {0:?}, which it never should")]
    Unexpected(Frame),
    #[error("the host is gone")]
    HostGone,
    #[error("there is no port of the name {}; is virtio_console in this kernel?", protocol::PORT)]
    NoPort,
    #[error("cannot {0}: {1}")]
    System(String, io::Error),
}

/// Adds the operation to the error of a system call.
pub(super) trait Doing<T> {
    /// `what` follows "cannot" in the message.
    fn doing(self, what: impl Into<String>) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|error| Error::System(what.into(), error.into()))
    }
}
