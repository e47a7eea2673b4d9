// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source of the kinds of thread for `tek stack report` and `tek stack advice`.
use crate::message;
use crate::run;
use crate::stack_use::learn::{Learnt, Source};
use crate::stack_use::render::Judgement;
use anyhow::Context;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use tek_model::{directories, Device, Functions, Wanted};
use tek_stack::{Costs, Mode, Parsed, Problem, Profile, Rule, Store, Stored, Zones};

/// Where profiles lie.
#[derive(clap::Args, Clone, Debug)]
pub struct Profiles {
    /// Where profiles lie [default: TEK_STACK_PROFILES, else ~/.local/state/tek/stack,
    /// for root /var/lib/tek/stack]
    #[arg(long = "profiles", alias = "stack-profiles", value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}

/// The exit status of a command that has [`From`].
pub const EXIT_STATUS: &str = "\
EXIT STATUS:
    0  it was printed; with a COMMAND, the exit status of that
    1  nothing is known of what was named
  125  TEK itself failed
    2  an option was not understood";

/// Which kinds.
#[derive(clap::Args)]
pub struct From {
    /// Name of a program that has a profile; without one, all programs that
    /// run under TEK now
    #[arg(value_name = "PROGRAM", conflicts_with_all = ["pid", "profile"])]
    name: Option<String>,

    /// The threads that this process has now
    #[arg(long, value_name = "PID", conflicts_with = "profile")]
    pid: Option<u32>,

    /// This profile, tek-stack-profile(5)
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    #[command(flatten)]
    profiles: Profiles,

    /// Judge by what --stack tight does instead of --stack auto
    #[arg(long)]
    tight: bool,

    /// Run this program, measuring its stacks, add the measurements to the profiles, and
    /// report on standard error when it has ended; with --json or --c on standard output,
    /// and what the program writes goes to standard error
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["name", "pid", "profile"])]
    command: Vec<OsString>,
}

/// The profile of a program, with its source.
pub struct Found {
    /// Where it is from.
    pub source: String,
    /// The build-id under which it is stored, if it is.
    pub build_id: Option<String>,
    /// Its profile.
    pub profile: Profile,
    /// How to judge it.
    pub judgement: Judgement,
}

/// The result.
pub struct Answer {
    /// The programs.
    pub found: Vec<Found>,
    /// The output: standard output as it was when tek began.
    pub out: File,
    /// The exit status or signal of tek, if all goes well.
    pub end: Option<run::child::End>,
}

impl Answer {
    /// The message where there are no programs.
    pub fn nothing(&self) -> &'static str {
        match self.end {
            Some(_) => "it had no thread but its first one, whose stack the kernel makes\n",
            None => "nothing runs under TEK that has more than its first thread\n",
        }
    }
}

impl From {
    /// Finds it. `Err` is the exit status, after a message. A COMMAND's standard output stays
    /// standard output, unless `is_data`: then the answer goes there.
    pub fn find(self, is_data: bool) -> anyhow::Result<Result<Answer, ExitCode>> {
        let mode = if self.tight { Mode::Tight } else { Mode::Auto };
        let judgement = configured(mode);
        let mut end = None;
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let is_apart = !self.command.is_empty() && !is_data;
        let out = if is_apart { stderr.as_fd() } else { stdout.as_fd() }.try_clone_to_owned()?;
        let found = if !self.command.is_empty() {
            if is_data {
                nix::unistd::dup2_stdout(stderr.as_fd())?;
            }
            let (ended, learnt) = match run::run_measured(self.command, self.profiles.directory)? {
                Ok(ended) => ended,
                Err(status) => return Ok(Err(status)),
            };
            end = Some(ended);
            of_run(learnt, judgement)
        } else if let Some(path) = &self.profile {
            let parsed = Parsed::read(path)?;
            describe(&path.display().to_string(), &parsed.problems);
            let source = path.display().to_string();
            vec![Found { source, build_id: None, profile: parsed.profile, judgement }]
        } else if let Some(name) = &self.name {
            let store = store(self.profiles.directory)?;
            let found = of_store(&store, name, judgement);
            if found.is_empty() {
                message::print(&format!(
                    "nothing was learnt about {name} yet: there is no profile of it in {}; tek run \
                     --stack report learns when a process of it ends that has had more threads \
                     than its first one; one that is killed by a signal of its own, such as \
                     SIGSEGV, leaves only what was seen while it ran",
                    store.directory().display()
                ));
                return Ok(Err(ExitCode::FAILURE));
            }
            found
        } else {
            let found = running(self.pid, judgement)?;
            if let (Some(pid), true) = (self.pid, found.is_empty()) {
                message::print(&match tek_model::Process::open(pid) {
                    Ok(_) => format!(
                        "process {pid} does not run under TEK, or its table may not be read"
                    ),
                    Err(_) => format!("there is no process {pid}"),
                });
                return Ok(Err(ExitCode::FAILURE));
            }
            found
        };
        Ok(Ok(Answer { found, out: out.into(), end }))
    }
}

