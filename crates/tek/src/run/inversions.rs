// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report's part about inversions: time-critical threads that waited for threads that were not.
//! A process reports its longest ones at its end; those of a killed one are in its table.
use super::grid::{grid_of, time};
use crate::words;
use comfy_table::Table as Grid;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;
use tek_abi::{
    printable, until_nul, Event, Inversion, Module, TableHeader, AT_CALL, AT_OBJECT, AT_RELEASE,
};
use tek_model::{place_of, Functions};

/// So many are named, those with the longest waits.
const MOST: usize = 10;

/// Processes whose last inversion may still be incomplete.
const MOST_OPEN: usize = 1000;

/// The inversions of a run: a stable format, to which fields may be added.
#[derive(Debug, Default, Serialize)]
pub struct Inversions {
    /// How often a time-critical thread waited for one that was not, or was lifted only.
    inversions: u64,
    /// For how long in all.
    waited_ns: u64,
    /// How often a thread was lifted.
    lifts: u64,
    /// For how long in all.
    lifted_ns: u64,
    /// The longest waits, each at another place or for another lock.
    worst: Vec<Row>,
}

/// A place where threads waited, and its longest wait.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    pid: u32,
    program: String,
    /// `mutex`, `rwlock`, `condition` (its mutex), `join`.
    kind: &'static str,
    /// How often a time-critical thread waited here, and for how long in all.
    waits: u64,
    waited_ns: u64,
    /// The longest wait.
    wait_ns: u64,
    /// The estimated wait without the lift; `null` where the holder had too little CPU time of its
    /// own to know its share.
    cost_ns: Option<u64>,
    /// The time that the holder was lifted in this wait, and its CPU time meanwhile.
    lifted_ns: u64,
    lifted_cpu_ns: u64,
    waiter: Thread,
    holder: Thread,
    /// The call that waited: `function (file.c:88)`.
    call: Option<String>,
    /// The call that unlocked, or for a join the holder's function; `null`: not known.
    release: Option<String>,
    /// The lock: its symbol, or its address.
    object: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Thread {
    tid: u32,
    name: String,
}

/// Which place of an inversion, and where it lies.
#[derive(Clone, Debug)]
struct Place {
    which: i32,
    /// Empty: in no file.
    path: Vec<u8>,
    inside: u64,
    address: u64,
}

/// An inversion whose places have no names yet.
#[derive(Debug)]
struct Unnamed {
    row: Row,
    places: Vec<Place>,
}

/// Collects them while the program runs.
#[derive(Default)]
pub struct Gathered {
    sums: Inversions,
    worst: Vec<Unnamed>,
    /// By process, until its next one: the events of processes may mix.
    open: HashMap<u32, Unnamed>,
}

impl Gathered {
    /// Takes a process's first event: its sums.
    pub fn add_sums(&mut self, event: &Event) {
        let [inversions, waited_ns, lifts, lifted_ns] = event.value;
        self.add_to_sums(inversions, waited_ns, lifts, lifted_ns);
    }

    fn add_to_sums(&mut self, inversions: u64, waited_ns: u64, lifts: u64, lifted_ns: u64) {
        let sums = &mut self.sums;
        sums.inversions = sums.inversions.saturating_add(inversions);
        sums.waited_ns = sums.waited_ns.saturating_add(waited_ns);
        sums.lifts = sums.lifts.saturating_add(lifts);
        sums.lifted_ns = sums.lifted_ns.saturating_add(lifted_ns);
    }

    /// Takes one of its inversions.
    pub fn add_one(&mut self, event: &Event) {
        let [waits, waited_ns, wait_ns, cost_ns] = event.value;
        let row = Row {
            pid: event.pid,
            program: printable(&event.program),
            kind: words::inversion(event.error as u32),
            waits,
            waited_ns,
            wait_ns,
            cost_ns: (cost_ns != 0).then_some(cost_ns),
            lifted_ns: 0,
            lifted_cpu_ns: 0,
            waiter: Thread { tid: event.tid, name: printable(&event.thread) },
            holder: Thread::default(),
            call: None,
            release: None,
            object: None,
        };
        if let Some(done) = self.open.insert(event.pid, Unnamed { row, places: Vec::new() }) {
            self.close(done);
        }
        if self.open.len() > MOST_OPEN {
            self.close_all();
        }
    }

    /// Takes the holder of the inversion before.
    pub fn add_holder(&mut self, event: &Event) {
        if let Some(Unnamed { row, .. }) = self.open.get_mut(&event.pid) {
            row.holder = Thread { tid: event.tid, name: printable(&event.thread) };
            [row.lifted_ns, row.lifted_cpu_ns, ..] = event.value;
        }
    }

