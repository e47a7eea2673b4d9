// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek ps --sample`: the Thread Monitor of tek-2020, a time series of every thread.
use super::column::Column;
use super::pace::Pace;
use super::thread::Thread;
use super::value::Value;
use super::view::{Reading, View};
use anyhow::Context;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The default columns of each thread.
pub const USUAL: [Column; 11] = [
    Column::Pid,
    Column::Tid,
    Column::Program,
    Column::Name,
    Column::Role,
    Column::Region,
    Column::State,
    Column::Cpu,
    Column::CpuPercent,
    Column::RunDelay,
    Column::Switches,
];

/// A series.
pub struct Series {
    /// Time between two samples.
    pub interval: Duration,
    /// How many records each thread that lives on gets; without an end if `None`.
    pub count: Option<u64>,
    /// JSON lines instead of CSV.
    pub json: bool,
}

/// Writes it, to standard output unless a file is given. True if it had a thread.
pub fn run(view: &mut View, series: &Series, output: Option<&Path>) -> anyhow::Result<bool> {
    let (out, for_terminal): (Box<dyn Write>, bool) = match output {
        Some(path) => {
            let file = File::create(path);
            let file = file.with_context(|| format!("cannot make {}", path.display()))?;
            let is_terminal = file.is_terminal();
            (Box::new(file), is_terminal)
        }
        None => (Box::new(io::stdout()), io::stdout().is_terminal()),
    };
    let mut out = BufWriter::new(out);
    if !series.json {
        let keys: Vec<_> = view.columns.iter().map(|column| column.key()).collect();
        writeln!(out, "time_ns,interval_ns,{}", keys.join(","))?;
        out.flush()?;
    }
    let mut pace = Pace::new(series.interval)?;
    view.take_exact_times();
    // The first sample is the base for the second one.
    let first = view.examine()?;
    super::announce(&first.problems);
    let (mut written, mut found, mut gone) = (0, false, first.gone);
    while !gone && series.count.is_none_or(|count| written < count) && pace.wait()? {
        let Reading { threads, problems, gone: now } = view.examine()?;
        gone = now;
        super::announce(&problems);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        for thread in &threads {
            let record = record(&view.columns, thread, now as u64);
            if series.json {
                let object: serde_json::Map<_, _> =
                    record.map(|(key, value)| (key.to_owned(), value.json())).collect();
                out.write_all(crate::json::line(&object)?.as_bytes())?;
            } else {
                let fields: Vec<_> = record.map(|(_, value)| value.csv(for_terminal)).collect();
                out.write_all(fields.join(",").as_bytes())?;
            }
            out.write_all(b"\n")?;
        }
        // The reader of the series needs whole records, at once.
        out.flush()?;
        found |= !threads.is_empty();
        written += 1;
    }
    Ok(found)
}

/// One thread at one time, with its changes since the previous sample.
fn record<'a>(
    columns: &'a [Column],
    thread: &'a Thread,
    now: u64,
) -> impl Iterator<Item = (&'static str, Value)> + 'a {
    let interval = thread.interval();
    let length = Value::of(interval.as_ref(), |interval| Value::Time(interval.ns));
    let reported = columns.iter().map(move |&column| {
        let value = match (column, &interval) {
            (Column::Cpu, Some(interval)) => Value::of(interval.cpu_ns, Value::Time),
            (Column::RunDelay, Some(interval)) if thread.user.is_none() => {
                Value::Time(interval.run_delay_ns)
            }
            (Column::Switches, Some(interval)) if thread.user.is_none() => {
                Value::Count(interval.switches.total())
            }
            _ => column.value(thread),
        };
        (column.key(), value)
    });
    [("time_ns", Value::Time(now)), ("interval_ns", length)].into_iter().chain(reported)
}
