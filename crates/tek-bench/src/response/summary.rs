// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the measurements of a variant to the reported numbers.

use super::rounds::Session;
use super::variant::{Variant, CRITICAL, ORDINARY};
use crate::appliance::{Kind, Measured, Thread};
use crate::json::Row;
use crate::stats::{self, Summary};
use std::collections::BTreeMap;

/// One variant, all rounds.
pub struct VariantSummary {
    /// All responses, in ms.
    pub response_ms: Summary,
    /// The p99 of each round, in ms.
    pub round_p99_ms: Vec<f64>,
    /// Voluntary and involuntary context switches per event of each critical thread.
    pub switches: Vec<f64>,
    /// The same of all threads together.
    pub all_switches: f64,
    /// The same per second: with TEK an event takes less time, so fewer switches fit into it.
    pub all_switches_per_s: f64,
    /// Time that the critical threads were kept waiting for a CPU, in ms per event.
    pub run_delay_ms: Option<f64>,
    /// Time of one switch of each critical thread in each round, in ns.
    pub switch_ns: Vec<Vec<f64>>,
    /// The same of an ordinary thread.
    pub ordinary_switch_ns: Vec<f64>,
    /// Longest time, in ms, in which a CPU-bound thread made no progress or by which a sensor was
    /// late; `None` without CPU-bound threads.
    pub stall_ms: Option<f64>,
    /// CPU time that the CPU-bound threads got, in s per s.
    pub load_cpus: f64,
    /// How many critical threads left with another policy, priority, nice or flags than at their
    /// start.
    pub left_otherwise: usize,
}

/// The summaries of all variants that ran.
pub type Summaries = BTreeMap<Variant, VariantSummary>;

/// Summarizes a session.
pub fn summarize(session: &Session) -> Summaries {
    session.runs.iter().filter_map(|(variant, runs)| Some((*variant, of_variant(runs)?))).collect()
}

fn of_variant(runs: &[Measured]) -> Option<VariantSummary> {
    let per_round: Vec<Vec<f64>> = runs.iter().map(Measured::responses_ms).collect();
    let response_ms = stats::summarize(&per_round.concat())?;
    let events = response_ms.n as f64;
    let seconds = runs.iter().map(|run| run.events_phase_ns).sum::<u64>() as f64 / 1e9;
    let total = |kind: Option<Kind>, count: fn(&Thread) -> u64| -> f64 {
        let threads = runs.iter().flat_map(|run| &run.threads);
        let wanted = threads.filter(|thread| kind.is_none_or(|kind| thread.kind == kind));
        wanted.map(count).sum::<u64>() as f64
    };
    let all_switches = total(None, switches);
    let switch_ns = |name: &str| -> Vec<f64> {
        runs.iter().filter_map(|run| run.switch_ns.get(name).copied()).collect()
    };
    Some(VariantSummary {
        response_ms,
        round_p99_ms: per_round.iter().filter_map(|ms| stats::p99(ms)).collect(),
        switches: CRITICAL.iter().map(|name| switches_of(runs, name) / events).collect(),
        all_switches: all_switches / events,
        all_switches_per_s: all_switches / seconds,
        run_delay_ms: run_delay_ns(runs).map(|ns| ns as f64 / 1e6 / events),
        switch_ns: CRITICAL.map(switch_ns).to_vec(),
        ordinary_switch_ns: switch_ns(ORDINARY),
        stall_ms: runs
            .iter()
            .filter(|run| run.threads_of(Kind::Hog).next().is_some())
            .flat_map(|run| run.threads.iter().filter(|thread| thread.kind != Kind::Event))
            .map(|thread| thread.stall_ns as f64 / 1e6)
            .reduce(f64::max),
        load_cpus: total(Some(Kind::Hog), |thread| thread.cpu_ns) / 1e9 / seconds,
        left_otherwise: runs
            .iter()
            .flat_map(|run| run.threads_of(Kind::Event))
            .filter(|thread| thread.after != thread.before)
            .count(),
    })
}

/// `None` where the kernel does not count it.
fn run_delay_ns(runs: &[Measured]) -> Option<u64> {
    runs.iter().flat_map(|run| run.threads_of(Kind::Event)).map(|thread| thread.run_delay_ns).sum()
}

fn switches(thread: &Thread) -> u64 {
    thread.voluntary + thread.involuntary
}

fn switches_of(runs: &[Measured], name: &str) -> f64 {
    runs.iter()
        .flat_map(|run| &run.threads)
        .filter(|thread| thread.name == name)
        .map(switches)
        .sum::<u64>() as f64
}

impl VariantSummary {
    /// Context switches per event of all critical threads together.
    pub fn critical_switches(&self) -> f64 {
        self.switches.iter().sum()
    }

    /// Mean time of a switch of all threads, in ns: each critical thread's own time and, for each
    /// other thread, the ordinary thread's time. Each is weighted by the number of its switches.
    pub fn all_switch_ns(&self) -> Option<f64> {
        let mut total = 0.0;
        for (number, times) in self.switches.iter().zip(&self.switch_ns) {
            total += number * stats::median(times)?;
        }
        let remaining = self.all_switches - self.critical_switches();
        total += remaining * stats::median(&self.ordinary_switch_ns)?;
        Some(total / self.all_switches)
    }
}

