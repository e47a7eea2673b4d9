// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile for people: within 80 columns.
use super::parts::Parts;
use super::report::{CriticalPath, Object, Phase, Profile};
use crate::units;
use anstyle::{AnsiColor, Style};
use std::fmt::Write;
use tek_command::values::time::PARTS;

/// Cells of the longest bar.
const BAR: usize = 40;

/// Rows of a table, unless all are asked for.
const ROWS: usize = 12;

/// The form of the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Display {
    pub colours: bool,
    pub unicode: bool,
    /// Every thread, and every object.
    pub all: bool,
    /// No name is shortened to fit 80 columns.
    pub whole: bool,
}

const MEANINGS: [&str; 8] = [
    "beside other threads",
    "while no other thread did anything",
    "waiting for other threads",
    "calls for files",
    "malloc and its family",
    "ready, but no CPU was free",
    "waiting for times and events",
    "waiting in other calls",
];

const COLOURS: [AnsiColor; 8] = [
    AnsiColor::Green,
    AnsiColor::Yellow,
    AnsiColor::Red,
    AnsiColor::Blue,
    AnsiColor::Magenta,
    AnsiColor::Cyan,
    AnsiColor::BrightBlack,
    AnsiColor::BrightBlack,
];

/// The whole report.
pub fn text(profile: &Profile, appearance: Display) -> String {
    let mut out = String::new();
    let program = profile.program.rsplit('/').next().unwrap_or("?");
    let threads = profile.threads.len();
    let _ = writeln!(
        out,
        "{program} (pid {}): {} wall, {threads} thread{}, {} of threads",
        profile.pid,
        units::time(profile.wall_ns),
        if threads == 1 { "" } else { "s" },
        units::time(profile.threads_ns),
    );
    whole(&mut out, profile, appearance);
    shares(&mut out, profile, appearance);
    if let Some(path) = &profile.critical_path {
        critical(&mut out, path, appearance);
    }
    objects(&mut out, &profile.objects, appearance);
    notes(&mut out, profile);
    out
}

fn heading(out: &mut String, text: &str, appearance: Display) {
    let style = if appearance.colours { Style::new().bold() } else { Style::new() };
    let _ = writeln!(out, "\n{style}{text}{style:#}");
}

fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / (all as f64).max(1.0)
}

