// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the programs that this kernel accepts, and records the reason for each other program.
use crate::btf::Btf;
use crate::dependency::{Dependency, Group, Hook, Kind, State, Target, GROUPS};
use crate::error::Error;
use crate::probe;
use libbpf_rs::{set_print, Link, Object, ObjectBuilder, PrintLevel, ProgramAttachType};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Mutex, Once, PoisonError};

/// The compiled programs, compressed.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kthreads.bpf.o.deflate"));

/// The most bytes of them.
const MOST_BYTES: usize = 8 << 20;

/// The last messages of libbpf. It prints for the whole process, and must not write to our output.
static MESSAGES: Mutex<String> = Mutex::new(String::new());

fn note(_: PrintLevel, text: String) {
    // The last lines of the verifier's output hold the reason.
    let mut message = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    message.push_str(&text);
    let surplus = message.len().saturating_sub(4096);
    let at =
        (surplus..message.len()).find(|&at| message.is_char_boundary(at)).unwrap_or(message.len());
    message.drain(..at);
}

/// Redirects the warnings of libbpf to the buffer that [`message`] reads.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_print(Some((PrintLevel::Warn, note)));
    });
}

/// The messages of libbpf since the last call, shortened to the line with the reason, or the error.
fn message(error: &libbpf_rs::Error) -> String {
    let text = std::mem::take(&mut *MESSAGES.lock().unwrap_or_else(PoisonError::into_inner));
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    // The verifier's reason precedes its statistics and libbpf's end mark.
    if let Some(end) = lines.iter().position(|line| line.starts_with("processed ")) {
        lines.truncate(end);
    }
    match lines.iter().rev().find(|line| !line.is_empty() && !line.starts_with("libbpf:")) {
        Some(line) => format!("{line} ({error})"),
        None => error.to_string(),
    }
}

/// The kernel's error number, where libbpf passes it on.
pub(crate) fn io_error(error: &libbpf_rs::Error) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(now) = cause {
        let number = now.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if let Some(number) = number {
            return io::Error::from_raw_os_error(number);
        }
        cause = now.source();
    }
    io::Error::new(kind_of(error), error.to_string())
}

fn kind_of(error: &libbpf_rs::Error) -> io::ErrorKind {
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
    /// The first fields of `struct tek_kthread_settings`.
    pub distances: [i64; 3],
}

/// The programs to load, by dependency: all but refused programs and their fellows.
struct Wanted {
    dependencies: Vec<Dependency>,
    refused: HashSet<&'static str>,
    /// The programs that this kernel has under the hook of earlier kernels.
    before: HashMap<&'static str, Target>,
}

impl Wanted {
    fn new(btf: &Btf) -> Self {
        let mut this = Self {
            dependencies: probe::dependencies(btf),
            refused: HashSet::new(),
            before: HashMap::new(),
        };
        for hook in GROUPS.iter().flat_map(|group| group.hooks) {
            if !hook.is_used(btf) {
                this.refused.insert(hook.program);
            }
            if let Some(target) = hook.target_in(btf).filter(|&target| target != hook.target) {
                this.before.insert(hook.program, target);
            }
        }
        for group in &GROUPS {
            for hook in group.hooks.iter().filter(|hook| hook.is_lacking(btf)) {
                this.refused.extend(group.fellows(hook).map(|fellow| fellow.program));
            }
        }
        this
    }

    fn hooks(&self) -> Vec<(&'static Group, &'static Hook)> {
        let on = |kind| self.dependencies.iter().any(|d| d.kind == kind && d.is_on());
        GROUPS
            .iter()
            .filter(|group| on(group.kind))
            .flat_map(|group| group.hooks.iter().map(move |hook| (group, hook)))
            .filter(|(_, hook)| !self.refused.contains(hook.program))
            .collect()
    }

    fn load(&self) -> Result<Object, String> {
        self.load_only(&self.hooks().into_iter().map(|(_, hook)| hook.program).collect())
    }

