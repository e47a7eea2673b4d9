// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents of the programs' tables, as metrics: summed up by program, for a limited number of
//! programs. The rest share one name, so that no device fills the store of the scraper.
use super::page::Page;
use crate::words;
use std::collections::{BTreeMap, HashMap, HashSet};
use tek_abi::printable;
use tek_model::{Program, StackUse, Task};

/// The shared name of the programs that have none of their own.
pub const OTHER: &str = "other";

/// The sums over the processes of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    processes: u64,
    threads: u64,
    fast: u64,
    lost: u64,
    reserved_bytes: u64,
    measured: u64,
    peak_bytes: u64,
    bound_bytes: u64,
}

impl Sum {
    fn of(program: &Program) -> Self {
        let lost = program.table.map_or(0, |table| table.lost.into());
        let mut sum = Self { processes: 1, lost, ..Self::default() };
        let page = u64::from(program.page_bytes);
        for task in &program.tasks {
            sum.threads += 1;
            sum.fast += u64::from(task.is_fast());
            let Some(own) = &task.record else { continue };
            // A table may contain anything.
            let reserved = u64::from(own.record.stack_pages) * page;
            sum.reserved_bytes = sum.reserved_bytes.saturating_add(reserved);
            let Some(StackUse { peak_bytes: Some(peak), bound_bytes }) = task.stack else {
                continue;
            };
            sum.measured += 1;
            sum.peak_bytes = sum.peak_bytes.saturating_add(peak);
            sum.bound_bytes = sum.bound_bytes.saturating_add(bound_bytes);
        }
        sum
    }

    fn add(&mut self, other: Self) {
        self.processes += other.processes;
        self.threads += other.threads;
        self.fast += other.fast;
        self.lost += other.lost;
        self.reserved_bytes = self.reserved_bytes.saturating_add(other.reserved_bytes);
        self.measured += other.measured;
        self.peak_bytes = self.peak_bytes.saturating_add(other.peak_bytes);
        self.bound_bytes = self.bound_bytes.saturating_add(other.bound_bytes);
    }
}

/// Counters in the header of a table. A process that ends takes its table along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    lifts: u64,
    lifted_ns: u64,
    inversions: u64,
    inverted_ns: u64,
}

impl Counts {
    fn of(program: &Program) -> Self {
        program.table.map_or_else(Self::default, |table| Self {
            lifts: table.lifts,
            lifted_ns: table.lifted_ns,
            inversions: table.inversions,
            inverted_ns: table.inverted_ns,
        })
    }

    fn add(&mut self, other: Self) {
        self.lifts = self.lifts.saturating_add(other.lifts);
        self.lifted_ns = self.lifted_ns.saturating_add(other.lifted_ns);
        self.inversions = self.inversions.saturating_add(other.inversions);
        self.inverted_ns = self.inverted_ns.saturating_add(other.inverted_ns);
    }
}

/// A process: its pid, and when it began.
type Identity = (u32, u64);

/// The counters by the names of programs. They never go down: those of ended processes stay.
#[derive(Default)]
struct Counters {
    ended: BTreeMap<String, Counts>,
    /// As they were last, of the processes that were there.
    last: HashMap<Identity, (String, Counts)>,
}

impl Counters {
    /// Takes the present counters of the processes, with the names of their programs.
    fn update(&mut self, now: HashMap<Identity, (String, Counts)>) -> BTreeMap<String, Counts> {
        for (identity, (name, counts)) in std::mem::take(&mut self.last) {
            if !now.contains_key(&identity) {
                self.ended.entry(name).or_default().add(counts);
            }
        }
        self.last = now;
        let mut sums = self.ended.clone();
        for (name, counts) in self.last.values() {
            sums.entry(name.clone()).or_default().add(*counts);
        }
        sums
    }
}

/// The programs that are reported by name. A program keeps its name, so the number of names is
/// limited, however many programs start and end.
pub struct Names {
    most: usize,
    given: HashSet<String>,
    counters: Counters,
}

impl Names {
    /// At most so many.
    pub fn new(most: usize) -> Self {
        Self { most, given: HashSet::new(), counters: Counters::default() }
    }

