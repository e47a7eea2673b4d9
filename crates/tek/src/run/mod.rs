// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run`: runs a program under TEK, and is otherwise invisible.
mod c_library;
pub mod child;
mod directory;
mod environment;
mod events;
pub mod forward;
mod grid;
mod group;
mod harvest;
pub mod inherited;
mod inversions;
mod keeper;
pub mod libraries;
mod limits;
mod locks;
mod messages;
pub mod options;
mod own_pid;
#[cfg(test)]
mod parsed;
pub mod place;
mod preload;
mod relay;
mod report;
pub mod rules;
pub mod stack;
mod supervise;
pub mod sync;
mod target;
mod under;
pub mod uthread;

use crate::message;
use crate::misuse::Misuse;
use crate::stack_use::learn::Learnt;
use crate::stack_use::render;
use crate::trace::Recorder;
use anyhow::Context;
use child::End;
use directory::RunDirectory;
use harvest::Harvest;
use nix::poll::PollTimeout;
use options::{Critical, RoleOption, RtRange};
use report::Collector;
use rules::{Gathered, Sources};
use stack::{Modes, Tuning};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use target::Target;
use tek_command::values::place::{Place, PLACES};
use tek_policy::{Budget, Group, MOST_RULES};
use under::{under_tek, Under};
use uthread::Plan;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek run --critical 'ui*' --critical touch=-5 -- ./appliance --window
      Threads named ui... run before every ordinary thread of the device, and
      one named touch before them.
  tek run --report ./player film.ogg
      Run a program that asks for SCHED_TEK itself, and tell afterwards what
      its time-critical threads did.
  tek run --critical gas --budget 200ms/1s --report-json gas.json -- sh -c ./fridge
      Threads of the shell's children count too.
  tek run --rules fridge.toml --role 'net*=cloud' -- ./fridge
      Follow a file that says of many threads what they are for and how they run.
  tek run --group background -- ./backup
      Let a program have what others leave of the CPUs, where tekd makes groups.
  tek run --place rtfifo -- ./fridge
      Deal its threads to the CPUs in turn, and let each run until it waits or yields:
      all are SCHED_FIFO of one priority, where that is allowed.
  tek run --place spread -- ./filter
      Keep each thread on a CPU, as far from the others as can be.
  tek run --stack auto -- ./fridge
      Learn what stack each kind of thread needs, and from the second run on give
      it that; tek stack report fridge shows it.
  tek run --model m:n --workers 2 --sched mlfq --quantum 1ms -- ./fridge
      Make its threads user-level threads, on two threads of the kernel and under a
      scheduler that prefers those that wait; libtek-uthread(7) says what works.
  tek run --lock k42 --barrier block -- ./fridge
      Replace its mutexes, condition variables, spin locks and barriers; tek-run(1) and
      libtek-sync(7) say which kinds there are, and for what each is good.
  tek run --lock auto -- ./fridge
      Have each lock spin or sleep, by how long threads wait for it.
  tek run --model m:1 --trace fridge.json -- ./fridge
      And write down which thread ran when and why it left: ui.perfetto.dev shows it.
  tek run --alloc mimalloc -- ./fridge
      Give it another allocator, which Debian has, instead of the C library's.
  tek run --alloc pool=64M -- ./fridge
      Give it 64 MiB and no more, all of it present before main() begins, and an
      allocator in it that takes bounded time.

A thread's name counts when it was set for that thread (pthread_setname_np,
prctl): a child that only inherited its creator's name is not meant, and neither
is the process that a daemon forks, so run daemons in the foreground. A thread
that used up its budget is sent back for one window, for twice as long after each
further time, up to 64 windows, and then taken back by its name.

The report has a line for each thread that was time-critical: its SCHED_TEK
priority, how many STAYS in the Fast Region and how long (FAST), and of its whole
life the CPU time, the context switches, and how often the budget ran out.

