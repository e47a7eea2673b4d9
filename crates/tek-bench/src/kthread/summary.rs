// SPDX-License-Identifier: MIT OR Apache-2.0
//! From runs to the numbers that are reported.

use super::session::{Measured, Session};
use super::stage::Run;
use super::variant::Variant;
use crate::json::Row;
use crate::stats::{self, median, median_of_ratios, quantile, Summary};
use crate::table::table;
use crate::terminal::Terminal;

impl Run {
    /// In ms.
    pub fn responses_ms(&self) -> Vec<f64> {
        self.periods.iter().map(|(_, response)| *response as f64 / 1e6).collect()
    }

    /// The responses outside the windows in which real-time threads were stopped, in ms.
    pub fn responses_outside_ms(&self) -> Vec<f64> {
        let is_outside = |begin: u64, end: u64| {
            !self.stopped.iter().any(|&(_, from, to)| begin < to && from < end)
        };
        let outside = self.periods.iter().filter(|(begin, took)| is_outside(*begin, begin + took));
        outside.map(|(_, took)| *took as f64 / 1e6).collect()
    }

    /// The most dirty memory, in percent of the amount from which writers wait.
    pub fn dirty_percent(&self) -> Option<f64> {
        let percent = |&(_, dirty, most, _): &(u64, u64, u64, u64)| {
            (most > 0).then(|| 100.0 * dirty as f64 / most as f64)
        };
        self.samples.iter().filter_map(percent).reduce(f64::max)
    }

    /// The least free pages.
    pub fn free_pages(&self) -> Option<u64> {
        self.samples.iter().map(|sample| sample.3).min()
    }
}

/// A variant of a case, all rounds.
pub struct Summed {
    pub response_ms: Summary,
    pub p999_ms: f64,
    /// The greatest outside the windows in which real-time threads were stopped.
    pub outside_max_ms: Option<f64>,
    /// The p99 of each round by that of alone in the same round, median.
    pub p99_ratio: Option<f64>,
    /// The same of the greatest of a round. Over all rounds together one outlier would decide.
    pub max_ratio: Option<f64>,
}

/// Sums up a variant of a case.
pub fn sum(case: &Measured, variant: Variant) -> Option<Summed> {
    let runs = case.runs.get(&variant)?;
    let responses: Vec<f64> = runs.iter().flat_map(Run::responses_ms).collect();
    let response_ms = stats::summarize(&responses)?;
    let ratio = |of: fn(&[f64]) -> Option<f64>| {
        let of_rounds = |runs: &[Run]| -> Vec<f64> {
            runs.iter().filter_map(|run| of(&run.responses_ms())).collect()
        };
        median_of_ratios(&of_rounds(runs), &of_rounds(case.runs.get(&Variant::Alone)?))
    };
    Some(Summed {
        p999_ms: quantile(&responses, 0.999)?,
        outside_max_ms: runs.iter().flat_map(Run::responses_outside_ms).reduce(f64::max),
        p99_ratio: ratio(stats::p99),
        max_ratio: ratio(|responses| quantile(responses, 1.0)),
        response_ms,
    })
}

/// The median of a number of each run.
pub fn median_over(
    case: &Measured,
    variant: Variant,
    number: impl Fn(&Run) -> Option<f64>,
) -> Option<f64> {
    median(&case.runs.get(&variant)?.iter().filter_map(number).collect::<Vec<_>>())
}

/// For people.
pub fn report(session: &Session, terminal: Terminal) -> String {
    let cases = session.cases.iter().filter(|case| !case.runs.is_empty());
    let tables: Vec<String> =
        cases.map(|case| format!("{}\n", of_case(session.part, case, terminal))).collect();
    if tables.is_empty() {
        return String::new();
    }
    let legend = "p99/alone and max/alone: of each round by that of alone in the same round, \
                  median over the rounds\n";
    tables.join("\n") + legend
}

fn of_case(part: &str, case: &Measured, terminal: Terminal) -> String {
    let title = format!("{part}, response in ms");
    let header =
        [&title[..], "p50", "p99", "p99.9", "max", "p99/alone", "max/alone", "memory", "n"];
    let mut table = table(&header, terminal);
    let mut notes = String::new();
    for (&variant, runs) in &case.runs {
        let Some(it) = sum(case, variant) else { continue };
        let ratio =
            |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let response = &it.response_ms;
        let mut row = vec![variant.name().to_owned()];
        row.extend(
            [response.p50, response.p99, it.p999_ms, response.max].map(|ms| format!("{ms:.2}")),
        );
        row.extend([ratio(it.p99_ratio), ratio(it.max_ratio), memory(part, runs)]);
        row.push(response.n.to_string());
        table.add_row(row);
        notes += &note(variant, runs, &it);
    }
    format!("{}:\n{}\n{notes}", case.name, table.trim_fmt())
}

/// The subject of the experiment, at its worst.
fn memory(part: &str, runs: &[Run]) -> String {
    if part == "kswapd" {
        let least = runs.iter().filter_map(Run::free_pages).min();
        return least.map_or("-".to_owned(), |pages| format!("{pages} free"));
    }
    let most = runs.iter().filter_map(Run::dirty_percent).reduce(f64::max);
    most.map_or("-".to_owned(), |percent| format!("{percent:.0}% dirty"))
}

