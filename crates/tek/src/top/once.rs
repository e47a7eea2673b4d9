// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek top --once`: the activity between two samples, for scripts.
use super::columns;
use super::daemon::{self, Daemon};
use super::header;
use super::order::{self, Choice, Row};
use super::sample::{Sample, Sampler};
use crate::ps::column::Column;
use crate::ps::{announce, object, render, Pace};
use console::Term;
use serde_json::{json, Value};
use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

/// Samples twice and prints. SIGINT or SIGTERM in between ends it without a message.
pub fn run(choice: &Choice, interval: Duration, as_json: bool) -> anyhow::Result<()> {
    let mut pace = Pace::new(interval)?;
    let columns = columns::with(choice.sort.column);
    let mut sampler = Sampler::new(columns.clone(), daemon::AT_LAST)?;
    let first = sampler.examine(HashSet::new())?;
    announce(&first.problems);
    if !pace.wait()? {
        return Ok(());
    }
    // All of them are printed.
    let all = first.threads.iter().map(|thread| thread.task.stat.tid).collect();
    let sample = sampler.examine(all)?;
    announce(&sample.problems);
    let rows = order::rows(&sample, choice);
    let mut out = BufWriter::new(io::stdout().lock());
    if as_json {
        let all = reported(&sample, &rows, &columns, interval);
        writeln!(out, "{}", crate::json::pretty(&all)?)?;
    } else {
        let width = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        let head = [header::device(&sample), header::mode(&sample), String::new()];
        for line in head.into_iter().chain(lines(&sample, &rows, &columns)) {
            writeln!(out, "{}", render::cut(&line, width))?;
        }
    }
    out.flush()?;
    if rows.is_empty() && !as_json {
        announce(&["no thread fits the options: tek top --once without them shows all".to_owned()]);
    }
    Ok(())
}

fn lines(sample: &Sample, rows: &[Row], columns: &[Column]) -> Vec<String> {
    let cells = rows.iter().map(|row| {
        let thread = &sample.threads[row.index];
        let cell = |&column| {
            let branch = if column == Column::Name { row.branch.as_str() } else { "" };
            format!("{branch}{}", sample.human(column, thread))
        };
        columns.iter().map(cell).collect()
    });
    render::table(columns, cells)
}

fn reported(sample: &Sample, rows: &[Row], columns: &[Column], interval: Duration) -> Value {
    let thread = |row: &Row| {
        let thread = &sample.threads[row.index];
        let mut reported = object(columns, thread);
        for column in [Column::Region, Column::Group] {
            reported.insert(column.key().into(), sample.value(column, thread).json());
        }
        reported
    };
    let tekd = match &sample.daemon {
        Daemon::Absent => json!(null),
        Daemon::Silent => json!({ "mode": null }),
        Daemon::Answer(latest) => {
            let (fast, lowered) = (latest.fast.len(), latest.lowered.len());
            json!({ "mode": latest.mode, "fast": fast, "lowered": lowered })
        }
    };
    let load: Vec<f64> = sample.load.split(' ').filter_map(|text| text.parse().ok()).collect();
    json!({
        "schema": 1,
        "interval_ns": interval.as_nanos() as u64,
        "load": load,
        "cpus": sample.cpus,
        "threads_in_all": sample.threads.len(),
        "kernel_threads": sample.kernel_threads(),
        "fast": sample.threads.iter().filter(|thread| sample.is_fast(thread)).count(),
        "tekd": tekd,
        "own_look_ns": sample.cost.examine.as_nanos() as u64,
        "threads": rows.iter().map(thread).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::super::state::tests::state;
    use super::*;

    #[test]
    fn json_has_the_device_and_each_thread_with_the_keys_of_tek_ps() {
        let (state, sample) = (state(), sample());
        let all = reported(&sample, &state.rows, &columns::USUAL, Duration::from_secs(1));
        assert_eq!(all["threads"].as_array().map(Vec::len), Some(4));
        assert_eq!(all["threads"][0]["cpu_percent"], 75.0);
        assert_eq!(all["threads"][0]["voluntary_per_s"], 1010.0);
        assert_eq!(all["threads"][2]["region"], "fast");
        assert_eq!(all["tekd"], json!({ "mode": "responsiveness", "fast": 1, "lowered": 0 }));
        assert_eq!((&all["fast"], &all["load"][2]), (&json!(1), &json!(2.1)));
    }

    #[test]
    fn the_table_for_scripts_is_not_cut() {
        let lines = lines(&sample(), &state().rows, &columns::USUAL);
        assert!(lines[0].ends_with("PID  STATE"), "{lines:?}");
        assert!(lines[1].contains("75.0") && lines[3].contains("touch\\u{1b}[2J\\u{202e}"));
    }
}