    /// Loads each of these programs alone, and returns whether the kernel refused one.
    fn try_each(&mut self, which: impl Fn(Target) -> bool) -> bool {
        let mut found = false;
        for (group, hook) in self.hooks().into_iter().filter(|(_, hook)| which(hook.target)) {
            let Err(message) = self.load_only(&HashSet::from([hook.program])) else { continue };
            found = true;
            self.refused.extend(group.fellows(hook).map(|fellow| fellow.program));
            for mine in self.dependencies.iter_mut().filter(|d| d.kind == group.kind) {
                refuse(mine, hook, &message);
            }
        }
        probe::propagate(&mut self.dependencies);
        found
    }

    fn load_only(&self, programs: &HashSet<&'static str>) -> Result<Object, String> {
        let object = miniz_oxide::inflate::decompress_to_vec_with_limit(OBJECT, MOST_BYTES);
        let object = object.map_err(|error| error.to_string())?;
        let open = ObjectBuilder::default().open_memory(&object);
        let mut open = open.map_err(|error| message(&error))?;
        for mut program in open.progs_mut() {
            let name = program.name().to_str().and_then(|name| programs.get(name).copied());
            program.set_autoload(name.is_some());
            if let Some(target) = name.and_then(|name| self.before.get(name)) {
                let (kind, name) = match target {
                    Target::Tracepoint(name) => (ProgramAttachType::TraceRawTp, *name),
                    Target::Function(name) => (ProgramAttachType::TraceFentry, *name),
                };
                program.set_attach_type(kind);
                let done = program.set_attach_target(0, Some(name.to_owned()));
                done.map_err(|error| message(&error))?;
            }
        }
        open.load().map_err(|error| message(&error))
    }
}

/// Attaches one program; `None` where it was not loaded.
pub(crate) fn attach(object: &mut Object, kind: Kind, hook: &Hook) -> Result<Option<Link>, Error> {
    // A program that was not wanted has no autoload flag.
    let program = object.progs_mut().find(|p| p.name() == hook.program);
    let Some(program) = program.filter(|program| program.autoload()) else { return Ok(None) };
    let error =
        |error| Error::Attach { dependency: kind, program: hook.program, source: io_error(&error) };
    program.attach().map(Some).map_err(error)
}

impl Wanted {
    /// Leaves out all dependencies but these, and the ends of tasks, which all of them need.
    fn keep_only(&mut self, kinds: &[Kind]) {
        for dependency in &mut self.dependencies {
            if dependency.kind != Kind::Exits && !kinds.contains(&dependency.kind) {
                dependency.state = State::Off("it is not asked for".to_owned());
            }
        }
    }
}

/// Loads the accepted programs, of these dependencies only where they are given. One refused
/// program fails the load of all, so after a failure each is tried alone: hooks of functions first,
/// because some kernels refuse all of these.
pub(crate) fn load(only: Option<&[Kind]>) -> Result<Loaded, Error> {
    quiet();
    let btf = Btf::of_kernel()?;
    probe::forbidden()?;
    let mut wanted = Wanted::new(&btf);
    if let Some(kinds) = only {
        wanted.keep_only(kinds);
    }
    let mut result = wanted.load();
    for which in [true, false] {
        if result.is_err() && wanted.try_each(|to| matches!(to, Target::Function(_)) == which) {
            result = wanted.load();
        }
    }
    Ok(Loaded {
        object: result.map_err(|message| Error::Load { message })?,
        dependencies: wanted.dependencies,
        distances: [btf.preempt_count(), btf.distance("ksoftirqd"), btf.distance("backlog_napi")]
            .map(Option::unwrap_or_default),
    })
}

/// Records that the kernel refuses a program of a dependency.
pub(crate) fn refuse(dependency: &mut Dependency, hook: &Hook, message: &str) {
    let reason = format!("the kernel refuses the program for {}: {message}", hook.target);
    probe::lack(&mut dependency.state, hook, reason);
}
