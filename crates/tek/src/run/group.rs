// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run --group`: tekd puts the program into a group before it begins.
//!
//! The program's process asks for itself, between fork and exec, because the kernel identifies the
//! sender as the asker; a placement survives exec. The request is async-signal-safe: it allocates
//! nothing. The result comes through a pipe.
use crate::daemon::{self, Error};
use crate::groups::{name, set};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{recv, send, MsgFlags, UnixAddr};
use nix::unistd::pipe2;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use tek_abi::{MessageError, Reply, Request, ASK_GROUP};
use tek_policy::Group;
use zerocopy::IntoBytes;

/// Places the program that is started next.
pub struct Placing {
    group: Group,
    path: PathBuf,
    asker: Asker,
    reported: File,
    announce: File,
}

/// Asks, in the program's process.
#[derive(Clone, Copy)]
pub struct Asker {
    address: UnixAddr,
    request: Request,
    /// The end of a pipe, to write to.
    announce: RawFd,
}

impl Placing {
    /// Makes everything ready. `Err` is a message for the user.
    pub fn prepare(group: Group) -> Result<Self, String> {
        Self::new(group).map_err(|error| reported(group, &error))
    }

    fn new(group: Group) -> Result<Self, Error> {
        let path = daemon::path();
        let address = UnixAddr::new(&path).map_err(|error| daemon::not_connected(&path, error))?;
        let (reported, announce) =
            pipe2(OFlag::O_CLOEXEC).map_err(|error| daemon::not_connected(&path, error))?;
        let request = Request { group: name::number(group), ..Request::new(ASK_GROUP, 1) };
        let asker = Asker { address, request, announce: announce.as_raw_fd() };
        Ok(Self { group, path, asker, reported: reported.into(), announce: announce.into() })
    }

    /// For the program's process, while this lives.
    pub fn asker(&self) -> Asker {
        self.asker
    }

    /// The result, once the program has begun. `Err` is a message for the user.
    pub fn outcome(self) -> Result<(), String> {
        let group = self.group;
        self.result().map_err(|error| reported(group, &error))
    }

    fn result(self) -> Result<(), Error> {
        let Self { path, mut reported, announce, .. } = self;
        drop(announce);
        let mut bytes = Vec::new();
        let read = reported.read_to_end(&mut bytes);
        if let Ok(number) = <[u8; 4]>::try_from(bytes.as_slice()) {
            let error = Errno::from_raw(i32::from_ne_bytes(number));
            return Err(daemon::not_connected(&path, error));
        }
        if read.is_err() || bytes.is_empty() {
            return Err(Error::Silent(path, Errno::ECONNRESET));
        }
        let nonsense = |error| Error::Nonsense(path, error);
        match Reply::decode(&bytes) {
            Ok(reply) if reply.error != 0 => {
                Err(Error::Refused { error: reply.error, why: daemon::why(&reply) })
            }
            Ok(reply) if reply.kind != ASK_GROUP => Err(nonsense(MessageError::Kind(reply.kind))),
            Ok(_) => Ok(()),
            Err(error) => Err(nonsense(error)),
        }
    }
}

impl Asker {
    /// Between fork and exec: async-signal-safe, and allocates nothing.
    pub fn ask(&self) {
        let mut reply = [0; size_of::<Reply>()];
        let answer = daemon::connect_to(&self.address).and_then(|socket| {
            let fd = socket.as_raw_fd();
            send(fd, self.request.as_bytes(), MsgFlags::MSG_NOSIGNAL)?;
            recv(fd, &mut reply, MsgFlags::empty())
        });
        // A pipe has room for either; if the write fails, no reader is left.
        let reported = match &answer {
            Ok(length) => &reply[..*length],
            Err(error) => &(*error as i32).to_ne_bytes(),
        };
        // SAFETY: the bytes are there, and the parent keeps the pipe open until the program runs.
        unsafe { libc::write(self.announce, reported.as_ptr().cast(), reported.len()) };
    }
}

/// The message where it was not placed.
fn reported(group: Group, error: &Error) -> String {
    format!(
        "the program is not put into the group {group}, and shares the CPUs as without: {}",
        set::reported(error)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn without_a_tekd_the_message_has_what_would_help() {
        let error = daemon::not_connected(Path::new("/nowhere"), Errno::ENOENT);
        let text = reported(Group::Background, &error);
        assert!(text.starts_with("the program is not put into the group background"), "{text}");
        assert!(text.contains("tekd does not run, or not at /nowhere"), "{text}");
    }

    #[test]
    fn a_thread_that_never_asked_is_not_placed() {
        let placing = Placing::prepare(Group::Urgent).unwrap();
        assert!(matches!(placing.result(), Err(Error::Silent(..))));
    }

    #[test]
    fn what_came_of_it_comes_through_the_pipe() {
        let placing = Placing::prepare(Group::Urgent).unwrap();
        let address = UnixAddr::new("/nowhere/tekd").unwrap();
        Asker { address, ..placing.asker() }.ask();
        assert!(matches!(placing.result(), Err(Error::NotThere(_))));
    }
}
