// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all benchmarks print around their tables, and how they end.

use super::host::Host;
use super::table;
use std::io::{self, Write};
use std::process::ExitCode;

/// What is measured on, and why the numbers may mislead.
pub fn begin(host: &Host, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}\n", host.describe())?;
    if let Some(warning) = host.warning() {
        eprintln!("tek: warning: {warning}");
    }
    Ok(())
}

/// The sections that are not empty, and the warning once more.
pub fn print(sections: Vec<String>, host: &Host, out: &mut impl Write) -> io::Result<()> {
    let caution = host.warning().map_or_else(String::new, |text| format!("caution: {text}\n"));
    let sections = sections.into_iter().chain([caution]).filter(|section| !section.is_empty());
    write!(out, "{}", table::coloured(&sections.collect::<Vec<_>>().join("\n")))
}

/// The exit status of --assert.
pub fn asserted(failures: &[String]) -> ExitCode {
    for failure in failures {
        eprintln!("tek: --assert: {failure}");
    }
    ExitCode::from(u8::from(!failures.is_empty()))
}
