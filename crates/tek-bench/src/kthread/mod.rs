// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench kthread` (kernel-threads-wapip-2007, V): real-time tasks wait for kernel threads that
//! other threads keep from running. Compares today's remedies with TEK.

mod case;
mod curves;
mod equations;
mod experiments;
mod faults;
mod files;
mod keeper;
mod late;
mod losses;
mod overhead;
mod quantities;
mod reaction;
mod session;
mod stage;
mod summary;
mod threads;
mod variant;

use super::early_end;
use super::json::{without_numbers, NotRun, Row};
use super::memory;
use super::output::{spinner, JudgeOptions, Output, Results};
use super::programs::installed;
use super::verdict::{judge, Verdicts};
use anyhow::bail;
use clap::ValueEnum;
use experiments::Extent;
use nix::unistd::geteuid;
use serde::Serialize;
use session::Session;
use stage::Stage;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use tek_command::values::kind::name_of;
use variant::Variant;

/// Arguments of `tek bench kthread`.
#[derive(clap::Args)]
#[command(after_help = "EXAMPLES:
  tek bench kthread                            everything that this machine can show
  tek bench kthread --parts pdflush --curves   one experiment, with the paper's curves as text
  tek bench kthread --quick --parts pdflush    a few seconds, to see whether it runs
  tek bench kthread --parts worker --variants alone,as-it-is,tek --no-figures --rounds 9
  tek bench kthread --json result.json         all points of all curves for other programs
  tek bench kthread --parts files --operations fdatasync --rounds 25 --directory /mnt
                                               3,000 answers that wait for one file system
  tek bench kthread --assert                   exit status 1 if a bar is missed
  tek lab run --kind irqthreads --memory 256M --limit 900 --manifest lab/manifest.toml \\
      --with build -- /tek/build/bin/tek bench kthread --parts irq,kswapd --directory /disk

It needs root. Real-time tasks take 90% of each CPU for seconds, and all of it in one case; limits
of dirty memory are changed meanwhile. Not on a device in use. However it ends, everything is put
back.

For pdflush and worker the kernel first needs some time (6 s with 256 MB of memory, 40 s with 24 GB)
to come down to the limit of dirty memory that is set here, as a device has it that booted with it.
--quick leaves that out, so that waits are short.

EXIT STATUS:
  0 if it ran (even if TEK fell short), 1 if --assert was given and TEK was measured too
  seldom or fell short, 2 if the command line was not understood, 125 if it failed, 130 or 143
  if SIGINT or SIGTERM ended it early: what it measured until then is reported.")]