Below it are the ten longest waits of these threads for threads that were not
time-critical: the call that waited, the lock, the thread that held it, and its call
that unlocked. UNLIFTED is the estimated wait with --no-inherit: the CPU time of the
holder at its own share of a CPU. Calls have lines where the program has debug
information.

To stop and continue the program from outside, send SIGTSTP and SIGCONT to tek.
When tek is killed (SIGKILL) the kernel kills the program too, but not one that has
changed its user or group since it began, or is set-user-ID.

Services: LISTEN_PID, WATCHDOG_PID and other variables that end in PID and name tek name
the program instead, and its messages to NOTIFY_SOCKET come from tek's process, so that
socket activation, Type=notify and a watchdog work as without tek.

EXIT STATUS:
  That of the program; if a signal killed it, tek dies by the same signal.
  125  TEK itself failed, for example because libtek.so is not installed
  126  the program was found but could not be executed
  127  the program was not found
    2  an option or a rules file was not understood; nothing was started

ENVIRONMENT:
  TEK_LIBRARY   path of libtek.so, instead of ../lib/libtek.so beside tek;
                32-bit programs get the one in lib32 beside its lib, and programs
                on user-level threads the libtek-uthread.so in the same directory
  TEK_RULES     the rules, if no file and no option gives any; see libtek(7)
  TEK_CRITICAL, TEK_BUDGET, TEK_RT_RANGE, TEK_FOLLOW_MARKED, TEK_INHERIT,
  TEK_STACK, TEK_STACK_PROFILES
                defaults for the options
  TEK_PLACE     the same for --place, written as there or as libtek(7) says
  TEK_ALLOC     the same for --alloc; see libtek(7)
  TEK_LIBM      the same for --libm
  TEK_SYNC      the same for --lock and its like; see libtek-sync(7)
  TEK_UTHREAD   the same for those of user-level threads; see libtek-uthread(7)";

/// Arguments of `tek run`.
#[derive(clap::Args, Default)]
#[command(after_help = AFTER_HELP, override_usage = "tek run [OPTIONS] [--] PROGRAM [ARGUMENT]...")]
pub struct Args {
    /// Make threads with such a name time-critical (shell pattern), with a
    /// priority from -20 (first) to 19 (last), 0 unless given; may be repeated
    #[arg(long, value_name = "GLOB[=NICE]")]
    critical: Vec<Critical>,

    /// Follow the rules in this file, tek-rules(5), after those of /etc/tek and
    /// ~/.config/tek; may be repeated
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,

    /// Say what threads with such a name are for; may be repeated
    #[arg(long, value_name = "GLOB=ROLE")]
    role: Vec<RoleOption>,

    /// Leave the rules in /etc/tek and ~/.config/tek out
    #[arg(long)]
    no_rules: bool,

    /// Send a thread back that uses more CPU time than this in any window, and with --place
    /// rtfifo all threads of a CPU that do [default: 800ms/1s]
    #[arg(long, value_name = "CPU/WINDOW|off")]
    budget: Option<Budget>,

    /// Have tekd put the program, and what it starts, into this group; libtek records the group
    /// of its threads
    #[arg(long, value_name = "GROUP", value_parser = crate::groups::name::parser())]
    group: Option<Group>,

    /// Real-time priorities to use, for nice 19 to -20 [default: 10-49]
    #[arg(long, value_name = "LO-HI")]
    rt_range: Option<RtRange>,

    /// Leave marked threads alone when a thread of their group becomes
    /// time-critical
    #[arg(long)]
    no_follow_marked: bool,

    /// Leave threads ordinary that hold a lock for which a time-critical thread waits, or
    /// for whose end one waits. They are time-critical meanwhile by default
    #[arg(long)]
    no_inherit: bool,

    /// Keep each thread on one CPU, dealt to it when it is created: far from each other
    /// (spread), near each other (compact), or in turn on those of a list (cores=0-1).
    /// rtfifo, alone or before one of these with a comma, makes all of them SCHED_FIFO of
    /// one priority, 1 unless rtfifo=PRIORITY says another; where they use more of a CPU
    /// than --budget they are ordinary threads for a while
    #[arg(long, value_name = "HOW", value_parser = PLACES, hide_possible_values = true)]
    place: Option<Place>,