fn whole(out: &mut String, profile: &Profile, appearance: Display) {
    heading(out, "WHERE THE THREADS' TIME WENT", appearance);
    let all = profile.parts.sum();
    let cell = if appearance.unicode { "█" } else { "#" };
    for ((name, ns), (meaning, colour)) in
        PARTS.iter().zip(profile.parts.all()).zip(MEANINGS.iter().zip(COLOURS))
    {
        if ns == 0 {
            continue;
        }
        let share = percent(ns, all);
        let bar = cell.repeat(((share / 100.0 * BAR as f64).round() as usize).min(BAR));
        let style = if appearance.colours {
            Style::new().fg_color(Some(colour.into()))
        } else {
            Style::new()
        };
        let time = units::time(ns);
        // The meaning stands where the bar leaves room.
        let room = 52usize.saturating_sub(bar.chars().count() + 1);
        let meaning = if meaning.len() <= room { meaning } else { "" };
        let line = format!("  {name:<9} {time:>7} {share:>5.1}%  {style}{bar}{style:#} {meaning}");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// A row of shares; all rows alike leave out those that are zero in each row.
fn row(parts: &Parts, shown: &[bool; 8]) -> String {
    let all = parts.sum();
    let cells = parts.all().into_iter().zip(SHORT).zip(shown).filter(|&(_, &shown)| shown);
    cells.fold(String::new(), |mut row, ((ns, name), _)| {
        let _ = write!(row, "{:>width$.1}", percent(ns, all), width = width(name));
        row
    })
}

const SHORT: [&str; 8] = ["WORK", "SERIAL", "SYNC", "FILE", "ALLOC", "DELAY", "IDLE", "OTHER"];

/// The width of a column with this header.
fn width(header: &str) -> usize {
    6.max(header.len() + 1)
}

fn shares(out: &mut String, profile: &Profile, appearance: Display) {
    let sums = profile.parts.all();
    let shown: [bool; 8] = std::array::from_fn(|part| sums[part] > 0);
    let header = SHORT.iter().zip(shown).filter(|&(_, shown)| shown);
    let header = header.fold(String::new(), |mut header, (name, _)| {
        let _ = write!(header, "{name:>width$}", width = width(name));
        header
    });
    if profile.threads.len() > 1 {
        heading(out, "BY WHAT THREADS RUN, in % of their time", appearance);
        let wide = cells(profile.roles.iter().map(|role| role.name.as_str()), 18, appearance);
        let _ = writeln!(out, "{:<wide$} {:>4} {:>7}{header}", "FUNCTION", "N", "TIME");
        for role in profile.roles.iter().take(if appearance.all { usize::MAX } else { ROWS }) {
            let _ = writeln!(
                out,
                "{:<wide$} {:>4} {:>7}{}",
                fit(&role.name, wide),
                role.threads,
                units::time(role.life_ns),
                row(&role.parts, &shown)
            );
        }
        more(out, profile.roles.len(), appearance);
    }
    if appearance.all {
        heading(out, "BY THREAD, in % of its time", appearance);
        let _ = writeln!(out, "{:<15}{:>9} {:>7}{header}", "NAME", "TID", "TIME");
        for thread in &profile.threads {
            let _ = writeln!(
                out,
                "{:<15}{:>9} {:>7}{}",
                fit(&thread.name, 15),
                thread.tid,
                units::time(thread.life_ns),
                row(&thread.parts, &shown)
            );
        }
    }
}

/// The cells of a column of names.
fn cells<'a>(names: impl Iterator<Item = &'a str>, usual: usize, appearance: Display) -> usize {
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    if appearance.whole {
        longest.max(usual)
    } else {
        usual
    }
}

fn more(out: &mut String, rows: usize, appearance: Display) {
    if rows > ROWS && !appearance.all {
        let _ = writeln!(out, "  and {} more: --all", rows - ROWS);
    }
}

fn critical(out: &mut String, path: &CriticalPath, appearance: Display) {
    heading(out, "CRITICAL PATH: what had to happen one after the other", appearance);
    let parts = [
        ("work", path.spent.work_ns),
        ("file", path.spent.file_ns),
        ("allocator", path.spent.allocator_ns),
        ("sync", path.spent.sync_ns),
        ("delay", path.spent.delay_ns),
        ("idle", path.spent.idle_ns),
    ];
    let parts = parts.iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| {
        format!("{name} {} ({:.1}%)", units::time(*ns), percent(*ns, path.length_ns))
    });
    let parts: Vec<_> = parts.collect();
    let _ = writeln!(
        out,
        "  {}: {}",
        units::time(path.length_ns),
        parts[..parts.len().min(3)].join(", ")
    );
    if parts.len() > 3 {
        let _ = writeln!(out, "         {}", parts[3..].join(", "));
    }
    let wide = if appearance.whole { usize::MAX } else { 24 };
    let through = path
        .roles
        .iter()
        .take(2)
        .map(|(role, ns)| format!("{} {:.1}%", fit(role, wide), percent(*ns, path.length_ns)));
    let _ = writeln!(out, "  through {}", through.collect::<Vec<_>>().join(", "));
    let phases =
        &path.phases[..path.phases.len().min(if appearance.all { usize::MAX } else { ROWS })];
    let whole: Vec<_> = phases.iter().map(|phase| identity(phase, usize::MAX)).collect();
    let wide = cells(whole.iter().map(String::as_str), 23, appearance);
    let _ = writeln!(
        out,
        "  {:>8} {:>7}  {:<wide$} {:>6}{:>6}{:>6}{:>6}{:>6}{:>6}",
        "FROM", "TIME", "THREAD", "WORK", "FILE", "ALLOC", "SYNC", "DELAY", "IDLE"
    );
    for phase in phases {
        let span = phase.to_ns - phase.from_ns;
        let _ = writeln!(
            out,
            "  {:>8} {:>7}  {:<wide$} {:>6.1}{:>6.1}{:>6.1}{:>6.1}{:>6.1}{:>6.1}",
            units::time(phase.from_ns),
            units::time(span),
            identity(phase, wide),
            percent(phase.spent.work_ns, span),
            percent(phase.spent.file_ns, span),
            percent(phase.spent.allocator_ns, span),
            percent(phase.spent.sync_ns, span),
            percent(phase.spent.delay_ns, span),
            percent(phase.spent.idle_ns, span),
        );
    }
    more(out, path.phases.len(), appearance);
    let _ = writeln!(
        out,
        "  In % of TIME: of file and alloc the thread's mean between two of its waits, of\n  \
         delay that of its whole life."
    );
}

