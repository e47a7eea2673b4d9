// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace as Perfetto and Chrome show it: JSON in the form of the Trace Event Format.
//!
//! Each process has two groups of tracks. One is its workers, with the thread that runs on each.
//! The other is its threads, with their states: runs somewhere, is ready, waits for something.
use super::read::{Engine, Records, Trace};
use super::Error;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use tek_abi::{
    text, TraceRecord, TRACE_ENDED, TRACE_HELD_UP, TRACE_NAME, TRACE_NO_WORKER, TRACE_PREEMPTED,
    TRACE_READY, TRACE_SWITCH, TRACE_TEXT, TRACE_TEXT_BYTES, TRACE_WAITS, TRACE_YIELDED,
};

/// Ids of the groups of tracks. The workers' group has the pid; the threads' group adds `THREADS`,
/// which is above all pids. Each later program of a process adds `NEXT_PROGRAM`.
const THREADS: u64 = 10_000_000;
const NEXT_PROGRAM: u64 = 20_000_000;

/// The first user-level thread is that of main().
const MAIN: u64 = 1;

/// The counts of what was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reported {
    switches: u64,
    threads: usize,
    lost: u64,
}

impl Reported {
    /// For people.
    pub fn text(&self) -> String {
        let Self { switches, threads, lost } = self;
        let s = |count: u64| if count == 1 { "" } else { "s" };
        let lost = match lost {
            0 => String::new(),
            lost => format!(", without {lost} event{} that there was no room for", s(*lost)),
        };
        format!(
            "{switches} switch{} of {threads} user-level thread{}{lost}; https://ui.perfetto.dev \
             and chrome://tracing show it",
            if *switches == 1 { "" } else { "es" },
            s(*threads as u64)
        )
    }
}

/// Writes a trace event by event, without keeping any; `None`: an empty one.
pub fn write(trace: Option<&Trace<'_>>, out: &mut impl Write) -> Result<Reported, Error> {
    let engines = trace.map(Trace::engines).unwrap_or_default();
    let start_ns = engines.iter().map(|engine| engine.start_ns).min().unwrap_or_default();
    let mut events = Events { out, count: 0, start_ns };
    events.begin()?;
    let mut reported = Reported::default();
    if let Some(trace) = trace {
        let mut programs: HashMap<u32, u64> = HashMap::new();
        for engine in engines {
            let earlier = programs.entry(engine.pid).or_default();
            let group = u64::from(engine.pid) + *earlier * NEXT_PROGRAM;
            *earlier += 1;
            let names = Names::read(trace.records(engine)?)?;
            let mut view = View::new(&mut events, &names, engine, group);
            for record in trace.records(engine)? {
                let (worker, record) = record?;
                view.add(worker, &record)?;
            }
            view.finish(&mut reported)?;
        }
    }
    events.end()?;
    Ok(reported)
}

/// The JSON, event by event.
struct Events<'a, W> {
    out: &'a mut W,
    count: u64,
    start_ns: u64,
}

impl<W: Write> Events<'_, W> {
    fn begin(&mut self) -> Result<(), Error> {
        let about = json!({
            "tool": concat!("tek ", env!("CARGO_PKG_VERSION")),
            "clock": "CLOCK_MONOTONIC",
            "start_ns": self.start_ns,
        });
        write!(self.out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")?;
        Ok(())
    }

    fn add(&mut self, event: &impl Serialize) -> Result<(), Error> {
        self.out.write_all(if self.count == 0 { b"\n" } else { b",\n" })?;
        self.count += 1;
        self.out.write_all(crate::json::line(event)?.as_bytes())?;
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        writeln!(self.out, "\n]}}")
    }
}

/// A time or a duration in ns, written in us as the format requires.
#[derive(Clone, Copy)]
struct Micros(u64);

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 1000.0)
    }
}

/// A slice: a state with a duration, on a track.
#[derive(Serialize)]
struct Slice<'a, A> {
    ph: &'static str,
    pid: u64,
    tid: u64,
    ts: Micros,
    dur: Micros,
    cat: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<A>,
}

/// The arguments of a thread that ran on a worker.
#[derive(Serialize)]
struct RunArgs<'a> {
    thread: u64,
    left: &'a str,
    kernel_thread: u32,
}

/// The arguments of a thread that was ready.
#[derive(Serialize)]
struct ReadyArgs<'a> {
    woken_by: &'a str,
}

/// The names of threads, and of the objects of their waits.
struct Names {
    threads: HashMap<u64, [u8; TRACE_TEXT_BYTES as usize]>,
    waits: HashMap<u64, String>,
}