    /// Let malloc keep at most so many arenas: each takes 64 MiB of addresses
    /// (1 MiB in a 32-bit program), and threads make up to 8 a CPU. With --model it is 1 where
    /// there is a limit below 1 GiB of addresses (ulimit -v), or, for a program that calls
    /// mlockall(), of locked memory (ulimit -l)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    arena_max: Option<u32>,

    /// When the program has ended, print on standard error what its
    /// time-critical threads did, and with --stack what its stacks were like
    #[arg(long)]
    report: bool,

    /// Write the same report as JSON into a file
    #[arg(long, value_name = "FILE")]
    report_json: Option<PathBuf>,

    #[command(flatten)]
    stack: stack::Options,

    #[command(flatten)]
    uthread: uthread::Options,

    #[command(flatten)]
    sync: sync::Options,

    #[command(flatten)]
    libraries: libraries::Options,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,

    /// A part of tek wants to see the program run, or its end.
    #[arg(skip)]
    is_watched: bool,
}

/// Exit statuses of tek's own: clap's for bad options, and those of env(1) and nohup(1).
const MISUSED: u8 = 2;
pub use tek_command::entry::FAILED;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

impl Args {
    /// The first option that only libtek.so can follow.
    fn needs_libtek(&self) -> Option<&'static str> {
        let given = [
            (!self.critical.is_empty(), "--critical"),
            (!self.rules.is_empty(), "--rules"),
            (self.budget.is_some(), "--budget"),
            (self.rt_range.is_some(), "--rt-range"),
            (self.no_follow_marked, "--no-follow-marked"),
            (self.no_inherit, "--no-inherit"),
            (self.report, "--report"),
            (self.report_json.is_some(), "--report-json"),
            (
                self.stack.modes.is_some_and(stack::Modes::need_libtek),
                "--stack with report, grow or exact",
            ),
        ];
        given.into_iter().find(|&(given, _)| given).map(|(_, name)| name)
    }

    /// Whether tek has a task beside or after a program that has no library of TEK's.
    fn needs_tek_beside(&self) -> bool {
        self.is_watched
            || self.report
            || self.report_json.is_some()
            || self.stack.modes.is_some()
            || self.uthread.trace.is_some()
            || self.group.is_some()
    }
}

/// Runs the program; the result is its exit status. If a signal killed it, tek dies by that signal.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match uthread::plan(&args, std::env::var_os(uthread::VARIABLE).as_deref()) {
        Ok(None) => run_with_libtek(args),
        Ok(Some(plan)) => run_on_uthreads(&args, plan),
        Err(problem) => Err(Misuse::of("run", problem).into()),
    }
}

/// Runs the program on user-level threads.
fn run_on_uthreads(args: &Args, mut plan: Plan) -> anyhow::Result<ExitCode> {
    let sources =
        Sources { no_defaults: args.no_rules, files: &[], roles: &args.role, critical: &[] };
    let gathered = sources.gather().map_err(|error| error.to_string());
    let tuned =
        gathered.and_then(|gathered| Ok((Tuning::of(&args.stack, gathered.stack)?, gathered)));
    let (tuning, gathered) = match tuned {
        Ok(tuned) => tuned,
        Err(error) => {
            message::print(&error);
            return Ok(ExitCode::from(MISUSED));
        }
    };
    gathered.report_what_uthreads_lack(&args.program[0]);
    let rules = gathered.rules;
    let recorder = args.uthread.trace.as_deref().map(Recorder::create).transpose()?;
    if let Some(recorder) = &recorder {
        plan.record(recorder);
    }
    let directory = match RunDirectory::create(harvest::left_behind) {
        Ok(directory) => directory,
        Err(error) => return Ok(run_as_it_is(args, &error)),
    };
    let under = Under::Uthreads(&plan, rules.as_deref(), tuning.as_ref());
    let ended =
        under_tek(args, under, &directory, &mut Collector::new(&[]), |_| PollTimeout::NONE)?;
    if let (Some(recorder), Ok(_)) = (recorder, &ended) {
        message::print(&recorder.finish());
    }
    // Before tek dies by the signal that killed the program.
    drop(directory);
    Ok(match ended {
        Ok((_, end)) => end.pass_on(),
        Err(status) => status,
    })
}

