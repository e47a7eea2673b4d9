// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the signals to tek that are forwarded to the program.
//!
//! The terminal sends its signals to the whole foreground group, so the program has them already.
//! Signals that an outside process sends to tek by kill(2) are meant for the program. Signals that
//! the program itself or a process it started sent are not: those went to a group that includes the
//! sender, or were meant for its parent, and tek only stands in for that parent.
use nix::libc::signalfd_siginfo;
use tek_model::{Process, Stat};

/// The source of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// kill, sigqueue, tgkill and the like, by a process outside the program and tek.
    Outside,
    /// The same, by the program or its descendants, or by tek itself.
    Inside,
    /// The kernel: terminal, alarm, limits.
    Kernel,
}

/// Determines the source of a signal.
pub fn origin(info: &signalfd_siginfo, child: i32) -> Origin {
    if info.ssi_code > 0 {
        return Origin::Kernel;
    }
    let sender = info.ssi_pid as i32;
    if sender == std::process::id() as i32 || descends(sender, child) {
        return Origin::Inside;
    }
    Origin::Outside
}

/// Whether a signal that reached tek is to be forwarded to the program.
pub fn is_for_the_program(signal: i32, origin: Origin, tek_leads_session: bool) -> bool {
    match origin {
        Origin::Outside => true,
        Origin::Inside => false,
        Origin::Kernel => match signal {
            // An alarm set before `exec tek run` ticks on in tek's process and is not inherited.
            libc::SIGALRM => true,
            // At a hangup the kernel signals only the leader of the session.
            libc::SIGHUP | libc::SIGCONT => tek_leads_session,
            _ => false,
        },
    }
}

/// Whether a process is another one or one of its descendants.
pub fn descends(mut pid: i32, ancestor: i32) -> bool {
    // Bounded, because parents change during the walk.
    for _ in 0..64 {
        if pid == ancestor {
            return true;
        }
        match parent(pid) {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid)?.parent.try_into().ok()
}

/// Whether a process is stopped.
pub fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| matches!(stat.state, 'T' | 't'))
}

fn stat(pid: i32) -> Option<Stat> {
    let pid = pid.try_into().ok()?;
    Process::open(pid).ok()?.stat(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_the_terminal_are_not_doubled() {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGWINCH] {
            assert!(!is_for_the_program(signal, Origin::Kernel, false));
            assert!(is_for_the_program(signal, Origin::Outside, false));
        }
    }

    #[test]
    fn a_hangup_reaches_the_program_when_tek_leads_the_session() {
        assert!(is_for_the_program(libc::SIGHUP, Origin::Kernel, true));
        assert!(!is_for_the_program(libc::SIGHUP, Origin::Kernel, false));
    }

    #[test]
    fn what_the_program_sends_does_not_come_back_to_it() {
        assert!(!is_for_the_program(libc::SIGUSR1, Origin::Inside, true));
    }

    #[test]
    fn this_process_descends_from_its_parent() {
        let own = std::process::id() as i32;
        assert!(descends(own, own));
        assert!(descends(own, parent(own).unwrap()));
        assert!(!descends(parent(own).unwrap(), own));
        assert!(!is_stopped(own));
    }
}
