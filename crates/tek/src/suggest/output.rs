// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings, as a rules file for `tek run --rules`, as JSON, and in a few lines.
use super::evidence::Evidence;
use super::plan::Kind;
use super::verdict::{Reason, Thresholds};
use crate::units::time;
use comfy_table::{presets, CellAlignment, ContentArrangement, Table as Grid};
use serde::Serialize;
use std::fmt::Write;
use tek_abi::{is_printable, printable};
use tek_policy::{to_toml, Rule};

/// The text above the rules that are not in force. Lines that can be uncommented begin with `#` and
/// no blank.
const PERHAPS: &str = "\
Perhaps time-critical: woken evenly, as by a clock, and by nothing else. An audio buffer and a \
sensor are, a timer that looks after things is not: only you know whether somebody waits for what \
they do. If so, take the # away from the lines of the rule.";

/// Columns of a comment.
const WIDTH: usize = 98;

/// All findings: a stable format, to which fields may be added.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// Version of this format.
    pub schema: u32,
    /// The watched program or process, for people.
    pub watched: String,
    /// The watched time, in seconds.
    pub seconds: f64,
    /// Processes that were seen.
    pub processes: usize,
    /// Threads that were seen.
    pub threads: usize,
    /// The borders between the suggested kinds and the rest.
    pub borders: Thresholds,
    /// The threads by kind, the suggested ones first.
    pub kinds: Vec<Kind>,
}

impl Findings {
    fn suggested(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter().filter(|kind| kind.reason.is_none())
    }

    fn perhaps(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter().filter(|kind| kind.reason == Some(Reason::WokenEvenly))
    }

    /// The rules file.
    pub fn rules_file(&self) -> String {
        let Findings { seconds, threads, processes, borders, .. } = self;
        let processes =
            if *processes == 1 { "1 process".into() } else { format!("{processes} processes") };
        let mut text = comment(&format!(
            "Suggested by `tek suggest`: threads that are woken often and soon done each time \
             (tek-2020, V-A).\nWatched: {}; {seconds:.1} s, {threads} threads in \
             {processes}.\nNumbers: of each second in which they ran the time that they waited \
             for a CPU is left out, and of these seconds the median counts. So a rate can be \
             higher than wake-ups divided by time.\nLimits: {} to {} wake-ups a second, at most \
             {} ms of CPU time each and {}% of a CPU.",
            printable(self.watched.as_bytes()),
            borders.min_rate,
            borders.max_rate,
            borders.max_burst,
            borders.max_share
        ));
        for kind in self.suggested() {
            text.push('\n');
            text.push_str(&comment(&format!("{}: {}", kind.called(), kind.evidence.text())));
            text.push_str(&rules_text(&kind.rules));
        }
        if self.suggested().next().is_none() {
            text.push_str("\n# No thread is suggested.\n");
        }
        if self.perhaps().next().is_some() {
            text.push('\n');
            text.push_str(&comment(PERHAPS));
        }
        for kind in self.perhaps() {
            text.push('\n');
            let about = format!("perhaps: {}: {}", kind.called(), kind.evidence.text());
            text.push_str(&comment(&about));
            let rules = rules_text(&kind.rules);
            let rules = rules.lines().filter(|line| !line.is_empty());
            rules.for_each(|line| text.push_str(&format!("#{line}\n")));
        }
        let is_other = |kind: &&Kind| kind.reason.is_some_and(|why| why != Reason::WokenEvenly);
        let mut remaining = self.kinds.iter().filter(is_other).peekable();
        if remaining.peek().is_some() {
            text.push_str("\n# Not suggested:\n");
        }
        for kind in remaining {
            let evidence = kind.evidence.text();
            let why = kind.why(borders);
            text.push_str(&comment(&format!("- {}: {why} ({evidence})", kind.called())));
        }
        text
    }

