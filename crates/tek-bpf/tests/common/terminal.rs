// SPDX-License-Identifier: MIT OR Apache-2.0
//! A terminal whose input queues work for a kernel thread.
use super::PATIENCE;
use nix::pty::openpty;
use nix::sys::termios::{tcgetattr, tcsetattr, LocalFlags, SetArg};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

/// Writing to a terminal's master queues the work that delivers the text to the slave. The work has
/// run when the text arrives; closing the terminal earlier would cancel it. No other work is
/// queued: there is no echo, and no thread waits in poll() or read(), which would run the work at
/// once.
pub fn write_to_a_terminal() {
    let terminal = openpty(None, None).unwrap();
    let mut settings = tcgetattr(&terminal.slave).unwrap();
    settings.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&terminal.slave, SetArg::TCSANOW, &settings).unwrap();
    nix::unistd::write(&terminal.master, b"text\n").unwrap();
    let limit = Instant::now() + PATIENCE;
    while waiting_in(&terminal.slave) < 5 {
        assert!(Instant::now() < limit, "the text did not arrive");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The number of bytes that can be read.
fn waiting_in(terminal: &OwnedFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: the kernel writes one int.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    bytes
}
