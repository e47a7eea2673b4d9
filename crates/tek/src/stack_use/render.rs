// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of thread as rows, with their sums, for people and as JSON.
use super::learn::Learnt;
use crate::units::size;
use crate::words;
use comfy_table::{presets, CellAlignment, ContentArrangement, Table as Grid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use tek_abi::printable;
use tek_stack::{Advice, Key, Kind, Label, Profile, Rule, Zone, Zones};

/// How stacks are judged.
#[derive(Clone, Copy, Debug)]
pub struct Judgement {
    /// How sizes are chosen.
    pub rule: Rule,
    /// Where zones meet.
    pub zones: Zones,
}

/// A kind of thread.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its function.
    pub function: String,
    /// The file of that function.
    pub file: Option<String>,
    /// Where it is created.
    pub caller: Option<String>,
    /// Its name or role.
    pub label: Option<String>,
    /// In all runs together.
    pub threads: u64,
    runs: u64,
    stack_bytes: u64,
    peak_bytes: u64,
    bound_bytes: u64,
    zone: Option<&'static str>,
    waste_bytes: u64,
    overflows: u64,
    overflow_bytes: u64,
    /// The program chose the size of one, or gave it the memory.
    pub explicit: bool,
    /// The advice, in words.
    pub advice: String,
    /// The size that is enough; `null` if nothing needs a change.
    pub advised_bytes: Option<u64>,
    /// The size that TEK gives it; `null` if unknown.
    pub fitted_bytes: Option<u64>,
}

/// The sums over the stacks of a run, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Threads of a usual run.
    pub threads: u64,
    kinds: usize,
    /// Their size.
    pub stack_bytes: u64,
    /// The most that they use.
    pub bound_bytes: u64,
    /// Their size if they were fitted.
    pub fitted_bytes: u64,
}

/// A program.
#[derive(Clone, Debug, Serialize)]
pub struct Rows {
    /// Its kinds, by waste, greatest first.
    pub kinds: Vec<Row>,
    /// Their sums.
    pub sums: Sums,
}

impl Rows {
    /// Of a profile.
    pub fn new(profile: &Profile, judgement: Judgement) -> Self {
        let mut sums = Sums::default();
        let sites = profile.sites();
        let mut kinds: Vec<Row> = profile
            .kinds
            .iter()
            .filter(|(_, kind)| kind.has_threads())
            .map(|(key, kind)| {
                let site = &sites[&key.site()];
                let fitted = judgement.rule.fitted(&profile.made_for(key), judgement.zones);
                sums.kinds += 1;
                let threads = threads_of_a_run(kind);
                let all = |bytes: u64| bytes.saturating_mul(threads);
                sums.threads = sums.threads.saturating_add(threads);
                sums.stack_bytes = sums.stack_bytes.saturating_add(all(kind.stack));
                sums.bound_bytes = sums.bound_bytes.saturating_add(all(kind.bound));
                let stack = fitted.unwrap_or(kind.stack);
                sums.fitted_bytes = sums.fitted_bytes.saturating_add(all(stack));
                row(key, kind, site, fitted, judgement)
            })
            .collect();
        tek_sort::by_key(&mut kinds, |row| {
            std::cmp::Reverse(row.waste_bytes.saturating_mul(row.threads))
        });
        Self { kinds, sums }
    }