pub struct Args {
    /// Rounds; in each every variant runs once [default: 5, or 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Kills of tekd [default: 200, or 10 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    faults: Option<u32>,
    /// Of the kills: when
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// What to measure, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    parts: Vec<Part>,
    /// Which variants, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    variants: Vec<Variant>,
    /// Only what is judged: not the other periods and sizes of the paper's figures
    #[arg(long)]
    no_figures: bool,
    /// Which operations of the part files, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    operations: Vec<String>,
    /// Where files are written and read: on a disk, not in memory [default: where temporary files
    /// lie]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Draw responses and memory over time, and cumulative rates
    #[arg(long)]
    curves: bool,
    #[command(flatten)]
    judge: JudgeOptions,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Part {
    /// A writer, and the kernel threads that write back what it made dirty
    Pdflush,
    /// A writer beside a reader of lower priority, where interrupts have threads
    Irq,
    /// A reader where memory is short
    Kswapd,
    /// A writer while new kernel workers have to be created
    Worker,
    /// Operations on files that wait for the disk, and what late answers wait for
    Files,
    /// What a third task loses, by equation (2) and by equation (1)
    Equations,
    /// From an event to the changed priority
    Reaction,
    /// Tables 2 to 7, with TEK off and on
    Overhead,
    /// Kills of tekd, and whether every kernel thread is as before
    Faults,
}

/// How much is measured.
struct Plan {
    extent: Extent,
    variants: Vec<Variant>,
    operations: Vec<String>,
    settle: bool,
    rounds: usize,
    overhead_rounds: usize,
    kills: usize,
}

const FULL: Plan = Plan {
    extent: Extent { seconds: 6.0, varied: true },
    variants: Vec::new(),
    operations: Vec::new(),
    settle: true,
    rounds: 5,
    overhead_rounds: 9,
    kills: 200,
};
const QUICK: Plan = Plan {
    extent: Extent { seconds: 0.6, varied: false },
    variants: Vec::new(),
    operations: Vec::new(),
    settle: false,
    rounds: 1,
    overhead_rounds: 1,
    kills: 10,
};

/// All measurements; a part that is empty or `None` could not be measured.
#[derive(Default, Serialize)]
struct Measured {
    sessions: Vec<Session>,
    reaction: Option<reaction::Measured>,
    overhead: Option<overhead::Measured>,
    faults: Option<faults::Measured>,
}

impl Measured {
    fn session(&self, part: &str) -> Option<&Session> {
        self.sessions.iter().find(|session| session.part == part)
    }
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let output = Output::begin("", &args.judge.options)?;
    if !geteuid().is_root() {
        bail!(
            "real-time tasks and settings of the kernel need root: {}",
            tek_advice::again_as_root(&[])
        );
    }
    let mut parts = args.parts.clone();
    if parts.is_empty() {
        parts = Part::value_variants().to_vec();
    }
    parts.sort();
    parts.dedup();

    let (measured, not_run) = measure(args, &parts)?;
    let terminal = output.terminal;
    let judged = judge("kthread", parts.iter().map(|&part| name_of(part)), &measured.quantities());
    let failed: Vec<NotRun> =
        measured.sessions.iter().flat_map(|session| session.failed.clone()).collect();
    let mut sections = Vec::new();
    for session in &measured.sessions {
        sections.push(match session.part {
            "files" => files::report(session, terminal),
            _ => summary::report(session, terminal),
        });
        if session.part == "equations" {
            sections.push(equations::report(session, terminal));
        }
        if args.curves {
            sections.push(curves::report(session, terminal));
        }
    }
    sections.extend([
        measured.reaction.as_ref().map_or_else(String::new, reaction::report),
        measured.overhead.as_ref().map_or_else(String::new, |it| overhead::report(it, terminal)),
        measured.faults.as_ref().map_or_else(String::new, faults::report),
        judged.report(terminal),
        without_numbers(&not_run, &failed),
        output.caution(),
    ]);
    let results = Results {
        bench: "kthread",
        rows: rows(&measured, &judged),
        not_run: &not_run,
        failed: &failed,
        raw: &measured,
    };
    output.end(sections, results)?;
    Ok(args.judge.exit_code(&judged, Vec::new()))
}

fn rows(measured: &Measured, judged: &Verdicts) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for session in &measured.sessions {
        rows.extend(match session.part {
            "files" => files::rows(session),
            _ => summary::rows(session),
        });
    }
    rows.extend(measured.session("equations").iter().flat_map(|it| equations::rows(it)));
    rows.extend(measured.reaction.iter().flat_map(reaction::rows));
    rows.extend(measured.overhead.iter().flat_map(overhead::rows));
    rows.extend(measured.faults.iter().flat_map(faults::rows));
    rows.extend(judged.rows());
    rows
}