fn run_with_libtek(args: Args) -> anyhow::Result<ExitCode> {
    if args.critical.len() > MOST_RULES {
        let problem = format!(
            "--critical was given {} times, at most {MOST_RULES} patterns can be used: let one \
             stand for several names, as in ui*",
            args.critical.len()
        );
        return Err(Misuse::of("run", problem).into());
    }
    let sources = Sources {
        no_defaults: args.no_rules,
        files: &args.rules,
        roles: &args.role,
        critical: &args.critical,
    };
    let gathered = sources.gather().map_err(|error| error.to_string());
    let tuned =
        gathered.and_then(|gathered| Ok((Tuning::of(&args.stack, gathered.stack)?, gathered)));
    let (tuning, Gathered { rules, .. }) = match tuned {
        Ok(tuned) => tuned,
        Err(error) => {
            message::print(&error);
            return Ok(ExitCode::from(MISUSED));
        }
    };
    let json = args.report_json.as_ref().map(create).transpose()?;
    let directory = match RunDirectory::create(harvest::left_behind) {
        Ok(directory) => directory,
        Err(error) => return Ok(run_as_it_is(&args, &error)),
    };
    let mut collector = Collector::new(&args.critical);
    if !args.critical.is_empty() && limits::leave_no_room_for_events() {
        message::print(
            "what threads do is not known: the limit on the size of files (ulimit -f) leaves no \
             room for it",
        );
        collector.cannot_know_names();
    }
    let mut harvest = Harvest::of(tuning.as_ref(), &directory);
    let ended = under_tek(
        &args,
        Under::Libtek(rules.as_deref(), tuning.as_ref()),
        &directory,
        &mut collector,
        |_| harvest.as_mut().map_or(PollTimeout::NONE, Harvest::examine),
    )?;
    let (pid, end) = match ended {
        Ok(ended) => ended,
        Err(status) => return Ok(status),
    };
    let overflowed = collector.has_overflows();
    let mut report = collector.finish(end, pid, &directory);
    // After the report, which needs the tables that this removes.
    let learnt = harvest.map(Harvest::finish);
    drop(directory);
    let stacks = learnt.zip(tuning).map(|(learnt, tuning)| (learnt, tuning.judgement()));
    if let (Some((learnt, judgement)), false, End::Killed(libc::SIGSEGV)) =
        (&stacks, overflowed, end)
    {
        message::print(&render::after_sigsegv(learnt, *judgement));
    }
    if args.report {
        report.stacks = stacks.map(|(learnt, judgement)| report::stacks(&learnt, judgement));
        message::print(&report.text());
    } else {
        message::print(&report.unmatched_text());
        // A mode that comes from the environment was not requested for this run.
        if let Some((learnt, judgement)) = &stacks {
            if args.stack.modes.is_some() {
                message::print(&render::summary(
                    learnt,
                    *judgement,
                    args.stack.profiles.as_deref(),
                ));
            }
        }
        report.stacks = stacks.map(|(learnt, judgement)| report::stacks(&learnt, judgement));
    }
    if let (Some(file), Some(path)) = (json, &args.report_json) {
        // The program has run, and its exit status takes precedence.
        if let Err(error) = report.write(&file) {
            message::print(&format!("cannot write the report {}: {error}", path.display()));
        }
    }
    Ok(end.pass_on())
}

