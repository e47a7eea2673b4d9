// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek profile`: where the time of a program's threads goes.
mod clock;
mod critical;
mod folded;
mod locks;
mod make;
pub mod parts;
mod path;
mod read;
mod render;
mod report;
mod times;
mod watch;

use crate::message;
use crate::misuse::Misuse;
use crate::run::child::End;
use crate::run::uthread::Model;
use crate::run::{self, FAILED};
use anyhow::Context;
use clap::builder::PossibleValue;
use clap::ValueEnum;
use clock::Calibration;
use render::Display;
use report::{Known, Profile};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use watch::Watch;

/// The version of the JSON; it changes when a field changes its meaning or is removed.
const SCHEMA: u32 = 1;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek profile -- ./dedup -t 4 input
      Run a program, then print on standard error where the time of its threads
      went, what the critical path is, and which locks were waited for.
  tek profile --folded dedup.folded -- ./dedup input
      Write stacks for flamegraph.pl, inferno-flamegraph or speedscope, too.
  tek profile --json dedup.json -o dedup.txt -- ./dedup input
      The same for scripts, and the text into a file.
  tek run --alloc mimalloc -- tek profile -- ./dedup input
      See what another allocator, lock or placement changes.

THE PARTS, which sum to the time that the threads lived:
  work       none of the following, while other threads did something, too
  serial     the same while no other thread did anything: what more CPUs would
             not make shorter
  sync       waiting for other threads: mutexes, conditions, read-write and spin
             locks, barriers, semaphores, ends of threads
  file       calls for files, by descriptor and by stdio, pipes and sockets too
  allocator  malloc(), free() and their family
  delay      ready, but no CPU was free
  idle       waiting for a time, for events, for other processes
  other      waiting in calls that the profiler does not know: futexes of one's
             own, io_uring, page faults on disks

THE TABLES:
  FUNCTION   the function that threads run; behind it a name of their own
  THREAD     of the critical path: the thread's number, 1 is the first one, and
             its function. Short stretches stand together as (several, N
             changes): so often another thread comes. FILE and ALLOC are the
             thread's mean between two of its waits, DELAY that of its life
  TIMES      how often the lock was taken, the condition waited for, ...
  CONT%      of these, how often it could not be had at once
  WAITED     how long threads waited for it, all together; waits that had not
             ended when the program did count up to there
  MEAN       the same of one that could not be had at once
  HELD       how long a lock is held, on average of those that were measured
  AT         the place where it was waited for most

--folded writes no call stacks, but lines PROGRAM;FUNCTION;THREAD;PART and, of
sync, ;OBJECT;PLACE, with microseconds behind them.

A call inside another one counts as part of the outer one: malloc() in fopen()
is file. Locks that are free cost a count and no look at the clock; malloc() and
calls of stdio are timed now and then, and always where they are large or go to
the kernel. Who waits in a pipe, socket or terminal counts as doing nothing, so
another thread may be alone meanwhile. The report says what counting cost.

JSON:
  An object with schema, which is 1, and processes: those of the program, then
  with --follow others, in the order of time. Of each of these:
  program, pid, wall_ns, threads_ns; parts: ns of each part
  ended            false: it was killed; became_another: it became another
                   program, which follows if it was profiled, too
  still_waiting    threads whose wait for another one had not ended
  roles            name (the function), threads, life_ns, parts
  threads          number, tid, name, role, begin_ns, life_ns, parts, locks,
                   file_calls, allocator_calls
  objects          kind, name, address, count, contended, wait_ns, wait_most_ns,
                   holds, hold_mean_ns, hold_most_ns; sites: the same by place
  more_files       true: there was no room for all files that it loaded, and what
                   lies in others has no name
  critical_path    null where waits are missing; length_ns, work_ns, ...;
                   roles: [name, ns]; phases: thread, role, from_ns, to_ns,
                   work_ns, ...
  overhead, lost   what counting cost, and what there was no room for
  scheduler        whether the kernel told how long threads ran
Fields may be added; schema changes when one changes its meaning. Where a FILE
is -, what tek writes comes on standard output behind all that the program
itself wrote there, because that has ended by then.

Ctrl-C ends the program as it would without tek, and the profile is printed.

EXIT STATUS:
  That of the program; if a signal killed it, tek dies by the same signal.
  125  TEK itself failed; or the program cannot be profiled: it is statically
       linked, of another word size, or runs on user-level threads; or it ended
       with 0, and the profile could not be written
  126  the program was found but could not be executed
  127  the program was not found
    2  the command line was not understood; nothing was started

