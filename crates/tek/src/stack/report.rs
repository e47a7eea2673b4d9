// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek stack report`: the stack of each kind of thread, its use and its need.
use super::source::{Found, From, EXIT_STATUS};
use crate::stack_use::render::Rows;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use tek_abi::printable;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek stack report                        all programs that run under TEK
  tek stack report --pid 815
  tek stack report memcached              what earlier runs of it showed
  tek stack report -- ./fridge --window   run it, then report
  tek stack report --json memcached | jq '.programs[].kinds[].advice'

A kind of thread is a function, the place where such threads are created, and
their label: their role, else their name with # for numbers. SIZE is the largest
stack that one of them had, PEAK what one of them certainly used, BOUND what one
can have used at most, ZONE how full that is, and WASTE what was never used.

Of a thread that its own process did not measure, as without --stack, PEAK and
BOUND are what is seen from outside: traces of an earlier thread that had the
same stack count too. First threads of processes have no size that a program or
TEK could choose, and are left out.
";

/// Arguments of `tek stack report`.
#[derive(clap::Args)]
#[command(
    after_help = format!("{AFTER_HELP}\n{EXIT_STATUS}"),
    override_usage = "tek stack report [OPTIONS] [PROGRAM]\n       \
                      tek stack report [OPTIONS] -- COMMAND [ARGUMENT]..."
)]
pub struct Args {
    #[command(flatten)]
    from: From,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The report: a stable format, to which fields may be added.
#[derive(Serialize)]
struct Report {
    schema: u32,
    programs: Vec<Program>,
}

#[derive(Serialize)]
struct Program {
    program: String,
    build_id: Option<String>,
    source: String,
    #[serde(flatten)]
    rows: Rows,
}

/// Prints it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let answer = match args.from.find(args.json)? {
        Ok(answer) => answer,
        Err(status) => return Ok(status),
    };
    let programs = answer.found.iter().map(|found| Program {
        program: found.profile.program.clone(),
        build_id: found.build_id.clone(),
        source: found.source.clone(),
        rows: Rows::new(&found.profile, found.judgement),
    });
    let report = Report { schema: 1, programs: programs.collect() };
    let text = if args.json {
        crate::json::pretty(&report)? + "\n"
    } else if report.programs.is_empty() {
        answer.nothing().to_owned()
    } else {
        let texts: Vec<_> = report.programs.iter().map(Program::text).collect();
        texts.join("\n")
    };
    let mut out = answer.out;
    out.write_all(text.as_bytes())?;
    Ok(answer.end.map_or(ExitCode::SUCCESS, |end| end.pass_on()))
}

impl Program {
    fn text(&self) -> String {
        format!("{}\n{}", title(&self.program, &self.source), self.rows.text())
    }
}

/// The title of a program above its report.
pub fn title(program: &str, source: &str) -> String {
    printable(format!("{program} ({source})").as_bytes())
}

impl Found {
    /// See [`title`].
    pub fn title(&self) -> String {
        title(&self.profile.program, &self.source)
    }
}
