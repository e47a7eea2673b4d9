// SPDX-License-Identifier: MIT OR Apache-2.0
//! Equation (2) against equation (1): the loss of a third real-time task, between the waiter and
//! the load, to a boost.

use super::losses::Losses;
use super::session::{Measured, Session};
use super::summary::{median_over, sum};
use super::variant::Variant;
use crate::json::Row;
use crate::table::table;
use crate::terminal::Terminal;

/// In ms of a run, the median over the rounds.
fn lost_ms(case: &Measured, variant: Variant, number: impl Fn(&Losses) -> f64) -> Option<f64> {
    median_over(case, variant, |run| run.losses.as_ref().map(&number))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Its loss to kernel threads, in ms.
pub fn to_kernel_threads(case: &Measured, variant: Variant) -> Option<f64> {
    lost_ms(case, variant, |lost| ms(lost.kernel_ns))
}

/// The cost of a boost beyond the kernel as it is, and the CPU time of the boosted threads. The
/// cost is CPU lost to kernel threads, to tekd, and to each other thread that is neither the
/// measured task nor less urgent.
pub fn extra_loss(case: &Measured, variant: Variant) -> Option<(f64, f64)> {
    let lost = |variant| lost_ms(case, variant, Losses::helpers_ms);
    let used = lost_ms(case, variant, |lost| ms(lost.boosted_ns))?;
    Some((lost(variant)? - lost(Variant::AsItIs)?, used))
}

/// For people.
pub fn report(session: &Session, terminal: Terminal) -> String {
    let mut text = String::new();
    for case in session.cases.iter().filter(|case| !case.runs.is_empty()) {
        let header = [
            "third task lost, ms, to",
            "the measured",
            "kernel threads",
            "tekd",
            "others",
            "nobody",
            "beyond as it is",
            "boosted threads used",
            "writer's max",
        ];
        let mut table = table(&header, terminal);
        for &variant in case.runs.keys() {
            let number =
                |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
            let mut row = vec![variant.name().to_owned()];
            let parts: [fn(&Losses) -> u64; 5] = [
                |lost| lost.task_ns,
                |lost| lost.kernel_ns,
                |lost| lost.tekd_ns,
                |lost| lost.other_ns,
                |lost| lost.stopped_ns,
            ];
            row.extend(parts.map(|part| number(lost_ms(case, variant, |lost| ms(part(lost))))));
            let extra = extra_loss(case, variant);
            row.push(number(extra.map(|(lost, _)| lost)));
            row.push(number(lost_ms(case, variant, |lost| ms(lost.boosted_ns))));
            row.push(number(sum(case, variant).map(|it| it.response_ms.max)));
            table.add_row(row);
        }
        text += &format!("{}:\n{}\n", case.name, table.trim_fmt());
        text += "medians of the runs; to nobody: while real-time threads were stopped; beyond as \
                 it is: to kernel threads, tekd and others\n\n";
    }
    text.trim_end().to_owned() + if text.is_empty() { "" } else { "\n" }
}

/// The rows of the JSON document.
pub fn rows(session: &Session) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in &session.cases {
        for &variant in case.runs.keys() {
            let name = format!("equations: {}", case.name);
            let lost = |part: fn(&Losses) -> u64| lost_ms(case, variant, |lost| ms(part(lost)));
            let numbers = [
                ("lost to the measured task", lost(|lost| lost.task_ns)),
                ("lost to kernel threads", lost(|lost| lost.kernel_ns)),
                ("lost to tekd", lost(|lost| lost.tekd_ns)),
                ("lost to others", lost(|lost| lost.other_ns)),
                ("stopped", lost(|lost| lost.stopped_ns)),
                ("lost beyond as it is", extra_loss(case, variant).map(|(lost, _)| lost)),
                ("CPU time of boosted kernel threads", lost(|lost| lost.boosted_ns)),
            ];
            rows.extend(numbers.into_iter().filter_map(|(metric, value)| {
                Some(Row::number(&name, variant.name(), metric, "ms", value?))
            }));
        }
    }
    rows
}

#[cfg(test)]
pub mod tests {
    use super::super::stage::Run;
    use super::*;

    /// The third task loses this much to kernel threads, in ms; boosted ones use 40 ms.
    pub fn session(lost: &[(Variant, u64)]) -> Session {
        let runs = |lost_ms: u64| {
            let kernel_ns = lost_ms * 1_000_000;
            let losses = Losses { kernel_ns, boosted_ns: 40_000_000, ..Losses::default() };
            vec![Run { periods: vec![(0, 1_000_000)], losses: Some(losses), ..Run::default() }]
        };
        let runs = lost.iter().map(|&(variant, ms)| (variant, runs(ms))).collect();
        let case = Measured { name: "one writer".to_owned(), judged: true, runs };
        Session { part: "equations", cases: vec![case], ..Session::default() }
    }

    #[test]
    fn what_it_loses_anyway_is_not_the_boosts_fault() {
        let session =
            session(&[(Variant::AsItIs, 100), (Variant::Tek, 120), (Variant::Plain, 170)]);
        let case = &session.cases[0];
        assert_eq!(extra_loss(case, Variant::Tek), Some((20.0, 40.0)));
        assert_eq!(extra_loss(case, Variant::Plain), Some((70.0, 40.0)));
        assert_eq!(to_kernel_threads(case, Variant::Plain), Some(170.0));
        assert!(report(&session, Terminal { width: 100, unicode: false }).contains("plain PIP"));
        assert_eq!(rows(&session).len(), 21);
    }

    #[test]
    fn what_the_measured_task_takes_and_what_is_stopped_is_not_the_boosts_fault_either() {
        let mut session = session(&[(Variant::AsItIs, 10), (Variant::Tek, 10)]);
        let runs = session.cases[0].runs.get_mut(&Variant::Tek).unwrap();
        let losses = runs[0].losses.as_mut().unwrap();
        (losses.task_ns, losses.stopped_ns, losses.tekd_ns) = (90_000_000, 70_000_000, 3_000_000);
        assert_eq!(extra_loss(&session.cases[0], Variant::Tek), Some((3.0, 40.0)));
    }
}
