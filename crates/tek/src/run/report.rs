// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run --report`: the account of every thread that was time-critical.
use super::child::End;
use super::directory::{is_alive, RunDirectory};
use super::grid::{grid_of, time};
use super::inversions::{self, Inversions};
use super::locks::{self, Locks};
use super::options::Critical;
use crate::stack_use::learn::Learnt;
use crate::stack_use::render::{Judgement, Rows};
use comfy_table::Table as Grid;
use serde::Serialize;
use std::fmt::Write;
use std::fs::File;
use std::io;
use tek_abi::{
    printable, until_nul, Event, EVENT_HOLDER, EVENT_INVERSION, EVENT_INVERSIONS,
    EVENT_INVERSION_PLACE, EVENT_LOCK, EVENT_LOCKS, EVENT_NOT_COVERED, EVENT_OVERFLOW,
    EVENT_OVERRAN, EVENT_REFUSED, EVENT_SUMMARY, FLAG_NAMED, SCHED_POLICY,
};
use tek_model::{boot_time_ns, Table, Thread};

/// A program can start millions of threads; beyond this many the report only counts them.
const MOST_THREADS: usize = 10_000;

/// So many patterns that fitted nothing are named; further ones are counted.
const MOST_UNMATCHED: usize = 5;

/// How a thread's account ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// The thread ended and reported its own summary.
    Ended,
    /// Its process is gone without a summary: killed, ended by `_exit`, or replaced by `exec`. For
    /// a process other than the program itself only finished stays count, because the time of its
    /// end is unknown.
    Gone,
    /// Its process outlives the run; the times are those so far.
    Running,
}

/// A thread that was time-critical.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    pid: u32,
    tid: u32,
    program: String,
    thread: String,
    /// `null` where the thread no longer asked for SCHED_TEK.
    priority: Option<i32>,
    stays: u64,
    fast_ns: u64,
    cpu_ns: Option<u64>,
    context_switches: Option<u64>,
    overruns: u64,
    state: State,
}

/// The report of a run: a stable format, to which fields may be added.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    end: Ending,
    threads: Vec<Row>,
    /// Time-critical threads beyond those in `threads`.
    more_threads: u64,
    /// Processes in which the kernel refused a request: each reports its first refusal only.
    refused: u64,
    /// The waits of time-critical threads for threads that were not.
    inversions: Inversions,
    /// Programs that ran without TEK.
    not_covered: Vec<String>,
    /// Patterns that fitted no thread of which TEK received a report.
    unmatched: Vec<String>,
    /// The final states of locks of kind auto, a part for each process that reports them; left out
    /// if none does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    locks: Vec<Locks>,
    /// The knowledge about stacks, a part for each program; left out unless it is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stacks: Option<Vec<Stacks>>,
}

/// The stacks of a program's threads.
#[derive(Debug, Serialize)]
pub struct Stacks {
    program: String,
    build_id: String,
    #[serde(flatten)]
    rows: Rows,
}

/// Most programs in a report of stacks; `tek stack list` lists more.
const MOST_PROGRAMS: usize = 100;

