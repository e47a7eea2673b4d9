// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program: started as without tek, and its end passed on.
use super::group::Asker;
use super::inherited;
use super::own_pid::OwnPid;
use nix::sys::resource::{setrlimit, Resource};
use nix::sys::signal::SigSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The running program.
pub struct Child {
    pid: i32,
}

/// A change of the program's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is over.
    Ended(End),
    /// It was stopped.
    Stopped,
    /// It was continued.
    Continued,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit status.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

impl Child {
    /// Starts the program with the signal mask, signal dispositions and standard streams with which
    /// tek was started; it inherits the rest anyway. tek has blocked all signals. The program's
    /// process asks tekd for its placement. The kernel kills it when tek dies.
    pub fn start(program: &[OsString], mask: SigSet, asker: Option<Asker>) -> io::Result<Self> {
        let mut command = command(program);
        let tek = std::process::id() as i32;
        let own_pid = OwnPid::prepare();
        let become_program = move || {
            die_with(tek);
            own_pid.name_this_process();
            asker.inspect(Asker::ask);
            inherited::restore();
            mask.thread_set_mask()?;
            Ok(())
        };
        // SAFETY: the closure makes async-signal-safe calls only and allocates nothing, as required
        // between fork and exec.
        unsafe { command.pre_exec(become_program) };
        let child = command.spawn()?;
        Ok(Self { pid: child.id() as i32 })
    }

    /// The program's process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The next change of the program's state, without waiting for it.
    ///
    /// tek can have other children if a process with children exec'ed it, or if it is process 1 of
    /// a container. These are only reaped.
    pub fn next_change(&self) -> Option<Change> {
        loop {
            let mut status = 0;
            let flags = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
            // waitpid of nix does not know deaths by real-time signals.
            // SAFETY: the status is ours to fill.
            let pid = unsafe { libc::waitpid(-1, &mut status, flags) };
            if pid <= 0 {
                return None;
            }
            if pid == self.pid {
                return Some(if libc::WIFEXITED(status) {
                    Change::Ended(End::Exited(libc::WEXITSTATUS(status) as u8))
                } else if libc::WIFSIGNALED(status) {
                    Change::Ended(End::Killed(libc::WTERMSIG(status)))
                } else if libc::WIFSTOPPED(status) {
                    Change::Stopped
                } else {
                    Change::Continued
                });
            }
        }
    }

    /// Sends the program a signal. The program may be dead, but it is not reaped: its pid is still
    /// its own.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill takes any numbers.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Sends the program a signal with the value that came with it.
    pub fn signal_with(&self, signal: i32, value: usize) {
        let value = libc::sigval { sival_ptr: value as *mut libc::c_void };
        // SAFETY: sigqueue takes any numbers and does not follow the pointer.
        unsafe { libc::sigqueue(self.pid, signal, value) };
    }
}

/// Becomes the program, with all that tek was started with, its pid included. Returns only on
/// failure, with the reason.
pub fn replace_tek(program: &[OsString]) -> io::Error {
    let mut command = command(program);
    let become_program = || {
        inherited::restore();
        Ok(())
    };
    // SAFETY: as in Child::start().
    unsafe { command.pre_exec(become_program) };
    command.exec()
}

/// The environment was changed in place (see environment.rs), so that the program finds the
/// variables in their old order, duplicates and oddities included.
fn command(program: &[OsString]) -> Command {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    command
}

/// Makes the kernel kill this process when its parent, tek, ends. The kernel drops this setting
/// when the process changes its user or group. If a filter refuses the call, the program outlives
/// tek. Async-signal-safe.
fn die_with(tek: i32) {
    // SAFETY: both calls take plain numbers.
    let (result, parent) =
        unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
    // tek may have ended before this call. A parent outside this process's pid namespace is 0.
    if result == 0 && parent != tek && parent != 0 {
        // SAFETY: takes a plain number.
        unsafe { libc::raise(libc::SIGKILL) };
    }
}

impl End {
    /// Makes tek end as the program did, by the same signal if it was one.
    pub fn pass_on(self) -> ExitCode {
        let signal = match self {
            Self::Exited(code) => return ExitCode::from(code),
            Self::Killed(signal) => signal,
        };
        // If the program dumps a core, it has done so already; tek's would overwrite that. The
        // limit alone does not keep a core_pattern pipe such as systemd-coredump from taking one.
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
        // SAFETY: takes plain numbers.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
        inherited::set_action(signal, libc::SIG_DFL);
        // SAFETY: an all-zero set is a value of that type; raise takes any number.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal);
            libc::raise(signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        }
        // Process 1 of a container survives signals; shells report them by this status.
        ExitCode::from(128u8.saturating_add(signal as u8))
    }

    /// The signal's name, or its number in words.
    pub fn signal_name(signal: i32) -> String {
        nix::sys::signal::Signal::try_from(signal)
            .map_or_else(|_| format!("signal {signal}"), |known| known.as_str().to_owned())
    }
}
