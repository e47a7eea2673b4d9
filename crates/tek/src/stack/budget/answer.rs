// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer, for a person and as JSON.
use super::cure::cure;
use super::room::Seen;
use super::{is_size, names};
use crate::units;
use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, Table, TableStyle};
use serde::Serialize;
use std::io::{self, Write};
use tek_stack::budget::{Item, Threads, Verdict, MOST_THREADS};

/// Something that helps.
#[derive(Debug, Serialize)]
pub struct Help {
    /// The change to make.
    pub how: String,
    /// Threads that would fit then.
    pub most: u64,
}

/// The whole answer.
pub struct Answer<'a> {
    /// The requested number of threads.
    pub count: u64,
    /// They are in addition to those of a process.
    pub more: bool,
    /// Their properties.
    pub threads: &'a Threads,
    /// Whether they fit.
    pub verdict: &'a Verdict,
    /// The examined process.
    pub seen: &'a Seen,
    /// The help that TEK offers.
    pub helps: Vec<Help>,
    /// The assumptions.
    pub note: Option<&'static str>,
}

/// A stable format, to which fields may be added.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    threads: u64,
    stack_bytes: u64,
    guard_bytes: u64,
    fits: bool,
    most: Option<u64>,
    in_the_way: Option<&'static str>,
    items: Vec<Line>,
    help: &'a [Help],
}

#[derive(Serialize)]
struct Line {
    id: &'static str,
    what: &'static str,
    unit: &'static str,
    needed: u64,
    available: Option<u64>,
    fits: bool,
    most: Option<u64>,
    cure: Option<String>,
}

/// `None`: more than the count can express.
fn most(most: u64) -> Option<u64> {
    (most < MOST_THREADS).then_some(most)
}

fn line(item: &Item, seen: &Seen) -> Line {
    let (id, what) = names(item.resource);
    Line {
        id,
        what,
        unit: if is_size(item.resource) { "bytes" } else { "count" },
        needed: item.needed,
        available: item.available,
        fits: item.fits(),
        most: most(item.most),
        cure: (!item.fits()).then(|| cure(item, seen)),
    }
}

impl Answer<'_> {
    /// As JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        crate::json::pretty(&Json {
            schema: 1,
            threads: self.count,
            stack_bytes: self.threads.stack,
            guard_bytes: self.threads.guard,
            fits: self.verdict.fits(),
            most: most(self.verdict.most()),
            in_the_way: self.verdict.in_the_way().map(|item| names(item.resource).0),
            items: self.verdict.items.iter().map(|item| line(item, self.seen)).collect(),
            help: &self.helps,
        })
    }

    /// As text; the stream drops colours if they are not wanted.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let more = if self.more { " more" } else { "" };
        let stack = units::size(self.threads.stack);
        let subject = format!("{}{more} threads with stacks of {stack}", self.count);
        match self.verdict.in_the_way() {
            None => writeln!(out, "{subject} fit; at most {} would.", number(self.verdict.most()))?,
            Some(item) => {
                writeln!(
                    out,
                    "{subject} do not fit; at most {} would.",
                    number(self.verdict.most())
                )?;
                writeln!(out, "First in the way: {}.", names(item.resource).1)?;
            }
        }
        writeln!(out)?;
        for line in self.table().lines() {
            let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
            if line.contains("  no  ") {
                writeln!(out, "{red}{}{red:#}", line.trim_end())?;
            } else {
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        if let Some(note) = self.note {
            writeln!(out, "\n{note}")?;
        }
        let items = self.verdict.items.iter().filter(|item| !item.fits());
        let raised =
            items.map(|item| format!("{}: {}", names(item.resource).0, cure(item, self.seen)));
        let helped =
            self.helps.iter().map(|help| format!("{}: {} fit", help.how, number(help.most)));
        let lines: Vec<_> = helped.chain(raised).collect();
        if !lines.is_empty() {
            writeln!(out, "\nWhat would help")?;
        }
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(TableStyle::new());
        table.set_header(["NEEDED", "AVAILABLE", "FITS", "THREADS", "WHAT"]);
        for item in &self.verdict.items {
            let amount = |number: u64| {
                if is_size(item.resource) {
                    units::size(number)
                } else {
                    number.to_string()
                }
            };
            table.add_row([
                amount(item.needed),
                item.available.map_or("unlimited".into(), amount),
                if item.fits() { "yes" } else { "no" }.into(),
                if item.available.is_some() { number(item.most) } else { "any".into() },
                names(item.resource).1.into(),
            ]);
        }
        for column in table.column_iter_mut().take(4) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

fn number(threads: u64) -> String {
    most(threads).map_or("any".into(), |threads| threads.to_string())
}
