// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal at which tek runs.
use nix::sys::termios::{self, SetArg, Termios};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// Whether standard input and standard output are a terminal.
pub fn is_one() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Its lines and columns.
pub fn size() -> Option<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: it writes `size` and nothing else.
    let got = unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCGWINSZ, &mut size) };
    (got == 0 && size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// The mode of the terminal: its usual one, or raw, so that each key goes to the guest.
#[derive(Clone, Default)]
pub struct Mode(Arc<Mutex<Option<Termios>>>);

impl Mode {
    /// Lets each key go to the guest, Ctrl-C too.
    pub fn make_raw(&self) {
        let mut saved = self.saved();
        if !is_one() || saved.is_some() {
            return;
        }
        if let Ok(usual) = termios::tcgetattr(io::stdin().as_fd()) {
            let mut raw = usual.clone();
            termios::cfmakeraw(&mut raw);
            if termios::tcsetattr(io::stdin().as_fd(), SetArg::TCSADRAIN, &raw).is_ok() {
                *saved = Some(usual);
            }
        }
    }

    /// Restores the former mode.
    pub fn restore(&self) {
        if let Some(usual) = self.saved().take() {
            let _ = termios::tcsetattr(io::stdin().as_fd(), SetArg::TCSADRAIN, &usual);
        }
    }

    fn saved(&self) -> MutexGuard<'_, Option<Termios>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
