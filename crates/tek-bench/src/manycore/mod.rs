// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench manycore` (rtos-linux-scalability-2018): the obstacles to the use of more CPUs, and
//! the lock, barrier, allocator and placement that help each program.

mod breakdown;
mod launch;
mod micro;
mod overhead;
mod paper;
mod plan;
mod programs;
mod quantities;
mod retained;
mod setting;

use super::json::{without_numbers, NotRun, Row};
use super::output::{spinner, JudgeOptions, Output, Results};
use super::terminal::Terminal;
use super::verdict::{judge, Verdicts};
use plan::Plan;
use serde::{Deserialize, Serialize};
use setting::{Model, Preset};
use std::path::PathBuf;
use std::process::ExitCode;
use tek_command::values::kind::name_of;

/// Arguments of `tek bench manycore`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench manycore                             all figures of the paper, an hour or so
  tek bench manycore --quick                     some seconds, to see whether it runs
  tek bench manycore --parts streamcluster       one program under each setting
  tek bench manycore --parts dedup --preset linux-cfs,fmp-base --threads 1,2,4,8
                                                 two of the paper's settings
  tek bench manycore --parts dedup --locks k42,park --full
                                                 each lock with each placement, allocator and model
  tek bench manycore --json result.json          the numbers for other programs
  tek bench manycore --from result.json          the tables again

Each setting runs once in each round, in turns, with its threads (what a spin lock takes differs
from moment to moment: 10 times, where each thread has a CPU); each program checks its result.
What the settings of the paper become is printed first. A preset is compared with others of the
same run; without --full, each thing is varied alone.

Often enough, for --assert, are 5 rounds, as without --quick.

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and TEK was measured too
  seldom or fell short, 2 if the command line was not understood, 125 if it failed.")]
pub struct Args {
    /// What to measure, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    parts: Vec<Part>,
    /// The paper's settings for the programs, and no others but those that are named
    #[arg(long, value_delimiter = ',', value_name = "LIST", conflicts_with = "no_figures")]
    preset: Vec<Preset>,
    /// Each lock, barrier, placement, allocator and model with each; hours
    #[arg(long, conflicts_with = "no_figures")]
    full: bool,
    /// Only what is judged: not the paper's other settings, and no breakdown
    #[arg(long)]
    no_figures: bool,
    /// With how many threads [default: 1, 2, 4 ... to four times the CPUs]
    #[arg(long, value_delimiter = ',', value_name = "LIST",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    threads: Vec<usize>,
    /// Locks of the programs, as `tek run --lock` has them; spin measures all
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = setting::lock,
          conflicts_with = "no_figures")]
    locks: Vec<String>,
    /// Barriers of streamcluster, as `tek run --barrier` has them; glibc: the C library's
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = setting::barrier,
          conflicts_with = "no_figures")]
    barriers: Vec<String>,
    /// Placements, as `tek run --place` has them (of cores a single range: commas separate
    /// placements)
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = setting::place,
          conflicts_with = "no_figures")]
    places: Vec<String>,
    /// Allocators, as `tek run --alloc` has them
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = setting::alloc,
          conflicts_with = "no_figures")]
    allocs: Vec<String>,
    /// Models of threads, beside the kernel's
    #[arg(long, value_delimiter = ',', value_name = "LIST", conflicts_with = "no_figures")]
    models: Vec<Model>,
    /// Rounds; in each every setting runs once [default: 5, or 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Measure nothing: print what an earlier run wrote with --json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "assert", "quick", "parts"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    judge: JudgeOptions,
}

/// What can be measured.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Throughput of spin locks, and `uncontended`
    Spin,
    /// What an uncontended mutex costs under each `tek run --lock`
    Uncontended,
    /// Queue nodes and stacks in local or interleaved memory
    Nodes,
    /// Mathematical functions of several C libraries
    Math,
    /// Throughput of allocators
    Alloc,
    /// An allocator's throughput by how it finds out which thread calls
    Getters,
    /// Fork-join, files read and written by one thread
    Blackscholes,
    /// Monte-Carlo, hardly any synchronisation
    Swaptions,
    /// More than 100,000 barriers
    Streamcluster,
    /// A pipeline with 150,000 locks
    Dedup,
    /// What `tek profile` costs these programs
    Profile,
}

impl Measured {
    fn judge(&self, parts: &[Part]) -> Verdicts {
        judge("manycore", parts.iter().map(|part| part.name()), &self.quantities())
    }

    /// The parts for which there are numbers.
    fn parts(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = self.micro.points.iter().map(|it| it.part).collect();
        parts.extend(self.programs.series.iter().map(|it| it.cell.program));
        parts.extend((self.overhead.rounds() > 0).then_some(Part::Profile));
        parts.sort();
        parts.dedup();
        parts
    }
}

impl Part {
    /// The parts that are programs.
    const PROGRAMS: [Part; 4] =
        [Part::Blackscholes, Part::Swaptions, Part::Streamcluster, Part::Dedup];
    const MICRO: [Part; 6] =
        [Part::Spin, Part::Uncontended, Part::Nodes, Part::Math, Part::Alloc, Part::Getters];

    fn is_program(self) -> bool {
        Part::PROGRAMS.contains(&self)
    }

    fn name(self) -> String {
        name_of(self)
    }
}

