// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored results (bench/manycore/data): the document of `--json`, shown again.

use super::{report, Measured};
use crate::terminal::Terminal;
use anyhow::{bail, Context};
use serde::Deserialize;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

#[derive(Deserialize)]
struct Document {
    raw: Measured,
}

/// Prints its tables, its machine and its command.
pub fn show(path: &Path) -> anyhow::Result<ExitCode> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let measured = read(&text).with_context(|| path.display().to_string())?;
    let terminal = Terminal::of_stdout();
    let mut sections = report(&measured, terminal);
    sections.push(measured.judge(&measured.parts()).report(terminal));
    sections.retain(|section| !section.is_empty());
    let mut out = io::stdout().lock();
    writeln!(out, "{}\nby {}\n", measured.machine, measured.command.join(" "))?;
    write!(out, "{}", sections.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn read(text: &str) -> anyhow::Result<Measured> {
    #[derive(Deserialize)]
    struct Kind {
        bench: String,
    }
    let kind: Kind = serde_json::from_str(text).context("it is no result of tek bench")?;
    if kind.bench != "manycore" {
        bail!("it is a result of tek bench {}, not of tek bench manycore", kind.bench);
    }
    let document: Document =
        serde_json::from_str(text).context("it was written by another version of tek")?;
    Ok(document.raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_can_be_read() {
        let raw = Measured { machine: "16 CPUs".to_owned(), ..Measured::default() };
        let text = serde_json::json!({ "bench": "manycore", "rows": [], "raw": raw }).to_string();
        assert_eq!(read(&text).unwrap().machine, "16 CPUs");
    }

    #[test]
    fn results_of_other_benchmarks_are_refused_by_name() {
        let error = read(r#"{"bench": "stack", "raw": {}}"#).err().unwrap();
        assert!(error.to_string().contains("tek bench stack"), "{error}");
        assert!(read("{}").is_err());
    }
}
