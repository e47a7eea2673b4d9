// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common options of all benchmarks, the text around their tables, and their end.

use super::early_end;
use super::host::Host;
use super::json::{self, Document, NotRun, Row};
use super::table;
use super::terminal::Terminal;
use super::verdict::Verdicts;
use indicatif::ProgressBar;
use nix::sys::signal::Signal;
use serde::Serialize;
use std::io::{self, StdoutLock, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of all benchmarks.
#[derive(clap::Args)]
pub struct Options {
    /// Also write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Arguments of the benchmarks that judge TEK.
#[derive(clap::Args)]
pub struct JudgeOptions {
    /// Measure less, and less often
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub options: Options,
    /// Exit with status 1, and say why, unless TEK was measured often enough and meets every bar
    #[arg(long)]
    assert: bool,
}

impl JudgeOptions {
    /// The exit status, given the judgement, and the reasons beside the bars why --assert fails;
    /// 128 and the number of the signal that ended it early.
    pub fn exit_code(&self, judged: &Verdicts, beside: Vec<String>) -> ExitCode {
        let failures = if self.assert { [judged.failures(), beside].concat() } else { Vec::new() };
        for failure in &failures {
            eprintln!("tek: --assert: {failure}");
        }
        let failed = u8::from(!failures.is_empty());
        ExitCode::from(early_end::ended_by().map_or(failed, |signal| 128 + signal as u8))
    }
}

/// The output of a benchmark's results.
pub struct Output {
    pub host: Host,
    pub terminal: Terminal,
    out: StdoutLock<'static>,
    json: Option<json::File>,
}

/// The results of a benchmark, for other programs.
pub struct Results<'a, Raw: Serialize> {
    pub bench: &'static str,
    pub rows: Vec<Row>,
    /// See [`Document`].
    pub not_run: &'a [NotRun],
    /// See [`Document`].
    pub failed: &'a [NotRun],
    /// See [`Document`].
    pub raw: Raw,
}

impl Output {
    /// Opens the file, and prints the machine and the reasons why the numbers may mislead.
    pub fn begin(title: &str, options: &Options) -> anyhow::Result<Output> {
        let json = options.json.as_deref().map(json::File::open).transpose()?;
        let host = Host::read();
        // A reader such as `head` may close the pipe: then a write must fail, not panic. The file
        // is written all the same.
        let mut out = io::stdout().lock();
        let printed = writeln!(out, "{title}{}\n", host.describe());
        if json.is_none() {
            printed?;
        }
        if let Some(warning) = host.warning() {
            eprintln!("tek: warning: {warning}");
        }
        Ok(Output { host, terminal: Terminal::of_stdout(), out, json })
    }

    /// The reasons why the numbers may mislead, to stand among the results.
    pub fn caution(&self) -> String {
        let warning = self.host.warning();
        warning.map_or_else(String::new, |text| format!("caution: {text}\n"))
            + &early_end::caution()
    }

    /// Prints the sections that are not empty, and writes the file, even where no reader is left.
    pub fn end<Raw: Serialize>(
        mut self,
        mut sections: Vec<String>,
        results: Results<Raw>,
    ) -> anyhow::Result<()> {
        sections.retain(|section| !section.is_empty());
        let printed = write!(self.out, "{}", table::coloured(&sections.join("\n")));
        if let Some(file) = self.json {
            file.write(&Document {
                bench: results.bench,
                host: &self.host,
                rows: results.rows,
                not_run: results.not_run,
                failed: results.failed,
                ended_by: early_end::ended_by().map(Signal::as_str),
                raw: results.raw,
            })?;
        }
        Ok(printed?)
    }
}

/// Shows the current measurement.
pub fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}
