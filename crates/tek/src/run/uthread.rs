// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run --model`: a program on user-level threads, by libtek-uthread.so.
//!
//! The engine has one variable, `TEK_UTHREAD` of libtek-uthread(7). The library can only complain
//! after the program has started, so everything is checked here, as strictly as there.
use super::place;
use super::Args;
use crate::trace::Recorder;
use clap::builder::PossibleValue;
use clap::ValueEnum;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::num::NonZero;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;
use std::time::Duration;
use tek_abi::options;
use tek_command::kinds;
use tek_command::values::kind::{name_of, possible};

/// The variable that the engine reads.
pub const VARIABLE: &str = "TEK_UTHREAD";

/// The engine has room for so many workers.
const MOST_WORKERS: u32 = options::WORKERS_MAX;

/// The options.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "User-level threads")]
pub struct Options {
    /// What a thread of the program is: a thread of the kernel (1:1), or a user-level thread, all
    /// on one thread of the kernel (m:1) or on several (m:n) [default: 1:1]
    #[arg(long, value_name = "MODEL", ignore_case = true, hide_possible_values = true)]
    pub model: Option<Model>,

    /// With m:n, on how many threads of the kernel [default: as many as there are CPUs]
    #[arg(long, value_name = "N", value_parser = up_to(MOST_WORKERS))]
    pub workers: Option<u32>,

    /// Which thread runs next [default: rr with m:1, steal with m:n]
    #[arg(long, value_name = "NAME")]
    pub sched: Option<Sched>,

    /// After what time another thread runs, 50us to 10s; with --sched fifo never [default: 5ms]
    #[arg(long, value_name = "TIME")]
    pub quantum: Option<Quantum>,

    /// How a thread is made to let another one run [default: defer]
    #[arg(long, value_name = "MODE")]
    pub preempt: Option<Preempt>,

    /// With --sched mlfq, after so many quanta all of the lowest level go to the top [default: 200]
    #[arg(long, value_name = "QUANTA", value_parser = up_to(options::MOST_PROMOTE_QUANTA))]
    pub promote: Option<u32>,

    /// With --sched fifo, what has a lock of its own [default: worker]
    #[arg(long, value_name = "WHAT")]
    pub engine_lock: Option<EngineLock>,

    /// With --sched fifo, make so many threads at the start, and never more at the same time
    #[arg(long, value_name = "N", value_parser = up_to(options::MOST_POOL_THREADS))]
    pub pool: Option<u32>,

    /// Keep each thread of the kernel that runs user-level threads on a CPU of its own
    #[arg(long)]
    pub pin: bool,

    /// Write a trace of the switches into this file: JSON for Perfetto and Chrome
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// What the program's threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Each is a thread of the kernel.
    OneToOne,
    /// All are on one thread of the kernel.
    ManyToOne,
    /// They are on several threads of the kernel.
    ManyToMany,
}

impl ValueEnum for Model {
    fn value_variants<'a>() -> &'a [Self] {
        // In the order of the list.
        const ALL: [Model; options::MODELS.len()] =
            [Model::OneToOne, Model::ManyToOne, Model::ManyToMany];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(possible(&options::MODELS[*self as usize]))
    }
}

kinds! {
    /// The engine's schedulers: `TEK_SCHEDULERS`.
    Sched of SCHEDULERS
}

kinds! {
    /// Ways of preemption: `TEK_PREEMPT_MODES`.
    Preempt of PREEMPT_MODES
}

kinds! {
    /// What has a lock of its own in the scheduler fifo: `TEK_ENGINE_LOCKS`.
    EngineLock of ENGINE_LOCKS
}

/// Reads a number from 1 to `most`.
fn up_to(most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| format!("write a number from 1 to {most}"))
    }
}

/// A time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantum(Duration);

impl Quantum {
    const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    const RANGE: std::ops::RangeInclusive<u64> =
        options::QUANTUM_LEAST_NS as u64..=options::QUANTUM_MOST_NS;
}

