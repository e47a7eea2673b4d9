// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries tekd and reads the tables of programs, and makes a page of them.
use super::page::Page;
use super::programs::Names;
use super::tekd::{self, Reported};
use crate::asker::Asker;
use crate::daemon::Error;
use crate::message;
use crate::status;
use anyhow::Context;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tek_model::{Device, Wanted};

/// tekd answers in microseconds, but a device can be busy. Prometheus itself waits for 10 s.
const PATIENCE: Duration = Duration::from_secs(2);

/// Queries are at least this far apart, however often a client asks: it gets the last page again.
const LEAST_BETWEEN: Duration = Duration::from_secs(1);

/// The report of tekd; `None`: it does not run.
type Answer = anyhow::Result<Option<Reported>>;

/// Queries tekd and the tables.
pub struct Looker {
    tekd: Asker<Answer>,
    names: Names,
    last: Option<(Instant, Arc<str>)>,
    reported: Option<String>,
}

impl Looker {
    /// With at most so many programs by name. The caller blocks signals before.
    pub fn new(most_programs: usize) -> std::io::Result<Self> {
        let names = Names::new(most_programs);
        Ok(Self { tekd: Asker::new(ask)?, names, last: None, reported: None })
    }

    /// The metrics as they are now, or were up to a second ago.
    pub fn page(&mut self) -> Arc<str> {
        if let Some((at, page)) = &self.last {
            if at.elapsed() < LEAST_BETWEEN {
                return page.clone();
            }
        }
        let page: Arc<str> = self.examine().into();
        self.last = Some((Instant::now(), page.clone()));
        page
    }

    fn examine(&mut self) -> String {
        let begin = Instant::now();
        // An answer that came too late for the previous query is too old for this one.
        self.tekd.answer(Duration::ZERO);
        self.tekd.ask(Duration::ZERO);
        let wanted =
            Wanted { tracked: true, directories: tek_model::directories(), ..Wanted::default() };
        let device = Device::examine(&wanted).context("cannot read /proc");
        let mut page = Page::default();
        let silence = match self.tekd.answer(PATIENCE) {
            Some(Ok(reported)) => {
                tekd::write(&mut page, reported.as_ref());
                None
            }
            other => {
                tekd::write(&mut page, None);
                let why = other.and_then(|answer| answer.as_ref().err());
                Some(why.map_or_else(|| "tekd does not answer".into(), |why| format!("{why:#}")))
            }
        };
        let problem = match device {
            Ok(device) => {
                self.names.write(&mut page, &device.programs);
                let unread = "Tables of programs that could not be read, or make no sense.";
                page.gauge("tek_exporter_unread_tables", unread).is(device.problems.len() as f64);
                silence
            }
            Err(error) => Some(format!("{error:#}")),
        };
        self.announce(problem);
        let mut info = page.gauge("tek_exporter_info", "Version of this exporter.");
        info.with(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        page.gauge("tek_exporter_scrape_duration_seconds", "Time that this look took.")
            .is(begin.elapsed().as_secs_f64());
        page.into_text()
    }

    /// Prints a problem once, not at each query.
    fn announce(&mut self, problem: Option<String>) {
        if let Some(problem) = problem.as_ref().filter(|&now| self.reported.as_ref() != Some(now)) {
            message::print(problem);
        }
        self.reported = problem;
    }
}

fn ask() -> Answer {
    match status::now() {
        Ok(answered) => Reported::of(&answered).map(Some),
        Err(error) => match error.downcast_ref() {
            Some(Error::NotThere(_)) => Ok(None),
            _ => Err(error),
        },
    }
}