/// Runs a program as `tek run --stack report` does, and returns what was learnt. That goes into the
/// usual directory of profiles unless one is given. `Err` is the exit status where the program
/// could not be started, after a message.
pub fn run_measured(
    program: Vec<OsString>,
    profiles: Option<PathBuf>,
) -> anyhow::Result<Result<(End, Learnt), ExitCode>> {
    let stack = stack::Options { modes: Some(Modes::REPORT), profiles, ..Default::default() };
    let args = Args { program, stack, is_watched: true, ..Args::default() };
    let gathered = Sources { no_defaults: false, files: &[], roles: &[], critical: &[] }.gather();
    let tuned = gathered
        .map_err(|error| error.to_string())
        .and_then(|gathered| Ok((Tuning::of(&args.stack, gathered.stack)?, gathered.rules)));
    let (tuning, rules) = match tuned {
        Ok(tuned) => tuned,
        Err(error) => {
            message::print(&error);
            return Ok(Err(ExitCode::from(MISUSED)));
        }
    };
    let directory = RunDirectory::create(harvest::left_behind)?;
    let mut harvest = Harvest::of(tuning.as_ref(), &directory);
    let ended = under_tek(
        &args,
        Under::Libtek(rules.as_deref(), tuning.as_ref()),
        &directory,
        &mut Collector::new(&[]),
        |_| harvest.as_mut().map_or(PollTimeout::NONE, Harvest::examine),
    )?;
    let learnt = harvest.map(Harvest::finish).unwrap_or_default();
    Ok(ended.map(|(_, end)| (end, learnt)))
}

/// Runs a program under TEK as `tek run --no-rules` does. `examine` is called from time to time
/// with its process and the path of the directory with its thread tables. `Err` is the exit status
/// where the program could not be started, after a message.
pub fn run_watched(
    program: Vec<OsString>,
    mut examine: impl FnMut(i32, &Path) -> PollTimeout,
) -> anyhow::Result<Result<End, ExitCode>> {
    let args = Args { program, is_watched: true, ..Args::default() };
    let directory = RunDirectory::create(harvest::left_behind)?;
    let path = directory.path().to_owned();
    let under = Under::Libtek(Some(""), None);
    let ended =
        under_tek(&args, under, &directory, &mut Collector::new(&[]), |pid| examine(pid, &path))?;
    Ok(ended.map(|(_, end)| end))
}

/// Runs a program with libtek-profile.so, for `tek profile`; otherwise as above.
pub fn run_profiled(
    program: Vec<OsString>,
    variable: &str,
    examine: impl FnMut(i32) -> PollTimeout,
) -> anyhow::Result<Result<(i32, End), ExitCode>> {
    let args = Args { program, is_watched: true, ..Args::default() };
    let directory = RunDirectory::create(harvest::left_behind)?;
    under_tek(&args, Under::Profile(variable), &directory, &mut Collector::new(&[]), examine)
}

/// Becomes the program, because TEK can do nothing for it. The exit status if it cannot be started.
fn run_as_it_is(args: &Args, why: &anyhow::Error) -> ExitCode {
    let program = &args.program[0];
    message::print(&format!("{why:#}: {} runs, but not under TEK", program.to_string_lossy()));
    not_started(program, None, &child::replace_tek(&args.program))
}

fn create(path: &PathBuf) -> anyhow::Result<File> {
    File::create(path).with_context(|| format!("cannot write the report {}", path.display()))
}

/// Reports why the program could not be started, and returns the exit status for it.
fn not_started(program: &OsString, target: Option<&Target>, error: &io::Error) -> ExitCode {
    let name = program.to_string_lossy();
    let missing = target.and_then(|target| target.missing.as_ref());
    let (why, status) = match (error.kind(), error.raw_os_error()) {
        (ErrorKind::NotFound, _) => match missing {
            Some(missing) => (format!("its interpreter {missing} does not exist"), NOT_FOUND),
            None => ("not found".to_owned(), NOT_FOUND),
        },
        (_, Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE)) => {
            (error.to_string(), FAILED)
        }
        _ => (error.to_string(), NOT_EXECUTABLE),
    };
    // Without the quotes an empty name is invisible.
    let name = if name.is_empty() { "''" } else { &*name };
    message::print(&format!("cannot run {name}: {why}"));
    ExitCode::from(status)
}