impl FromStr for Quantum {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write a time from 50us to 10s, as in 200us, 5ms or 1s";
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or(FORM)?;
        let (number, unit) = text.split_at(digits);
        let (_, scale) = Self::UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(FORM)?;
        let number: u64 = number.parse().map_err(|_| FORM)?;
        let ns = number.checked_mul(scale).filter(|ns| Self::RANGE.contains(ns)).ok_or(FORM)?;
        Ok(Self(Duration::from_nanos(ns)))
    }
}

impl fmt::Display for Quantum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        let fits = |&(_, scale): &(&str, u64)| ns.is_multiple_of(u128::from(scale));
        let (unit, scale) = Self::UNITS.into_iter().find(fits).unwrap_or(("ns", 1));
        write!(f, "{}{unit}", ns / u128::from(scale))
    }
}

/// The engine for the program.
#[derive(Debug)]
pub struct Plan {
    /// Value of [`VARIABLE`].
    pub variable: OsString,
}

/// The plan for the options, or `Err` with their conflict; `None` with the model 1:1.
pub fn plan(args: &Args, inherited: Option<&OsStr>) -> Result<Option<Plan>, String> {
    let options = &args.uthread;
    let model = options.model.unwrap_or(Model::OneToOne);
    let stack = args.stack.size();
    let place = args.place.as_ref().map(place::Plan::of).transpose()?;
    if model == Model::OneToOne {
        return match options.first_given().or(stack.and(Some("--stack SIZE"))) {
            None => Ok(None),
            Some("--workers") => {
                Err("--workers says on how many threads of the kernel: give --model m:n with it"
                    .into())
            }
            Some(option) => Err(format!(
                "{option} is about user-level threads: give --model m:1 or --model m:n with it"
            )),
        };
    }
    if model == Model::ManyToOne && options.workers.is_some() {
        return Err("--workers is for --model m:n: with m:1 there is one".into());
    }
    if args.place.as_ref().is_some_and(|place| place.is_rtfifo()) {
        return Err(format!(
            "--place rtfifo makes threads of the kernel SCHED_FIFO: with --model {} give --sched \
             fifo for the order of the program's threads, and --place spread for the CPUs of the \
             workers",
            name_of(model)
        ));
    }
    if place.is_some() && options.pin {
        return Err(
            "--pin and --place both say on which CPUs the workers stay: give one of them".into()
        );
    }
    if let Some(option) = args.needs_libtek() {
        return Err(format!(
            "{option} cannot be combined with --model {}: it needs libtek.so, which is not in \
             programs on user-level threads",
            name_of(model)
        ));
    }
    let mut settings = Settings::inherited(inherited);
    settings.set_by(options, model, place.as_ref().map_or_else(cpus, place_cpus));
    if let Some(place) = &place {
        settings.set("pin", place.first(MOST_WORKERS));
    }
    if let Some(bytes) = stack {
        if let Some(option) = args.stack.of_fitting() {
            return Err(format!("{option} says how stacks are fitted: not with --stack SIZE"));
        }
        settings.set("stack", bytes.to_string());
    }
    let sched = settings.get("sched");
    if options.promote.is_some() && sched.is_some_and(|sched| sched != "mlfq") {
        return Err("--promote is for --sched mlfq: the other schedulers have no levels".into());
    }
    if settings.get("sched").is_some_and(|sched| sched != "fifo") {
        if let Some(option) = options.of_fifo() {
            return Err(format!("{option} is for --sched fifo: the other schedulers have none"));
        }
    }
    Ok(Some(Plan { variable: settings.text() }))
}

impl Plan {
    /// Makes the program write a trace.
    pub fn record(&mut self, recorder: &Recorder) {
        let mut settings = Settings::inherited(Some(&self.variable));
        settings.set("trace", recorder.raw_path());
        self.variable = settings.text();
    }
}

