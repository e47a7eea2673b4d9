// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage of all measurements: one run of a case under a variant.

use super::case::{dirty, Case, Task};
use super::experiments::Writes;
use super::keeper::Keeper;
use super::late::Sample;
use super::losses::{self, Losses, Trace};
use super::threads::{self, Between};
use super::variant::{Variant, STATIC};
use crate::daemon::Daemon;
use crate::ground::{Copied, Ground, User};
use crate::programs::Program;
use anyhow::{ensure, Context};
use nix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tek_advice::Package;

const BYSTANDER: &str = "bystander";
/// The programs; `bystander` is a copy of `hog` under another name.
const PROGRAMS: [Copied; 10] = [
    ("kthread", "writer", "writer"),
    ("kthread", "reader", "reader"),
    ("kthread", "file_ops", "file_ops"),
    ("kthread", "hog", "hog"),
    ("kthread", "hog", BYSTANDER),
    ("kthread", "spawner", "spawner"),
    ("kthread", "waker", "waker"),
    ("kthread", "keeper", "keeper"),
    ("kthread", "micro", "micro"),
    ("response", "appliance", "appliance"),
];

/// By then each program has received the begin and the end of the measured interval.
const AHEAD: Duration = Duration::from_millis(300);
/// Written to measure the disk's speed.
const MEASURED_BYTES: u64 = 32 << 20;
/// The nice value of the kernel's workqueue for writeback.
const WORKQUEUE: &str = "/sys/devices/virtual/workqueue/writeback/nice";

/// The result of one of the real-time tasks of a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hog {
    pub cpu: i32,
    pub cpu_ns: u64,
    /// The part of its bursts in which it did not have the CPU.
    pub lost_ns: u64,
    pub worst_ns: u64,
    #[serde(rename = "turns")]
    pub periods: u64,
}

/// The resources that tekd used.
#[derive(Clone, Debug, Serialize)]
pub struct Used {
    pub cpu_ns: u64,
    pub wall_ns: u64,
}

/// All measurements of a run. Times in ns.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// When each period began, since the beginning, and how long it took.
    #[serde(rename = "turns")]
    pub periods: Vec<(u64, u64)>,
    /// CPU time of the measured task, with the thread that takes samples.
    pub task_cpu_ns: u64,
    /// Time, pages that are dirty or being written, the number of pages from which writers wait,
    /// free pages.
    pub samples: Vec<(u64, u64, u64, u64)>,
    pub bystanders: Vec<Hog>,
    /// The threads to which the bystanders lost CPU.
    pub losses: Option<Losses>,
    /// CPU, from, to: when the kernel stopped all real-time threads.
    pub stopped: Vec<(i32, u64, u64)>,
    pub threads: Between,
    /// The causes of late answers.
    pub late: Vec<Sample>,
    pub tekd: Option<Used>,
    /// The status of tekd on kernel threads.
    pub kthreads: Value,
}

#[derive(Deserialize)]
struct Took {
    #[serde(rename = "turns")]
    periods: Vec<(u64, u64)>,
    cpu_ns: u64,
    samples: Vec<(u64, u64, u64, u64)>,
    #[serde(default)]
    late: Vec<Sample>,
}

#[derive(Deserialize)]
struct Hogged {
    hogs: Vec<Hog>,
    stopped: Vec<(i32, u64, u64)>,
}

/// The programs and files, and the machine's changed settings.
pub struct Stage {
    keeper: Keeper,
    /// The kernel's trace of switches, where a case has bystanders.
    trace: Option<Trace>,
    /// Dropped after the keeper, because the keeper's program is in this directory.
    pub ground: Ground,
}

impl Stage {
    pub fn prepare(directory: Option<&Path>) -> anyhow::Result<Stage> {
        let ground = Ground::prepare(&PROGRAMS, directory)?;
        Ok(Stage { keeper: Keeper::start(&ground)?, trace: None, ground })
    }

    /// Restores the machine's changed settings.
    pub fn undo(&mut self) -> anyhow::Result<()> {
        self.trace = None;
        self.keeper.undo()
    }