/// The knowledge about stacks, as a part of the report.
pub fn stacks(learnt: &Learnt, judgement: Judgement) -> Vec<Stacks> {
    let stacks = learnt.iter().take(MOST_PROGRAMS).map(|(program, profile)| Stacks {
        program: profile.program.clone(),
        build_id: program.to_string(),
        rows: Rows::new(profile, judgement),
    });
    stacks.collect()
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Ending {
    Status(u8),
    Signal(String),
}

/// Collects the data for the report while the program runs.
#[derive(Default)]
pub struct Collector {
    rows: Vec<Row>,
    more: u64,
    refused: u64,
    not_covered: Vec<String>,
    matched: Vec<bool>,
    critical: Vec<Critical>,
    overflows: bool,
    locks: locks::Gathered,
    inversions: inversions::Gathered,
}

impl Collector {
    /// For a run with these patterns.
    pub fn new(critical: &[Critical]) -> Self {
        Self {
            matched: vec![false; critical.len()],
            critical: critical.to_vec(),
            ..Self::default()
        }
    }

    /// Whether a thread overflowed its stack and that was noticed.
    pub fn has_overflows(&self) -> bool {
        self.overflows
    }

    /// Takes an event.
    pub fn add(&mut self, event: &Event) {
        self.overflows |= event.kind == EVENT_OVERFLOW;
        match event.kind {
            EVENT_SUMMARY => {
                self.saw(&event.thread);
                let [fast_ns, stays, switches, cpu_ns] = event.value;
                self.push(Row {
                    pid: event.pid,
                    tid: event.tid,
                    program: printable(&event.program),
                    thread: printable(&event.thread),
                    priority: Some(event.priority),
                    stays,
                    fast_ns,
                    cpu_ns: Some(cpu_ns),
                    context_switches: Some(switches),
                    overruns: event.error.try_into().unwrap_or(0),
                    state: State::Ended,
                });
            }
            EVENT_OVERRAN => self.saw(&event.thread),
            EVENT_REFUSED => {
                self.saw(&event.thread);
                self.refused += 1;
            }
            EVENT_LOCKS => self.locks.add_all(event),
            EVENT_LOCK => self.locks.add_one(event),
            EVENT_INVERSIONS => self.inversions.add_sums(event),
            EVENT_INVERSION => self.inversions.add_one(event),
            EVENT_HOLDER => self.inversions.add_holder(event),
            EVENT_INVERSION_PLACE => self.inversions.add_place(event),
            EVENT_NOT_COVERED => {
                let program = printable(&event.program);
                if !self.not_covered.contains(&program) && self.not_covered.len() < MOST_THREADS {
                    self.not_covered.push(program);
                }
            }
            _ => {}
        }
    }

    /// Names a program that runs without TEK.
    pub fn add_not_covered(&mut self, program: String) {
        self.not_covered.push(program);
    }

    /// Takes from the remaining tables the data that processes could not report themselves.
    fn add_tables(&mut self, directory: &RunDirectory, program: i32) {
        let now = boot_time_ns();
        for (pid, path) in directory.tables() {
            let state = if is_alive(pid) { State::Running } else { State::Gone };
            let Ok(mut table) = Table::open(&path) else { continue };
            let Ok(header) = table.header() else { continue };
            // A record that was being written when its process was killed cannot be read.
            let Ok(snapshot) = table.snapshot() else { continue };
            if let (Ok(all), Ok(modules)) = (table.inversions(), table.modules()) {
                self.inversions.add_table(&header, &all, &modules);
            }
            for thread in snapshot.threads {
                // A thread that still runs, or has ended just now, was Fast until now.
                let until = (state == State::Running || pid == program).then_some(now);
                self.add_thread(&thread, header.pid, printable(&header.program), state, until);
            }
        }
    }

    fn add_thread(
        &mut self,
        thread: &Thread,
        pid: u32,
        program: String,
        state: State,
        until: Option<u64>,
    ) {
        let Thread { record, side, .. } = thread;
        if record.flags & FLAG_NAMED != 0 {
            self.saw(&side.name);
        }
        if side.stays == 0 {
            return;
        }
        let asks = i32::from(record.policy) == SCHED_POLICY;
        let stay = match until {
            Some(until) if side.fast_since_ns != 0 => until.saturating_sub(side.fast_since_ns),
            _ => 0,
        };
        self.push(Row {
            pid,
            tid: record.tid,
            program,
            thread: printable(&side.name),
            priority: asks.then_some(record.priority.into()),
            stays: side.stays.into(),
            fast_ns: side.fast_ns.saturating_add(stay),
            cpu_ns: None,
            context_switches: None,
            overruns: side.overruns.into(),
            state,
        });
    }

    fn push(&mut self, row: Row) {
        if self.rows.len() < MOST_THREADS {
            self.rows.push(row);
        } else {
            self.more += 1;
        }
    }

    fn saw(&mut self, name: &[u8]) {
        for (pattern, matched) in self.critical.iter().zip(&mut self.matched) {
            *matched = *matched || pattern.glob.matches(until_nul(name));
        }
    }

    /// Threads cannot report their names: no pattern counts as a mistake.
    pub fn cannot_know_names(&mut self) {
        self.matched.fill(true);
    }

    /// The report, once the program has ended.
    pub fn finish(mut self, end: End, program: i32, directory: &RunDirectory) -> Report {
        self.add_tables(directory, program);
        tek_sort::by_key(&mut self.rows, |row| (row.pid, std::cmp::Reverse(row.fast_ns)));
        let unmatched = self.critical.iter().zip(&self.matched).filter(|(_, matched)| !**matched);
        Report {
            schema: 1,
            end: match end {
                End::Exited(code) => Ending::Status(code),
                End::Killed(signal) => Ending::Signal(End::signal_name(signal)),
            },
            unmatched: unmatched.map(|(pattern, _)| pattern.glob.to_string()).collect(),
            threads: self.rows,
            more_threads: self.more,
            refused: self.refused,
            inversions: self.inversions.finish(),
            not_covered: self.not_covered,
            locks: self.locks.finish(),
            stacks: None,
        }
    }
}

impl Report {
    /// Writes the report as JSON.
    pub fn write(&self, file: &File) -> io::Result<()> {
        use io::Write;
        let mut file = io::BufWriter::new(file);
        writeln!(file, "{}", crate::json::pretty(self)?)?;
        file.flush()
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.threads.is_empty() {
            text.push_str("no thread became time-critical\n");
            if self.refused > 0 {
                text.push_str("the kernel refused it: see the message above\n");
            }
        } else {
            let _ = writeln!(text, "{}", self.grid());
        }
        if self.more_threads > 0 {
            let _ = writeln!(text, "and {} more threads", self.more_threads);
        }
        if self.threads.iter().any(|row| row.state != State::Ended) {
            text.push_str(
                "≥: its process is gone without a summary (killed, _exit or exec) or runs on, so \
                 this is what is known\n",
            );
        }
        text.push_str(&self.inversions.text());
        match self.stacks.as_deref() {
            None => {}
            Some([]) => text.push_str("no stack was measured\n"),
            Some(stacks) => {
                for Stacks { program, rows, .. } in stacks {
                    let program = printable(program.as_bytes());
                    let _ = write!(text, "stacks of {program}:\n{}", rows.text());
                }
            }
        }
        text + &self.unmatched_text()
    }

    /// The patterns that matched nothing, most likely by mistake.
    pub fn unmatched_text(&self) -> String {
        let line = |glob| format!("no thread had a name that fits --critical '{glob}'\n");
        let mut text: String = self.unmatched.iter().take(MOST_UNMATCHED).map(line).collect();
        if self.unmatched.len() > MOST_UNMATCHED {
            let _ = writeln!(text, "nor {} more patterns", self.unmatched.len() - MOST_UNMATCHED);
        }
        text
    }

    fn grid(&self) -> Grid {
        let heads =
            ["PROCESS", "THREAD", "PRIO", "STAYS", "FAST", "CPU (ALL)", "SWITCHES", "OVERRUNS"];
        let mut grid = grid_of(heads, 2..8);
        let dash = || "-".to_owned();
        for row in &self.threads {
            let more = if row.state == State::Ended { "" } else { "≥ " };
            grid.add_row([
                format!("{} [{}]", row.program, row.pid),
                format!("{} [{}]", row.thread, row.tid),
                row.priority.map_or_else(dash, |nice| nice.to_string()),
                row.stays.to_string(),
                format!("{more}{}", time(row.fast_ns)),
                row.cpu_ns.map_or_else(dash, time),
                row.context_switches.map_or_else(dash, |count| count.to_string()),
                row.overruns.to_string(),
            ]);
        }
        grid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(thread: &str, fast_ns: u64) -> Event {
        let mut event = Event { pid: 5, tid: 6, ..Event::blank(EVENT_SUMMARY) };
        event.value = [fast_ns, 2, 40, 9_000_000];
        event.thread[..thread.len()].copy_from_slice(thread.as_bytes());
        event
    }

    fn report(critical: &[&str], events: &[Event]) -> Report {
        let patterns: Vec<_> = critical.iter().map(|text| text.parse().unwrap()).collect();
        let mut collector = Collector::new(&patterns);
        events.iter().for_each(|event| collector.add(event));
        collector.finish(End::Exited(0), 0, &RunDirectory::create(|_| ()).unwrap())
    }

    #[test]
    fn each_thread_that_was_fast_has_a_row_with_its_overruns() {
        let ended = Event { error: 2, ..summary("touch", 1_500_000_000) };
        let report = report(&["t*"], &[ended]);
        assert_eq!(report.threads.len(), 1);
        assert_eq!(report.threads[0].overruns, 2);
        assert_eq!(report.unmatched, Vec::<String>::new());
        let text = report.text();
        assert!(text.contains("touch") && text.contains("1.500s"), "{text}");
    }

    #[test]
    fn a_run_without_a_fast_thread_is_reported_with_the_patterns_that_fitted_nothing() {
        let text = report(&["ui*", "gas=-3"], &[]).text();
        assert!(text.contains("no thread became time-critical"), "{text}");
        assert!(text.contains("--critical 'ui*'") && text.contains("--critical 'gas'"), "{text}");
    }

    #[test]
    fn a_thread_of_a_killed_process_is_taken_from_its_table() {
        let mut collector = Collector::new(&[]);
        let mut thread = Thread { slot: 0, record: Default::default(), side: Default::default() };
        thread.side.stays = 3;
        thread.side.name[..3].copy_from_slice(b"gas");
        thread.side.fast_ns = 100;
        thread.side.fast_since_ns = 1000;
        collector.add_thread(&thread, 5, "fridge".into(), State::Gone, None);
        collector.add_thread(&thread, 5, "fridge".into(), State::Running, Some(1020));
        assert_eq!(collector.rows[0].thread, "gas");
        assert_eq!(collector.rows[0].fast_ns, 100);
        assert_eq!(collector.rows[1].fast_ns, 120);
        thread.side.stays = 0;
        collector.add_thread(&thread, 5, "fridge".into(), State::Gone, None);
        assert_eq!(collector.rows.len(), 2);
    }
}
