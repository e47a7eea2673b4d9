// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dispositions and streams with which tek was started, before Rust's runtime changed them.
//!
//! Before `main` the runtime ignores SIGPIPE and opens /dev/null in place of standard streams that
//! are closed; tek ignores SIGXFSZ and needs SIGCHLD. The program must find all of it as tek's
//! caller left it.
use std::sync::atomic::{AtomicU8, Ordering};

/// The signals of which tek or its runtime changes the dispositions.
pub const SIGNALS: [i32; 3] = [libc::SIGPIPE, libc::SIGCHLD, libc::SIGXFSZ];

/// Bits 0 to 2: the descriptor was closed; then one for each of [`SIGNALS`] that was ignored.
static FOUND: AtomicU8 = AtomicU8::new(0);

/// The C runtime calls these before main, and so before Rust's runtime does anything.
#[used]
#[link_section = ".init_array"]
static EXAMINE_FIRST: extern "C" fn() = examine;

extern "C" fn examine() {
    let mut found = 0;
    for fd in 0..3 {
        // SAFETY: fcntl(F_GETFD) takes any number for a descriptor and changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            found |= 1 << fd;
        }
    }
    for (index, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: an all-zero sigaction is a value of that type; the call only fills it.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            action
        };
        if action.sa_sigaction == libc::SIG_IGN {
            found |= 1 << (3 + index);
        }
    }
    FOUND.store(found, Ordering::Relaxed);
}

/// Undoes what the runtime and tek changed, for the program. Async-signal-safe.
pub fn restore() {
    let found = FOUND.load(Ordering::Relaxed);
    for (index, signal) in SIGNALS.into_iter().enumerate() {
        let ignored = found & (1 << (3 + index)) != 0;
        set_action(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
    }
    for fd in (0..3).filter(|fd| found & (1 << fd) != 0) {
        // SAFETY: the descriptor is the /dev/null of the runtime; before exec no code uses it.
        unsafe { libc::close(fd) };
    }
}

/// Sets a signal's disposition to SIG_DFL or SIG_IGN. Async-signal-safe.
pub fn set_action(signal: i32, handler: libc::sighandler_t) {
    // SAFETY: an all-zero sigaction is a value of that type; no handler of ours is installed.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}