    /// Takes a place of the inversion before.
    pub fn add_place(&mut self, event: &Event) {
        let [inside, address, ..] = event.value;
        if let Some(Unnamed { places, .. }) = self.open.get_mut(&event.pid) {
            // A process writes three. A forged file may contain any number.
            if places.len() < 3 {
                let path = until_nul(&event.text).to_vec();
                places.push(Place { which: event.error, path, inside, address });
            }
        }
    }

    /// Takes what a process left in its table.
    pub fn add_table(&mut self, header: &TableHeader, all: &[Inversion], modules: &[Module]) {
        self.add_to_sums(header.inversions, header.inverted_ns, header.lifts, header.lifted_ns);
        for one in all {
            let place = |(which, address)| {
                let found = place_of(modules, address);
                let (path, inside) = found
                    .map(|(module, inside)| (until_nul(&module.path).to_vec(), inside))
                    .unwrap_or_default();
                Place { which, path, inside, address }
            };
            let places = [(AT_CALL, one.call), (AT_RELEASE, one.release), (AT_OBJECT, one.object)];
            let places = places.into_iter().filter(|&(_, address)| address != 0).map(place);
            let row = Row {
                pid: header.pid,
                program: printable(&header.program),
                kind: words::inversion(one.kind),
                waits: one.waits,
                waited_ns: one.waited_ns,
                wait_ns: one.wait_ns,
                cost_ns: (one.cost_ns != 0).then_some(one.cost_ns),
                lifted_ns: one.lifted_ns,
                lifted_cpu_ns: one.lifted_cpu_ns,
                waiter: Thread { tid: one.waiter_tid, name: printable(&one.waiter_name) },
                holder: Thread { tid: one.holder_tid, name: printable(&one.holder_name) },
                call: None,
                release: None,
                object: None,
            };
            self.close(Unnamed { row, places: places.collect() });
        }
    }

    fn close(&mut self, one: Unnamed) {
        let at = self.worst.partition_point(|other| other.row.wait_ns >= one.row.wait_ns);
        self.worst.insert(at, one);
        self.worst.truncate(MOST);
    }

    fn close_all(&mut self) {
        for (_, one) in std::mem::take(&mut self.open) {
            self.close(one);
        }
    }

    /// All of it, with names.
    pub fn finish(mut self) -> Inversions {
        self.close_all();
        let mut functions = Functions::default();
        let named = |Unnamed { mut row, places }| {
            for place in places {
                let name = Some(name(&mut functions, &place, row.kind));
                match place.which {
                    AT_CALL => row.call = name,
                    AT_RELEASE => row.release = name,
                    AT_OBJECT => row.object = name,
                    _ => {}
                }
            }
            row
        };
        Inversions { worst: self.worst.into_iter().map(named).collect(), ..self.sums }
    }
}

fn name(functions: &mut Functions, place: &Place, kind: &str) -> String {
    let Place { which, ref path, inside, address } = *place;
    let is_object = which == AT_OBJECT;
    if path.is_empty() {
        return format!("{address:#x}");
    }
    // Of a join it is a function, and no call in one.
    if is_object || (which == AT_RELEASE && kind == "join") {
        return functions.name_in(path, inside);
    }
    functions.call_in(path, inside)
}

impl Inversions {
    /// Its part of the text of the report; empty where nothing waited.
    pub fn text(&self) -> String {
        if self.inversions == 0 {
            return String::new();
        }
        let mut text = format!(
            "time-critical threads waited {} for {} in all for threads that were not; {}, for {} \
             in all\n",
            times(self.inversions),
            time(self.waited_ns),
            match self.lifts {
                0 => "no thread was lifted".into(),
                1 => "one thread was lifted".into(),
                lifts => format!("threads were lifted {}", times(lifts)),
            },
            time(self.lifted_ns)
        );
        if !self.worst.is_empty() {
            let _ = writeln!(text, "{}", self.grid());
        }
        text
    }

    fn grid(&self) -> Grid {
        let heads =
            ["WAIT", "UNLIFTED", "TIMES", "THREAD", "WAITS IN", "FOR", "HELD BY", "RELEASED IN"];
        let mut grid = grid_of(heads, 0..3);
        let dash = || "-".to_owned();
        for row in &self.worst {
            let thread = |thread: &Thread| format!("{} [{}]", thread.name, thread.tid);
            let object = row.object.as_ref().map_or(String::new(), |object| format!(" {object}"));
            grid.add_row([
                time(row.wait_ns),
                row.cost_ns.map_or_else(dash, |cost| format!("≈ {}", time(cost))),
                row.waits.to_string(),
                thread(&row.waiter),
                row.call.clone().unwrap_or_else(dash),
                format!("{}{object}", row.kind),
                thread(&row.holder),
                row.release.clone().unwrap_or_else(dash),
            ]);
        }
        grid
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".into(),
        count => format!("{count} times"),
    }
}

#[cfg(test)]
#[path = "inversions_tests.rs"]
mod tests;
