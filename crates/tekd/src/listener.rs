// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket at which tekd serves: its own, or an inherited one.
use crate::directories::Directories;
use crate::sys;
use anyhow::{bail, Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{
    bind, connect, getsockname, getsockopt, listen, setsockopt, socket, sockopt, AddressFamily,
    Backlog, SockFlag, SockType, UnixAddr,
};
use nix::sys::stat::{umask, Mode};
use std::env;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The first descriptor of socket activation: sd_listen_fds(3).
const FIRST_ACTIVATED: RawFd = 3;
const WAITING: i32 = 128;

/// Device and inode.
type Place = (u64, u64);

/// A listening socket.
pub struct Listener {
    socket: OwnedFd,
    /// The socket's path, which is removed at the end if it still is the same file.
    made: Option<(PathBuf, Place)>,
    _directories: Option<Directories>,
    /// A descriptor that is closed when no other is free.
    spare: Option<File>,
}

impl Listener {
    /// Takes the socket that systemd made, else makes one at this path. A dead tekd's may be there.
    pub fn open(path: &Path) -> Result<Self> {
        let (socket, made, directories) = match activated()? {
            Some(socket) => (socket, None, None),
            None => {
                let directories = Directories::make_for(path, "--socket")?;
                let socket = bind_at(path)?;
                (socket, place_of(path).map(|place| (path.to_owned(), place)), Some(directories))
            }
        };
        setsockopt(&socket, sockopt::PassCred, &true)?;
        sys::refuse_descriptors(socket.as_fd());
        let spare = File::open("/dev/null").ok();
        Ok(Self { socket, made, _directories: directories, spare })
    }

    /// The descriptor for epoll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next client; `None`: no more for now.
    pub fn accept(&mut self) -> Option<OwnedFd> {
        match sys::accept(self.socket.as_fd()) {
            Ok(client) => Some(client),
            Err(error) if is_out_of_descriptors(&error) => {
                // Else epoll would report it again and again: it is accepted and closed.
                self.spare = None;
                drop(sys::accept(self.socket.as_fd()));
                self.spare = File::open("/dev/null").ok();
                None
            }
            Err(_) => None,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some((path, place)) = &self.made else { return };
        if place_of(path) != Some(*place) {
            return; // by now it is the socket of another tekd
        }
        let _ = fs::remove_file(path);
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn bind_at(path: &Path) -> Result<OwnedFd> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => remove_dead(path)?,
        Ok(_) => bail!("{} is no socket: name another path with --socket", path.display()),
        Err(_) => {}
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    let reported =
        || format!("cannot listen at {}: name another path with --socket", path.display());
    let address = UnixAddr::new(path).with_context(reported)?;
    // All users may connect; grants decide about their requests. A later change of the mode could
    // be redirected to another file.
    let mask = umask(Mode::from_bits_truncate(0o111));
    let bound = bind(socket.as_raw_fd(), &address);
    umask(mask);
    bound.with_context(reported)?;
    listen(&socket, Backlog::new(WAITING)?).with_context(reported)?;
    Ok(socket)
}

/// Removes a socket that a killed tekd left; another file stays.
pub fn clear(path: &Path) {
    let there = fs::symlink_metadata(path);
    if there.is_ok_and(|there| there.file_type().is_socket()) {
        let _ = remove_dead(path);
    }
}

/// Removes a socket without a listener.
fn remove_dead(path: &Path) -> Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path)?) {
        Err(Errno::ECONNREFUSED) => Ok(fs::remove_file(path)?),
        Err(Errno::ENOENT) => Ok(()),
        _ => {
            bail!("somebody serves at {} already: name another path with --socket", path.display())
        }
    }
}

fn place_of(path: &Path) -> Option<Place> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

fn is_for_us(socket: &OwnedFd) -> bool {
    let is_unix = getsockname::<UnixAddr>(socket.as_raw_fd()).is_ok();
    let kind = getsockopt(socket, sockopt::SockType);
    is_unix
        && kind == Ok(SockType::SeqPacket)
        && getsockopt(socket, sockopt::AcceptConn) == Ok(true)
}

fn activated() -> Result<Option<OwnedFd>> {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let is_meant = number("LISTEN_PID") == Some(std::process::id());
    match number("LISTEN_FDS").filter(|_| is_meant) {
        None | Some(0) => Ok(None),
        Some(1) => {
            let socket = sys::inherited(FIRST_ACTIVATED)
                .context("LISTEN_FDS promises a socket that is not there")?;
            if !is_for_us(&socket) {
                bail!(
                    "LISTEN_FDS promises something else than a listening SOCK_SEQPACKET socket: \
                     write ListenSequentialPacket= in the .socket unit"
                );
            }
            nix::fcntl::fcntl(
                &socket,
                nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
            )?;
            Ok(Some(socket))
        }
        Some(count) => bail!("tekd serves one socket, and was started with {count}"),
    }
}
