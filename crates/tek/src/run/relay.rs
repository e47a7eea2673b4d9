// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes on what the program tells its service manager: sd_notify(3).
//!
//! systemd listens to the process that it started, which is tek, and with NotifyAccess=main to no
//! other. So the program is given a socket of tek's, and tek sends on what arrives there.
use super::directory::RunDirectory;
use nix::cmsg_space;
use nix::sys::socket::{
    connect, recvmsg, sendmsg, setsockopt, sockopt, ControlMessage, ControlMessageOwned, MsgFlags,
    UnixAddr,
};
use nix::sys::time::{TimeVal, TimeValLike};
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

/// A manager that does not listen holds tek up for so long at most.
const PATIENCE_SECONDS: i64 = 5;

/// The socket that the program writes to, and the manager's.
pub struct Relay {
    from: UnixDatagram,
    to: UnixDatagram,
}

impl Relay {
    /// Gives the program a socket of tek's in place of the manager's. Where no manager listens, and
    /// after an error, the variable stays as it is.
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
        // The program may be another user by then.
        fs::set_permissions(&path, Permissions::from_mode(0o777))?;
        env::set_var(VARIABLE, &path);
        Ok(Some(Self { from, to }))
    }

    /// Becomes readable when the program has told something.
    pub fn watch(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    /// Passes on all that has arrived. What the manager does not take is lost, as without tek.
    pub fn pass_on(&self) {
        while self.pass_one().is_ok() {}
    }

    fn pass_one(&self) -> nix::Result<()> {
        let mut bytes = [0; LONGEST];
        let mut pieces = [IoSliceMut::new(&mut bytes)];
        let mut space = cmsg_space!([RawFd; MOST_FDS]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message =
            recvmsg::<UnixAddr>(self.from.as_raw_fd(), &mut pieces, Some(&mut space), flags)?;
        let mut fds: Vec<OwnedFd> = Vec::new();
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(received) = control {
                // SAFETY: the kernel has just made these descriptors, for us.
                fds.extend(received.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        let length = message.bytes;
        let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let control: &[_] = if numbers.is_empty() { &[] } else { &rights };
        let text = [IoSlice::new(&bytes[..length])];
        let flags = MsgFlags::MSG_NOSIGNAL;
        let _ = sendmsg::<UnixAddr>(self.to.as_raw_fd(), &text, control, flags, None);
        Ok(())
    }
}

/// The address of a manager: a path, or a name in the abstract name space that begins with `@`.
fn address(text: &OsStr) -> Option<UnixAddr> {
    match text.as_bytes() {
        [b'@', name @ ..] => UnixAddr::new_abstract(name).ok(),
        [b'/', ..] => UnixAddr::new(text).ok(),
        _ => None,
    }
}