ENVIRONMENT:
  TEK_LIBRARY  path of libtek.so, beside which libtek-profile.so lies, instead of
               ../lib beside tek";

/// Arguments of `tek profile`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = "tek profile [OPTIONS] [--] PROGRAM \
                                                     [ARGUMENT]...")]
pub struct Args {
    /// Write the profile as JSON into a file, - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write folded lines for flame graphs into a file, in microseconds
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,

    /// Write the text into a file, instead of standard error; names are not shortened
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show every thread, lock and phase, with whole names
    #[arg(long)]
    all: bool,

    /// Profile the processes that it starts, too
    #[arg(long)]
    follow: bool,

    /// As in `tek run`; only threads of the kernel can be profiled: 1:1
    #[arg(long, value_name = "MODEL", default_value = "1:1", hide_default_value = true)]
    model: Model,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Args {
    /// A file that is named by two outputs.
    fn same_output(&self) -> Option<&Path> {
        let mut given: Vec<_> =
            [&self.json, &self.folded, &self.output].into_iter().flatten().collect();
        given.sort();
        given.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].as_path())
    }
}

/// Runs the program and prints its profile; the result is its exit status.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.model != Model::OneToOne {
        let name = args.model.to_possible_value();
        let name = name.as_ref().map_or("", PossibleValue::get_name);
        let problem = format!(
            "--model {name}: the profiler's clocks are those of kernel threads, and would count \
             what other user-level threads do meanwhile; `tek run --model {name} --trace FILE` \
             shows those"
        );
        return Err(Misuse::of("profile", problem).into());
    }
    if let Some(twice) = args.same_output() {
        let problem =
            format!("{}: of --json, --folded and -o each needs a file of its own", twice.display());
        return Err(Misuse::of("profile", problem).into());
    }
    if env::var_os("LD_PRELOAD")
        .is_some_and(|list| list.to_string_lossy().contains("libtek-uthread"))
    {
        message::print(
            "user-level threads cannot be profiled: run tek profile without tek run --model",
        );
        return Ok(ExitCode::from(FAILED));
    }
    let outputs = Outputs::create(&args)?;
    let directory = directory()?;
    let calibration = Calibration::begin();
    let counter = if clock::counter_is_good() {
        // Ticks of a millisecond.
        format!("COUNTER@{:.0}", 1e6 / calibration.ns_per_tick())
    } else {
        "MONOTONIC".to_owned()
    };
    let parent = if args.follow { 0 } else { std::process::id() };
    let variable = format!("{counter}:{parent}:{}", directory.path().display());
    let mut watch = Watch::default();
    let ended = run::run_profiled(args.program.clone(), &variable, |pid| watch.examine(pid))?;
    let (pid, end) = match ended {
        Ok(ended) => ended,
        Err(status) => return Ok(status),
    };
    let end_ns = clock::monotonic_ns();
    let files = files(directory.path())?;
    let profiles = profiles(&files, pid, &calibration, end_ns, watch);
    drop(directory);
    if profiles.is_empty() {
        message::print(
            "there is no profile: libtek-profile.so was not loaded, or could not make its file: a \
             program with more rights than its user or a statically linked one that a script \
             starts is not profiled, nor one that drops TEK_PROFILE or LD_PRELOAD from its \
             environment",
        );
    } else {
        let written = outputs.write(&profiles, &args);
        // The status of a failed program takes precedence.
        if !written && matches!(end, End::Exited(0)) {
            return Ok(ExitCode::from(FAILED));
        }
    }
    Ok(end.pass_on())
}

/// In memory, where a memory file system exists.
fn directory() -> anyhow::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("tek-profile-");
        builder
    };
    builder()
        .tempdir_in(memory)
        .or_else(|_| builder().tempdir())
        .context("cannot make a directory for the profile")
}

/// A file of a process: its number among those of that process, from 0.
struct Found {
    pid: u32,
    number: u32,
    raw: read::Raw,
}

fn files(directory: &Path) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let parsed = name.strip_suffix(".profile").and_then(|name| {
            let (pid, number) = name.split_once('-')?;
            Some((pid.parse().ok()?, number.parse().ok()?))
        });
        let Some((pid, number)) = parsed else { continue };
        let read = read::open(&entry.path()).and_then(|file| read::read(&file));
        match read {
            Ok(raw) => found.push(Found { pid, number, raw }),
            Err(error) => message::print(&format!("the profile of process {pid}: {error}")),
        }
    }
    tek_sort::by_key(&mut found, |found| (found.raw.header.start_ns, found.pid, found.number));
    Ok(found)
}