    /// Sums up; if names run out, the programs with the most threads get them.
    fn sums(&mut self, programs: &[Program]) -> BTreeMap<String, Sum> {
        let mut all = BTreeMap::<String, Sum>::new();
        for program in programs {
            let name = printable(program.name.as_bytes());
            all.entry(name).or_default().add(Sum::of(program));
        }
        let mut new: Vec<_> = all.iter().filter(|(name, _)| !self.given.contains(*name)).collect();
        tek_sort::by_key(&mut new, |(_, sum)| std::cmp::Reverse(sum.threads));
        let left = self.most.saturating_sub(self.given.len());
        let named: Vec<_> = new.into_iter().take(left).map(|(name, _)| name.clone()).collect();
        self.given.extend(named);
        let mut sums = BTreeMap::<String, Sum>::new();
        for (name, sum) in all {
            sums.entry(self.shown(name)).or_default().add(sum);
        }
        sums
    }

    fn shown(&self, name: String) -> String {
        if self.given.contains(&name) {
            name
        } else {
            OTHER.into()
        }
    }

    /// The counters, once the names were given.
    fn counts(&mut self, programs: &[Program]) -> BTreeMap<String, Counts> {
        let process = |program: &Program| {
            let name = self.shown(printable(program.name.as_bytes()));
            let began = program.table.map_or(0, |table| table.start_ns);
            ((program.pid, began), (name, Counts::of(program)))
        };
        let now = programs.iter().map(process).collect();
        self.counters.update(now)
    }

    /// Writes the sums of the programs with tables.
    pub fn write(&mut self, page: &mut Page, programs: &[Program]) {
        write_groups(page, programs.iter().flat_map(|program| &program.tasks));
        let sums = self.sums(programs);
        for (name, help, value) in COLUMNS {
            let mut metric = page.gauge(name, help);
            for (program, sum) in &sums {
                metric.with(&[("program", program)], value(sum) as f64);
            }
        }
        let counts = self.counts(programs);
        for (name, help, value) in COUNTERS {
            let mut metric = page.counter(name, help);
            for (program, counts) in &counts {
                metric.with(&[("program", program)], value(counts));
            }
        }
    }
}

/// A name, its meaning, and where it is from.
type Column = (&'static str, &'static str, fn(&Sum) -> u64);

const COLUMNS: [Column; 8] = [
    ("tek_program_processes", "Processes of a program that have a table of threads.", |sum| {
        sum.processes
    }),
    ("tek_program_threads", "Threads of a program.", |sum| sum.threads),
    (
        "tek_program_fast_threads",
        "Threads of a program that made themselves time-critical, or a rule, or tekd for it.",
        |sum| sum.fast,
    ),
    (
        "tek_program_lost_threads",
        "Threads for which the tables of a program had no room since its processes began.",
        |sum| sum.lost,
    ),
    (
        "tek_program_stack_reserved_bytes",
        "Sizes of the stacks of a program's threads, summed up.",
        |sum| sum.reserved_bytes,
    ),
    (
        "tek_program_stack_measured_threads",
        "Threads of a program whose stacks TEK has measured.",
        |sum| sum.measured,
    ),
    (
        "tek_program_stack_peak_bytes",
        "What these threads certainly used of their stacks, summed up.",
        |sum| sum.peak_bytes,
    ),
    (
        "tek_program_stack_bound_bytes",
        "What these threads used of their stacks at most, summed up.",
        |sum| sum.bound_bytes,
    ),
];

/// The same for a counter.
type Counter = (&'static str, &'static str, fn(&Counts) -> f64);