    /// The summary for standard error.
    pub fn summary(&self) -> String {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        grid.set_header([
            "PROGRAM",
            "THREAD",
            "THREADS",
            "WOKEN/S",
            "CPU EACH",
            "OF A CPU",
            "WAIT EACH",
            "VERDICT",
        ]);
        for column in grid.column_iter_mut().skip(2).take(5) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for kind in &self.kinds {
            let Evidence { wakeups, wakeups_per_s, cpu_per_wakeup_ns, .. } = kind.evidence;
            let each = |ns| if wakeups == 0 { "-".to_owned() } else { time(ns) };
            grid.add_row([
                printable(kind.program.as_bytes()),
                kind.name(),
                kind.threads.to_string(),
                format!("{wakeups_per_s:.1}"),
                each(cpu_per_wakeup_ns),
                format!("{:.1}%", kind.evidence.cpu_share * 100.0),
                each(kind.evidence.delay_per_wakeup_ns),
                kind.reason.map_or("time-critical", Reason::word).to_owned(),
            ]);
        }
        format!("{grid}\n")
    }
}

/// Rules as TOML. They may be printed on a terminal; in patterns `*` stands for unprintable bytes.
fn rules_text(rules: &[Rule]) -> String {
    let fit = |it: char| if it == '\n' || is_printable(it) { it } else { '*' };
    to_toml(rules).chars().map(fit).collect()
}

impl Kind {
    /// Their name in a table.
    fn name(&self) -> String {
        let name = printable(self.thread.as_bytes());
        match &self.runs {
            Some(runs) if !self.named => format!("{name}: {runs}"),
            _ => name,
        }
    }

    /// Their name in a sentence.
    fn called(&self) -> String {
        let name = printable(self.thread.as_bytes());
        let program = printable(self.program.as_bytes());
        let (count, run) = match self.threads {
            1 => (String::new(), "runs"),
            count => (format!(" ({count} threads)"), "run"),
        };
        let runs = self.runs.as_ref().map(|runs| format!(", which {run} {runs}"));
        let runs = runs.unwrap_or_default();
        match self.threads {
            1 if !self.named => format!("a thread of {program}{runs}"),
            count if !self.named => format!("{count} threads of {program}{runs}"),
            1 if self.thread == self.program => format!("the thread {name}{runs}"),
            _ => format!("{name} of {program}{count}{runs}"),
        }
    }

    fn why(&self, borders: &Thresholds) -> String {
        self.reason.map(|reason| reason.text(&self.evidence, borders)).unwrap_or_default()
    }
}

impl Evidence {
    /// The evidence in one sentence.
    fn text(&self) -> String {
        let Self { wakeups, wakeups_per_s, active_s, watched_s, .. } = self;
        if *wakeups == 0 && *active_s == 0.0 {
            return format!("never woken in {watched_s:.0} s");
        }
        let woken = match wakeups {
            0 => "never woken".into(),
            _ if *wakeups_per_s < 0.05 => format!("woken {wakeups} times in all"),
            _ => {
                let evenly = if self.periodic { " evenly, as by a clock," } else { "" };
                let each = time(self.cpu_per_wakeup_ns);
                format!("woken{evenly} {wakeups_per_s:.1} times a second, {each} of CPU time each")
            }
        };
        let waits = match (wakeups, self.delay_per_wakeup_ns) {
            (0, _) | (_, 0) => String::new(),
            (_, delay) => format!("; waits {} for one each time", time(delay)),
        };
        let share = self.cpu_share * 100.0;
        format!(
            "{woken}, {share:.1}% of a CPU{waits}; active for {active_s:.0} of {watched_s:.0} s"
        )
    }
}