/// All measurements, and the facts that are needed to understand them later.
#[derive(Default, Serialize, Deserialize)]
struct Measured {
    command: Vec<String>,
    machine: String,
    /// Of memory.
    nodes: usize,
    presets: Vec<String>,
    micro: micro::Measured,
    programs: programs::Measured,
    breakdowns: Vec<breakdown::Breakdown>,
    #[serde(default)]
    overhead: overhead::Measured,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.from {
        return retained::show(path);
    }
    let output = Output::begin("", &args.judge.options)?;
    let plan = Plan::of(args, output.host.cpus);
    let mut measured = Measured {
        command: std::env::args().collect(),
        machine: output.host.describe(),
        nodes: memory_nodes(),
        presets: plan.presets.iter().map(|it| it.explain(plan.cpus)).collect(),
        ..Measured::default()
    };
    let (not_run, failed) = measure(&plan, &mut measured);

    let terminal = output.terminal;
    let judged = measured.judge(&plan.parts);
    let mut sections = report(&measured, terminal);
    sections.extend([
        judged.report(terminal),
        without_numbers(&summarized(&not_run), &failed),
        output.caution(),
    ]);
    let results = Results {
        bench: "manycore",
        rows: rows(&measured, &judged),
        not_run: &not_run,
        failed: &failed,
        raw: &measured,
    };
    output.end(sections, results)?;
    let failed = failed.iter().map(|it| format!("{}: {}", it.variant, it.reason)).collect();
    Ok(args.judge.exit_code(&judged, failed))
}

/// All tables.
fn report(measured: &Measured, terminal: Terminal) -> Vec<String> {
    let mut sections = Vec::new();
    if !measured.programs.series.is_empty() {
        sections.push(format!(
            "the paper's settings and what stands for them here:\n  {}\n",
            measured.presets.join("\n  ")
        ));
    }
    let micro = |&part: &Part| micro::report(&measured.micro, part, terminal);
    sections.extend(Part::MICRO.iter().map(micro));
    sections.extend(programs::report(&measured.programs, terminal));
    if measured.breakdowns.is_empty() && !measured.programs.series.is_empty() {
        sections.push(programs::report_parts(&measured.programs, terminal));
    }
    sections.push(breakdown::report(&measured.breakdowns, terminal));
    sections.push(overhead::report(&measured.overhead, terminal));
    sections
}

fn rows(measured: &Measured, judged: &Verdicts) -> Vec<Row> {
    let mut rows = micro::rows(&measured.micro);
    rows.extend(programs::rows(&measured.programs));
    rows.extend(breakdown::rows(&measured.breakdowns));
    rows.extend(overhead::rows(&measured.overhead));
    rows.extend(judged.rows());
    rows
}

/// Runs the parts, one after the other. A part that fails is named with its reason, and the next
/// part runs.
fn measure(plan: &Plan, measured: &mut Measured) -> (Vec<NotRun>, Vec<NotRun>) {
    let mut not_run = Vec::new();
    let cells = plan.cells();
    let progress = spinner();
    let extent = micro::Extent {
        rounds: plan.rounds,
        little: plan.little,
        cpus: plan.cpus,
        threads: plan.threads.clone(),
        judged_threads: plan.judged_threads(),
        allocs: plan.allocs(),
    };
    for part in plan.parts.iter().copied().filter(|it| Part::MICRO.contains(it)) {
        not_run.extend(micro::measure(part, &extent, &mut measured.micro, &progress));
    }
    let extent = programs::Extent { rounds: plan.rounds, little: plan.little, cpus: plan.cpus };
    let (programs, missing, failed) = programs::measure(&cells, &extent, &progress);
    measured.programs = programs;
    not_run.extend(missing);
    let (breakdowns, missing) = breakdown::measure(&plan.profiled(), &extent, &progress);
    measured.breakdowns = breakdowns;
    not_run.extend(missing);
    if plan.parts.contains(&Part::Profile) {
        let (overhead, missing) = overhead::measure(&extent, &progress);
        measured.overhead = overhead;
        not_run.extend(missing);
    }
    progress.finish_and_clear();
    (not_run, failed)
}

/// One line for each setting that was not run for the same reason with several numbers of threads.
fn summarized(not_run: &[NotRun]) -> Vec<NotRun> {
    let mut all: Vec<NotRun> = Vec::new();
    for it in not_run {
        let variant = match it.variant.rsplit_once(", ") {
            Some((setting, threads)) if threads.contains(" thread") => setting.to_owned(),
            _ => it.variant.clone(),
        };
        if !all.iter().any(|other| other.variant == variant && other.reason == it.reason) {
            all.push(NotRun { variant, reason: it.reason.clone() });
        }
    }
    all
}

/// How many nodes of memory the machine has.
fn memory_nodes() -> usize {
    let is_node = |name: &str| {
        let number = name.strip_prefix("node");
        number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let entries = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    entries.filter(|it| is_node(&it.file_name().to_string_lossy())).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_could_not_be_run_is_named_once() {
        let not = |variant: &str| NotRun { variant: variant.to_owned(), reason: "no".to_owned() };
        let all = [
            not("dedup, lock k42, 1 thread"),
            not("dedup, lock k42, 8 threads"),
            not("math, musl"),
        ];
        let named: Vec<_> = summarized(&all).into_iter().map(|it| it.variant).collect();
        assert_eq!(named, ["dedup, lock k42", "math, musl"]);
    }

    #[test]
    fn there_is_memory() {
        assert!(memory_nodes() >= 1);
    }
}
