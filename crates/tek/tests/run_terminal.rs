// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run` on a terminal. It is in a file of its own, because programs of other tests in the same
//! process would inherit the terminal's descriptors.
mod common;

use common::{line, sh};
use std::fs;
use std::io::{BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

#[test]
fn ctrl_c_on_a_terminal_reaches_the_program_once_and_not_tek() {
    let pty = nix::pty::openpty(None, None).unwrap();
    let script = "n=0; trap 'n=$((n+1))' INT; echo ready; \
         i=0; while [ $n -eq 0 ] && [ $i -lt 1000 ]; do sleep 0.02; i=$((i+1)); done; \
         sleep 0.3; echo \"got $n\"; exit 5";
    let mut command = sh(script);
    let slave = pty.slave.as_raw_fd();
    let out = pty.slave.try_clone().unwrap();
    command.stdin(pty.slave.try_clone().unwrap()).stdout(out).stderr(Stdio::null());
    // SAFETY: async-signal-safe calls only: a session with the terminal as its own.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            libc::ioctl(slave, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(pty.slave);
    let mut terminal = BufReader::new(fs::File::from(pty.master));
    assert_eq!(line(&mut terminal), "ready");
    terminal.get_mut().write_all(b"\x03").unwrap();
    let mut rest = String::new();
    // When the last writer is gone the terminal returns EIO.
    let _ = terminal.read_to_string(&mut rest);
    assert!(rest.contains("got 1"), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}
