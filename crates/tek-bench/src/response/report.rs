// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a run, for people.

use super::quantities::{change_percent, noise};
use super::summary::{Summaries, VariantSummary};
use super::variant::{Variant, CRITICAL, ORDINARY};
use crate::census::Change;
use crate::stats::{median, median_of_ratios};
use crate::table::table;
use crate::terminal::{bar_chart, Terminal};
use crate::verdict::Verdicts;

/// The responses of all variants, as numbers and as bars.
pub fn responses(summaries: &Summaries, terminal: Terminal) -> String {
    let mut table = table(
        &["response, ms", "mean", "min", "p50", "p99", "max", "round p99/alone", "events"],
        terminal,
    );
    let alone = summaries.get(&Variant::Alone);
    for (variant, summary) in summaries {
        let response = &summary.response_ms;
        let ratio =
            alone.and_then(|alone| median_of_ratios(&summary.round_p99_ms, &alone.round_p99_ms));
        table.add_row([
            variant.name().to_owned(),
            format!("{:.1}", response.mean),
            format!("{:.1}", response.min),
            format!("{:.1}", response.p50),
            format!("{:.1}", response.p99),
            format!("{:.1}", response.max),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
            response.n.to_string(),
        ]);
    }
    let bars: Vec<_> = summaries
        .iter()
        .map(|(variant, summary)| crate::terminal::Bar {
            label: variant.name().to_owned(),
            value: summary.response_ms.mean,
            text: format!("{:.1} ms", summary.response_ms.mean),
        })
        .collect();
    format!(
        "{}\np99: of the events of all rounds together. round p99/alone, which is judged: the p99 \
         of each\nround by that of alone in the same round, median over the rounds; with fewer \
         than 100 events in\na round its p99 is its longest response\n\nmean response\n{}",
        table.trim_fmt(),
        bar_chart(&bars, terminal)
    )
}

/// Number and time of context switches, conventional beside each TEK variant.
pub fn switches(summaries: &Summaries, terminal: Terminal) -> String {
    let Some(conventional) = summaries.get(&Variant::Conventional) else {
        return String::new();
    };
    let mut header = vec!["context switches and costs", "conventional"];
    let teks: Vec<&VariantSummary> = summaries
        .iter()
        .filter(|(variant, _)| variant.is_tek())
        .map(|(variant, summary)| {
            header.extend([variant.name(), "change"]);
            summary
        })
        .collect();
    let mut table = table(&header, terminal);
    let mut add = |what: String, number: &dyn Fn(&VariantSummary) -> f64, digits: usize| {
        // A value that this kernel does not count is not a number.
        let cell = |value: f64, text: String| if value.is_nan() { "-".into() } else { text };
        let from = number(conventional);
        let mut row = vec![what, cell(from, format!("{from:.digits$}"))];
        for tek in &teks {
            let to = number(tek);
            let change = change_percent(from, to);
            row.push(cell(to, format!("{to:.digits$}")));
            row.push(cell(change, format!("{change:+.0}%")));
        }
        table.add_row(row);
    };
    for (index, thread) in CRITICAL.iter().enumerate() {
        add(format!("switches of {thread}, per event"), &|it| it.switches[index], 2);
    }
    add("switches of these three, per event".into(), &|it| it.critical_switches(), 2);
    add("switches of all threads, per event".into(), &|it| it.all_switches, 1);
    add("switches of all threads, per second".into(), &|it| it.all_switches_per_s, 0);
    for (index, thread) in CRITICAL.iter().enumerate() {
        let nanoseconds = |it: &VariantSummary| median(&it.switch_ns[index]).unwrap_or(f64::NAN);
        add(format!("time of a switch of {thread}, ns"), &nanoseconds, 0);
    }
    let ordinary = |it: &VariantSummary| median(&it.ordinary_switch_ns).unwrap_or(f64::NAN);
    add(format!("time of a switch of {ORDINARY} (ordinary), ns"), &ordinary, 0);
    let all = |it: &VariantSummary| it.all_switch_ns().unwrap_or(f64::NAN);
    add("time of a switch of all threads, ns".into(), &all, 0);
    add("their wait for a CPU, ms per event".into(), &|it| it.run_delay_ms.unwrap_or(f64::NAN), 2);
    let stall = |it: &VariantSummary| it.stall_ms.unwrap_or(f64::NAN);
    add("longest stall of a non-critical thread, ms".into(), &stall, 0);
    add("CPUs that the others got".into(), &|it| it.load_cpus, 2);
    format!(
        "{}\ntime of a switch: pipe ping-pong of two such threads on one CPU, the machine idle; of \
         all threads:\ntheir mean by the number of switches under load, {ORDINARY} standing for \
         all others\nstall: of a CPU-bound thread the longest time without a turn, of a sensor the \
         longest time\nfrom when a reading was due until it was made\n",
        table.trim_fmt()
    )
}