    /// The kernel's limit of dirty memory follows a lower setting by 1/32 in 200 ms, and only while
    /// a writer is held up: until then no writer has to wait (docs/results.md).
    pub fn settle(&mut self, cases: &[Case]) -> anyhow::Result<()> {
        let least = cases.iter().filter_map(|case| case.dirty_bytes()).min();
        let seconds = seconds_to_settle(dirty_threshold(), least.unwrap_or(u64::MAX));
        for (path, value) in dirty(256 << 10) {
            self.keeper.write(path, &value)?;
        }
        let task = Task::new("writer").with("bytes", 1 << 20).with("period-us", 5000);
        let mut program = self.start(&task.with("file-bytes", 64 << 20).and("@settled"))?;
        let from = now() + AHEAD;
        program.announce(&times(from, from + Duration::from_secs_f64(seconds)))?;
        program.line()?;
        fs::remove_file(self.ground.path("settled")).context("cannot remove a file")
    }

    /// The amount that a writer can write here: half of the disk's bandwidth.
    pub fn writes(&self) -> anyhow::Result<Writes> {
        let begin = Instant::now();
        let path = self.ground.path("speed");
        make_file(&path, MEASURED_BYTES)?;
        let speed = MEASURED_BYTES as f64 / begin.elapsed().as_secs_f64();
        fs::remove_file(path).context("cannot remove a file")?;
        Ok(Writes::at(speed as u64))
    }

    /// Settings and files of a case.
    pub fn arrange(&mut self, case: &Case) -> anyhow::Result<()> {
        for (path, value) in &case.settings {
            self.keeper.write(path, value)?;
        }
        if case.beside.iter().any(|task| task.program == "spawner") {
            self.keeper.keep(WORKQUEUE).context("workers are not created on demand here")?;
        }
        if self.trace.is_none() && case.beside.iter().any(|task| task.program == BYSTANDER) {
            let directory = self.keeper.trace(&format!("tek-bench-{}", std::process::id()))?;
            self.trace = Some(Trace::new(directory)?);
        }
        for (name, bytes) in &case.files {
            make_file(&self.ground.path(name), *bytes)?;
        }
        Ok(())
    }

    /// One run.
    pub fn run(&mut self, case: &Case, variant: Variant) -> anyhow::Result<Run> {
        if !case.files.iter().any(|(name, _)| name == "written") {
            let _ = fs::remove_file(self.ground.path("written"));
        }
        nix::unistd::sync();
        let settings = variant.settings();
        let daemon = settings.map(|it| Daemon::start(&self.ground, it)).transpose()?;
        let _stalld = (variant == Variant::Stalld).then(stalld).transpose()?;
        let load = if variant.is_disturbed() { &case.load[..] } else { &[] };
        let tasks: Vec<&Task> = [&case.task].into_iter().chain(&case.beside).chain(load).collect();
        let mut programs = Vec::new();
        for task in &tasks {
            programs.push(self.start(task)?);
        }
        // Workers that are created later are as the kernel makes them: so it is with those tools.
        let mut keeper = None;
        if variant == Variant::Static {
            keeper.insert(Keeper::start(&self.ground)?).make_static(STATIC)?;
        }
        let run = self.observe(case, &tasks, &mut programs, &daemon)?;
        drop(keeper);
        daemon.map(Daemon::stop).transpose()?;
        Ok(run)
    }

