// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of the paper's tables (uthreads, 5): program, number of threads, quantum, scheduler.

use super::engine::{quantum, Cpus, Sched, Setting, Threads};
use serde::Serialize;

/// A program of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    Vector,
    Parallel,
    External,
    Banking,
    Philosophers,
    Fibonacci,
    Primes,
}

impl Program {
    pub const ALL: [Program; 7] = [
        Program::Vector,
        Program::Parallel,
        Program::External,
        Program::Banking,
        Program::Philosophers,
        Program::Fibonacci,
        Program::Primes,
    ];

    /// Its name, of the file too.
    pub fn name(self) -> &'static str {
        match self {
            Program::Vector => "vector",
            Program::Parallel => "parallel",
            Program::External => "external",
            Program::Banking => "banking",
            Program::Philosophers => "philosophers",
            Program::Fibonacci => "fibonacci",
            Program::Primes => "primes",
        }
    }

    /// A size that takes some 10 ms on a slow machine and some ms on a fast one.
    pub fn little(self) -> u64 {
        match self {
            Program::Vector | Program::Banking => 200_000,
            Program::Parallel => 10_000,
            Program::External => 40_000,
            Program::Philosophers => 40_000,
            Program::Fibonacci => 100,
            Program::Primes => 100_000,
        }
    }

    /// The size that takes `wanted` times as long as this size.
    pub fn scaled(self, size: u64, wanted: f64) -> u64 {
        let factor = match self {
            // A prime as great as n takes the square root of n divisions.
            Program::Primes => wanted.powf(0.7),
            _ => wanted,
        };
        (size as f64 * factor) as u64
    }
}

/// The owner of the threads, and the number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Variant {
    /// The C library's, on all CPUs.
    Pthread,
    /// The C library's, on one CPU.
    PthreadOne,
    /// The same again: shows how much two equal measurements differ.
    PthreadOneAgain,
    /// User-level threads on one worker and one CPU.
    One(Sched),
    /// User-level threads on as many workers as there are CPUs.
    Many(Sched),
}

impl Variant {
    /// In the order of tables.
    pub const ALL: [Variant; 10] = [
        Variant::Pthread,
        Variant::PthreadOne,
        Variant::PthreadOneAgain,
        Variant::One(Sched::Rr),
        Variant::One(Sched::Mlfq),
        Variant::One(Sched::Psjf),
        Variant::One(Sched::Fifo),
        Variant::One(Sched::Steal),
        Variant::Many(Sched::Rr),
        Variant::Many(Sched::Steal),
    ];

    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Variant::Pthread => "pthread".to_owned(),
            Variant::PthreadOne => "pthread, 1 CPU".to_owned(),
            Variant::PthreadOneAgain => "pthread, 1 CPU, again".to_owned(),
            Variant::One(sched) => sched.name().to_owned(),
            Variant::Many(sched) => format!("m:n {}", sched.name()),
        }
    }

    /// Whether its threads are user-level threads.
    pub fn is_tek(self) -> bool {
        matches!(self, Variant::One(_) | Variant::Many(_))
    }

    /// The CPUs that it has.
    pub fn cpus(self) -> Cpus {
        match self {
            Variant::Pthread | Variant::Many(_) => Cpus::All,
            Variant::PthreadOne | Variant::PthreadOneAgain | Variant::One(_) => Cpus::One,
        }
    }
}

/// A measurement, and how often it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cell {
    pub program: Program,
    pub threads: u32,
    /// 0 for kernel threads, because it does not matter there.
    pub quantum_us: u64,
    pub variant: Variant,
}

impl Cell {
    fn new(program: Program, threads: u32, quantum_us: u64, variant: Variant) -> Cell {
        let quantum_us = if variant.is_tek() { quantum_us } else { 0 };
        Cell { program, threads, quantum_us, variant }
    }

