// SPDX-License-Identifier: MIT OR Apache-2.0
//! One command, which runs as if on this machine.
use super::super::contents::NoProgram;
use super::super::output::{self, Output, Watched};
use super::{empty_directory, unwrapped, Args};
use crate::files::Spool;
use crate::session::{self, Listener};
use crate::{job, Ended, Job, Outcome};
use anyhow::bail;
use std::io;
use std::process::ExitCode;
use std::time::Instant;
use tek_command::message;

/// Runs the command that the arguments name.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut jobs = [Job {
        environment: args.env.iter().cloned().collect(),
        files: args.out.is_some(),
        ..Job::new("command", args.command.clone())
    }];
    job::check(&jobs)?;
    if let Some(directory) = &args.out {
        empty_directory(directory)?;
    }
    let mut here = Here {
        output: Output::stdout()?,
        errors: Output::stderr()?,
        console: Watched::new(args.console)?,
        files: Spool::new(args.most),
        lost: None,
    };
    let machine = match args.machine.prepare(&mut jobs[0].command) {
        Ok(machine) => machine,
        Err(error) if error.is::<NoProgram>() => {
            message::print(&error.to_string());
            return Ok(ExitCode::from(127));
        }
        Err(error) => return Err(error),
    };
    args.machine.describe_gdb();
    let ended = session::run(&machine.plan(None), &jobs, args.limits(), &mut here);
    let ended = ended.map_err(unwrapped)?;
    let [ended] = ended.as_slice() else { bail!("one job has {} ends", ended.len()) };
    let mut status = report_end(ended, args);
    for lost in &ended.lost {
        output::report_of_guest(&format!("not brought back from $OUT: {lost}"));
    }
    if status == 0 && !ended.lost.is_empty() {
        status = 125;
    }
    if here.output.is_cut() || here.errors.is_cut() {
        output::report_of_guest("output was left out, because no process read it before the limit");
        if status == 0 {
            status = 124;
        }
    }
    let Some(directory) = &args.out else { return Ok(ExitCode::from(status)) };
    let unpacked = here.lost.map_or_else(|| here.files.unpack(directory), Err);
    Ok(ExitCode::from(match unpacked {
        Ok(left_out) => {
            for path in left_out {
                output::report_of_guest(&format!("left out {}: no regular file", path.display()));
            }
            status
        }
        Err(error) => {
            output::report_of_guest(&error.to_string());
            if status == 0 {
                125
            } else {
                status
            }
        }
    }))
}

/// Reports how the command ended, unless by itself; returns the exit status.
fn report_end(ended: &Ended, args: &Args) -> u8 {
    let outcome = &ended.outcome;
    if !matches!(outcome, Outcome::Exited { .. }) {
        let cure = match outcome {
            Outcome::TimedOut | Outcome::Hung => {
                format!(" ({:?}); --limit gives it more", args.limits().job)
            }
            Outcome::Killed { out_of_memory: true, .. } => "; --memory gives it more".to_owned(),
            _ => String::new(),
        };
        output::report_of_guest(&format!("the command {outcome}{cure}"));
    }
    if outcome.concerns_the_guest() && !args.console {
        output::describe_console(&ended.console);
    }
    status(outcome)
}

fn status(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Exited { status } => *status,
        Outcome::Killed { signal, .. } => 128_u8.saturating_add(*signal as u8),
        Outcome::TimedOut | Outcome::Hung => 124,
        Outcome::NotStarted { errno: Some(libc::ENOENT), .. } => 127,
        Outcome::NotStarted { .. } => 126,
        _ => 125,
    }
}

/// Passes on the command's output.
struct Here {
    output: Output,
    errors: Output,
    console: Watched,
    files: Spool,
    lost: Option<crate::files::Error>,
}

impl Listener for Here {
    fn until(&mut self, until: Instant) {
        self.output.until(until);
        self.errors.until(until);
        self.console.until(until);
    }

    fn emulating(&mut self, why: &str) -> io::Result<()> {
        output::describe_emulation(why);
        Ok(())
    }

    fn output(&mut self, _job: &Job, bytes: &[u8]) -> io::Result<()> {
        self.output.write(bytes)
    }

    fn error(&mut self, _job: &Job, bytes: &[u8]) -> io::Result<()> {
        let _ = self.errors.write(bytes); // a missing reader is no reason to stop
        Ok(())
    }

    fn files(&mut self, _job: &Job, bytes: &[u8]) -> io::Result<()> {
        if self.lost.is_none() {
            self.lost = self.files.push(bytes).err();
        }
        Ok(())
    }

    fn console(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.console.push(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_status() {
        let started = |errno| Outcome::NotStarted { why: "x".into(), errno };
        assert_eq!(status(&Outcome::Exited { status: 7 }), 7);
        assert_eq!(status(&Outcome::Killed { signal: 11, out_of_memory: false }), 139);
        assert_eq!(status(&Outcome::TimedOut), 124);
        assert_eq!(status(&Outcome::Hung), 124);
        assert_eq!(status(&started(Some(libc::ENOENT))), 127);
        assert_eq!(status(&started(Some(libc::EACCES))), 126);
        assert_eq!(status(&started(None)), 126);
        assert_eq!(status(&Outcome::Panicked { why: String::new() }), 125);
    }
}
