// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a program with one of TEK's libraries: finds the library and the program, sets the
//! environment, and supervises the process to its end.
use super::child::{self, End};
use super::directory::RunDirectory;
use super::events::EventReader;
use super::group::Placing;
use super::keeper::Keeper;
use super::libraries::{self, Beside};
use super::messages::Messages;
use super::relay::Relay;
use super::report::Collector;
use super::stack::Tuning;
use super::target::{self, Reason};
use super::uthread::Plan;
use super::{environment, limits, not_started, place, supervise, sync, Args, FAILED, MISUSED};
use crate::message;
use crate::system::library;
use anyhow::{anyhow, bail, Context};
use nix::poll::PollTimeout;
use std::process::ExitCode;
use tek_abi::Event;
use tek_command::values::alloc::Alloc;
use tek_policy::Budget;

/// The library in the program, and its settings.
#[derive(Clone, Copy)]
pub(super) enum Under<'a> {
    /// libtek.so: rules, and the settings for stacks.
    Libtek(Option<&'a str>, Option<&'a Tuning>),
    /// libtek-uthread.so: rules, of which it follows the roles, and the settings for stacks.
    Uthreads(&'a Plan, Option<&'a str>, Option<&'a Tuning>),
    /// libtek-profile.so, with its variable; the program must not run without it.
    Profile(&'a str),
}

/// Why a program cannot have the requested allocator, as a predicate of its name.
fn needs_own_allocator(target: &target::Target, beside: &Beside) -> Option<&'static str> {
    if let Some(reason) = target.uthread_reason.filter(|reason| reason.is_sanitizer()) {
        return Some(reason.text());
    }
    let calls = beside.lacks_what_it_calls(&target.file);
    calls.then_some("calls functions that only jemalloc has (mallocx)")
}

