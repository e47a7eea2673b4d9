// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `tek`.

// Without these features some functions of other modules have no caller.
#![cfg_attr(not(all(feature = "generate", feature = "lab", feature = "top")), allow(dead_code))]

mod asker;
mod bench;
mod cli;
mod critical;
mod daemon;
mod debug;
mod doctor;
mod explain;
mod exporter;
mod find;
#[cfg(feature = "generate")]
mod generate;
mod groups;
mod json;
mod kthreads;
#[cfg(feature = "lab")]
mod lab;
mod message;
mod misuse;
mod profile;
mod ps;
mod run;
mod stack;
mod stack_use;
mod status;
mod suggest;
mod suggested;
mod system;
#[cfg(feature = "top")]
mod top;
mod trace;
mod units;
mod words;

#[cfg(feature = "generate")]
use clap::CommandFactory;
use clap::Parser;
use cli::{Cli, Command};
use nix::sys::resource::{getrlimit, Resource};
use nix::sys::signal::{SigSet, SigmaskHow};
use std::process::ExitCode;
use tek_abi::printable_lines;

/// The kernel's size unless a limit is set.
const STACK_BYTES: usize = 8 << 20;

/// A smaller stack has no room for the command line's definition.
const LEAST_STACK_BYTES: u64 = 1 << 20;

fn main() -> ExitCode {
    // Errors of writes are handled; SIGXFSZ would kill tek.
    run::inherited::ignore(libc::SIGXFSZ);
    match getrlimit(Resource::RLIMIT_STACK) {
        Ok((bytes, _)) if bytes < LEAST_STACK_BYTES => on_larger_stack(tek),
        _ => tek(),
    }
}

/// Runs it in a thread of its own. This one takes no signal meanwhile.
fn on_larger_stack(run: fn() -> ExitCode) -> ExitCode {
    let Ok(mask) = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return run() };
    let with_mask = move || {
        let _ = mask.thread_set_mask();
        run()
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(with_mask);
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // The panic has printed its message.
        Ok(Err(_)) => ExitCode::from(run::FAILED),
        Err(_) => {
            let _ = mask.thread_set_mask();
            run()
        }
    }
}

fn tek() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Ps(args) => ps::run(args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Status(args) => status::run(args),
        Command::Exporter(args) => exporter::run(args),
        Command::Critical(args) => critical::run(args),
        Command::Groups(args) => groups::run(args),
        Command::Kthreads(args) => kthreads::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Suggest(args) => suggest::run(args),
        Command::Stack(args) => stack::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Bench(args) => bench::run(args),
        #[cfg(feature = "lab")]
        Command::Lab(args) => lab::run(args),
        Command::Debug(args) => debug::run(args),
        #[cfg(feature = "generate")]
        Command::Generate(args) => generate::run(args, Cli::command()),
    };
    match result {
        Ok(code) => code,
        // A reader such as `head` that closes the pipe is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(misuse) = error.downcast_ref() {
                cli::refuse(misuse);
            }
            eprintln!("tek: {}", printable_lines(&reported(&error)));
            ExitCode::from(125)
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
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::from_raw_os_error(libc::ENOENT);
        let plain = super::reported(&anyhow::Error::new(cause()).context("cannot read x"));
        assert_eq!(plain, "cannot read x: No such file or directory (os error 2)");
        let own = anyhow::Error::new(cause()).context(format!("x: {}", cause()));
        assert_eq!(super::reported(&own), "x: No such file or directory (os error 2)");
        assert_eq!(super::reported(&anyhow!("no")), "no");
    }
}
