// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek ps --watch`: on a terminal the same screen drawn again, elsewhere one table after another.
use super::pace::Pace;
use super::render;
use super::view::{Reading, View};
use console::Term;
use std::io::{self, Write};
use std::time::Duration;

/// Samples until q, ^C or SIGTERM, or until all threads requested by number are gone. True if a
/// thread was found.
pub fn run(view: &mut View, interval: Duration) -> anyhow::Result<bool> {
    let term = Term::stdout();
    let mut pace = Pace::new(interval)?;
    if term.is_term() {
        pace.watch_keys();
    }
    let (mut found, mut problems) = (false, Vec::new());
    loop {
        let Reading { threads, problems: new, gone } = view.examine()?;
        if gone {
            problems.extend(new);
            super::announce(&problems);
            return Ok(found);
        }
        found |= !threads.is_empty();
        let is_empty = threads.is_empty();
        let mut lines = view.lines(threads);
        if is_empty {
            lines.push(super::NONE_FITS.to_owned());
        }
        if term.is_term() {
            problems.extend(new);
            draw(&term, &lines)?;
        } else {
            super::announce(&new);
            writeln!(io::stdout().lock(), "{}\n", lines.join("\n"))?;
        }
        if !pace.wait()? {
            // On the screen the table would overwrite them.
            super::announce(&problems);
            return Ok(found);
        }
    }
}

/// As much as the screen has room for, in one write so that it does not flicker.
pub fn draw(term: &Term, lines: &[String]) -> io::Result<()> {
    const TOP_LEFT: &str = "\x1b[H";
    const REST_OF_LINE: &str = "\x1b[K";
    const REST_OF_SCREEN: &str = "\x1b[J";
    let (rows, columns) = term.size();
    let room = usize::from(rows).saturating_sub(1);
    let mut screen = TOP_LEFT.to_owned();
    for line in lines.iter().take(room) {
        screen += &render::cut(line, Some(columns.into()));
        screen += REST_OF_LINE;
        screen += "\r\n";
    }
    screen += REST_OF_SCREEN;
    let mut out = io::stdout().lock();
    out.write_all(screen.as_bytes())?;
    out.flush()
}