/// Runs the parts, one after the other. A part that fails is named with its reason, and the next
/// part runs. A signal ends it early.
fn measure(args: &Args, parts: &[Part]) -> anyhow::Result<(Measured, Vec<NotRun>)> {
    let mut plan = if args.judge.quick { QUICK } else { FULL };
    plan.extent.varied &= !args.no_figures;
    plan.variants = variants(&args.variants);
    plan.operations.clone_from(&args.operations);
    let rounds = args.rounds.map_or(plan.rounds, usize::from);
    let kills = args.faults.map_or(plan.kills, |kills| kills as usize);
    let mut stage = Stage::prepare(args.directory.as_deref())?;
    early_end::catch()?;
    let spinner = spinner();
    let (mut measured, mut not_run) = (Measured::default(), Vec::new());
    for part in parts {
        if early_end::ended_by().is_some() {
            break;
        }
        let name = part.to_possible_value().map_or_else(String::new, |it| it.get_name().to_owned());
        spinner.set_message(name.clone());
        let done = match part {
            Part::Reaction => reaction::measure(&mut stage, 5.0 * plan.extent.seconds)
                .map(|it| measured.reaction = Some(it)),
            Part::Overhead => {
                let rounds = args.rounds.map_or(plan.overhead_rounds, usize::from);
                let (overhead, missing) = overhead::measure(&stage, rounds);
                measured.overhead = Some(overhead);
                not_run.extend(missing);
                Ok(())
            }
            Part::Faults => faults::measure(&mut stage, kills, args.seed, &spinner)
                .map(|it| measured.faults = Some(it)),
            _ => spinner.suspend(|| experiment(&mut stage, *part, &plan, rounds)).map(|it| {
                not_run.extend(it.not_run.clone());
                measured.sessions.push(it);
            }),
        };
        if let Err(error) = done.and_then(|()| stage.undo()) {
            not_run.push(NotRun { variant: name, reason: format!("{error:#}") });
        }
    }
    spinner.finish_and_clear();
    Ok((measured, not_run))
}

/// One of the paper's experiments.
fn experiment(
    stage: &mut Stage,
    part: Part,
    plan: &Plan,
    rounds: usize,
) -> anyhow::Result<Session> {
    let extent = plan.extent;
    let (name, cases) = match part {
        Part::Irq => {
            if !interrupts_have_threads() {
                bail!("interrupts of disks have no threads here: tek lab run --kind irqthreads");
            }
            ("irq", experiments::irq(extent))
        }
        Part::Kswapd => {
            let memory = memory::to_fill().map_err(anyhow::Error::msg)?;
            ("kswapd", experiments::kswapd(extent, memory))
        }
        Part::Files => ("files", files::cases(extent, &plan.operations)?),
        Part::Worker => ("worker", experiments::worker(extent, stage.writes()?)),
        Part::Equations => ("equations", experiments::equations(extent, stage.writes()?)),
        _ => ("pdflush", experiments::pdflush(extent, stage.writes()?)),
    };
    if plan.settle && cases.iter().any(|case| case.dirty_bytes().is_some()) {
        stage.settle(&cases)?;
    }
    let only = |it: &Variant| name != "files" || FILES.contains(it);
    let variants: Vec<Variant> = plan.variants.iter().copied().filter(only).collect();
    Ok(session::measure(stage, name, &cases, &variants, rounds))
}

/// These, or all; stalld only where it is installed.
fn variants(wanted: &[Variant]) -> Vec<Variant> {
    let mut variants = wanted.to_vec();
    if wanted.is_empty() {
        let has_stalld = installed("stalld").is_some();
        let all = Variant::value_variants().iter().copied();
        variants.extend(all.filter(|it| has_stalld || *it != Variant::Stalld));
    }
    variants.sort();
    variants.dedup();
    variants
}

/// The variants of the part files, which has many operations.
const FILES: [Variant; 4] = [Variant::Alone, Variant::AloneAgain, Variant::AsItIs, Variant::Tek];

/// Whether threads handle the disk's interrupts: they do for virtio's queues, SATA, NVMe and eMMC.
fn interrupts_have_threads() -> bool {
    const DISKS: [&str; 6] = ["virtio", "ahci", "nvme", "mmc", "ata", "sdhci"];
    let names = tek_model::processes().unwrap_or_default().into_iter();
    let mut names = names.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    names.any(|name| name.starts_with("irq/") && DISKS.iter().any(|disk| name.contains(disk)))
}