impl Names {
    /// Their last names: a thread gets its name when it runs already.
    fn read(records: Records<'_>) -> io::Result<Self> {
        let mut threads = HashMap::new();
        let mut texts: HashMap<u64, [u8; TRACE_TEXT_BYTES as usize]> = HashMap::new();
        for record in records {
            let (_, record) = record?;
            match record.kind {
                TRACE_NAME => add_part(threads.entry(record.thread).or_default(), &record),
                TRACE_TEXT => add_part(texts.entry(record.thread).or_default(), &record),
                _ => {}
            }
        }
        let waits = texts.into_iter().map(|(number, bytes)| (number, text(&bytes))).collect();
        Ok(Self { threads, waits })
    }

    fn thread(&self, id: u64) -> String {
        match self.threads.get(&id).map(|bytes| text(bytes)).filter(|name| !name.is_empty()) {
            Some(name) => name,
            None if id == MAIN => "main".into(),
            None => format!("thread {id}"),
        }
    }

    /// The object of the wait of a thread that left for this reason.
    fn wait(&self, reason: u8) -> &str {
        self.waits.get(&u64::from(reason - TRACE_WAITS)).map_or("waits", String::as_str)
    }

    /// The same as a reason.
    fn waits_for(&self, reason: u8) -> String {
        match self.waits.get(&u64::from(reason - TRACE_WAITS)) {
            Some(what) => format!("waits: {what}"),
            None => "waits".into(),
        }
    }
}

/// A part of a text, of 8 bytes; the first part begins a new text.
fn add_part(text: &mut [u8; TRACE_TEXT_BYTES as usize], record: &TraceRecord) {
    let part = usize::from(record.reason);
    if part == 0 {
        *text = Default::default();
    }
    if let Some(bytes) = text.get_mut(part * 8..part * 8 + 8) {
        bytes.copy_from_slice(&record.other.to_ne_bytes());
    }
}

/// The state of a thread, and since when.
#[derive(Clone, Copy)]
enum State {
    Runs { worker: u32 },
    Ready { because: &'static str, woken_by: u64 },
    Waits { reason: u8 },
    HeldUp,
    Ended,
}

/// One engine's tracks.
struct View<'a, 'b, W> {
    events: &'a mut Events<'b, W>,
    names: &'a Names,
    engine: &'a Engine,
    group: u64,
    /// The thread that runs on each worker, and since when.
    running: HashMap<u32, (u64, u64)>,
    workers: BTreeSet<u32>,
    threads: HashMap<u64, (State, u64)>,
    switches: u64,
    last_ns: u64,
}

impl<'a, 'b, W: Write> View<'a, 'b, W> {
    fn new(
        events: &'a mut Events<'b, W>,
        names: &'a Names,
        engine: &'a Engine,
        group: u64,
    ) -> Self {
        Self {
            events,
            names,
            engine,
            group,
            running: HashMap::new(),
            workers: BTreeSet::new(),
            threads: HashMap::new(),
            switches: 0,
            last_ns: engine.start_ns,
        }
    }

    fn add(&mut self, worker: u32, record: &TraceRecord) -> Result<(), Error> {
        self.last_ns = self.last_ns.max(record.time_ns);
        match record.kind {
            TRACE_SWITCH if worker != TRACE_NO_WORKER => self.switch(worker, record),
            TRACE_READY => self.ready(record),
            _ => Ok(()),
        }
    }

    fn switch(&mut self, worker: u32, record: &TraceRecord) -> Result<(), Error> {
        self.switches += 1;
        let is_first = self.workers.insert(worker);
        let runs = match self.running.remove(&worker) {
            // The thread that runs when the engine starts did not come by a switch.
            None if is_first && record.thread != 0 => Some((record.thread, self.engine.start_ns)),
            runs => runs,
        };
        if let Some((thread, since)) = runs {
            // The thread of the worker is somewhere else: it was given to another carrier. If
            // records are missing, the end of its time there is unknown.
            let reason = if record.thread == 0 { TRACE_HELD_UP } else { record.reason };
            if record.thread == 0 || record.thread == thread {
                self.left(worker, thread, since, reason, record)?;
            } else {
                self.threads.remove(&thread);
            }
        }
        if record.other != 0 {
            self.enter(record.other, State::Runs { worker }, record.time_ns)?;
            self.running.insert(worker, (record.other, record.time_ns));
        }
        Ok(())
    }

