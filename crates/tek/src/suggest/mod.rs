// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek suggest`: which threads of a program are time-critical, as rules for `tek run`.
mod clock;
mod evidence;
mod kind;
mod output;
mod plan;
mod verdict;
mod watch;
mod window;

use crate::message;
use crate::misuse::Misuse;
use crate::run::run_watched;
use anyhow::Context;
use nix::poll::PollTimeout;
use output::Findings;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use verdict::{Thresholds, LEAST_ACTIVE_S};
use watch::Watch;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek suggest -o fridge.toml -- ./fridge --window
      Run the program; when it has ended (use it meanwhile, then close it or
      press Ctrl-C) the rules are in fridge.toml.
  tek run --rules fridge.toml -- ./fridge --window
      Run it with them.
  tek suggest --time 30 -o fridge.toml -- ./fridge
      Write the rules after 30 seconds; the program runs on, tek waits for it.
  tek suggest --pid 812 --time 30 > fridge.toml
      Watch a program that runs already for 30 seconds; use it meanwhile.
  tek suggest --json -- ./fridge | jq '.kinds[] | select(.reason == null)'

Use the program as it will be used: what was not woken is not found.

WHAT IS SUGGESTED:
  A thread that frequently handles events of the user during a short time, as
  the paper TEK (2020, V-A) has it. Seen from outside that is one which is woken
  often and is soon done each time. Each second in which a thread ran is looked
  at by itself, the time that it waited for a CPU left out; of these seconds the
  median counts, and threads whose names differ only in numbers are judged
  together. A thread is suggested with
    --min-rate or more wake-ups a second: people touch, type and turn several
      times a second; housekeeping comes once a second or less;
    --max-rate or fewer: people and devices are slower; it polls, or works in a
      pipeline, and real-time priority would multiply what that costs;
    --max-burst or less CPU time from one wake-up to the next: two such threads
      in a row still answer within the 100 ms that people take for at once;
    --max-share of a CPU or less: one that wants more has work, not events, and
      would keep everything else waiting. The guard of `tek run` stops at 80%.
  if it waits for storage in less than half of its waits and uses it in less
  than half of its seconds, and if it was active for 5 seconds with 20 wake-ups
  or more: a program's start alone wakes its threads several times.

  On a busy machine those that wake a thread have to wait for a CPU, so that it
  is woken seldomer. So wake-ups that were due count: those of the clock that
  wakes it, or those that there would be if no other soon done thread of its
  program had to wait for a CPU.

  A thread that is woken evenly, as by a clock, and by nothing else may be
  critical (a sensor, an audio buffer) or not (a timer of housekeeping). Its
  rule is in the file as a comment: only you know whether a person or a device
  waits for its work. The kernel function in which a thread sleeps
  distinguishes a clock from events, on a busy machine too; for another user's
  process only root can read it. Read the rules before you use them.

  A thread is named in the rules by its own name, or if it has none by the
  function that it runs. One with neither is listed with advice. Threads are
  sampled 10 times a second, less often if there are thousands; one that lives
  shorter may be missed. `tek suggest` itself runs at nice -20, if it may.

OUTPUT:
  The rules, with the evidence in comments, go to FILE of -o; the program then
  keeps its standard output. Without -o they go to standard output, and what the
  program writes there goes to standard error, so that the two do not mix. They
  are written when the program has ended or the time of --time is over. A
  summary goes to standard error.

EXIT STATUS:
  That of the program; if a signal killed it, tek dies by the same signal.
    0  with --pid: it was watched (that nothing is suggested is no error)
    1  with --pid: there is no such process, or it is a thread
  125  TEK itself failed
  126  the program was found but could not be executed
  127  the program was not found
    2  an option was not understood; nothing was started";

/// Arguments of `tek suggest`.
#[derive(clap::Args)]
#[command(
    after_help = AFTER_HELP,
    override_usage = "tek suggest [OPTIONS] [--] PROGRAM [ARGUMENT]...\n       \
                      tek suggest [OPTIONS] --pid PID"
)]
pub struct Args {
    /// Watch a process that runs already, and what it starts
    #[arg(long, value_name = "PID", conflicts_with = "program")]
    pid: Option<u32>,

    /// How long to watch [default: a PROGRAM until it ends, a process 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<f64>,

    /// Write the rules into this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the evidence as JSON instead of the rules
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    borders: Thresholds,