/// The rule of a mode, with the settings of the rules files.
pub fn configured(mode: Mode) -> Judgement {
    // tek run reports errors in them.
    let settings = run::rules::stack_settings().unwrap_or_default();
    let usual = Zones::default();
    let percent = |percent: Option<tek_policy::Percent>, usual| percent.map_or(usual, |p| p.0);
    Judgement {
        rule: Rule::new(
            mode,
            settings.margin.map(|margin| margin.0.into()),
            settings.floor.map(|floor| floor.0),
            Costs::here(),
        ),
        zones: Zones {
            low_percent: percent(settings.low, usual.low_percent),
            high_percent: percent(settings.high, usual.high_percent),
        },
    }
}

/// The named store, or the usual one.
pub fn store(directory: Option<PathBuf>) -> anyhow::Result<Store> {
    let given = directory.or_else(run::stack::inherited_profiles);
    Ok(Store::at(given.map_or_else(Store::usual_directory, Ok)?))
}

/// Reports the problems of a profile.
pub fn describe(path: &str, problems: &[Problem]) {
    const MOST: usize = 5;
    for problem in problems.iter().take(MOST) {
        message::print(&format!("{path}: {problem}; the line is passed over"));
    }
    if problems.len() > MOST {
        message::print(&format!("{path}: {} more lines are passed over", problems.len() - MOST));
    }
}

fn of_run(learnt: Learnt, judgement: Judgement) -> Vec<Found> {
    let found = learnt.into_iter().map(|(program, profile)| Found {
        source: "this run".into(),
        build_id: Some(program.to_string()),
        profile,
        judgement,
    });
    found.collect()
}

fn of_store(store: &Store, name: &str, judgement: Judgement) -> Vec<Found> {
    let found = stored(store, name).into_iter().map(|stored| Found {
        source: stored.path.display().to_string(),
        build_id: Some(stored.program.to_string()),
        profile: stored.profile,
        judgement,
    });
    found.collect()
}

/// The profiles of a program, by its name or build-id; errors in them are reported.
pub fn stored(store: &Store, name: &str) -> Vec<Stored> {
    let short = name.rsplit('/').next().unwrap_or(name);
    let mut problems = Vec::new();
    let mut found = store.list(&mut problems);
    found.retain(|stored| {
        let by_id = name.len() >= 6 && stored.program.to_string().starts_with(name);
        stored.profile.program == short || by_id
    });
    for stored in &found {
        describe(&stored.path.display().to_string(), &stored.problems);
    }
    for problem in problems {
        message::print(&problem.to_string());
    }
    found
}

/// The programs that run under TEK now.
fn running(pid: Option<u32>, judgement: Judgement) -> anyhow::Result<Vec<Found>> {
    let wanted = Wanted {
        pids: pid.into_iter().collect(),
        directories: directories(),
        modules: true,
        kinds: true,
        stacks: true,
        ..Wanted::default()
    };
    let device = Device::examine(&wanted).context("cannot read /proc")?;
    for problem in &device.problems {
        message::print(&problem.to_string());
    }
    let mut functions = Functions::default();
    let mut found = Vec::new();
    for program in &device.programs {
        let Some(header) = &program.table else { continue };
        let source = Source { header, modules: &program.modules };
        let threads =
            program.tasks.iter().filter_map(|task| Some((task.record.as_ref()?, task.stack)));
        let Some((id, profile)) = source.learn(&program.kinds, threads, &mut functions) else {
            continue;
        };
        let zones = Zones::of_table(header.low_percent, header.high_percent);
        found.push(Found {
            source: format!("process {}", program.pid),
            build_id: Some(id.to_string()),
            profile,
            judgement: Judgement { zones, ..judgement },
        });
    }
    Ok(found)
}
