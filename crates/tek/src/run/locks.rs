// SPDX-License-Identifier: MIT OR Apache-2.0
//! The final states of locks of kind auto, as processes report them at their end.
use serde::Serialize;
use tek_abi::{printable, until_nul, Event};
use tek_model::Functions;

/// A report names the locks of so many processes.
const MOST_PROCESSES: usize = 1000;

/// The locks of a process.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Locks {
    pid: u32,
    program: String,
    /// How often one went from spinning to sleeping.
    to_sleeping: u64,
    /// And back.
    to_spinning: u64,
    /// The first of these.
    locks: Vec<Lock>,
}

/// A lock for which threads slept.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Lock {
    name: String,
    to_sleeping: u64,
    to_spinning: u64,
}

/// Its symbol, or its place in a file or in the process's memory.
fn name(functions: &mut Functions, event: &Event) -> String {
    let [_, _, inside, address] = event.value;
    let path = until_nul(&event.text);
    if path.is_empty() {
        return format!("at {address:#x}, in no file");
    }
    functions.known_in(path, inside).unwrap_or_else(|| {
        let text = printable(path);
        format!("at {inside:#x} of {}", text.rsplit('/').next().unwrap_or_default())
    })
}

/// The sums of a process, on a line.
pub fn all_text(event: &Event) -> String {
    format!(
        "locks of {} that auto chose for: {} went from spinning to sleeping, {} back; all others \
         spin",
        printable(&event.program),
        event.value[0],
        event.value[1]
    )
}

/// One of its locks.
pub fn one_text(functions: &mut Functions, event: &Event) -> String {
    let [to_sleeping, to_spinning, ..] = event.value;
    format!(
        "  lock {}: {}; went to sleeping {to_sleeping} time{}",
        name(functions, event),
        if to_sleeping > to_spinning { "sleeps" } else { "spins again" },
        if to_sleeping == 1 { "" } else { "s" },
    )
}

/// The locks of all processes, for the report as JSON.
#[derive(Default)]
pub struct Gathered {
    all: Vec<Locks>,
    functions: Functions,
}

impl Gathered {
    /// Takes a process's first event: its sums.
    pub fn add_all(&mut self, event: &Event) {
        if self.all.len() < MOST_PROCESSES {
            let [to_sleeping, to_spinning, ..] = event.value;
            let program = printable(&event.program);
            let locks = Vec::new();
            self.all.push(Locks { pid: event.pid, program, to_sleeping, to_spinning, locks });
        }
    }

    /// Takes its event for one lock.
    pub fn add_one(&mut self, event: &Event) {
        if let Some(locks) = self.all.iter_mut().rfind(|locks| locks.pid == event.pid) {
            let [to_sleeping, to_spinning, ..] = event.value;
            let name = name(&mut self.functions, event);
            locks.locks.push(Lock { name, to_sleeping, to_spinning });
        }
    }

    /// All of it.
    pub fn finish(self) -> Vec<Locks> {
        self.all
    }
}