    /// The table and its sums.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.kinds.is_empty() {
            return "no thread was measured\n".to_owned();
        }
        let _ = writeln!(text, "{}", self.grid());
        let Sums { threads, kinds, stack_bytes, bound_bytes, fitted_bytes } = self.sums;
        let many = if self.kinds.iter().any(|row| row.runs > 1) { "a run has about " } else { "" };
        let _ = writeln!(
            text,
            "{many}{} of {}: stacks of {}, of which at most {} are used; fitted {}",
            counted(threads, "thread"),
            counted(kinds as u64, "kind"),
            size(stack_bytes),
            size(bound_bytes),
            match stack_bytes.checked_sub(fitted_bytes).filter(|&saved| saved > 0) {
                Some(saved) => format!("{}, which saves {}", size(fitted_bytes), size(saved)),
                None => size(fitted_bytes),
            }
        );
        text
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        // Where a function is created at one place only, the place adds nothing.
        let mut callers = BTreeMap::<_, BTreeSet<_>>::new();
        for row in &self.kinds {
            callers.entry(&row.function).or_default().insert(&row.caller);
        }
        let shows_callers = callers.values().any(|callers| callers.len() > 1);
        let mut heads = vec!["FUNCTION", "LABEL", "RUNS", "THREADS", "SIZE", "PEAK", "BOUND"];
        heads.extend(["ZONE", "WASTE", "FITTED", "ADVICE"]);
        if shows_callers {
            heads.insert(1, "CREATED IN");
        }
        grid.set_header(&heads);
        let numbers = ["RUNS", "THREADS", "SIZE", "PEAK", "BOUND", "WASTE", "FITTED"];
        for (column, head) in grid.column_iter_mut().zip(&heads) {
            if numbers.contains(head) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let dash = || "-".to_owned();
        let bytes = |bytes: u64| if bytes == 0 { dash() } else { size(bytes) };
        for row in &self.kinds {
            let shown = |text: &Option<String>| match text {
                Some(text) => printable(text.as_bytes()),
                None => dash(),
            };
            let mut cells = vec![
                printable(row.function.as_bytes()),
                shown(&row.label),
                row.runs.to_string(),
                row.threads.to_string(),
                bytes(row.stack_bytes),
                bytes(row.peak_bytes),
                bytes(row.bound_bytes),
                row.zone.unwrap_or("-").to_owned(),
                bytes(row.waste_bytes),
                bytes(row.fitted_bytes.unwrap_or(0)),
                row.advice.clone(),
            ];
            if shows_callers {
                cells.insert(1, shown(&row.caller));
            }
            grid.add_row(cells);
        }
        grid
    }
}

