// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek lab list`.
use super::origin::{report, Origin};
use crate::cache::Damage;
use crate::kernel::{self, Record};
use crate::{sysroot, Cache, Kind, Kinds};
use comfy_table::{presets, CellAlignment, ContentArrangement, Table as Grid};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

/// Arguments of `tek lab list`.
#[derive(clap::Args)]
#[command(after_help = "\
EXAMPLES:
  tek lab list
  tek lab list --json | jq '.kinds[] | {kind, release: .cached.release}'

A kernel that is not in the cache is fetched when it is first booted, or by tek lab fetch.

EXIT STATUS:
    0  they were listed
  125  TEK itself failed
    2  an option was not understood")]
pub struct Args {
    /// Print JSON, with the packages' exact versions and checksums
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    origin: Origin,
}

/// A kind, and what the cache has of it.
#[derive(Serialize)]
struct Row<'a> {
    kind: &'a str,
    about: &'a str,
    kernel: &'a str,
    series: &'a str,
    suite: &'a str,
    architecture: &'a str,
    cpus: u32,
    memory: &'a str,
    disk: Option<&'a str>,
    append: &'a str,
    cached: Option<Record>,
    /// The record to which it would fall back, where only that is cached.
    instead: Option<Record>,
    sysroot: Option<sysroot::Record>,
}

/// Does it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let kinds = Kinds::own();
    let cache = args.origin.cache()?;
    let mut damaged = BTreeSet::new();
    let rows: Vec<_> = kinds.kinds().map(|kind| row(&kinds, kind, &cache, &mut damaged)).collect();
    for damage in damaged {
        report(&format!("{damage}; tek lab fetch gets it anew"));
    }
    let mut out = std::io::stdout();
    if args.json {
        let text =
            serde_json::json!({ "schema": 1, "directory": cache.directory(), "kinds": rows });
        writeln!(out, "{}", tek_command::json::pretty(&text)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    grid.set_header(["KIND", "CPUS", "MEMORY", "SERIES", "IN THE CACHE", "ABOUT"]);
    for column in grid.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in &rows {
        grid.add_row([
            row.kind.to_owned(),
            row.cpus.to_string(),
            row.memory.to_owned(),
            row.series.to_owned(),
            in_cache(row),
            row.about.to_owned(),
        ]);
    }
    writeln!(out, "{grid}")?;
    writeln!(out, "\nThe cache is {}.", cache.directory().display())?;
    Ok(ExitCode::SUCCESS)
}

fn row<'a>(
    kinds: &'a Kinds,
    kind: &'a Kind,
    cache: &Cache,
    damaged: &mut BTreeSet<String>,
) -> Row<'a> {
    let kernel = kinds.kernel_of(kind);
    let cached = whole(kernel::cached(cache, kernel), damaged);
    let instead = kinds.instead_of(kernel).filter(|_| cached.is_none());
    let sysroot = kinds.sysroot_of(kind);
    Row {
        kind: &kind.name,
        about: &kind.about,
        kernel: &kernel.name,
        series: &kernel.series,
        suite: &kernel.suite,
        architecture: &kernel.architecture,
        cpus: kind.cpus,
        memory: &kind.memory,
        disk: kind.disk.as_deref(),
        append: &kind.append,
        instead: instead.and_then(|kernel| whole(kernel::cached(cache, kernel), damaged)),
        cached,
        sysroot: sysroot.and_then(|sysroot| whole(sysroot::cached(cache, sysroot), damaged)),
    }
}

/// A damaged record counts as missing, but is reported. Several kinds may have the same kernel.
fn whole<T>(cached: Result<Option<T>, Damage>, damaged: &mut BTreeSet<String>) -> Option<T> {
    cached.unwrap_or_else(|damage| {
        damaged.insert(damage.to_string());
        None
    })
}

fn in_cache(row: &Row) -> String {
    let exact = |record: &Record| format!("{} ({})", record.release, record.version());
    match (&row.cached, &row.instead) {
        (Some(record), _) => exact(record),
        (None, Some(record)) => format!("no, but {}", exact(record)),
        (None, None) => "no".to_owned(),
    }
}