const COUNTERS: [Counter; 4] = [
    (
        "tek_program_lifts_total",
        "How often a thread of a program was lifted: made time-critical, because a time-critical \
         thread waited for it.",
        |counts| counts.lifts as f64,
    ),
    (
        "tek_program_lifted_seconds_total",
        "Time that threads of a program were lifted, summed up.",
        |counts| seconds(counts.lifted_ns),
    ),
    (
        "tek_program_inversions_total",
        "How often a time-critical thread of a program waited for a lock of a thread that was not, \
         or for its end.",
        |counts| counts.inversions as f64,
    ),
    (
        "tek_program_inversion_wait_seconds_total",
        "Time of these waits, summed up.",
        |counts| seconds(counts.inverted_ns),
    ),
];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// By the group that their programs and rules declare; each has one of four groups.
fn write_groups<'a>(page: &mut Page, tasks: impl Iterator<Item = &'a Task>) {
    let mut counts = BTreeMap::<(String, &str), u64>::new();
    for task in tasks {
        let Some(own) = &task.record else { continue };
        let region = if task.is_fast() { "fast" } else { "lazy" };
        *counts.entry((words::group(own.record.group()), region)).or_default() += 1;
    }
    let help =
        "Threads that TEK knows from tables, by the group and region that they are in there.";
    let mut metric = page.gauge("tek_tracked_threads", help);
    for ((group, region), count) in counts {
        metric.with(&[("group", &group), ("region", region)], count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tek_abi::{Record, Side, TableHeader};
    use tek_model::{Stat, Thread};
    use zerocopy::FromZeros;

    fn task(tid: u32, peak: Option<u64>) -> Task {
        let stat = Stat {
            tid,
            name: "x".into(),
            parent: 1,
            state: 'S',
            start_ns: 1,
            policy: 0,
            nice: 0,
            rt_priority: 0,
            cpu_ns: 0,
            kernel: false,
        };
        let record = Record { tid, stack_pages: 16, ..Record::default() };
        Task {
            stat,
            record: Some(Thread { slot: 0, record, side: Side::new_zeroed() }),
            schedstat: None,
            switches: None,
            storage_bytes: None,
            wait: None,
            stack: peak.map(|peak| StackUse { peak_bytes: Some(peak), bound_bytes: 8192 }),
            seat: None,
        }
    }

    fn program(name: &str, tasks: Vec<Task>) -> Program {
        Program {
            pid: 1,
            name: name.into(),
            tasks,
            vm_bytes: None,
            page_bytes: 4096,
            modules: Vec::new(),
            table: None,
            kinds: Vec::new(),
            held_up: Vec::new(),
            uthreads: Vec::new(),
            workers: Vec::new(),
        }
    }

    fn of(names: &[(&str, usize)]) -> Vec<Program> {
        let tasks = |count| (0..count as u32).map(|tid| task(tid, None)).collect();
        names.iter().map(|(name, count)| program(name, tasks(*count))).collect()
    }

    #[test]
    fn the_processes_of_a_program_are_summed_up() {
        let mut names = Names::new(8);
        let programs = [
            program("fridge", vec![task(1, Some(4000)), task(2, None)]),
            program("fridge", vec![task(3, Some(5000))]),
        ];
        let wanted = Sum {
            processes: 2,
            threads: 3,
            reserved_bytes: 3 * 65_536,
            measured: 2,
            peak_bytes: 9000,
            bound_bytes: 16_384,
            ..Sum::default()
        };
        assert_eq!(names.sums(&programs)["fridge"], wanted);
        let mut page = Page::default();
        names.write(&mut page, &programs);
        let text = page.into_text();
        assert!(text.contains("tek_program_stack_peak_bytes{program=\"fridge\"} 9000\n"), "{text}");
        assert!(text.contains("tek_tracked_threads{group=\"normal\",region=\"lazy\"} 3\n"));
    }

    #[test]
    fn counters_never_go_down_whatever_ends_and_a_reused_pid_is_another_process() {
        let mut names = Names::new(8);
        let process = |pid: u32, start_ns, inversions| {
            let table = TableHeader { start_ns, inversions, ..TableHeader::new_zeroed() };
            Program { pid, table: Some(table), ..program("fridge", Vec::new()) }
        };
        let mut count = |programs: &[Program]| {
            names.sums(programs);
            names.counts(programs).get("fridge").map(|counts| counts.inversions)
        };
        assert_eq!(count(&[process(1, 10, 3), process(2, 10, 4)]), Some(7));
        assert_eq!(count(&[process(1, 10, 5)]), Some(9));
        assert_eq!(count(&[]), Some(9));
        assert_eq!(count(&[process(1, 20, 1)]), Some(10));
        assert_eq!(count(&[process(1, 20, 1)]), Some(10));
    }

    #[test]
    fn there_are_never_more_names_than_allowed_whatever_runs() {
        let mut names = Names::new(2);
        let first = names.sums(&of(&[("a", 1), ("b", 2), ("c", 3)]));
        let keys: Vec<_> = first.keys().map(String::as_str).collect();
        assert_eq!(keys, ["b", "c", OTHER]);
        for iteration in 0..100 {
            let new = format!("new-{iteration}");
            let sums = names.sums(&of(&[(&new, 50), ("b", 1)]));
            assert_eq!(sums.keys().collect::<Vec<_>>(), ["b", OTHER]);
            assert_eq!(sums[OTHER].threads, 50);
        }
        assert_eq!(Names::new(0).sums(&of(&[("a", 1)])).keys().collect::<Vec<_>>(), [OTHER]);
    }

    #[test]
    fn a_program_with_a_hostile_name_or_that_of_the_rest_does_no_harm() {
        let mut names = Names::new(2);
        let sums = names.sums(&of(&[(OTHER, 4), ("\x1b[2J\"\n", 5), ("c", 1)]));
        assert_eq!(sums.keys().collect::<Vec<_>>(), ["\\u{1b}[2J\"\\n", OTHER]);
        assert_eq!(sums[OTHER].threads, 5);
    }
}
