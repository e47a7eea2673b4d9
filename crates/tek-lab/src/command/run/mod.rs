// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek lab run`.
mod jobs;
mod one;
mod results;

use super::machine::{a_limit, Which};
use crate::session::{self, Limits};
use crate::size;
use anyhow::Context;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The default time until a command must have ended, in s.
const LIMIT: u64 = 60;

/// The same while a user debugs with gdb: a day.
const LIMIT_WITH_GDB: u64 = 86_400;

const AFTER_HELP: &str = "\
THE COMMAND:
The command's standard output and error are those of tek, its standard input is empty. It runs as
root in /tmp. A program of this machine (with a slash in its name, or one that the guest does not
have) is taken into the guest with the libraries that it needs, at the same path. So is any other
file that a word of the command names, if that begins with ./ or ../

JOBS:
With --jobs, each job that has ended is told on standard output as a line of JSON:
  {\"job\":\"a\",\"outcome\":\"exited\",\"status\":0,\"seconds\":0.4,\"boot\":1,\"left\":[],\"console\":[]}
outcome is exited (with status), killed (signal, out_of_memory), timed-out, not-started (why,
errno), panicked (why), hung, stopped, garbled (why), qemu-died (why) or not-booted (why); left is
what could not be cleared away after it, so that the next job got a new boot; console, of a job that
failed, has the last lines of the guest's kernel. A job is {\"name\": …, \"command\": […]} and, as
needed, environment {…}, directory, limit (seconds), fresh (wants a guest of its own), files (brings
back what it writes into $OUT).

EXIT STATUS:
  the command's; 128 + the signal that killed it
  2    an option was not understood
  124  it ran past its limit, or its guest fell silent
  125  the lab failed: a file that was named cannot be read, there is no kernel, or no QEMU, or the
       guest panicked or powered off
  126  the command could not be started; 127 there is none of that name
  with --jobs: 0, or 1 if a job failed, or 125

EXAMPLES:
  tek lab run -- tek doctor
  tek lab run --cpus 4 --memory 512M --limit 300 -- ./my-test --its-option
  tek lab run --add ./data:/srv/data --out results -- sh -c 'sort /srv/data > $OUT/sorted'
  tek lab run --kernel arch/x86/boot/bzImage --console -- dmesg
  tek lab run --jobs jobs.json --results results";

/// Arguments of `tek lab run`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Seconds that the command, or a job that has no limit of its own, may take [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = a_limit)]
    limit: Option<u64>,
    /// Show the guest's console on standard error
    #[arg(long)]
    console: bool,
    /// A variable for the command. Can be given several times
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "jobs", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Bring back the files and directories that the command makes in the directory $OUT (no links)
    #[arg(long, value_name = "DIR", conflicts_with = "jobs")]
    out: Option<PathBuf>,
    /// Run the jobs in this file, a JSON array, instead of a command
    #[arg(long, value_name = "FILE")]
    jobs: Option<PathBuf>,
    /// Keep what the jobs wrote: DIR/JOB/stdout, stderr and files/, and DIR/console-BOOT.log.
    /// Without it, their output goes to standard error
    #[arg(long, value_name = "DIR", requires = "jobs", conflicts_with = "command")]
    results: Option<PathBuf>,
    /// Most bytes to keep of each output of a job, and of its files, of which a guest sends 1G at
    /// most
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = most)]
    most: u64,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND",
        required_unless_present = "jobs",
        conflicts_with = "jobs"
    )]
    command: Vec<String>,
    // Last: its headings count for all that comes after.
    #[command(flatten)]
    machine: Which,
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE"),
    }
}

fn most(text: &str) -> Result<u64, &'static str> {
    size::parse(text).ok_or("write it as 200M or 1G")
}

/// Does it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.command.first().is_some_and(String::is_empty) {
        let what = "COMMAND is empty; name a program\n";
        clap::Error::raw(clap::error::ErrorKind::InvalidValue, what).exit();
    }
    match &args.jobs {
        Some(file) => jobs::run(args, file),
        None => one::run(args),
    }
}

impl Args {
    fn limits(&self) -> Limits {
        let usual = if self.machine.is_debugged() { LIMIT_WITH_GDB } else { LIMIT };
        self.machine.limits(Duration::from_secs(self.limit.unwrap_or(usual)))
    }
}

/// The error itself where it is one of tek's, such as a closed pipe, which is no failure.
fn unwrapped(error: session::Error) -> anyhow::Error {
    match error {
        session::Error::Listener(error) => error.into(),
        other => other.into(),
    }
}

/// Makes a directory for results, or ensures that it has no files to mix with them.
fn empty_directory(directory: &std::path::Path) -> anyhow::Result<()> {
    let about = || format!("cannot write into {}", directory.display());
    std::fs::create_dir_all(directory).with_context(about)?;
    if std::fs::read_dir(directory).with_context(about)?.next().is_some() {
        anyhow::bail!("{} is not empty; remove it, or name another directory", directory.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::variable;

    #[test]
    fn a_variable_has_a_name_and_a_value() {
        assert_eq!(variable("B=x=y"), Ok(("B".into(), "x=y".into())));
        assert_eq!(variable("C="), Ok(("C".into(), "".into())));
        assert!(variable("A").is_err() && variable("=x").is_err() && variable("").is_err());
    }
}