    /// The setting of the engine; `None`: there is none.
    pub fn setting(&self, cpus: usize) -> Option<Setting> {
        let (workers, sched) = match self.variant {
            Variant::One(sched) => (1, sched),
            Variant::Many(sched) => (cpus, sched),
            _ => return None,
        };
        Some(Setting { workers, ..Setting::one(sched, self.quantum_us) })
    }

    /// For reports.
    pub fn describe(&self) -> String {
        let program = self.program.name();
        let mut text = format!("{program}, {} threads, {}", self.threads, self.variant.name());
        if self.quantum_us > 0 {
            text += &format!(", {}", quantum(self.quantum_us));
        }
        text
    }
}

/// How a program's threads are made, given the setting of the engine.
pub fn threads(setting: Option<&Setting>) -> Threads<'_> {
    setting.map_or(Threads::Own, Threads::Preloaded)
}

/// The paper's.
pub const THREADS: [u32; 3] = [5, 10, 100];
/// The paper's quanta, in us: 5 microseconds in its 3.1, and milliseconds in its 6.
pub const QUANTA: [u64; 6] = [50, 100, 200, 2000, 5000, 10_000];
/// More quanta between them: where the paper's two units are.
pub const SWEEP: [u64; 8] = [50, 100, 200, 500, 1000, 2000, 5000, 10_000];
/// The default of the engine, which is judged.
pub const JUDGED_US: u64 = 5000;
/// The number of threads that is measured in every detail.
pub const USUAL_THREADS: u32 = 10;

/// A list of cells, each of which is run in each of so many rounds.
pub struct Batch {
    pub rounds: usize,
    pub cells: Vec<Cell>,
}

/// The judged cells: rr beside pthread, both on one CPU, for each number of threads.
pub fn judged(program: Program, threads: &[u32]) -> Vec<Cell> {
    let variants = [Variant::PthreadOne, Variant::PthreadOneAgain, Variant::One(Sched::Rr)];
    all(program, threads, &[JUDGED_US], &variants)
}

/// Every variant, for the usual number of threads and the usual quantum.
pub fn usual(program: Program) -> Vec<Cell> {
    all(program, &[USUAL_THREADS], &[JUDGED_US], &Variant::ALL)
}

/// rr by quantum.
pub fn sweep(program: Program) -> Vec<Cell> {
    all(program, &[USUAL_THREADS], &SWEEP, &[Variant::One(Sched::Rr)])
}

/// The paper's tables, all of them.
pub fn full(program: Program) -> Vec<Cell> {
    let mut cells = all(program, &THREADS, &QUANTA, &Variant::ALL);
    cells.extend(sweep(program));
    cells.sort();
    cells.dedup();
    cells
}

fn all(program: Program, threads: &[u32], quanta: &[u64], variants: &[Variant]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &threads in threads {
        for &quantum_us in quanta {
            let of = |&variant| Cell::new(program, threads, quantum_us, variant);
            cells.extend(variants.iter().map(of));
        }
    }
    cells.sort();
    cells.dedup();
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_matrix_has_every_cell_of_the_paper_once() {
        let cells = full(Program::Banking);
        // 7 variants of user-level threads by quantum, 3 of the kernel's; and the sweep's two more.
        assert_eq!(cells.len(), 3 * (7 * 6 + 3) + 2);
    }

    #[test]
    fn on_one_cpu_there_is_one_worker() {
        for cell in usual(Program::Vector) {
            let workers = cell.setting(8).map(|setting| setting.workers);
            assert_eq!(
                workers,
                match cell.variant {
                    Variant::One(_) => Some(1),
                    Variant::Many(_) => Some(8),
                    _ => None,
                }
            );
            assert_eq!(
                workers == Some(8),
                cell.variant.is_tek() && cell.variant.cpus() == Cpus::All
            );
        }
    }

    #[test]
    fn a_size_grows_with_the_time_that_is_wanted() {
        assert_eq!(Program::Vector.scaled(1000, 3.0), 3000);
        assert!((2000..3000).contains(&Program::Primes.scaled(1000, 3.0)));
    }
}
