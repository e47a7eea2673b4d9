// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek kthreads --watch`: on a terminal the same screen drawn again, elsewhere one table after
//! another.
use super::describe;
use super::find_out::{self, Choice, Report};
use crate::ps::{draw, Pace};
use console::Term;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// The state at the previous sample.
#[derive(Default)]
struct Before {
    at: Option<Instant>,
    boosts: HashMap<u32, u64>,
}

impl Before {
    /// Adds what happened since.
    fn compare(&mut self, report: &mut Report, now: Instant) {
        let since = self.at.replace(now).map(|at| now.saturating_duration_since(at).as_secs_f64());
        for row in &mut report.threads {
            let before = self.boosts.get(&row.tid).copied().unwrap_or(0);
            // A smaller count is that of another tekd.
            let new = row.boosts.checked_sub(before).unwrap_or(row.boosts) as f64;
            row.boosts_per_second = since.filter(|&since| since > 0.0).map(|since| new / since);
        }
        self.boosts = report.threads.iter().map(|row| (row.tid, row.boosts)).collect();
    }
}

/// Samples until q, ^C or SIGTERM.
pub fn run(choice: &Choice, interval: Duration) -> anyhow::Result<()> {
    let term = Term::stdout();
    let mut pace = Pace::new(interval)?;
    if term.is_term() {
        pace.watch_keys();
    }
    let mut before = Before::default();
    loop {
        let mut report = find_out::report(choice)?;
        before.compare(&mut report, Instant::now());
        let lines = describe::lines(&report, true);
        if term.is_term() {
            draw(&term, &lines)?;
        } else {
            writeln!(io::stdout().lock(), "{}\n", lines.join("\n"))?;
        }
        if !pace.wait()? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::find_out::tests::by_daemon;
    use super::*;

    #[test]
    fn boosts_a_second_are_those_since_the_report_before() {
        let (mut before, begin) = (Before::default(), Instant::now());
        let mut examine = |boosts: u64, seconds: u64| {
            let mut report = by_daemon(false);
            report.threads[1].boosts = boosts;
            before.compare(&mut report, begin + Duration::from_secs(seconds));
            report.threads[1].boosts_per_second
        };
        assert_eq!(examine(7, 0), None);
        assert_eq!(examine(27, 2), Some(10.0));
        assert_eq!(examine(27, 3), Some(0.0));
        assert_eq!(examine(4, 4), Some(4.0), "tekd was started anew");
    }
}
