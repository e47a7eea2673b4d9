// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek trace`, `tek run --trace`: the records of the engine of user-level threads, converted to a
//! trace for people when the program has ended.
mod chrome;
mod read;

use crate::message;
use anyhow::Context;
use chrome::Reported;
use read::Trace;
use std::env;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::NamedTempFile;

const AFTER_HELP: &str = "\
EXAMPLES:
  TEK_UTHREAD=trace=/tmp/fridge.trace ./fridge
  tek trace /tmp/fridge.trace -o fridge.json
      A program that is linked with libtek-uthread-native.so.
  tek run --model m:1 --trace fridge.json -- ./fridge
      The same in one step, for a program that knows nothing of user-level threads.

https://ui.perfetto.dev and chrome://tracing show the result: a track for each worker,
with the threads that ran there and why they left, and a track for each thread, with
where it ran, how long it could have run before that, and what it waited for.

EXIT STATUS:
    0  done
    1  the file is no trace, or an empty one
    2  the command line was not understood
  125  TEK itself failed";

/// Arguments of `tek trace`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// What the program wrote: `trace=PATH` in its TEK_UTHREAD
    trace: PathBuf,

    /// Write the JSON into this file, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Converts a trace.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let shown = args.trace.display();
    let raw = File::open(&args.trace).with_context(|| format!("cannot read the trace {shown}"))?;
    let trace = match Trace::open(&raw) {
        Ok(trace) => trace,
        Err(Error::Io(error)) => return Err(error).with_context(|| format!("cannot read {shown}")),
        Err(error) => {
            message::print(&format!("{shown}: {error}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    match &args.output {
        None => {
            chrome::write(Some(&trace), &mut BufWriter::new(io::stdout().lock()))?;
        }
        Some(path) => {
            let cannot = || format!("cannot write {}", path.display());
            let mut out = BufWriter::new(File::create(path).with_context(cannot)?);
            let reported = chrome::write(Some(&trace), &mut out)?;
            out.flush().with_context(cannot)?;
            message::print(&format!("{}: {}", path.display(), reported.text()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("it is empty: the program did not run on user-level threads")]
    Empty,
    #[error("it is no trace of user-level threads")]
    NotATrace,
    #[error(
        "it was written by another version of TEK: install the same version of tek and \
         libtek-uthread.so"
    )]
    Version,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Io(error.into())
    }
}

/// A trace that is being recorded.
pub struct Recorder {
    /// The file that the program writes. It is removed when this is dropped.
    raw: NamedTempFile,
    out: File,
    path: PathBuf,
}

impl Recorder {
    /// Makes the requested file, so that an unwritable path is an error now, and a file for the
    /// program.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let out = File::create(path)
            .with_context(|| format!("cannot write the trace {}", path.display()))?;
        let directory = raw_directory(path, &out);
        let raw =
            tempfile::Builder::new().prefix(".tek-trace-").tempfile_in(&directory).with_context(
                || format!("cannot make a file for the trace in {}", directory.display()),
            )?;
        Ok(Self { raw, out, path: path.to_owned() })
    }

    /// Where the program writes: an absolute path.
    pub fn raw_path(&self) -> &Path {
        self.raw.path()
    }

    /// Converts the program's records after its end, and returns the message about the trace.
    pub fn finish(self) -> String {
        let shown = self.path.display();
        match convert(self.raw.as_file(), self.out) {
            Ok(reported) => format!("{shown}: {}", reported.text()),
            Err(error) => format!("there is no trace in {shown}: {error}"),
        }
    }
}

/// Beside the final trace, if it is in a directory.
fn raw_directory(path: &Path, out: &File) -> PathBuf {
    let parent = std::path::absolute(path).ok().and_then(|path| Some(path.parent()?.to_owned()));
    let is_file = out.metadata().is_ok_and(|metadata| metadata.is_file());
    parent.filter(|_| is_file).unwrap_or_else(env::temp_dir)
}

fn convert(raw: &File, out: File) -> Result<Reported, Error> {
    let trace = Trace::open(raw);
    let mut out = BufWriter::with_capacity(1 << 16, out);
    // Without a raw trace the file is a trace all the same, of no thread.
    let reported = chrome::write(trace.as_ref().ok(), &mut out)?;
    out.flush()?;
    trace.map(|_| reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_part_of_a_trace_goes_with_the_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.json");
        let recorder = Recorder::create(&path).unwrap();
        let raw = recorder.raw_path().to_owned();
        assert_eq!(raw.parent(), Some(directory.path()));
        let printed = recorder.finish();
        assert!(printed.contains("it is empty"), "{printed}");
        assert!(!raw.exists());
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(json["traceEvents"], serde_json::json!([]));
    }

    #[test]
    fn nothing_is_left_beside_a_device() {
        let recorder = Recorder::create(Path::new("/dev/null")).unwrap();
        assert_eq!(recorder.raw_path().parent(), Some(env::temp_dir().as_path()));
    }

    #[test]
    fn a_trace_that_cannot_be_written_is_an_error_before_anything_runs() {
        assert!(Recorder::create(Path::new("/nonexistent/trace.json")).is_err());
    }
}