fn note(variant: Variant, runs: &[Run], it: &Summed) -> String {
    let mut parts = Vec::new();
    // The run with the longest wait shows whether a kernel thread was starved.
    if let Some(run) = runs.iter().max_by_key(|run| run.threads.longest_waited_ns) {
        let starved = run.threads.starved();
        if !starved.is_empty() {
            parts.push(format!("kernel threads waited for a CPU: {starved}"));
        }
    }
    let created: usize = runs.iter().map(|run| run.threads.new_kworkers).sum();
    if created > 0 {
        parts.push(format!("{created} new kworkers"));
    }
    let windows: Vec<_> = runs.iter().flat_map(|run| &run.stopped).collect();
    if !windows.is_empty() {
        let ms = windows.iter().map(|(_, from, to)| to - from).max().unwrap_or(0) / 1_000_000;
        let outside =
            it.outside_max_ms.map_or("nothing".to_owned(), |ms| format!("max {ms:.2} ms"));
        parts.push(format!(
            "real-time threads of a CPU were stopped {} times, for at most {ms} ms; outside \
             {outside}",
            windows.len()
        ));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!("  {}: {}\n", variant.name(), parts.join("; ")),
    }
}

/// The rows of the JSON document.
pub fn rows(session: &Session) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in &session.cases {
        for (&variant, runs) in &case.runs {
            let Some(it) = sum(case, variant) else { continue };
            let name = format!("{}: {}", session.part, case.name);
            rows.push(Row::distribution(&name, variant.name(), "response", "ms", &it.response_ms));
            let most =
                |number: fn(&Run) -> Option<f64>| runs.iter().filter_map(number).reduce(f64::max);
            let numbers = [
                ("response, p99.9", "ms", Some(it.p999_ms)),
                ("p99 of a round / alone, median", "ratio", it.p99_ratio),
                ("max of a round / alone, median", "ratio", it.max_ratio),
                ("dirty memory, at most", "%", most(Run::dirty_percent)),
                ("longest wait of a kernel thread", "ms", most(longest_wait)),
                ("CPU time of tekd", "%", most(tekd_percent)),
            ];
            rows.extend(numbers.into_iter().filter_map(|(metric, unit, value)| {
                Some(Row::number(&name, variant.name(), metric, unit, value?))
            }));
        }
    }
    rows
}

fn longest_wait(run: &Run) -> Option<f64> {
    Some(run.threads.longest_waited_ns as f64 / 1e6)
}

/// In percent of a CPU.
pub fn tekd_percent(run: &Run) -> Option<f64> {
    run.tekd.as_ref().map(|used| 100.0 * used.cpu_ns as f64 / used.wall_ns as f64)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Runs with this response, in ms, and one longer response in each.
    pub fn runs(usual_ms: u64, worst_ms: u64) -> Vec<Run> {
        let mut periods = vec![(0, usual_ms * 1_000_000); 200];
        periods.push((0, worst_ms * 1_000_000));
        let run = Run { periods, samples: vec![(0, 50, 100, 7)], ..Run::default() };
        vec![run.clone(), run.clone(), run]
    }

    /// A case in which TEK is as good as alone.
    pub fn case(name: &str) -> Measured {
        let variants = [
            (Variant::Alone, runs(3, 4)),
            (Variant::AsItIs, runs(3, 400)),
            (Variant::Plain, runs(3, 5)),
            (Variant::Tek, runs(3, 6)),
        ];
        Measured { name: name.to_owned(), judged: true, runs: variants.into() }
    }

    #[test]
    fn each_variant_is_compared_with_alone() {
        let case = case("4 MB");
        let it = sum(&case, Variant::AsItIs).unwrap();
        assert_eq!((it.p99_ratio, it.max_ratio), (Some(1.0), Some(100.0)));
        assert!(sum(&case, Variant::Static).is_none());
    }

    #[test]
    fn a_response_during_which_real_time_threads_were_stopped_is_not_outside() {
        let periods = vec![(0, 5_000_000), (10_000_000, 60_000_000), (90_000_000, 1_000_000)];
        let stopped = vec![(1, 20_000_000, 69_000_000)];
        let run = Run { periods, stopped, ..Run::default() };
        assert_eq!(run.responses_outside_ms(), [5.0, 1.0]);
    }

    #[test]
    fn every_variant_has_a_line_and_its_rows() {
        let session = Session { part: "pdflush", cases: vec![case("4 MB")], ..Session::default() };
        let text = report(&session, Terminal { width: 100, unicode: false });
        for name in ["alone", "as it is", "plain PIP", "TEK", "50% dirty"] {
            assert!(text.contains(name), "{text}");
        }
        let rows = rows(&session);
        assert_eq!(rows.iter().filter(|row| row.metric == "response").count(), 4);
        assert!(rows.iter().all(|row| row.case == "pdflush: 4 MB"));
    }
}
