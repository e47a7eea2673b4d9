// SPDX-License-Identifier: MIT OR Apache-2.0
//! All threads of the device: /proc, joined with TEK's tables.
//!
//! /proc has the list of threads. A record counts only for a present thread and the same one
//! (abi/tek_table.h), in a table of that thread's process. A look takes no lock and never waits; an
//! invalid table is reported and its threads are shown without it.
use crate::group::Groups;
use crate::process::{own_pid_namespace, Stat};
use crate::sleepers::Sleepers;
use crate::stack::{StackUse, Stacks};
use crate::task::{Task, Wanted};
use crate::uthread::{Uthread, Worker};
use crate::{boot_time_ns, files, processes, Error, Process, Table, Thread};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use tek_abi::{text, HeldUp, Kind, Module, TableHeader, WorkerPlace, IMAGE_SHIFT};

/// A process: a running program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its pid.
    pub pid: u32,
    /// Its name: as in its table, else that of its first thread. Any text.
    pub name: String,
    /// Its threads, in the order of their tids.
    pub tasks: Vec<Task>,
    /// Size of its address space.
    pub vm_bytes: Option<u64>,
    /// Size of the pages that its records count in.
    pub page_bytes: u32,
    /// Files that contain start routines.
    pub modules: Vec<Module>,
    /// The header of its table, if it has one.
    pub table: Option<TableHeader>,
    /// The kinds of thread that its process measured, with their numbers.
    pub kinds: Vec<(u16, Kind)>,
    /// Waits of its Fast threads for threads that are not Fast, and waits in deadlocks.
    pub held_up: Vec<HeldUp>,
    /// Its user-level threads, in the order of their numbers.
    pub uthreads: Vec<Uthread>,
    /// The kernel threads that carry the workers, from worker 0 on.
    pub workers: Vec<WorkerPlace>,
}

/// The state of the device at one time.
#[derive(Debug)]
pub struct Device {
    /// CLOCK_BOOTTIME of that time.
    pub time_ns: u64,
    /// The processes, in the order of their pids.
    pub programs: Vec<Program>,
    /// Tables that could not be used, and why.
    pub problems: Vec<Error>,
}

impl Device {
    /// Reads it once. It fails only if /proc cannot be read at all.
    pub fn examine(wanted: &Wanted) -> io::Result<Self> {
        Self::examine_with(wanted, &mut Sleepers::default())
    }

    pub(crate) fn examine_with(wanted: &Wanted, sleepers: &mut Sleepers) -> io::Result<Self> {
        let mut problems = Vec::new();
        let tables = files::tables_in(&wanted.directories, &mut problems);
        let mut pids = if wanted.pids.is_empty() { processes()? } else { wanted.pids.clone() };
        pids.sort_unstable();
        pids.dedup();
        if wanted.tracked {
            pids.retain(|pid| tables.contains_key(pid));
        }
        let mut programs = Vec::with_capacity(pids.len());
        for pid in pids {
            let Ok(process) = Process::open(pid) else { continue };
            // Every thread has a directory beside those of the processes; it is only not listed.
            if !wanted.pids.is_empty() && process.leader() != Some(pid) {
                continue;
            }
            let files = tables.get(&pid).map_or(&[][..], Vec::as_slice);
            let found =
                [false, true].map(|native| table_of(&process, files, native, &mut problems));
            let found: Vec<_> = found.into_iter().flatten().collect();
            if wanted.tracked && found.is_empty() {
                continue;
            }
            programs.extend(examine_program(&process, found, wanted, sleepers, &mut problems));
        }
        Ok(Self { time_ns: boot_time_ns(), programs, problems })
    }
}