/// About a program that died of SIGSEGV without a noticed overflow: on a stack that TEK did not
/// fit, an overflow is not reported.
pub fn after_sigsegv(learnt: &Learnt, judgement: Judgement) -> String {
    let rows = learnt.values().flat_map(|profile| Rows::new(profile, judgement).kinds);
    let full: Vec<_> = rows.filter(|row| row.zone == Some(words::zone(Zone::High))).collect();
    let names = full.iter().take(5).map(|row| {
        let label = row.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
        printable(format!("{}{label}", row.function).as_bytes())
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let nearly = match names.as_str() {
        "" => String::new(),
        names => format!("; nearly full were those of {names}"),
    };
    format!(
        "the program died of SIGSEGV. If that was a stack overflow, TEK could not notice: it \
         notices that of stacks that it fitted{nearly}. To find out, give threads more stack \
         (ulimit -s, pthread_attr_setstacksize), or fit all with --stack auto,override,grow"
    )
}

/// One sentence about the learnt profiles of a run; `profiles`: their directory, if not the usual
/// one.
pub fn summary(learnt: &Learnt, judgement: Judgement, profiles: Option<&Path>) -> String {
    let all: Vec<_> = learnt.values().map(|profile| Rows::new(profile, judgement).sums).collect();
    let sum = |part: fn(&Sums) -> u64| all.iter().map(part).fold(0, u64::saturating_add);
    let kinds = all.iter().map(|sums| sums.kinds as u64).sum();
    if kinds == 0 || sum(|sums| sums.threads) == 0 {
        return "stacks: no thread but the first ones of processes was measured".to_owned();
    }
    let program = match learnt.values().next() {
        Some(profile) if learnt.len() == 1 => format!(" {}", printable(profile.program.as_bytes())),
        _ => String::new(),
    };
    format!(
        "stacks: {} of {} had {} and used {} at most; see tek stack {}{program}{}",
        counted(sum(|sums| sums.threads), "thread"),
        counted(kinds, "kind"),
        size(sum(|sums| sums.stack_bytes)),
        size(sum(|sums| sums.bound_bytes)),
        if program.is_empty() { "list" } else { "report" },
        profiles.map_or_else(String::new, |path| format!(" --profiles {}", path.display())),
    )
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The mean over the runs that had such threads.
pub fn threads_of_a_run(kind: &Kind) -> u64 {
    kind.threads.div_ceil(kind.runs.max(1))
}

/// The function of a kind, for people.
pub fn function(key: &Key, kind: &Kind) -> String {
    kind.symbol.clone().unwrap_or_else(|| key.function.to_string())
}

/// The label of a kind, for people.
pub fn label(key: &Key) -> Option<String> {
    match &key.label {
        Label::None => None,
        Label::Name(text) | Label::Role(text) => Some(printable(text)),
    }
}

/// The program gives its threads a size before they have labels. So the advice is the same for all
/// kinds of a site.
fn row(
    key: &Key,
    kind: &Kind,
    site: &Kind,
    fitted_bytes: Option<u64>,
    Judgement { rule, zones }: Judgement,
) -> Row {
    let advice = rule.advice(site, zones);
    let caller = key.caller.as_ref();
    Row {
        function: function(key, kind),
        file: kind.file.clone(),
        caller: kind.creator.clone().or_else(|| caller.map(ToString::to_string)),
        label: label(key),
        threads: kind.threads,
        runs: kind.runs,
        stack_bytes: kind.stack,
        peak_bytes: kind.peak,
        bound_bytes: kind.bound,
        zone: zones.of(kind.peak, kind.stack).map(words::zone),
        waste_bytes: if kind.bound == 0 { 0 } else { kind.stack.saturating_sub(kind.bound) },
        overflows: kind.overflows,
        overflow_bytes: kind.overflow,
        explicit: kind.explicit,
        advice: advised(advice, kind.explicit && !rule.overrides),
        advised_bytes: advice.size(),
        fitted_bytes,
    }
}

/// Advice in words; `is_explicit`: TEK leaves the program's choice alone.
pub fn advised(advice: Advice, is_explicit: bool) -> String {
    let text = match advice {
        Advice::Measure => return "not measured yet".into(),
        Advice::Choose { to } | Advice::Lower { to } => format!("{} would do", size(to)),
        Advice::Raise { to } => format!("raise to {}", size(to)),
        Advice::Overflowed { had, to } => {
            format!("overflowed: {} was too small, try {}", size(had), size(to))
        }
        Advice::Keep => "fits".into(),
    };
    match (is_explicit, advice) {
        (false, _) => text,
        (true, Advice::Keep) => text + " (set by the program)",
        (true, _) => text + " (set by the program: change it there, or --stack override)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tek_stack::{Costs, Mode, Place, Program};

    fn judgement() -> Judgement {
        Judgement {
            rule: Rule::new(Mode::Auto, None, None, Costs::here()),
            zones: Zones::default(),
        }
    }

    fn profile() -> Profile {
        let mut profile = Profile::new("memcached");
        let mut add = |offset, caller, symbol: &str, kind: Kind| {
            let place = |offset| Place { module: "@memcached".into(), offset };
            let key = Key { function: place(offset), caller, label: Label::None };
            profile.add(key, &Kind { symbol: Some(symbol.into()), ..kind });
        };
        let worker = Kind { threads: 20, runs: 2, bound: 12288, peak: 11832, ..Kind::default() };
        add(1, None, "worker_libevent", Kind { stack: 8 << 20, ..worker.clone() });
        add(2, None, "log\x1b[2J", Kind { stack: 65536, overflow: 65536, threads: 2, ..worker });
        profile
    }

    #[test]
    fn a_table_has_the_waste_of_each_kind_and_the_cure() {
        let text = Rows::new(&profile(), judgement()).text();
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        assert!(lines[1].contains("worker_libevent"), "{text}");
        assert!(lines[1].contains("low") && lines[1].ends_with("would do"), "{text}");
        assert!(lines[2].contains("overflowed: 64.0K was too small, try 128K"), "{text}");
        assert!(!text.contains('\x1b') && !text.contains("CREATED"), "{text}");
        assert!(lines[3].starts_with("a run has about 11 threads of 2 kinds: stacks of 80.1M"));
    }

    #[test]
    fn the_summary_is_one_sentence() {
        let mut learnt = Learnt::new();
        learnt.insert(Program::new(&[1], b""), profile());
        let text = summary(&learnt, judgement(), None);
        assert_eq!(
            text,
            "stacks: 11 threads of 2 kinds had 80.1M and used 132K at most; see tek stack report \
             memcached"
        );
        assert!(summary(&Learnt::new(), judgement(), None).contains("no thread"));
        let text = summary(&learnt, judgement(), Some(Path::new("/p")));
        assert!(text.ends_with("tek stack report memcached --profiles /p"), "{text}");
    }

    #[test]
    fn after_a_sigsegv_the_kinds_are_named_that_were_nearly_full() {
        let mut learnt = Learnt::new();
        let mut program = profile();
        for kind in program.kinds.values_mut().skip(1) {
            (kind.peak, kind.bound) = (60_000, 61_440);
        }
        learnt.insert(Program::new(&[1], b""), program);
        let text = after_sigsegv(&learnt, judgement());
        assert!(text.contains("nearly full were those of log\\u{1b}[2J."), "{text}");
        assert!(!after_sigsegv(&Learnt::new(), judgement()).contains("nearly"));
    }
}