    /// Sends each program the time at which it begins, and collects the results.
    fn observe(
        &self,
        case: &Case,
        tasks: &[&Task],
        programs: &mut [Program],
        daemon: &Option<Daemon>,
    ) -> anyhow::Result<Run> {
        let usage = || daemon.as_ref().map(Daemon::usage).transpose();
        let (before, used_before, begin) = (threads::Sample::now(), usage()?, Instant::now());
        let mut threads = losses::Threads::default();
        if let Some(trace) = &self.trace {
            for (number, (task, program)) in tasks.iter().zip(&*programs).enumerate() {
                match (number, task.program) {
                    (0, _) => threads.task.extend(tids(program.pid())),
                    (_, BYSTANDER) => threads.bystanders.extend(tids(program.pid())),
                    _ => {}
                }
            }
            trace.begin(&threads)?;
        }
        let from = now() + AHEAD;
        let times = times(from, from + Duration::from_secs_f64(case.seconds));
        for program in &mut *programs {
            program.announce(&times)?;
        }
        let mut run = Run::default();
        for (number, (task, program)) in tasks.iter().zip(programs).enumerate() {
            if number == 0 {
                let took: Took = program.read_line().context(task.program)?;
                (run.periods, run.task_cpu_ns) = (took.periods, took.cpu_ns);
                (run.samples, run.late) = (took.samples, took.late);
            } else if matches!(task.program, "hog" | BYSTANDER) {
                let Hogged { hogs, stopped } = program.read_line().context(task.program)?;
                run.stopped.extend(stopped);
                run.bystanders.extend(hogs.into_iter().filter(|_| task.program == BYSTANDER));
            } else {
                program.line().context(task.program)?;
            }
        }
        ensure!(!run.periods.is_empty(), "{} did nothing", case.task.program);
        let after = threads::Sample::now();
        run.threads = after.since(&before);
        if let Some(trace) = &self.trace {
            threads.kernel = before.tids().chain(after.tids()).collect();
            threads.tekd = daemon.iter().flat_map(|daemon| tids(daemon.pid())).collect();
            run.losses = Some(trace.end(&threads)?);
        }
        if let (Some(daemon), Some(after), Some(earlier)) = (daemon, usage()?, used_before) {
            let wall_ns = begin.elapsed().as_nanos() as u64;
            run.tekd = Some(Used { cpu_ns: after.since(earlier).cpu_ns, wall_ns });
            run.kthreads = status_of_kthreads(daemon)?;
        }
        Ok(run)
    }

    /// Starts a program; it waits for its times.
    pub fn start(&self, task: &Task) -> anyhow::Result<Program> {
        let mut command = self.ground.command(task.program, User::Own, false);
        for argument in &task.arguments {
            match argument.strip_prefix('@') {
                Some(name) => command.arg(self.ground.path(name)),
                None => command.arg(argument),
            };
        }
        let mut program = Program::start(command).context(task.program)?;
        ensure!(program.line().context(task.program)? == "ready\n", "{} is not", task.program);
        Ok(program)
    }
}

/// The threads of a process.
fn tids(pid: u32) -> BTreeSet<u32> {
    let tids = tek_model::Process::open(pid).and_then(|process| process.tids());
    tids.unwrap_or_default().into_iter().collect()
}

/// The bytes of dirty memory from which writers wait.
fn dirty_threshold() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let pages = text.lines().find_map(|line| line.strip_prefix("nr_dirty_threshold "));
    pages.and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// The time of the kernel's limit from one value to the other, in s.
fn seconds_to_settle(from_bytes: u64, to_bytes: u64) -> f64 {
    let times = from_bytes as f64 / to_bytes as f64;
    (32.0 * 0.2 * times.max(1.0).ln() + 2.0).min(60.0)
}

/// A variant must not silently be another one.
pub fn status_of_kthreads(daemon: &Daemon) -> anyhow::Result<Value> {
    let mut status = daemon.status()?;
    let kthreads = status["kthreads"].take();
    ensure!(kthreads.is_object(), "this tekd does not say that kernel threads follow");
    Ok(kthreads)
}

/// CLOCK_MONOTONIC.
pub fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

/// The line that programs wait for.
pub fn times(from: Duration, to: Duration) -> String {
    format!("{} {}\n", from.as_nanos(), to.as_nanos())
}

fn make_file(path: &Path, bytes: u64) -> anyhow::Result<()> {
    let make = || {
        let mut file = File::create(path)?;
        let block = vec![b'k'; 1 << 20];
        for _ in 0..bytes.div_ceil(block.len() as u64) {
            file.write_all(&block)?;
        }
        file.set_len(bytes)?;
        file.sync_all()
    };
    make().with_context(|| format!("cannot make {}", path.display()))
}

/// A running stalld, which is ended when this is dropped.
struct Stalld(std::process::Child);

fn stalld() -> anyhow::Result<Stalld> {
    let mut command = Command::new("stalld");
    // The least that it waits before it helps.
    command.args(["--foreground", "--starving_threshold", "1"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    const PACKAGE: Package = Package { names: &[("stalld", 0)] };
    let missing = || format!("stalld is not installed: {}", tek_advice::install(&[PACKAGE], None));
    let mut stalld = Stalld(command.spawn().with_context(missing)?);
    sleep(Duration::from_secs(1));
    ensure!(stalld.0.try_wait()?.is_none(), "stalld ended at once");
    Ok(stalld)
}

impl Drop for Stalld {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}