    /// The program and its arguments
    #[arg(required_unless_present = "pid", trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// How long a running process is watched by default.
const TIME: Duration = Duration::from_secs(10);

fn seconds(text: &str) -> Result<f64, String> {
    let number =
        text.parse().ok().filter(|number: &f64| (LEAST_ACTIVE_S..=86400.0).contains(number));
    number.ok_or_else(|| {
        format!(
            "write a number of seconds from {LEAST_ACTIVE_S}, for a thread that was active for \
             less gets no verdict, to 86400"
        )
    })
}

/// Watches, judges and writes.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(problem) = args.borders.contradiction() {
        return Err(Misuse::of("suggest", problem).into());
    }
    // Before anything runs: a file that cannot be written is an error now.
    let output = match &args.output {
        Some(path) => open(path)?,
        None if args.pid.is_some() => std::io::stdout().as_fd().try_clone_to_owned()?.into(),
        None => stdout_for_ourselves()?.into(),
    };
    let began = Instant::now();
    // Closes the file: its reader waits no longer than for the rules.
    let write_rules = |watch: Watch| {
        let mut output = output;
        let (threads, processes) = watch.finish();
        let findings = Findings {
            schema: 1,
            watched: what(&args),
            seconds: began.elapsed().as_secs_f64(),
            processes,
            threads: threads.len(),
            kinds: plan::plan(&threads, &args.borders),
            borders: args.borders,
        };
        message::print(&findings.summary());
        let text = match args.json {
            true => crate::json::pretty(&findings)? + "\n",
            false => findings.rules_file(),
        };
        if args.output.is_some() {
            let _ = output.set_len(0); // a device or a pipe has no length
        }
        output.write_all(text.as_bytes()).context("cannot write the rules")
    };

    if let Some(pid) = args.pid {
        if tek_model::Process::open(pid).is_err() {
            message::print(&format!("there is no process {pid}"));
            return Ok(ExitCode::FAILURE);
        }
        // A thread can be opened as if it were a process, but has no threads.
        let process = tek_model::Detail::of(pid).map_or(pid, |detail| detail.pid);
        if process != pid {
            message::print(&format!(
                "{pid} is a thread of {process}, and processes are watched: use --pid {process}"
            ));
            return Ok(ExitCode::FAILURE);
        }
        let time = args.time.map_or(TIME, Duration::from_secs_f64);
        write_rules(watch_running(pid, time))?;
        return Ok(ExitCode::SUCCESS);
    }
    // The program has run, or runs: a failure to write the rules is reported after its end.
    let mut failed = false;
    let write_rules = |watch, failed: &mut bool| {
        if let Err(error) = write_rules(watch) {
            message::print(&format!("{error:#}"));
            *failed = true;
        }
    };
    let time = args.time.map(Duration::from_secs_f64);
    let mut watch = None;
    let mut write_rules = Some(write_rules);
    let ended = run_watched(args.program.clone(), |pid, tables| {
        if write_rules.is_none() {
            return PollTimeout::NONE;
        }
        let new = || Watch::new(pid as u32, vec![tables.to_owned()], time);
        if let Some(pause) = watch.get_or_insert_with(new).examine() {
            return pause.try_into().unwrap_or(PollTimeout::ZERO);
        }
        if let (Some(watch), Some(write)) = (watch.take(), write_rules.take()) {
            write(watch, &mut failed);
            if !failed {
                message::print("the rules are written; the program runs on, and tek waits for it");
            }
        }
        PollTimeout::NONE
    })?;
    match ended {
        Ok(end) => {
            if let (Some(watch), Some(write)) = (watch, write_rules) {
                write(watch, &mut failed);
            }
            let status = end.pass_on();
            Ok(if failed && status == ExitCode::SUCCESS {
                ExitCode::from(crate::run::FAILED)
            } else {
                status
            })
        }
        Err(status) => Ok(status),
    }
}

/// The content of a file stays until there are rules to take its place.
fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::options().write(true).create(true).truncate(false).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

/// Samples a process until the time is over or it is gone.
fn watch_running(pid: u32, time: Duration) -> Watch {
    let mut watch = Watch::new(pid, tek_model::directories(), Some(time));
    while let (Some(pause), Ok(_)) = (watch.examine(), tek_model::Process::open(pid)) {
        std::thread::sleep(pause);
    }
    watch
}

/// Reserves standard output for the rules: from now on other output, above all the program's, goes
/// to standard error.
fn stdout_for_ourselves() -> anyhow::Result<OwnedFd> {
    let own = std::io::stdout().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdout(std::io::stderr().as_fd())?;
    Ok(own)
}

fn what(args: &Args) -> String {
    match args.pid {
        Some(pid) => format!("process {pid}"),
        None => {
            let words: Vec<_> = args.program.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AFTER_HELP;

    #[test]
    fn no_line_of_the_help_is_wider_than_a_terminal() {
        let wide: Vec<_> = AFTER_HELP.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, Vec::<&str>::new());
    }
}
