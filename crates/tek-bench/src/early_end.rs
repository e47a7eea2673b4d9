// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGINT and SIGTERM end a long benchmark early: it reports what it has measured until then.

use anyhow::{bail, Context};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use std::sync::atomic::{AtomicI32, Ordering};

/// The number of the last signal; 0 before it.
static ENDED_BY: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: libc::c_int) {
    ENDED_BY.store(signal, Ordering::Relaxed);
}

/// From now on SIGINT and SIGTERM set what [`ended_by`] returns, and the second of the same kind
/// ends the process as usual. A signal that is ignored stays so.
pub fn catch() -> anyhow::Result<()> {
    let flags = SaFlags::SA_RESTART | SaFlags::SA_RESETHAND;
    let action = SigAction::new(SigHandler::Handler(note), flags, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler only stores a number.
        let before = unsafe { sigaction(signal, &action) }.context("cannot catch signals")?;
        if matches!(before.handler(), SigHandler::SigIgn) {
            // SAFETY: the action was in force before.
            unsafe { sigaction(signal, &before) }.context("cannot ignore a signal again")?;
        }
    }
    Ok(())
}

/// The signal that asked for the end. The current run may have failed because of it.
pub fn ended_by() -> Option<Signal> {
    Signal::try_from(ENDED_BY.load(Ordering::Relaxed)).ok()
}

/// An error if the end was asked for before the first run was over.
pub fn require_some(runs: usize) -> anyhow::Result<()> {
    match ended_by() {
        Some(signal) if runs == 0 => bail!("{signal} ended it before the first run was over"),
        _ => Ok(()),
    }
}

/// The sentence of a report that is not whole; empty for a whole one.
pub fn caution() -> String {
    ended_by().map_or_else(String::new, |signal| {
        format!("caution: {signal} ended it early; these are the runs until then\n")
    })
}