/// The column THREAD, of so many cells. Of one thread: its number, and its role, shortened. Of a
/// merged phase: how often another thread followed.
fn identity(phase: &Phase, cells: usize) -> String {
    match phase.changes {
        0 => {
            let number = format!("{} ", phase.thread);
            let room = cells.saturating_sub(number.len()).max(3);
            number + &fit(&phase.role, room)
        }
        1 => "(several, 1 change)".to_owned(),
        changes => format!("(several, {changes} changes)"),
    }
}

fn objects(out: &mut String, objects: &[Object], appearance: Display) {
    if objects.is_empty() {
        return;
    }
    heading(out, "LOCKS, CONDITIONS, BARRIERS, those first that were waited for most", appearance);
    let wide = cells(objects.iter().map(|object| object.name.as_str()), 16, appearance);
    let _ = writeln!(
        out,
        "{:<8}{:<wide$} {:>9}{:>7}{:>8}{:>8}{:>8}  AT",
        "KIND", "WHAT", "TIMES", "CONT%", "WAITED", "MEAN", "HELD"
    );
    for object in objects.iter().take(if appearance.all { usize::MAX } else { ROWS }) {
        let uses = &object.uses;
        let site = object.sites.first().map_or("?", |site| site.name.as_str());
        let held = if uses.holds > 0 { short(uses.hold_mean_ns) } else { "-".to_owned() };
        let mean = match uses.contended {
            0 => "-".to_owned(),
            contended => short(uses.wait_ns / contended),
        };
        let _ = writeln!(
            out,
            "{:<8}{:<wide$} {:>9}{:>6.1}%{:>8}{:>8}{:>8}  {}",
            object.kind,
            fit(&object.name, wide),
            uses.count,
            percent(uses.contended, uses.count),
            units::time(uses.wait_ns),
            mean,
            held,
            fit(site, if appearance.whole { usize::MAX } else { 13 }),
        );
    }
    more(out, objects.len(), appearance);
}

/// Times that are often below a microsecond.
fn short(ns: u64) -> String {
    if ns < 10_000 {
        format!("{ns}ns")
    } else {
        units::time(ns)
    }
}

fn notes(out: &mut String, profile: &Profile) {
    let overhead = &profile.overhead;
    let _ = writeln!(
        out,
        "\nCounting cost about {} ({:.2}% of the threads' time), and {} at the start.",
        units::time(overhead.calls_ns),
        overhead.percent,
        units::time(overhead.start_ns),
    );
    let lost = &profile.lost;
    if profile.still_waiting > 0 {
        let _ = writeln!(
            out,
            "Waits for other threads that had not ended when the program did: {}.",
            profile.still_waiting
        );
    }
    if profile.became_another {
        let _ = writeln!(out, "It did not end, but became another program (exec).");
    } else if !profile.ended {
        let _ = writeln!(out, "It did not end by itself: of its last moments less is known.");
    }
    if !profile.scheduler {
        let _ = writeln!(
            out,
            "The kernel does not tell how long threads ran (/proc/PID/task/TID/schedstat):\n\
             what was delay or other waiting is told as work."
        );
    }
    if lost.threads > 0 {
        let _ = writeln!(
            out,
            "There was no room for {} threads: they are not counted, and there is no critical \
             path.",
            lost.threads
        );
    }
    if profile.more_files {
        let _ = writeln!(
            out,
            "There was no room for more than {} loaded files: functions and locks of others have \
             no names.",
            tek_abi::PROFILE_MAX_MODULES
        );
    }
    if lost.waits > 0 {
        let _ =
            writeln!(out, "There was no room for {} waits: there is no critical path.", lost.waits);
    }
    if lost.acquisitions > 0 {
        let _ = writeln!(
            out,
            "There was no room for the objects of {} acquisitions: they are in the sums only.",
            lost.acquisitions
        );
    }
}

/// A name in that many cells; its end is more distinctive than its beginning.
fn fit(name: &str, cells: usize) -> String {
    let length = name.chars().count();
    if length <= cells {
        return name.to_owned();
    }
    let retained: String = name.chars().skip(length - (cells - 2)).collect();
    format!("..{retained}")
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