/// The rows of the JSON document.
pub fn rows(summaries: &Summaries) -> Vec<Row> {
    let mut rows = Vec::new();
    for (variant, summary) in summaries {
        let name = variant.name();
        rows.push(Row::distribution("touch event", name, "response", "ms", &summary.response_ms));
        for (thread, value) in CRITICAL.iter().zip(&summary.switches) {
            rows.push(Row::number(*thread, name, "context switches", "1/event", *value));
        }
        for (thread, rounds) in CRITICAL.iter().zip(&summary.switch_ns) {
            if let Some(median) = stats::median(rounds) {
                rows.push(Row::number(*thread, name, "time of a context switch", "ns", median));
            }
        }
        let all = "all threads";
        let ordinary = stats::median(&summary.ordinary_switch_ns);
        for (case, time) in [(ORDINARY, ordinary), (all, summary.all_switch_ns())] {
            if let Some(time) = time {
                rows.push(Row::number(case, name, "time of a context switch", "ns", time));
            }
        }
        for (case, metric, unit, value) in [
            (all, "context switches", "1/event", summary.all_switches),
            (all, "context switches", "1/s", summary.all_switches_per_s),
            ("CPU-bound threads", "CPUs used", "1", summary.load_cpus),
        ] {
            rows.push(Row::number(case, name, metric, unit, value));
        }
        if let Some(delay) = summary.run_delay_ms {
            let case = "critical threads";
            rows.push(Row::number(case, name, "run delay", "ms/event", delay));
        }
        if let Some(stall) = summary.stall_ms {
            rows.push(Row::number("non-critical threads", name, "longest stall", "ms", stall));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::fixture::session;

    #[test]
    fn responses_of_all_rounds_are_pooled_and_the_p99_is_stored_by_round() {
        let summary = &summarize(&session())[&Variant::Conventional];
        assert_eq!(summary.response_ms.n, 6);
        assert_eq!(summary.round_p99_ms, [210.0, 240.0]);
        assert_eq!(summary.response_ms.max, 240.0);
    }

    #[test]
    fn switches_are_counted_per_event_whether_voluntary_or_not() {
        let summary = &summarize(&session())[&Variant::Conventional];
        // In each round of 3 events every critical thread had 6 voluntary and 6 involuntary.
        assert_eq!(summary.switches, [4.0, 4.0, 4.0]);
        assert_eq!(summary.critical_switches(), 12.0);
        assert!(summary.all_switches > summary.critical_switches());
    }

    #[test]
    fn the_time_of_a_switch_of_all_threads_is_weighted_by_their_number() {
        let summary = &summarize(&session())[&Variant::Conventional];
        // Each round: 3 critical threads with 12 switches of 1900 ns, 2 further threads with 60 of
        // 2000 ns.
        let expected = (36.0 * 1900.0 + 120.0 * 2000.0) / 156.0;
        assert!((summary.all_switch_ns().unwrap() - expected).abs() < 1e-6);
    }

    #[test]
    fn the_longest_stall_is_that_of_any_other_thread_in_any_round() {
        let mut session = session();
        let summaries = summarize(&session);
        assert_eq!(summaries[&Variant::TekName].stall_ms, Some(150.0));
        assert_eq!(summaries[&Variant::Alone].stall_ms, None);
        let thread = &mut session.runs.get_mut(&Variant::TekName).unwrap()[0].threads[3];
        thread.kind = Kind::Sensor;
        thread.stall_ns = 160_000_000;
        assert_eq!(summarize(&session)[&Variant::TekName].stall_ms, Some(160.0));
    }

    #[test]
    fn a_thread_is_left_otherwise_unless_it_has_what_it_had() {
        let left_otherwise = |change: fn(&mut Thread)| {
            let mut session = session();
            change(&mut session.runs.get_mut(&Variant::TekName).unwrap()[1].threads[0]);
            summarize(&session)[&Variant::TekName].left_otherwise
        };
        assert_eq!(left_otherwise(|_| ()), 0);
        assert_eq!(left_otherwise(|thread| thread.after.nice = -5), 1);
        assert_eq!(left_otherwise(|thread| thread.after.policy = libc::SCHED_RR), 1);
        assert_eq!(left_otherwise(|thread| thread.after.flags = 1), 1);
        let same = left_otherwise(|thread| {
            thread.before.nice = 3;
            thread.after.nice = 3;
        });
        assert_eq!(same, 0);
    }

    #[test]
    fn every_variant_has_its_rows() {
        let rows = rows(&summarize(&session()));
        let responses: Vec<&str> = rows
            .iter()
            .filter(|row| row.metric == "response")
            .map(|row| row.variant.as_str())
            .collect();
        assert_eq!(responses, ["alone", "alone-2", "conventional", "tek-name"]);
    }
}
