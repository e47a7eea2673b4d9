// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek debug`: shows TEK's own files, for tests and for developers of TEK.
use anyhow::bail;
use clap::Subcommand;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tek_abi::printable;
use tek_model::{Error, Snapshot, Table, Thread};

/// Arguments of `tek debug`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Print the records of a thread table
    Table {
        /// The table file
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Read at full speed for so many seconds and look for torn records
        #[arg(long, value_name = "SECONDS")]
        hammer: Option<f64>,
        /// A record with a start routine is torn unless start_routine XOR start_ns is this
        #[arg(long, value_name = "HEX", value_parser = hex, requires = "hammer")]
        invariant: Option<u64>,
    },
}

fn hex(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16)
        .map_err(|_| "write a hexadecimal number".into())
}

/// Does it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let What::Table { path, json, hammer: seconds, invariant } = args.what;
    let mut table = Table::open(&path)?;
    match seconds {
        Some(seconds) if seconds.is_finite() && (0.0..=3600.0).contains(&seconds) => {
            hammer(&mut table, Duration::from_secs_f64(seconds), invariant)
        }
        Some(_) => bail!("--hammer takes 0 to 3600 seconds"),
        None => print(&mut table, json),
    }
}

/// A record as it is printed.
#[derive(Serialize)]
struct Row {
    slot: u32,
    seq: u32,
    tid: u32,
    name: String,
    start_ns: u64,
    start_routine: u64,
    stack_pages: u32,
    peak_bytes: u32,
    bound_pages: u16,
    role: String,
    policy: u8,
    priority: i8,
    group: u8,
    region: u8,
    zone: u8,
    flags: u8,
    fast_ns: u64,
    fast_since_ns: u64,
    stays: u32,
    overruns: u32,
    base_policy: u8,
    base_priority: u8,
    base_flags: u8,
    rt_priority: u8,
}

impl From<Thread> for Row {
    fn from(Thread { slot, record, side }: Thread) -> Self {
        Self {
            slot,
            seq: record.seq,
            tid: record.tid,
            name: printable(&side.name),
            start_ns: record.start_ns,
            start_routine: record.start_routine,
            stack_pages: record.stack_pages,
            peak_bytes: record.peak_bytes,
            bound_pages: record.bound_pages,
            role: if record.role_bytes == 0 { String::new() } else { printable(&side.role) },
            policy: record.policy,
            priority: record.priority,
            group: record.group(),
            region: record.region(),
            zone: record.zone(),
            flags: record.flags,
            fast_ns: side.fast_ns,
            fast_since_ns: side.fast_since_ns,
            stays: side.stays,
            overruns: side.overruns,
            base_policy: side.base_policy,
            base_priority: side.base_priority,
            base_flags: side.base_flags,
            rt_priority: side.rt_priority,
        }
    }
}

#[derive(Serialize)]
struct Dump {
    pid: u32,
    program: String,
    start_ns: u64,
    page_bytes: u32,
    chunks: u32,
    slots: u32,
    threads: u32,
    fast: u32,
    lost: u32,
    records: Vec<Row>,
}

fn print(table: &mut Table, json: bool) -> anyhow::Result<ExitCode> {
    let header = table.header()?;
    let Snapshot { threads, changing } = table.snapshot()?;
    if !changing.is_empty() {
        return Err(Error::Changing { path: table.path().into(), count: changing.len() }.into());
    }
    let dump = Dump {
        pid: header.pid,
        program: printable(&header.program),
        start_ns: header.start_ns,
        page_bytes: header.page_bytes,
        chunks: header.chunks,
        slots: header.slots,
        threads: header.threads,
        fast: header.fast,
        lost: header.lost,
        records: threads.into_iter().map(Row::from).collect(),
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", crate::json::pretty(&dump)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Dump { pid, program, threads, fast, lost, .. } = &dump;
    writeln!(out, "{program} [{pid}]: {threads} threads, {fast} fast, {lost} lost")?;
    for row in &dump.records {
        // A record is JSON's one-line form anyway: all fields with their names.
        writeln!(out, "{}", crate::json::line(row)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads all records over and over. A record is torn when its region contradicts the begin of its
/// stay, because both are written together. It is also torn when `invariant`, which the test's
/// writer maintains, does not hold.
fn hammer(table: &mut Table, time: Duration, invariant: Option<u64>) -> anyhow::Result<ExitCode> {
    let (mut reads, mut torn, mut changing) = (0u64, 0u64, 0usize);
    let end = Instant::now() + time;
    while Instant::now() < end {
        let snapshot = table.snapshot()?;
        changing += snapshot.changing.len();
        for Thread { record, side, .. } in snapshot.threads {
            reads += 1;
            let region_torn = record.is_fast() != (side.fast_since_ns != 0);
            let invariant_torn = invariant.is_some_and(|value| {
                record.start_routine != 0 && record.start_routine ^ record.start_ns != value
            });
            torn += u64::from(region_torn || invariant_torn);
        }
    }
    let retries = table.retries();
    writeln!(std::io::stdout(), "reads={reads} retries={retries} changing={changing} torn={torn}")?;
    Ok(if torn == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
