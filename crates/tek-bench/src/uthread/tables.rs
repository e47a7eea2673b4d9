// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of the paper (uthreads, 5), and additional ones: spread, responses, switches.

use super::cell::{Cell, Program, Variant, JUDGED_US, THREADS, USUAL_THREADS};
use super::engine::{quantum, Sched};
use super::programs::{wall_ms, Measured, FIRST_MS, LAST_MS, SWITCHES, WALL_MS};
use crate::stats::median;
use crate::table::table;
use crate::terminal::Terminal;
use std::collections::BTreeSet;

/// All of them.
pub fn report(measured: &Measured, terminal: Terminal) -> Vec<String> {
    let mut sections: Vec<String> =
        Program::ALL.iter().map(|&program| walls(measured, program, terminal)).collect();
    sections.push(ratios(measured, terminal));
    sections.push(responses(measured, terminal));
    sections
}

fn tabular(variants: &[Variant]) -> Vec<String> {
    variants.iter().map(|variant| variant.name()).collect()
}

/// A table of the paper: a row for each quantum and number of threads.
fn walls(measured: &Measured, program: Program, terminal: Terminal) -> String {
    let Some(&(size, alone)) = measured.sizes.get(&program) else { return String::new() };
    let mut variants = Variant::ALL.to_vec();
    variants.retain(|&variant| variant != Variant::PthreadOneAgain);
    let names = tabular(&variants);
    let first = format!("{} of {size}, ms", program.name());
    let mut header = vec![&first[..], "threads"];
    header.extend(names.iter().map(String::as_str));
    let mut table = table(&header, terminal);
    let of_program =
        measured.cells.iter().map(|entry| entry.cell).filter(|it| it.program == program);
    let rows: BTreeSet<_> = of_program
        .filter(|cell| cell.quantum_us > 0)
        .map(|cell| (cell.quantum_us, cell.threads))
        .collect();
    for (quantum_us, threads) in rows {
        let cell = |&variant: &Variant| {
            let quantum_us = if variant.is_tek() { quantum_us } else { 0 };
            let ms = wall_ms(measured, &Cell { program, threads, quantum_us, variant });
            ms.map_or("-".to_owned(), |ms| format!("{ms:.1}"))
        };
        let mut row = vec![quantum(quantum_us), threads.to_string()];
        row.extend(variants.iter().map(cell));
        table.add_row(row);
    }
    format!("{}\n({alone:.0} ms alone; medians of the rounds)\n", table.trim_fmt())
}

/// The judged ratio: rr beside pthread, both on one CPU.
fn ratios(measured: &Measured, terminal: Terminal) -> String {
    let header = [
        "on one CPU, ms",
        "threads",
        "pthread",
        "least",
        "max",
        "rr",
        "least",
        "max",
        "rr by pthread",
        "pthread again",
    ];
    let mut table = table(&header, terminal);
    for program in Program::ALL {
        for threads in THREADS {
            let of = |variant: Variant| {
                let quantum_us = if variant.is_tek() { JUDGED_US } else { 0 };
                measured.summary(&Cell { program, threads, quantum_us, variant }, WALL_MS)
            };
            let rr = Variant::One(Sched::Rr);
            let (Some(pthread), Some(own)) = (of(Variant::PthreadOne), of(rr)) else { continue };
            let ratio = |variant| {
                let ratio = measured.ratio(program, threads, variant);
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"))
            };
            let ms = |ms: f64| format!("{ms:.1}");
            table.add_row([
                program.name().to_owned(),
                threads.to_string(),
                ms(pthread.p50),
                ms(pthread.min),
                ms(pthread.max),
                ms(own.p50),
                ms(own.min),
                ms(own.max),
                ratio(rr),
                ratio(Variant::PthreadOneAgain),
            ]);
        }
    }
    format!(
        "{}\n(quantum {}; ratios: medians of those of a round; pthread again is the same once \
         more)\n",
        table.trim_fmt(),
        quantum(JUDGED_US)
    )
}

/// From the beginning to the end of the first and of the last thread, and switches of kernel
/// threads.
fn responses(measured: &Measured, terminal: Terminal) -> String {
    let mut variants = Variant::ALL.to_vec();
    variants.retain(|&variant| variant != Variant::PthreadOneAgain);
    let names = tabular(&variants);
    let mut header = vec!["first/last thread ended, ms; kernel switches"];
    header.extend(names.iter().map(String::as_str));
    let mut table = table(&header, terminal);
    for program in Program::ALL {
        let cell = |variant: &Variant| {
            let quantum_us = if variant.is_tek() { JUDGED_US } else { 0 };
            let cell = Cell { program, threads: USUAL_THREADS, quantum_us, variant: *variant };
            let of = |number| median(&measured.numbers(&cell, number));
            match (of(FIRST_MS), of(LAST_MS), of(SWITCHES)) {
                (Some(first), Some(last), Some(switches)) => {
                    format!("{first:.0}/{last:.0}; {switches:.0}")
                }
                _ => "-".to_owned(),
            }
        };
        let mut row = vec![program.name().to_owned()];
        row.extend(variants.iter().map(cell));
        table.add_row(row);
    }
    format!(
        "{}\n({USUAL_THREADS} threads, quantum {}; medians of the rounds)\n",
        table.trim_fmt(),
        quantum(JUDGED_US)
    )
}

#[cfg(test)]
mod tests {
    use super::super::programs::tests::measured;
    use super::*;

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let terminal = Terminal { width: 160, unicode: false };
        let sections = report(&measured(1.0, 3), terminal);
        assert_eq!(sections.len(), Program::ALL.len() + 2);
        let banking = walls(&measured(1.0, 3), Program::Banking, terminal);
        let row = banking.lines().find(|line| line.trim_start().starts_with("5 ms")).unwrap();
        assert!(row.contains("151.0") && row.contains(" - "), "{row}");
    }
}