/// Runs the program to its end: its process and how it ended, or the exit status where it could
/// not be started.
pub(super) fn under_tek(
    args: &Args,
    under: Under<'_>,
    directory: &RunDirectory,
    collector: &mut Collector,
    check: impl FnMut(i32) -> PollTimeout,
) -> anyhow::Result<Result<(i32, End), ExitCode>> {
    let (library, sibling) = match under {
        Under::Libtek(..) => {
            let (library, elf) = found(library::find())?;
            let sibling = library::sibling(&library, &elf);
            ((library, elf), sibling)
        }
        Under::Uthreads(..) => (found(library::find_uthread())?, None),
        Under::Profile(_) => (found(library::find_profile())?, None),
    };
    let libraries: Vec<_> = [library].into_iter().chain(sibling).collect();
    let target = target::examine(&args.program[0], &libraries);
    let reason = target.as_ref().and_then(|target| match under {
        Under::Libtek(..) | Under::Profile(_) => target.reason,
        Under::Uthreads(..) => target.reason.or(target.uthread_reason),
    });
    if let Some(reason) = reason {
        let program = args.program[0].to_string_lossy();
        let how = match under {
            Under::Profile(_) => {
                message::print(&format!("{program} {}: it cannot be profiled", reason.text()));
                return Ok(Err(ExitCode::from(FAILED)));
            }
            Under::Libtek(..) => "under TEK",
            Under::Uthreads(..) => "on user-level threads",
        };
        message::print(&format!("{program} {}: it runs, but not {how}", reason.text()));
        collector.add_not_covered(program.into_owned());
    }
    let file = target.as_ref().map(|target| target.file.as_path());
    let one = matches!(under, Under::Uthreads(..)) && limits::leave_no_room_for_arenas(file);
    environment::limit_arenas(args.arena_max.or(one.then_some(1)));
    if reason.is_some_and(Reason::forbids_preload) && !args.needs_tek_beside() {
        directory.remove();
        let error = child::replace_tek(&args.program);
        return Ok(Err(not_started(&args.program[0], target.as_ref(), &error)));
    }
    let mut keeper = None;
    if !reason.is_some_and(Reason::forbids_preload) {
        let fitting = target.as_ref().and_then(|target| target.library.as_ref());
        let library = fitting.unwrap_or(&libraries[0].0);
        let machine = target.as_ref().and_then(|target| target.machine);
        let machine = machine.unwrap_or_else(|| libraries[0].1.machine());
        let inherited = libraries::Inherited::of_tek();
        let beside = Beside::find(&args.libraries, &inherited, machine, library);
        let around = std::env::var_os(place::VARIABLE);
        let place = || place::Plan::wanted(args.place.as_ref(), around.as_deref());
        let found = beside.and_then(|beside| Ok((beside, place()?, sync_wanted(args, under)?)));
        let (mut beside, place, sync) = match found {
            Ok(found) => found,
            Err(problem) => {
                message::print(&problem);
                return Ok(Err(ExitCode::from(MISUSED)));
            }
        };
        if let Some(missing) = &beside.missing {
            bail!("{missing}");
        }
        if let Some(note) = &beside.note {
            message::print(note);
        }
        if args.arena_max.is_some() && !matches!(beside.alloc, None | Some(Alloc::Glibc)) {
            message::print(
                "--arena-max has no effect: only the C library's allocator has such arenas",
            );
        }
        if let Some(why) = target.as_ref().and_then(|target| needs_own_allocator(target, &beside)) {
            if beside.leave_allocator() {
                let program = args.program[0].to_string_lossy();
                message::print(&format!("{program} {why}: it runs, but with its own allocator"));
            }
        }
        match under {
            Under::Libtek(rules, tuning) => {
                let place = place.as_ref();
                environment::set(args, rules, tuning, library, &beside, place, directory)?;
                if let Some(priority) = place.and_then(place::Plan::rtfifo) {
                    let started = Keeper::start(directory.path(), priority, budget(args));
                    keeper = Some(started.context("cannot watch the threads of --place rtfifo")?);
                }
            }
            Under::Profile(variable) => environment::set_profile(variable, library)?,
            Under::Uthreads(plan, rules, tuning) => {
                environment::set_uthread(plan, rules, tuning, library, &beside, directory)?;
            }
        }
        if let Some(wanted) = &sync {
            environment::set_sync(wanted, library, *library == libraries[0].0)?;
        }
    }

    let mut messages = Messages::default();
    let mut reader = EventReader::new(directory.events(), &directory.events_path());
    if matches!(under, Under::Libtek(_, Some(tuning)) if tuning.is_on()) {
        reader.watch_names(directory.path());
    }
    let announce = |events: Vec<Event>| {
        for event in events {
            collector.add(&event);
            if let Some(message) = messages.describe(&event) {
                message::print(&message);
            }
        }
    };
    let relay = Relay::begin(directory).unwrap_or_else(|error| {
        message::print(&format!(
            "the service manager may not hear the program (NotifyAccess=all lets it): tek cannot \
             make a socket for it: {error}"
        ));
        None
    });
    let placing = args
        .group
        .map(Placing::prepare)
        .and_then(|placing| placing.inspect_err(|problem| message::print(problem)).ok());
    let ended = supervise::supervise(&args.program, placing, relay, &mut reader, announce, check);
    drop(keeper);
    match ended {
        Ok(ended) => Ok(Ok(ended)),
        Err(supervise::Error::Start(error)) => {
            Ok(Err(not_started(&args.program[0], target.as_ref(), &error)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The budget of threads, by the option or, without it, by the environment.
fn budget(args: &Args) -> Option<Budget> {
    let inherited = || std::env::var("TEK_BUDGET").ok()?.parse().ok();
    args.budget.or_else(inherited)
}

/// The locks for the program.
fn sync_wanted(args: &Args, under: Under<'_>) -> Result<Option<sync::Wanted>, String> {
    let inherited = std::env::var_os(sync::VARIABLE);
    let report = args.report || args.report_json.is_some();
    match under {
        // A measured program keeps its own locks.
        Under::Profile(_) => Ok(None),
        Under::Libtek(..) => args.sync.wanted(inherited.as_deref(), report, false),
        Under::Uthreads(..) => args.sync.wanted(inherited.as_deref(), report, true),
    }
}

fn found<T>(library: Result<T, library::Error>) -> anyhow::Result<T> {
    library.map_err(|error| anyhow!("{error}; {}", error.cure()))
}
