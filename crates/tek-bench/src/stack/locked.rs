// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that a program with many threads locks by mlockall(MCL_CURRENT | MCL_FUTURE).

use super::fit::Output;
use super::lab::{Lab, Limits, Tek, MIB};
use crate::json::Row;
use crate::programs;
use anyhow::{ensure, Context};
use serde::Serialize;

/// Its threads.
pub const THREADS: u32 = 300;
/// Threads from which TEK learns the use of stacks.
const LEARNT_FROM: u32 = 8;
/// The memory that 300 conventional stacks lock, and as much again for all other programs.
const MEMORY_NEEDED: u64 = 5 * 1024 * MIB;

/// Locked memory in bytes.
#[derive(Default, Serialize)]
pub struct Measured {
    pub conventional: Option<u64>,
    pub fitted: Option<u64>,
}

/// With the stacks that the C library gives.
pub fn conventional(lab: &Lab) -> anyhow::Result<u64> {
    let available = available_bytes().context("/proc/meminfo says nothing of MemAvailable")?;
    ensure!(
        available >= MEMORY_NEEDED,
        "it would lock 2.4 GiB, and only {} MiB are available",
        available / MIB
    );
    locked(lab, Tek::Without, THREADS)
}

/// Under TEK, after one run that only learns, from few threads.
pub fn under_tek(lab: &Lab) -> anyhow::Result<u64> {
    let profiles = lab.profiles("locked")?;
    let tek = Tek::Stack("auto", &profiles);
    locked(lab, tek, LEARNT_FROM)?;
    ensure!(lab.has_profile(&profiles), "tek run --stack auto left no profile");
    locked(lab, tek, THREADS)
}

fn locked(lab: &Lab, tek: Tek, threads: u32) -> anyhow::Result<u64> {
    let program = programs::find("stack", "fit")?;
    let mut command = lab.command(&program, tek, Limits::default());
    let output: Output = lab.run(command.arg("--lock").arg(threads.to_string()))?;
    ensure!(output.running == threads, "only {} of {threads} threads ran", output.running);
    Ok(output.locked)
}

fn available_bytes() -> Option<u64> {
    available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// For people.
pub fn report(measured: &Measured) -> String {
    let send_frame = |what, bytes: Option<u64>| {
        bytes.map(|bytes| format!("{what} {:.1} MB", bytes as f64 / 1e6))
    };
    let parts = [
        send_frame("conventional", measured.conventional),
        send_frame("TEK, second run", measured.fitted),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("locked by {THREADS} threads after mlockall: {}\n", parts.join(", "))
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let row = |variant: &str, bytes: Option<u64>| {
        let mb = bytes? as f64 / 1e6;
        Some(Row::number("300 threads and mlockall", variant, "locked memory", "MB", mb))
    };
    let rows = [row("8 MiB", measured.conventional), row("TEK, second run", measured.fitted)];
    rows.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_that_is_left_is_read_from_meminfo() {
        let meminfo = "MemTotal:       1000 kB\nMemAvailable:    600 kB\n";
        assert_eq!(available(meminfo), Some(600 * 1024));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        assert_eq!(report(&Measured::default()), "");
        let measured = Measured { conventional: Some(2_500_000_000), fitted: None };
        assert!(report(&measured).ends_with("conventional 2500.0 MB\n"));
        assert_eq!(rows(&measured).len(), 1);
    }
}