/// `None` when the process ended meanwhile.
fn examine_program(
    process: &Process,
    tables: Vec<(Table, TableHeader)>,
    wanted: &Wanted,
    sleepers: &mut Sleepers,
    problems: &mut Vec<Error>,
) -> Option<Program> {
    // The table first: /proc, read later, lacks a thread of the table that has ended since.
    let mut program = Program {
        pid: process.pid(),
        name: String::new(),
        tasks: Vec::new(),
        vm_bytes: wanted.vm.then(|| process.vm_bytes()).flatten(),
        page_bytes: 0,
        modules: Vec::new(),
        table: None,
        kinds: Vec::new(),
        held_up: Vec::new(),
        uthreads: Vec::new(),
        workers: Vec::new(),
    };
    let mut user_records = Vec::new();
    let mut records = HashMap::<u32, Vec<Thread>>::new();
    for (mut table, header) in tables {
        let is_first = program.table.is_none();
        if is_first {
            program.name = text(&header.program);
            program.page_bytes = header.page_bytes;
            program.table = Some(header);
        }
        let read = table.snapshot().and_then(|snapshot| {
            if wanted.modules {
                program.modules.extend(table.modules()?);
            }
            if wanted.kinds && is_first {
                program.kinds = table.kinds()?;
            }
            if wanted.held_up && is_first {
                program.held_up = table.held_up()?;
            }
            if wanted.uthreads && header.workers > 0 {
                program.workers = table.workers()?;
            }
            Ok(snapshot)
        });
        match read {
            Ok(snapshot) => {
                if !snapshot.changing.is_empty() {
                    let (path, count) = (table.path().to_owned(), snapshot.changing.len());
                    problems.push(Error::Changing { path, count });
                }
                for thread in snapshot.threads {
                    if thread.record.is_user() {
                        user_records.push(thread);
                        continue;
                    }
                    records.entry(thread.record.tid).or_default().push(thread);
                }
            }
            Err(error) => problems.push(error),
        }
    }
    let mut stacks =
        (wanted.stacks && program.table.is_some()).then(|| Stacks::open(process)).flatten();
    let seen = sleepers.read(process, wanted)?;
    let mut groups = wanted.groups.then(|| Groups::of(process));
    let (mut tasks, mut entries) = (Vec::with_capacity(seen.threads.len()), Vec::new());
    for (entry, mut task, slept) in seen.threads {
        let (tid, before) = (entry.tid, task.stack.filter(|_| slept));
        if program.name.is_empty() && tid == program.pid {
            program.name.clone_from(&task.stat.name);
        }
        if let (Some(groups), false) = (&mut groups, slept) {
            task.seat = groups.next(&task.stat);
        }
        task.record = records.remove(&tid).and_then(|records| own_record(records, &task.stat));
        task.stack = task.record.and_then(|own| {
            let reported = StackUse::of(&own.record, program.page_bytes).or(before);
            reported.or_else(|| examine_stacks(&own, program.page_bytes, &mut stacks))
        });
        entries.push(entry);
        tasks.push(task);
    }
    sleepers.keep(process.pid(), seen.cpu_time, &entries, &tasks);
    program.tasks = tasks;
    if wanted.uthreads {
        program.uthreads = uthreads(user_records, &program, &mut stacks);
    }
    (!program.tasks.is_empty()).then_some(program)
}

fn uthreads(
    mut records: Vec<Thread>,
    program: &Program,
    stacks: &mut Option<Stacks>,
) -> Vec<Uthread> {
    tek_sort::by_key(&mut records, |own| own.record.tid);
    let uthread = |own: Thread| {
        let reported = StackUse::of(&own.record, program.page_bytes);
        Uthread {
            own,
            stack: reported.or_else(|| examine_stacks(&own, program.page_bytes, stacks)),
            worker: Worker::of(own.side.worker, &program.workers),
        }
    };
    records.into_iter().map(uthread).collect()
}

/// Use of a thread's stack as seen from outside. The measurement of its process is better: it knows
/// the traces that earlier threads left there.
fn examine_stacks(own: &Thread, page_bytes: u32, stacks: &mut Option<Stacks>) -> Option<StackUse> {
    let Thread { record, side, .. } = own;
    let bytes = u64::from(record.stack_pages) * u64::from(page_bytes);
    stacks.as_mut()?.measure(side.stack_end, bytes)
}

/// The record of this very thread. There may be records of threads that had its tid before.
fn own_record(records: Vec<Thread>, stat: &Stat) -> Option<Thread> {
    // /proc's start time is rounded down to a tick: for the same thread it is never later than the
    // record's, for a thread that reuses the tid it always is.
    let own = records.into_iter().filter(|thread| thread.record.start_ns >= stat.start_ns);
    own.max_by_key(|thread| thread.record.start_ns)
}

/// The first of these files that is the process's own table.
fn table_of(
    process: &Process,
    files: &[PathBuf],
    native: bool,
    problems: &mut Vec<Error>,
) -> Option<(Table, TableHeader)> {
    for path in files.iter().filter(|path| files::is_native(path) == native) {
        match open_own(process, path) {
            Ok(Some(table)) => return Some(table),
            Ok(None) => {}
            Err(error) => problems.push(error),
        }
    }
    None
}

/// Opens a table; `None` if a process that is gone left it, or it is unfinished.
fn open_own(process: &Process, path: &Path) -> Result<Option<(Table, TableHeader)>, Error> {
    let table = match Table::open(path) {
        Err(Error::Unfinished { .. }) => return Ok(None),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None)
        }
        other => other?,
    };
    let header = table.header()?;
    let stranger = |what| Error::Stranger { path: path.to_owned(), pid: process.pid(), what };
    if header.pid != process.pid() {
        return Err(stranger(format!("its header names process {}", header.pid)));
    }
    if header.pid_namespace != 0 && Some(header.pid_namespace) != own_pid_namespace() {
        return Err(stranger("its process lives in another pid namespace".into()));
    }
    if header.start_ns != 0 && process.began_at(header.start_ns) != Some(true) {
        return Ok(None);
    }
    // The process has executed another program since.
    let image = |start: u64| (start >> IMAGE_SHIFT) as u32;
    if header.image != 0 && process.stack_start().is_some_and(|at| image(at) != header.image) {
        return Ok(None);
    }
    match (table.owner(), process.user()) {
        (_, None) => Ok(None),
        (owner, Some(user)) if owner != 0 && owner != user => {
            Err(stranger(format!("it belongs to user {owner}, the process to user {user}")))
        }
        _ => Ok(Some((table, header))),
    }
}
