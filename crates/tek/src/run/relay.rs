// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwards the program's messages to its service manager: sd_notify(3).
//!
//! systemd accepts messages of the process that it started, which is tek, and with
//! NotifyAccess=main of no other. So the program gets a socket of tek's, and tek forwards the
//! messages of the program and its descendants. tek stays the main process: `MAINPID=` is not
//! forwarded.
use super::directory::RunDirectory;
use super::forward;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    connect, recvmsg, sendmsg, setsockopt, sockopt, ControlMessage, ControlMessageOwned, MsgFlags,
    UnixAddr, UnixCredentials,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::cell::Cell;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

const VARIABLE: &str = "NOTIFY_SOCKET";
const NAME: &str = "notify";

/// More than a message may have: systemd takes 4 KiB.
const LONGEST: usize = 8192;

/// More descriptors than the kernel lets one message have.
const MOST_FDS: usize = 256;

/// A manager that does not read holds tek up for at most so long, once.
const PATIENCE_SECONDS: i64 = 5;

/// So many messages are forwarded before tek polls for signals again.
const AT_ONCE: usize = 64;

/// The socket that the program writes to, and the manager's.
pub struct Relay {
    from: UnixDatagram,
    to: UnixDatagram,
    /// The manager did not read for [`PATIENCE_SECONDS`]: tek does not wait for it again.
    is_deaf: Cell<bool>,
}

impl Relay {
    /// Gives the program a socket of tek's in place of the manager's. Without a listening manager,
    /// and after an error, the variable stays as it is.
    pub fn begin(directory: &RunDirectory) -> io::Result<Option<Self>> {
        let Some(manager) = env::var_os(VARIABLE).as_deref().and_then(address) else {
            return Ok(None);
        };
        let to = UnixDatagram::unbound()?;
        if connect(to.as_raw_fd(), &manager).is_err() {
            return Ok(None);
        }
        setsockopt(&to, sockopt::SendTimeout, &TimeVal::seconds(PATIENCE_SECONDS))?;
        let path = directory.path().join(NAME);
        let from = UnixDatagram::bind(&path)?;
        from.set_nonblocking(true)?;
        setsockopt(&from, sockopt::PassCred, &true)?; // before the program can find the variable
                                                      // The program may run as another user by
                                                      // then.
        fs::set_permissions(&path, Permissions::from_mode(0o777))?;
        env::set_var(VARIABLE, &path);
        Ok(Some(Self { from, to, is_deaf: Cell::new(false) }))
    }

    /// Becomes readable when the program has sent a message.
    pub fn watch(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    /// Forwards the messages of the program with this pid. Messages that the manager does not take
    /// are lost, as without tek.
    pub fn pass_on(&self, program: i32) {
        for _ in 0..AT_ONCE {
            if self.pass_one(program).is_err() {
                break;
            }
        }
    }

    fn pass_one(&self, program: i32) -> nix::Result<()> {
        let mut bytes = [0; LONGEST];
        let mut pieces = [IoSliceMut::new(&mut bytes)];
        let mut space = cmsg_space!([RawFd; MOST_FDS], UnixCredentials);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message =
            recvmsg::<UnixAddr>(self.from.as_raw_fd(), &mut pieces, Some(&mut space), flags)?;
        let mut fds: Vec<OwnedFd> = Vec::new();
        let mut sender = 0;
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::ScmRights(received) => {
                    // SAFETY: the kernel has just made these descriptors, for us.
                    fds.extend(received.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
                }
                ControlMessageOwned::ScmCredentials(of) => sender = of.pid(),
                _ => {}
            }
        }
        let length = message.bytes;
        // Any user can write to the socket, and the manager would take the message for the
        // service's.
        if forward::descends(sender, program) {
            self.send(&without_main_pid(&bytes[..length]), &fds);
        }
        Ok(())
    }

    fn send(&self, text: &[u8], fds: &[OwnedFd]) {
        let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let control: &[_] = if numbers.is_empty() { &[] } else { &rights };
        let mut flags = MsgFlags::MSG_NOSIGNAL;
        flags.set(MsgFlags::MSG_DONTWAIT, self.is_deaf.get());
        let text = [IoSlice::new(text)];
        let sent = sendmsg::<UnixAddr>(self.to.as_raw_fd(), &text, control, flags, None);
        self.is_deaf.set(sent == Err(Errno::EAGAIN));
    }
}

/// The lines of a message except those that make another process the main one.
fn without_main_pid(message: &[u8]) -> Vec<u8> {
    let lines = message.split(|&byte| byte == b'\n');
    lines.filter(|line| !line.starts_with(b"MAINPID")).collect::<Vec<_>>().join(&b'\n')
}

/// The address of a manager: a path, or a name in the abstract name space that begins with `@`.
fn address(text: &OsStr) -> Option<UnixAddr> {
    match text.as_bytes() {
        [b'@', name @ ..] => UnixAddr::new_abstract(name).ok(),
        [b'/', ..] => UnixAddr::new(text).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tek_stays_the_main_process() {
        let text = |message: &[u8]| String::from_utf8(without_main_pid(message)).unwrap();
        assert_eq!(text(b"READY=1\nMAINPID=7\nSTATUS=x"), "READY=1\nSTATUS=x");
        assert_eq!(text(b"MAINPID=7\nMAINPIDFDID=8"), "");
        assert_eq!(text(b"READY=1\n"), "READY=1\n");
    }
}