/// Text as comment lines, broken at blanks.
fn comment(text: &str) -> String {
    let mut lines = String::new();
    for paragraph in text.lines() {
        let mut line = String::from("#");
        for word in paragraph.split(' ') {
            if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > WIDTH {
                let _ = writeln!(lines, "{line}");
                line = String::from("#  ");
            }
            line.push(' ');
            line.push_str(word);
        }
        let _ = writeln!(lines, "{line}");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::plan::{plan, Watched};
    use super::super::window::Window;
    use super::*;

    const BORDERS: Thresholds =
        Thresholds { min_rate: 2.0, max_rate: 1000.0, max_burst: 50.0, max_share: 50.0 };

    fn findings(names: &[(&str, u64)]) -> Findings {
        let window = |wakeups: u64| Window {
            time_ns: 1_000_000_000,
            wakeups,
            cpu_ns: 1_000_000,
            ..Window::default()
        };
        let threads: Vec<_> = names
            .iter()
            .map(|(name, wakeups)| Watched {
                program: "fridge".into(),
                name: (*name).into(),
                named: true,
                windows: vec![window(*wakeups); 5],
                ..Watched::default()
            })
            .collect();
        Findings {
            schema: 1,
            watched: "./fridge --name \"\n[[rule]]\"".into(),
            seconds: 5.0,
            processes: 1,
            threads: threads.len(),
            borders: BORDERS,
            kinds: plan(&threads, &BORDERS),
        }
    }

    #[test]
    fn the_file_is_one_that_tek_run_reads() {
        let text = findings(&[("touch", 7), ("clock", 1), ("odd \"name\n", 6)]).rules_file();
        let rules = tek_policy::parse(&text, "suggested.toml").unwrap();
        assert_eq!(rules.len(), 1, "{text}");
        assert_eq!(rules[0].matches.thread.as_ref().unwrap().as_str(), "touch");
        assert_eq!(rules[0].set.critical, Some(true));
    }

    #[test]
    fn what_a_clock_wakes_has_a_rule_that_is_ready_to_be_uncommented() {
        let text = findings(&[("touch", 7), ("sensor", 20), ("clock", 1)]).rules_file();
        assert_eq!(tek_policy::parse(&text, "suggested.toml").unwrap().len(), 1, "{text}");
        assert!(text.contains("\n# perhaps: sensor of fridge: woken evenly"), "{text}");
        let blank = |line: &str| line.starts_with("# ") || line == "#";
        let uncommented: Vec<_> =
            text.lines().map(|l| if blank(l) { l } else { l.trim_start_matches('#') }).collect();
        let rules = tek_policy::parse(uncommented.join("\n"), "suggested.toml").unwrap();
        assert_eq!(rules.len(), 2, "{text}");
        assert_eq!(rules[1].matches.thread.as_ref().unwrap().as_str(), "sensor");
    }

    #[test]
    fn what_is_not_suggested_stands_there_with_its_reason() {
        let text = findings(&[("clock", 1)]).rules_file();
        assert!(text.contains("# No thread is suggested."), "{text}");
        assert!(text.contains("- clock of fridge: rarely woken"), "{text}");
        assert!(text.contains("--min-rate 2"), "{text}");
    }

    #[test]
    fn a_thread_that_slept_all_the_time_is_described_as_never_woken() {
        let asleep = Evidence { watched_s: 10.0, ..Evidence::default() };
        assert_eq!(asleep.text(), "never woken in 10 s");
        let hog = Evidence { active_s: 9.0, cpu_share: 1.0, ..asleep };
        assert_eq!(hog.text(), "never woken, 100.0% of a CPU; active for 9 of 10 s");
        let text = findings(&[("clock", 0)]).summary();
        assert!(!text.contains("0.0ns"), "{text}");
    }

    #[test]
    fn a_thread_with_the_name_of_its_program_is_named_once() {
        let text = findings(&[("fridge", 7), ("ui", 7)]).rules_file();
        assert!(text.contains("# the thread fridge: woken 7.0 times a second"), "{text}");
        assert!(text.contains("# ui of fridge: woken"), "{text}");
    }

    #[test]
    fn the_summary_has_a_line_for_each_kind() {
        let summary = findings(&[("clock", 1), ("touch", 7)]).summary();
        let lines: Vec<_> = summary.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("touch") && lines[1].trim_end().ends_with("time-critical"));
        assert!(lines[2].contains("clock") && lines[2].trim_end().ends_with("rarely woken"));
    }

    #[test]
    fn no_comment_line_is_too_wide() {
        let text = findings(&[("touch", 7), ("clock", 1)]).rules_file();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }
}
