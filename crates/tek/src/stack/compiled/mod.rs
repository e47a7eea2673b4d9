// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek stack static`: the worst case of stack use, from the compiler's files.
mod files;
mod output;

use crate::message;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
EXAMPLES:
  gcc -O2 -fstack-usage -fcallgraph-info=su ... ; tek stack static build/
      Build the program so (gcc 10 or later), then list the functions that no function
      calls by name, start routines of threads among them, deepest first.
  tek stack static build/ --function worker
      The deepest path below `worker`, with the frame of each function on it.
  tek stack static build/ --json | jq '.roots[] | select(.at_least | not)'

A second opinion beside what `tek run --stack report` measures: it also counts
paths that no run has taken, and knows nothing of libraries. Where a result begins
with `at least`, more may be needed, because of
  indirect   calls through pointers: virtual functions, callbacks
  recursive  functions that call themselves or each other; each is counted once
  growing    frames that grow at run time: alloca, arrays of variable length
  unknown    functions of which there is no information, as in libraries
A start routine also has the thread control block, static TLS and the C library's
own start on its stack (some 5 KiB), a signal handler may come on top, and on
amd64 a function that calls no other uses up to 128 bytes below its frame, which gcc
does not count.

With .su files alone (-fstack-usage) there is no call graph, and each function
stands for itself.

EXIT STATUS:
    0  something was found
    1  there is no information, or no such function
    2  the command line was not understood
  125  TEK itself failed, for example because there is no such directory";

/// Arguments of `tek stack static`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A directory with gcc's .ci and .su files, or a program beside which they lie
    #[arg(value_name = "PROGRAM-OR-DIRECTORY", default_value = ".")]
    path: PathBuf,

    /// Show the deepest path below this function (its symbol, or its name with or
    /// without scopes and parameters); may be repeated
    #[arg(long, value_name = "NAME")]
    function: Vec<String>,

    /// List at most so many functions that no function calls
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "function")]
    most: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads, counts and prints.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let found = files::read(&args.path)?;
    if found.graph.known() == 0 {
        message::print(&format!(
            "no .ci or .su files with functions in {}: compile with gcc -fstack-usage \
             -fcallgraph-info=su, which leaves them beside the objects",
            directory(&args.path).display()
        ));
        return Ok(ExitCode::FAILURE);
    }
    if !found.graph.has_calls() {
        message::print(
            "there are only .su files, and so no call graph: each function stands for itself; \
             add -fcallgraph-info=su (gcc 10 or later)",
        );
    }
    let mut status = ExitCode::SUCCESS;
    let mut functions = Vec::new();
    for name in &args.function {
        let same = found.graph.find(name);
        if same.is_empty() {
            let at = directory(&args.path).display();
            message::print(&format!("no function {name} is known in {at}"));
            status = ExitCode::FAILURE;
        }
        functions.extend(same);
    }
    let out = &mut anstream::stdout();
    match (args.function.is_empty(), args.json) {
        (true, false) => output::roots(&found, args.most, out)?,
        (true, true) => writeln!(out, "{}", output::roots_json(&found, args.most)?)?,
        (false, false) => output::functions(&found, &functions, out)?,
        (false, true) => writeln!(out, "{}", output::functions_json(&found, &functions)?)?,
    }
    Ok(status)
}

fn directory(path: &Path) -> &Path {
    if path.is_dir() {
        return path;
    }
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
