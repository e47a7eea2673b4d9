// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loading the programs: all that this kernel takes, and for the others the reason.
use crate::btf::Btf;
use crate::dependency::{Dependency, Hook, Kind, State, GROUPS};
use crate::error::Error;
use crate::probe;
use libbpf_rs::{set_print, Object, ObjectBuilder, PrintLevel};
use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, Once, PoisonError};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kthreads.bpf.o"));

/// What libbpf said last. It prints for whole processes, and nothing of it may reach our output.
static SAID: Mutex<String> = Mutex::new(String::new());

fn note(_: PrintLevel, text: String) {
    // Of the verifier's reasons the last lines tell most.
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.push_str(&text);
    let surplus = said.len().saturating_sub(4096);
    let at = (surplus..said.len()).find(|&at| said.is_char_boundary(at)).unwrap_or(said.len());
    said.drain(..at);
}

/// Its remarks go to where [`said`] finds them.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_print(Some((PrintLevel::Warn, note)));
    });
}

/// What libbpf said since the last call, shortened to the line that tells why; or else the error.
fn said(error: &libbpf_rs::Error) -> String {
    let text = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    // The verifier's own words stand before its statistics and libbpf's end mark.
    if let Some(end) = lines.iter().position(|line| line.starts_with("processed ")) {
        lines.truncate(end);
    }
    match lines.iter().rev().find(|line| !line.is_empty() && !line.starts_with("libbpf:")) {
        Some(line) => format!("{line} ({error})"),
        None => error.to_string(),
    }
}

/// The kernel's error number, where libbpf kept it.
pub(crate) fn io_error(error: &libbpf_rs::Error) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(now) = cause {
        let number = now.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if let Some(number) = number {
            return io::Error::from_raw_os_error(number);
        }
        cause = now.source();
    }
    io::Error::new(kind(error), error.to_string())
}

fn kind(error: &libbpf_rs::Error) -> io::ErrorKind {
    match error.kind() {
        libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
        libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        libbpf_rs::ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
        _ => io::ErrorKind::Other,
    }
}

pub(crate) struct Loaded {
    pub object: Object,
    pub dependencies: Vec<Dependency>,
    /// `struct tek_kthread_settings` has it.
    pub preempt_count: i64,
}

/// The hooks that can be had, of dependencies that are on.
pub(crate) fn hooks_of<'a>(
    dependencies: &'a [Dependency],
    programs: &'a HashSet<&'static str>,
) -> impl Iterator<Item = (Kind, &'static Hook)> + 'a {
    let on = |kind| dependencies.iter().any(|d| d.kind == kind && d.is_on());
    GROUPS
        .iter()
        .filter(move |group| on(group.kind))
        .flat_map(|group| group.hooks.iter().map(|hook| (group.kind, hook)))
        .filter(|(_, hook)| programs.contains(hook.program))
}

fn load_only(programs: &HashSet<&'static str>) -> Result<Object, String> {
    let open = ObjectBuilder::default().open_memory(OBJECT);
    let mut open = open.map_err(|error| said(&error))?;
    for mut program in open.progs_mut() {
        let wanted = program.name().to_str().is_some_and(|name| programs.contains(name));
        program.set_autoload(wanted);
    }
    open.load().map_err(|error| said(&error))
}

/// Loads what can be loaded.
pub(crate) fn load() -> Result<Loaded, Error> {
    quiet();
    let btf = Btf::of_kernel()?;
    probe::forbidden()?;
    let preempt_count = btf.preempt_count().unwrap_or(0);
    let mut dependencies = probe::dependencies(&btf);
    let there: HashSet<&'static str> = GROUPS
        .iter()
        .flat_map(|group| group.hooks)
        .filter(|hook| btf.has(hook.target))
        .map(|hook| hook.program)
        .collect();
    let wanted = |dependencies: &[Dependency]| -> HashSet<&'static str> {
        hooks_of(dependencies, &there).map(|(_, hook)| hook.program).collect()
    };
    let first = match load_only(&wanted(&dependencies)) {
        Ok(object) => return Ok(Loaded { object, dependencies, preempt_count }),
        Err(said) => said,
    };
    // A program that this kernel does not take spoils the load of all: find out which.
    let mut refused = HashSet::new();
    for (kind, hook) in hooks_of(&dependencies.clone(), &there) {
        let Err(said) = load_only(&HashSet::from([hook.program])) else { continue };
        refused.insert(hook.program);
        for mine in dependencies.iter_mut().filter(|d| d.kind == kind) {
            refuse(mine, hook, &said);
        }
    }
    probe::propagate(&mut dependencies);
    let rest = wanted(&dependencies).difference(&refused).copied().collect();
    match load_only(&rest) {
        Ok(object) if !refused.is_empty() => Ok(Loaded { object, dependencies, preempt_count }),
        _ => Err(Error::Load { said: first }),
    }
}

/// Notes that a program of a dependency cannot be had.
pub(crate) fn refuse(dependency: &mut Dependency, hook: &Hook, said: &str) {
    let reason = format!("the kernel refuses the program for {}: {said}", hook.target);
    match (&mut dependency.state, hook.without) {
        (State::On { but }, Some(worse)) => but.push(format!("{worse}: {reason}")),
        (state @ State::On { .. }, None) => *state = State::Off(reason),
        (State::Off(_), _) => {}
    }
}
