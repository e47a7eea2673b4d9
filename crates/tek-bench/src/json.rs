// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON document that every benchmark writes, and the file of a document.

use super::host::Host;
use super::stats::Summary;
use anyhow::Context;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// One number, or one distribution (then `value` is its mean).
#[derive(Debug, PartialEq, Serialize)]
pub struct Row {
    pub case: String,
    pub variant: String,
    pub metric: &'static str,
    pub unit: &'static str,
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<usize>,
}

impl Row {
    /// A single number.
    pub fn number(
        case: impl Into<String>,
        variant: impl Into<String>,
        metric: &'static str,
        unit: &'static str,
        value: f64,
    ) -> Row {
        Row {
            case: case.into(),
            variant: variant.into(),
            metric,
            unit,
            value,
            p50: None,
            p99: None,
            max: None,
            n: None,
        }
    }

    /// A distribution.
    pub fn distribution(
        case: impl Into<String>,
        variant: impl Into<String>,
        metric: &'static str,
        unit: &'static str,
        summary: &Summary,
    ) -> Row {
        Row {
            p50: Some(summary.p50),
            p99: Some(summary.p99),
            max: Some(summary.max),
            n: Some(summary.n),
            ..Row::number(case, variant, metric, unit, summary.mean)
        }
    }
}

/// A variant that has no rows, and why.
#[derive(Clone, Debug, Serialize)]
pub struct NotRun {
    pub variant: String,
    pub reason: String,
}

/// The variants that could not be run, and those that failed after some good rounds.
pub fn without_numbers(not_run: &[NotRun], failed: &[NotRun]) -> String {
    let not_run = not_run.iter().map(|entry| ("NOT RUN", entry));
    let failed = failed.iter().map(|entry| ("FAILED", entry));
    let lines = not_run.chain(failed);
    lines.map(|(what, it)| format!("{what} {}: {}\n", it.variant, it.reason)).collect()
}

/// The whole document.
#[derive(Serialize)]
pub struct Document<'a, Raw: Serialize> {
    pub bench: &'static str,
    pub host: &'a Host,
    pub rows: Vec<Row>,
    /// Variants that could not be run here.
    pub not_run: &'a [NotRun],
    /// Variants that were run and then failed.
    pub failed: &'a [NotRun],
    /// The signal that ended it early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<&'static str>,
    /// Everything as it was measured, for other evaluations.
    pub raw: Raw,
}

/// The file of a document. It is opened before anything is measured, so that an unwritable path is
/// an error at the start.
pub struct File {
    path: PathBuf,
    file: std::fs::File,
}

impl File {
    /// Opens it. Its old content stays until there is a better one.
    pub fn open(path: &Path) -> anyhow::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(File { path: path.to_owned(), file })
    }

    /// Writes a document to it, in place of its old content.
    pub fn write<Raw: Serialize>(self, document: &Document<Raw>) -> anyhow::Result<()> {
        let mut text = tek_command::json::pretty(document)?;
        text.push('\n');
        self.write_text(&text)
    }

    /// Writes text to it, in place of its old content.
    pub fn write_text(&self, text: &str) -> anyhow::Result<()> {
        self.replace(text).with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        // Pipes and devices have no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        (&self.file).write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::summarize;

    #[test]
    fn a_number_has_no_percentiles() {
        let row = Row::number("touch", "tek-name", "switches", "1/event", 4.0);
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"case":"touch","variant":"tek-name","metric":"switches","unit":"1/event","value":4.0}"#
        );
    }

    #[test]
    fn a_distribution_has_mean_p50_p99_max_and_n() {
        let summary = summarize(&[1.0, 2.0, 6.0]).unwrap();
        let row = Row::distribution("touch event", "alone", "response", "ms", &summary);
        assert_eq!((row.value, row.p50, row.p99), (3.0, Some(2.0), Some(6.0)));
        assert_eq!((row.max, row.n), (Some(6.0), Some(3)));
    }

    #[test]
    fn what_is_in_the_file_stays_until_it_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        std::fs::write(&path, "an earlier, longer result").unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "an earlier, longer result");
        file.replace("{}\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n");
    }

    #[test]
    fn a_path_at_which_nothing_can_be_written_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path(), &directory.path().join("no/such")] {
            let error = File::open(path).err().expect("a path that cannot be written");
            assert_eq!(error.to_string(), format!("cannot write {}", path.display()));
        }
    }

    #[test]
    fn a_device_is_written_too() {
        File::open(Path::new("/dev/null")).unwrap().replace("{}\n").unwrap();
        let full = File::open(Path::new("/dev/full")).unwrap().replace("{}\n");
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
