// SPDX-License-Identifier: MIT OR Apache-2.0
//! A list of jobs: each end is reported as a line of JSON.
use super::super::output::{self, Output, Watched};
use super::results::Results;
use super::{empty_directory, unwrapped, Args};
use crate::session::{self, Listener};
use crate::{job, Ended, Job};
use anyhow::Context;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the end of a job waits for its reader. No job runs meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the jobs of a file.
pub fn run(args: &Args, file: &Path) -> anyhow::Result<ExitCode> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let jobs: Vec<Job> = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no JSON array of jobs", file.display()))?;
    job::check(&jobs).with_context(|| file.display().to_string())?;
    if let Some(directory) = &args.results {
        empty_directory(directory)?;
    }
    let results = args.results.as_ref().map(|directory| Results::new(directory, args.most));
    let mut listener = Reported {
        output: Output::stdout()?,
        errors: Output::stderr()?,
        console: Watched::new(args.console)?,
        results,
        failed: None,
        ended: 0,
        lost: false,
    };
    let machine = args.machine.prepare(&mut [])?;
    args.machine.describe_gdb();
    let ended = session::run(&machine.plan(None), &jobs, args.limits(), &mut listener);
    let ended = ended.map_err(|error| match jobs.len() - listener.ended {
        0 => unwrapped(error),
        1 => unwrapped(error).context("1 job was not run"),
        left => unwrapped(error).context(format!("{left} jobs were not run")),
    })?;
    Ok(ExitCode::from(match ended.iter().all(|ended| ended.outcome.is_success()) {
        _ if listener.lost || ended.iter().any(|ended| !ended.lost.is_empty()) => 125,
        true => 0,
        false => 1,
    }))
}

/// Keeps the output of the jobs, and reports how they end.
struct Reported {
    output: Output,
    errors: Output,
    console: Watched,
    results: Option<Results>,
    /// Why no more can be kept, such as for a full disk.
    failed: Option<io::Error>,
    /// How many jobs have ended.
    ended: usize,
    /// Not all files of some job could be brought back.
    lost: bool,
}

impl Reported {
    /// Keeps something. A failure is reported when the job has ended: the job's own result comes
    /// first.
    fn keep(&mut self, keep: impl FnOnce(&mut Results) -> io::Result<()>) {
        if let (Some(results), None) = (&mut self.results, &self.failed) {
            self.failed = keep(results).err();
        }
    }

    /// Keeps what is left to keep of a job that has ended.
    fn keep_rest(&mut self, job: &Job) {
        let (Some(results), None) = (&mut self.results, &self.failed) else { return };
        match results.ended(job) {
            Ok(Ok(left_out)) => {
                for path in left_out {
                    output::report_of_guest(&format!(
                        "{}: left out {}: no regular file",
                        job.name,
                        path.display()
                    ));
                }
            }
            Ok(Err(error)) => {
                self.lost = true;
                output::report_of_guest(&format!("{}: {error}", job.name));
            }
            Err(error) => self.failed = Some(error),
        }
    }
}

impl Listener for Reported {
    fn until(&mut self, until: Instant) {
        self.errors.until(until);
        self.console.until(until);
    }

    fn emulating(&mut self, why: &str) -> io::Result<()> {
        output::describe_emulation(why);
        Ok(())
    }

    fn booting(&mut self, boot: u32) -> io::Result<()> {
        self.results.as_mut().map_or(Ok(()), |results| results.booting(boot))
    }

    fn output(&mut self, job: &Job, bytes: &[u8]) -> io::Result<()> {
        if self.results.is_none() {
            return self.error(job, bytes);
        }
        self.keep(|results| results.output(job, bytes));
        Ok(())
    }

    fn error(&mut self, job: &Job, bytes: &[u8]) -> io::Result<()> {
        if self.results.is_none() {
            let _ = self.errors.write(bytes); // a missing reader is no reason to stop
        }
        self.keep(|results| results.error(job, bytes));
        Ok(())
    }

    fn files(&mut self, job: &Job, bytes: &[u8]) -> io::Result<()> {
        self.keep(|results| results.files(job, bytes));
        Ok(())
    }

    fn console(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.console.push(bytes);
        self.keep(|results| results.console(bytes));
        Ok(())
    }

    fn ended(&mut self, job: &Job, ended: &Ended) -> io::Result<()> {
        self.ended += 1;
        self.keep_rest(job);
        let line = tek_command::json::line(ended)? + "\n";
        self.output.until(Instant::now() + PATIENCE);
        self.output.write(line.as_bytes())?;
        match self.output.is_cut() {
            true => Err(io::Error::other(format!(
                "no process reads the ends of jobs from standard output, for {PATIENCE:?} now"
            ))),
            false => self.failed.take().map_or(Ok(()), Err),
        }
    }
}