    /// A thread has left its worker.
    fn left(
        &mut self,
        worker: u32,
        thread: u64,
        since: u64,
        reason: u8,
        record: &TraceRecord,
    ) -> Result<(), Error> {
        let (left, state) = match reason {
            TRACE_YIELDED => {
                ("yielded".into(), State::Ready { because: "ready (yielded)", woken_by: 0 })
            }
            TRACE_PREEMPTED => {
                ("preempted".into(), State::Ready { because: "ready (preempted)", woken_by: 0 })
            }
            TRACE_ENDED => ("ended".into(), State::Ended),
            TRACE_WAITS.. => (self.names.waits_for(reason), State::Waits { reason }),
            _ => ("held up in the kernel".into(), State::HeldUp),
        };
        self.ran(worker, thread, since, record.time_ns, &left, record.tid)?;
        // If it began to run without a switch, its own state does not have that yet.
        self.threads.entry(thread).or_insert((State::Runs { worker }, since));
        self.enter(thread, state, record.time_ns)
    }

    /// On the track of the worker.
    fn ran(
        &mut self,
        worker: u32,
        thread: u64,
        since: u64,
        until: u64,
        left: &str,
        kernel_thread: u32,
    ) -> Result<(), Error> {
        let name = self.names.thread(thread);
        self.slice(
            (self.group, u64::from(worker)),
            (since, until),
            ("run", &name),
            Some(RunArgs { thread, left, kernel_thread }),
        )
    }

    fn ready(&mut self, record: &TraceRecord) -> Result<(), Error> {
        // A thread that is on its way off its worker: its switch has its state.
        if matches!(self.threads.get(&record.thread), Some((State::Runs { .. }, _))) {
            return Ok(());
        }
        let state = State::Ready { because: "ready", woken_by: record.other };
        self.enter(record.thread, state, record.time_ns)
    }

    /// A thread changes its state: the former state goes on its own track.
    fn enter(&mut self, thread: u64, state: State, now: u64) -> Result<(), Error> {
        let before = self.threads.insert(thread, (state, now));
        before.map_or(Ok(()), |(state, since)| self.did(thread, state, since, now))
    }

    fn did(&mut self, thread: u64, state: State, since: u64, until: u64) -> Result<(), Error> {
        let track = (self.group + THREADS, thread);
        let times = (since, until);
        let none = None::<()>;
        match state {
            State::Runs { worker } => {
                self.slice(track, times, ("run", &format!("worker {worker}")), none)
            }
            State::Ready { because, woken_by: 0 } => {
                self.slice(track, times, ("ready", because), none)
            }
            State::Ready { because, woken_by } => {
                let woken_by = &self.names.thread(woken_by);
                self.slice(track, times, ("ready", because), Some(ReadyArgs { woken_by }))
            }
            State::Waits { reason } => {
                self.slice(track, times, ("wait", self.names.wait(reason)), none)
            }
            State::HeldUp => self.slice(track, times, ("wait", "held up in the kernel"), none),
            State::Ended => Ok(()),
        }
    }

    fn slice(
        &mut self,
        (pid, tid): (u64, u64),
        (since, until): (u64, u64),
        (cat, name): (&'static str, &str),
        args: Option<impl Serialize>,
    ) -> Result<(), Error> {
        let ts = Micros(since.saturating_sub(self.events.start_ns));
        let dur = Micros(until.saturating_sub(since));
        self.events.add(&Slice { ph: "X", pid, tid, ts, dur, cat, name, args })
    }

    /// Open states are shown up to the last event; then the names of the tracks.
    fn finish(mut self, reported: &mut Reported) -> Result<(), Error> {
        let end = self.last_ns;
        let mut running: Vec<_> = self.running.drain().collect();
        running.sort_unstable();
        for (worker, (thread, since)) in running {
            self.ran(worker, thread, since, end, "the trace ends", 0)?;
        }
        let mut threads: Vec<_> = self.threads.drain().collect();
        tek_sort::by_key(&mut threads, |&(thread, _)| thread);
        for &(thread, (state, since)) in &threads {
            self.did(thread, state, since, end)?;
        }
        let program = format!("{} [{}]", self.engine.program, self.engine.pid);
        let (workers, ids) = (std::mem::take(&mut self.workers), threads.iter().map(|&(id, _)| id));
        self.name("process_name", self.group, 0, &format!("{program}: workers"))?;
        for worker in workers {
            self.name("thread_name", self.group, worker.into(), &format!("worker {worker}"))?;
        }
        self.name("process_name", self.group + THREADS, 0, &format!("{program}: threads"))?;
        for id in ids {
            self.name("thread_name", self.group + THREADS, id, &self.names.thread(id))?;
        }
        reported.switches += self.switches;
        reported.threads += threads.len();
        reported.lost = reported.lost.saturating_add(self.engine.lost);
        Ok(())
    }

    fn name(&mut self, what: &str, pid: u64, tid: u64, name: &str) -> Result<(), Error> {
        self.events.add(&json!({
            "ph": "M", "pid": pid, "tid": tid, "name": what, "args": { "name": name },
        }))
    }
}

#[cfg(test)]
mod tests;
