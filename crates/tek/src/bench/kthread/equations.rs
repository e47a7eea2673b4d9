// SPDX-License-Identifier: MIT OR Apache-2.0
//! Equation (2) against equation (1): what a third real-time task, between the one that waits and
//! the load, loses to a boost.

use super::session::{Measured, Session};
use super::stage::Run;
use super::summary::{median_over, sum};
use super::variant::Variant;
use crate::bench::json::Row;
use crate::bench::table::table;
use crate::bench::terminal::Terminal;

/// What it loses to others than in the kernel as it is, in ms of a run, and the CPU time of all kernel
/// threads meanwhile. The median over the rounds.
pub fn extra_loss(case: &Measured, variant: Variant) -> Option<(f64, f64)> {
    let lost = |variant| median_over(case, variant, Run::lost_ms);
    let used = median_over(case, variant, |run| Some(run.threads.cpu_ms()))?;
    Some((lost(variant)? - lost(Variant::AsItIs)?, used))
}

/// For people.
pub fn report(session: &Session, terminal: Terminal) -> String {
    let mut text = String::new();
    for case in session.cases.iter().filter(|case| !case.runs.is_empty()) {
        let header = [
            "third task",
            "lost to others, ms",
            "beyond as it is",
            "kernel threads used, ms",
            "worst turn, ms",
            "writer's max, ms",
        ];
        let mut table = table(&header, terminal);
        for (&variant, runs) in &case.runs {
            let number =
                |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
            let worst = runs.iter().flat_map(|run| &run.bystanders).map(|it| it.worst_ns).max();
            let max = sum(case, variant).map(|it| it.response_ms.max);
            table.add_row([
                variant.name().to_owned(),
                number(median_over(case, variant, Run::lost_ms)),
                number(extra_loss(case, variant).map(|(lost, _)| lost)),
                number(median_over(case, variant, |run| Some(run.threads.cpu_ms()))),
                number(worst.map(|ns| ns as f64 / 1e6)),
                number(max),
            ]);
        }
        text += &format!("{}:\n{}\n\n", case.name, table.trim_fmt());
    }
    text.trim_end().to_owned() + if text.is_empty() { "" } else { "\n" }
}

/// The rows of the JSON document.
pub fn rows(session: &Session) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in &session.cases {
        for &variant in case.runs.keys() {
            let name = format!("equations: {}", case.name);
            let numbers = [
                ("lost by a third task", median_over(case, variant, Run::lost_ms)),
                ("lost beyond as it is", extra_loss(case, variant).map(|(lost, _)| lost)),
                (
                    "CPU time of kernel threads",
                    median_over(case, variant, |run| Some(run.threads.cpu_ms())),
                ),
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
    use super::super::stage::Hog;
    use super::super::threads::Had;
    use super::*;

    /// The third task loses this much, in ms, while kernel threads use 40 ms.
    pub fn session(lost: &[(Variant, u64)]) -> Session {
        let runs = |lost_ms: u64| {
            let hog =
                Hog { cpu: 0, cpu_ns: 1, lost_ns: lost_ms * 1_000_000, worst_ns: 1, turns: 9 };
            let mut run =
                Run { turns: vec![(0, 1_000_000)], bystanders: vec![hog], ..Run::default() };
            run.threads.classes.insert("kworker", Had { cpu_ns: 40_000_000, waited_ns: 0 });
            vec![run]
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
        assert!(report(&session, Terminal { width: 100, unicode: false }).contains("plain PIP"));
        assert_eq!(rows(&session).len(), 9);
    }
}
