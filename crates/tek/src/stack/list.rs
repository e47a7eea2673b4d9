// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek stack list` and `tek stack forget`: the stored profiles.
use super::source::{describe, store, Profiles};
use crate::message;
use comfy_table::{presets, CellAlignment, ContentArrangement, Table as Grid};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use tek_abi::printable;
use tek_stack::Stored;

/// Arguments of `tek stack list`.
#[derive(clap::Args)]
#[command(after_help = "\
EXAMPLES:
  tek stack list
  tek stack list --json | jq '.profiles[].path'

EXIT STATUS:
    0  they were listed; that there are none is no error
    1  one cannot be read
  125  TEK itself failed
    2  an option was not understood")]
pub struct List {
    #[command(flatten)]
    profiles: Profiles,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `tek stack forget`.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true), after_help = "\
EXAMPLES:
  tek stack forget memcached
  tek stack forget --all

That a stack overflowed is forgotten too. What a running tek run has learnt and
not written yet is not.

EXIT STATUS:
    0  it is forgotten
    1  there is no such profile
  125  TEK itself failed
    2  an option was not understood")]
pub struct Forget {
    /// Name of the program, or what its build-id begins with (six digits at least)
    #[arg(value_name = "PROGRAM", group = "what")]
    program: Option<String>,

    /// All programs
    #[arg(long, group = "what")]
    all: bool,

    #[command(flatten)]
    profiles: Profiles,
}

/// Lists them.
pub fn list(args: List) -> anyhow::Result<ExitCode> {
    let mut problems = Vec::new();
    let store = store(args.profiles.directory)?;
    let stored = store.list(&mut problems);
    let mut out = std::io::stdout();
    if args.json {
        let profiles: Vec<_> = stored.iter().map(as_json).collect();
        let text = json!({ "schema": 1, "directory": store.directory(), "profiles": profiles });
        writeln!(out, "{}", crate::json::pretty(&text)?)?;
    } else if stored.is_empty() {
        writeln!(out, "there are no profiles in {}", store.directory().display())?;
    } else {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        grid.set_header(["PROGRAM", "KINDS", "THREADS", "BUILD-ID"]);
        for column in grid.column_iter_mut().skip(1).take(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for one in &stored {
            grid.add_row([
                printable(one.profile.program.as_bytes()),
                kinds(one).to_string(),
                threads(one).to_string(),
                printable(one.program.to_string().as_bytes()),
            ]);
        }
        writeln!(out, "{grid}")?;
    }
    for one in &stored {
        describe(&one.path.display().to_string(), &one.problems);
    }
    for problem in &problems {
        message::print(&problem.to_string());
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(stored: &Stored) -> serde_json::Value {
    json!({
        "program": stored.profile.program,
        "build_id": stored.program.to_string(),
        "path": stored.path,
        "kinds": kinds(stored),
        "threads": threads(stored),
    })
}

fn kinds(stored: &Stored) -> usize {
    stored.profile.kinds.values().filter(|kind| kind.has_threads()).count()
}

fn threads(stored: &Stored) -> u64 {
    stored.profile.kinds.values().map(|kind| kind.threads).fold(0, u64::saturating_add)
}

/// Forgets.
pub fn forget(args: Forget) -> anyhow::Result<ExitCode> {
    let mut problems = Vec::new();
    let store = store(args.profiles.directory)?;
    let fits = |stored: &Stored| match &args.program {
        None => true,
        Some(name) => {
            let by_id = name.len() >= 6 && stored.program.to_string().starts_with(name.as_str());
            stored.profile.program == *name || by_id
        }
    };
    let mut forgotten = 0;
    for stored in store.list(&mut problems).iter().filter(|stored| fits(stored)) {
        forgotten += u64::from(store.forget(&stored.program)?);
    }
    if let (0, Some(name)) = (forgotten, &args.program) {
        let directory = store.directory().display();
        message::print(&format!("there is no profile of {name} in {directory}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