impl Options {
    /// The first given option except --model.
    fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.workers.is_some(), "--workers"),
            (self.sched.is_some(), "--sched"),
            (self.quantum.is_some(), "--quantum"),
            (self.preempt.is_some(), "--preempt"),
            (self.promote.is_some(), "--promote"),
            (self.pin, "--pin"),
            (self.engine_lock.is_some(), "--engine-lock"),
            (self.pool.is_some(), "--pool"),
            (self.trace.is_some(), "--trace"),
        ];
        given.into_iter().find(|&(given, _)| given).map(|(_, name)| name)
    }

    fn of_fifo(&self) -> Option<&'static str> {
        self.engine_lock.map(|_| "--engine-lock").or(self.pool.map(|_| "--pool"))
    }
}

/// The list in [`VARIABLE`]: `NAME=VALUE` or `NAME`, in the order in which the engine reads them.
struct Settings(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl Settings {
    /// The environment's settings. The trace file of another run does not concern this one; it is
    /// the last setting, because a path may contain commas.
    fn inherited(text: Option<&OsStr>) -> Self {
        let items = text.map(OsStr::as_bytes).unwrap_or_default().split(|&byte| byte == b',');
        let parts = items.take_while(|item| !item.starts_with(b"trace=")).map(|item| {
            let mut parts = item.splitn(2, |&byte| byte == b'=').map(<[u8]>::to_vec);
            (parts.next().unwrap_or_default(), parts.next())
        });
        Self(parts.filter(|(name, _)| !name.is_empty()).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().rev().find(|(known, _)| known == name.as_bytes())?;
        std::str::from_utf8(value.as_deref()?).ok()
    }

    fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.0.retain(|(known, _)| known != name.as_bytes());
        self.0.push((name.into(), Some(value.as_ref().as_bytes().to_vec())));
    }

    /// Sets a value unless the environment has it already.
    fn set_default(&mut self, name: &str, value: String) {
        if self.get(name).is_none() {
            self.set(name, value);
        }
    }

    fn set_by(&mut self, options: &Options, model: Model, cpus: u32) {
        match (model, options.workers) {
            (Model::ManyToMany, Some(workers)) => self.set("workers", workers.to_string()),
            (Model::ManyToMany, None) => self.set_default("workers", cpus.to_string()),
            _ => self.set("workers", "1"),
        }
        let usual = if model == Model::ManyToMany { "steal" } else { "rr" };
        match options.sched {
            Some(sched) => self.set("sched", name_of(sched)),
            None => self.set_default("sched", usual.to_owned()),
        }
        let given = [
            ("quantum", options.quantum.map(|quantum| quantum.to_string())),
            ("preempt", options.preempt.map(name_of)),
            ("promote", options.promote.map(|quanta| quanta.to_string())),
            ("lock", options.engine_lock.map(name_of)),
            ("pool", options.pool.map(|pool| pool.to_string())),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                self.set(name, value);
            }
        }
        if options.pin {
            self.0.retain(|(known, _)| known != b"pin");
            self.0.push((b"pin".to_vec(), None));
        }
    }

    fn text(&self) -> OsString {
        let item = |(name, value): &(Vec<u8>, Option<Vec<u8>>)| match value {
            Some(value) => [name.as_slice(), b"=", value].concat(),
            None => name.clone(),
        };
        OsString::from_vec(self.0.iter().map(item).collect::<Vec<_>>().join(&b','))
    }
}

/// One worker for each CPU of a list.
fn place_cpus(place: &place::Plan) -> u32 {
    u32::try_from(place.count()).unwrap_or(MOST_WORKERS).clamp(1, MOST_WORKERS)
}

/// The number of CPUs on which this process, and so the program, may run.
fn cpus() -> u32 {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cpus).unwrap_or(MOST_WORKERS).clamp(1, MOST_WORKERS)
}

#[cfg(test)]
mod tests;
