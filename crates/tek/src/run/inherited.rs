// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tek was started with, before Rust's runtime changed it.
//!
//! Before `main` the runtime ignores SIGPIPE and opens /dev/null in place of standard streams
//! that are closed. The program must find both as tek's caller left them.
use std::sync::atomic::{AtomicU8, Ordering};

const PIPE_IGNORED: u8 = 1 << 3;
const CHILD_IGNORED: u8 = 1 << 4;

/// Bits 0 to 2: the descriptor was closed; then `*_IGNORED`.
static FOUND: AtomicU8 = AtomicU8::new(0);

/// The C runtime calls these before main, and so before Rust's runtime does anything.
#[used]
#[link_section = ".init_array"]
static LOOK_FIRST: extern "C" fn() = look;

extern "C" fn look() {
    let mut found = 0;
    for fd in 0..3 {
        // SAFETY: fcntl(F_GETFD) takes any number for a descriptor and changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            found |= 1 << fd;
        }
    }
    for (signal, bit) in [(libc::SIGPIPE, PIPE_IGNORED), (libc::SIGCHLD, CHILD_IGNORED)] {
        // SAFETY: an all-zero sigaction is a value of that type; the call only fills it.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            action
        };
        if action.sa_sigaction == libc::SIG_IGN {
            found |= bit;
        }
    }
    FOUND.store(found, Ordering::Relaxed);
}

/// Standard streams (0 to 2) that were closed.
pub fn closed_streams() -> impl Iterator<Item = i32> {
    let found = FOUND.load(Ordering::Relaxed);
    (0..3).filter(move |fd| found & (1 << fd) != 0)
}

/// Whether this signal was ignored. Only the two that tek or its runtime changes are known.
pub fn was_ignored(signal: i32) -> bool {
    let bit = match signal {
        libc::SIGPIPE => PIPE_IGNORED,
        libc::SIGCHLD => CHILD_IGNORED,
        _ => return false,
    };
    FOUND.load(Ordering::Relaxed) & bit != 0
}