/// The bars, beside the papers' figures, and the noise of the first.
pub fn verdicts(judged: &Verdicts, summaries: &Summaries, terminal: Terminal) -> String {
    let noise = noise(summaries).map_or_else(String::new, |noise| {
        format!(
            "noise: p99 of a round of alone-2 / alone, median, is {noise:.3}, and both do the \
             same\n"
        )
    });
    match judged.report(terminal) {
        text if text.is_empty() => text,
        text => text + &noise,
    }
}

/// Whether the whole machine's threads are as they were.
pub fn machine(threads: usize, changes: &[Change]) -> String {
    if changes.is_empty() {
        return format!(
            "after the run all {threads} threads of the machine have the policy and nice they had: \
             PASS\n"
        );
    }
    let mut text =
        format!("after the run {} threads are scheduled differently: short\n", changes.len());
    for change in changes {
        let (before, after) = (&change.before, &change.after);
        text.push_str(&format!(
            "  {} (tid {}): policy {} priority {} nice {}, was policy {} priority {} nice {}\n",
            after.name,
            change.tid,
            after.policy,
            after.rt_priority,
            after.nice,
            before.policy,
            before.rt_priority,
            before.nice,
        ));
    }
    text
}

/// The three numbers that matter, in one line.
pub fn headline(summaries: &Summaries, hogs: usize, terminal: Terminal) -> String {
    let mean = |variant| Some(summaries.get(&variant)?.response_ms.mean);
    let tek = mean(Variant::TekName).or(mean(Variant::TekApi));
    let (Some(conventional), Some(limit)) = (mean(Variant::Conventional), mean(Variant::Alone))
    else {
        return String::new();
    };
    let Some(tek) = tek else {
        return "TEK was not measured: the reasons are above.\n".to_owned();
    };
    let arrow = if terminal.unicode { "\u{2192}" } else { "->" };
    format!(
        "touch to picture beside {hogs} busy threads: {conventional:.0} ms {arrow} {tek:.0} ms \
         under TEK, {:.1} times as fast; alone {limit:.0} ms\n",
        conventional / tek,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::Scheduling;
    use crate::response::{fixture::session, quantities::judged, summary::summarize};

    const TERMINAL: Terminal = Terminal { width: 80, unicode: false };

    #[test]
    fn the_response_table_has_a_line_and_a_bar_for_each_variant() {
        let text = responses(&summarize(&session()), TERMINAL);
        for name in ["alone", "alone-2", "conventional", "tek-name"] {
            let lines = text.lines().filter(|line| line.trim().starts_with(&format!("{name} ")));
            assert_eq!(lines.count(), 2, "{name} in\n{text}");
        }
        assert!(text.is_ascii());
    }

    #[test]
    fn the_two_kinds_of_p99_are_distinguished() {
        let summaries = summarize(&session());
        let text = responses(&summaries, TERMINAL);
        assert!(text.contains("p99: of the events of all rounds together"), "{text}");
        assert!(text.contains("which is judged: the p99 of each"), "{text}");
        let text = verdicts(&judged(&summaries), &summaries, TERMINAL);
        assert!(text.contains("p99 of a round / alone, median"), "{text}");
    }

    #[test]
    fn the_switch_table_gives_the_change_in_percent() {
        let text = switches(&summarize(&session()), TERMINAL);
        let line = text.lines().find(|line| line.contains("these three")).unwrap();
        assert!(line.contains("12.00") && line.contains("6.00") && line.contains("-50%"), "{line}");
    }

    #[test]
    fn verdicts_are_pass_or_short_and_name_the_noise() {
        let mut session = session();
        session.runs.get_mut(&Variant::TekName).unwrap()[0].responses_ns = vec![40_000_000; 3];
        let summaries = summarize(&session);
        let text = verdicts(&judged(&summaries), &summaries, TERMINAL);
        assert!(
            text.contains("PASS") && text.contains("short") && text.contains("1.050"),
            "{text}"
        );
    }

    #[test]
    fn a_thread_left_changed_is_named() {
        let scheduling = |nice| Scheduling {
            name: "kworker".into(),
            policy: 0,
            rt_priority: 0,
            nice,
            kernel: true,
        };
        let change = Change { tid: 7, before: scheduling(0), after: scheduling(-20) };
        let text = machine(100, &[change]);
        assert!(text.contains("kworker (tid 7)") && text.contains("nice -20"), "{text}");
        assert!(machine(100, &[]).contains("PASS"));
    }

    #[test]
    fn the_headline_is_one_line_with_conventional_tek_and_limit() {
        let summaries = summarize(&session());
        let text = headline(&summaries, 20, TERMINAL);
        let expected = "touch to picture beside 20 busy threads: 207 ms -> 20 ms under TEK, \
                        10.3 times as fast; alone 20 ms\n";
        assert_eq!(text, expected);
        let unicode = headline(&summaries, 20, Terminal { unicode: true, ..TERMINAL });
        assert_eq!(unicode, expected.replace("->", "\u{2192}"));
    }

    #[test]
    fn without_tek_the_headline_compares_nothing() {
        let mut session = session();
        session.runs.remove(&Variant::TekName);
        assert!(headline(&summarize(&session), 20, TERMINAL).contains("not measured"));
    }
}
