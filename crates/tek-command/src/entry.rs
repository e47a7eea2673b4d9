// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common part of each command's `main`.
use nix::sys::resource::{getrlimit, Resource};
use nix::sys::signal::{SigSet, SigmaskHow};
use std::process::ExitCode;
use tek_abi::printable_lines;

/// The exit status of a failure of TEK itself.
pub const FAILED: u8 = 125;

/// The kernel's size unless a limit is set.
const STACK_BYTES: usize = 8 << 20;

/// A smaller stack has no room for the command line's definition.
const LEAST_STACK_BYTES: libc::rlim_t = 1 << 20;

/// A command: reads its command line, does its work and returns the exit status.
pub type Command = fn() -> anyhow::Result<ExitCode>;

/// Runs the command and reports its error. `main` calls it first.
pub fn run(command: Command) -> ExitCode {
    // Errors of writes are handled; SIGXFSZ would kill the process.
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    match getrlimit(Resource::RLIMIT_STACK) {
        Ok((bytes, _)) if bytes < LEAST_STACK_BYTES => on_larger_stack(command),
        _ => run_here(command),
    }
}

/// Runs it in a thread of its own. This one takes no signal meanwhile.
fn on_larger_stack(command: Command) -> ExitCode {
    let Ok(mask) = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK) else {
        return run_here(command);
    };
    let with_mask = move || {
        let _ = mask.thread_set_mask();
        run_here(command)
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(with_mask);
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // The panic has printed its message.
        Ok(Err(_)) => ExitCode::from(FAILED),
        Err(_) => {
            let _ = mask.thread_set_mask();
            run_here(command)
        }
    }
}

/// Has this called before a panic ends the process: destructors do not run then.
pub fn before_panic(restore: impl Fn() + Send + Sync + 'static) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        usual(panic);
    }));
}

fn run_here(command: Command) -> ExitCode {
    match command() {
        Ok(code) => code,
        // A reader such as `head` that closes the pipe is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tek: {}", printable_lines(&reported(&error)));
            ExitCode::from(FAILED)
        }
    }
}

/// The error and its causes. Some errors contain their cause already.
fn reported(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    #[test]
    fn a_cause_is_reported_once() {
        let cause = || std::io::Error::from_raw_os_error(libc::ENOENT);
        let plain = super::reported(&anyhow::Error::new(cause()).context("cannot read x"));
        assert_eq!(plain, "cannot read x: No such file or directory (os error 2)");
        let own = anyhow::Error::new(cause()).context(format!("x: {}", cause()));
        assert_eq!(super::reported(&own), "x: No such file or directory (os error 2)");
        assert_eq!(super::reported(&anyhow!("no")), "no");
    }
}