/// The profiles, those of the program first. A program ends when its process executes the next one.
fn profiles(
    files: &[Found],
    pid: i32,
    calibration: &Calibration,
    end_ns: u64,
    watch: Watch,
) -> Vec<Profile> {
    let ns_per_tick = Some(calibration.ns_per_tick());
    let seen = watch.finish();
    let mut reported: Vec<_> = files
        .iter()
        .map(|file| {
            let next = files.iter().find(|next| next.pid == file.pid && next.number > file.number);
            let is_main = file.pid == pid as u32;
            let known = Known {
                ns_per_tick,
                // The time at which another process was killed is unknown.
                end_ns: match next {
                    Some(next) => Some(next.raw.header.start_ns),
                    None => is_main.then_some(end_ns),
                },
                // Those of the last program of the process: the numbers of other programs are used
                // again.
                scheduler: if is_main && next.is_none() && file.raw.header.replaced == 0 {
                    seen.clone()
                } else {
                    Default::default()
                },
            };
            // A process that soon became another program is of no interest: marked here, filtered
            // below.
            (!is_main, is_main && next.is_some(), Profile::of(&file.raw, &known))
        })
        .collect();
    // A stable sort keeps the order of time.
    tek_sort::by_key(&mut reported, |(is_other, ..)| *is_other);
    reported
        .into_iter()
        .filter(|(_, is_past, profile)| !is_past || profile.wall_ns > 10_000_000)
        .map(|(_, _, profile)| profile)
        .collect()
}

/// The outputs, opened before the program runs, so that an unwritable file is an error at the
/// start.
struct Outputs {
    json: Option<File>,
    folded: Option<File>,
    text: Option<File>,
}

impl Outputs {
    fn create(args: &Args) -> anyhow::Result<Self> {
        let create = |path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| {
                    let file = if path == Path::new("-") {
                        io::stdout().as_fd().try_clone_to_owned().map(File::from)
                    } else {
                        File::create(path)
                    };
                    file.with_context(|| format!("cannot write the profile {}", path.display()))
                })
                .transpose()
        };
        let (json, folded) = (create(&args.json)?, create(&args.folded)?);
        Ok(Self { json, folded, text: create(&args.output)? })
    }

    /// Writes each file even if another fails; returns whether all were written.
    fn write(&self, profiles: &[Profile], args: &Args) -> bool {
        let written = [
            ("JSON", self.write_json(profiles)),
            ("the folded stacks", self.write_folded(profiles)),
            ("the text", self.write_text(profiles, args)),
        ];
        let mut all = true;
        for (what, result) in written {
            if let Err(error) = result {
                all = false;
                message::print(&format!("cannot write {what} of the profile: {error}"));
            }
        }
        all
    }

    fn write_json(&self, profiles: &[Profile]) -> io::Result<()> {
        let Some(file) = &self.json else { return Ok(()) };
        let mut out = BufWriter::new(file);
        let all = serde_json::json!({ "schema": SCHEMA, "processes": profiles });
        writeln!(out, "{}", crate::json::pretty(&all)?)?;
        out.flush()
    }

    fn write_folded(&self, profiles: &[Profile]) -> io::Result<()> {
        let Some(file) = &self.folded else { return Ok(()) };
        let mut out = BufWriter::new(file);
        for profile in profiles {
            folded::write(profile, &mut out)?;
        }
        out.flush()
    }

    fn write_text(&self, profiles: &[Profile], args: &Args) -> io::Result<()> {
        let unicode = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
            .is_some_and(|locale| locale.to_uppercase().replace('-', "").contains("UTF8"));
        let on_terminal = self.text.is_none() && io::stderr().is_terminal();
        let colours = on_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let appearance =
            Display { colours, unicode, all: args.all, whole: args.all || self.text.is_some() };
        let texts: Vec<_> =
            profiles.iter().map(|profile| render::text(profile, appearance)).collect();
        let text = texts.join("\n");
        match &self.text {
            Some(file) => (&*file).write_all(text.as_bytes()),
            None => write!(io::stderr().lock(), "\n{text}"),
        }
    }
}
