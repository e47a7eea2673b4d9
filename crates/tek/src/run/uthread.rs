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
mod tests {
    use super::*;
    use clap::Parser;
    use proptest::prelude::*;

    mod reader {
        include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/reader.rs"));
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(options: &str) -> Args {
        let words = ["tek"].into_iter().chain(options.split_whitespace()).chain(["--", "true"]);
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{options}: {error}")).args
    }

    fn planned(options: &str, inherited: &str) -> Result<Option<String>, String> {
        let plan = plan(&parsed(options), Some(OsStr::new(inherited)))?;
        Ok(plan.map(|plan| plan.variable.into_string().unwrap()))
    }

    fn variable(options: &str, inherited: &str) -> String {
        planned(options, inherited).unwrap().unwrap()
    }

    /// The option of a setting, with the scheduler that it is for.
    fn option_of(name: &str, value: &str) -> Vec<String> {
        let option = if name == "lock" { "engine-lock" } else { name };
        let sched = match name {
            "promote" => "mlfq",
            "lock" | "pool" => "fifo",
            "sched" => value,
            _ => "rr",
        };
        let mut words = vec!["--model=m:n".to_owned(), format!("--sched={sched}")];
        if name != "sched" {
            words.push(format!("--{option}={value}"));
        }
        words
    }

    /// The meaning of the value that is written for a setting: "workers=3".
    fn meaning(name: &str, value: &str) -> Option<String> {
        let words = ["tek".to_owned()].into_iter().chain(option_of(name, value));
        let args = Line::try_parse_from(words.chain(["--".into(), "true".into()])).ok()?.args;
        let variable = plan(&args, None).ok()??.variable;
        let settings = Settings::inherited(Some(&variable));
        let written = settings.get(name)?;
        Some(match name {
            "quantum" => format!("{name}={}", written.parse::<Quantum>().unwrap().0.as_nanos()),
            _ => format!("{name}={written}"),
        })
    }

    #[test]
    fn the_variable_is_written_as_the_engine_reads_it() {
        for vector in reader::read("options.txt") {
            let (text, place) = (vector.word(2), &vector.place);
            if vector.word(0) != VARIABLE {
                continue;
            }
            if vector.word(1) == "written" {
                assert_eq!(variable(vector.word(3), ""), text, "{place}");
                continue;
            }
            let (name, value) = text.split_once('=').unwrap();
            let taken = (vector.word(1) == "taken").then(|| vector.word(3).to_owned());
            assert_eq!(meaning(name, value), taken, "{place}");
        }
    }

    #[test]
    fn each_model_has_its_workers_and_its_usual_scheduler() {
        assert_eq!(planned("", ""), Ok(None));
        assert_eq!(planned("--model 1:1", "workers=3"), Ok(None));
        assert_eq!(variable("--model m:1", ""), "workers=1,sched=rr");
        assert_eq!(variable("--model M:N --workers 3", ""), "workers=3,sched=steal");
        assert_eq!(variable("--model m:n", ""), format!("workers={},sched=steal", cpus()));
    }

    #[test]
    fn all_options_become_one_list() {
        let options = "--model m:n --workers 4 --sched fifo --quantum 200us --preempt klt \
                       --engine-lock worker --pool 64";
        assert_eq!(
            variable(options, ""),
            "workers=4,sched=fifo,quantum=200us,preempt=klt,lock=worker,pool=64"
        );
    }

    #[test]
    fn what_the_engine_knows_can_be_asked_for() {
        let options = "--model m:n --workers 2 --sched mlfq --promote 50 --pin --stack 32K";
        assert_eq!(variable(options, ""), "workers=2,sched=mlfq,promote=50,pin,stack=32768");
        assert_eq!(
            variable("--model m:1 --pin --stack 1M", "pin,stack=16K,sched=mlfq,promote=3"),
            "sched=mlfq,promote=3,workers=1,pin,stack=1048576"
        );
        assert_eq!(
            variable("--model m:1 --promote 9", "sched=mlfq"),
            "sched=mlfq,workers=1,promote=9"
        );
        for options in ["--promote 9", "--sched fifo --promote 9"] {
            let printed = planned(&format!("--model m:1 {options}"), "").unwrap_err();
            assert!(printed.starts_with("--promote is for --sched mlfq"), "{printed}");
        }
    }

    #[test]
    fn a_placement_is_for_the_workers() {
        let cpu = crate::system::topology::allowed()[0];
        assert_eq!(
            variable(&format!("--model m:n --place cores={cpu}"), "pin"),
            format!("workers=1,sched=steal,pin={cpu}")
        );
        let refused = |options: &str| planned(&format!("--model m:n {options}"), "").unwrap_err();
        assert!(refused("--place rtfifo").contains("--sched fifo"));
        assert!(refused("--place spread --pin").starts_with("--pin and --place"));
        assert!(planned("--place cores=1023", "").unwrap_err().contains("CPU 1023"));
        assert_eq!(planned("--place rtfifo", ""), Ok(None));
    }

    #[test]
    fn the_environment_gives_defaults() {
        assert_eq!(
            variable("--model m:n --quantum 1ms", "workers=7,quantum=5ms,pin,sched=mlfq,promote=9"),
            "workers=7,pin,sched=mlfq,promote=9,quantum=1ms"
        );
        assert_eq!(variable("--model m:1", "workers=7"), "workers=1,sched=rr");
        // The trace of another run does not concern this one.
        assert_eq!(
            variable("--model m:1", "stack=32K,trace=/tmp/x,stack=64K"),
            "stack=32K,workers=1,sched=rr"
        );
    }

    #[test]
    fn the_trace_goes_where_tek_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&directory.path().join("trace.json")).unwrap();
        let mut plan = plan(&parsed("--model m:1"), None).unwrap().unwrap();
        plan.record(&recorder);
        let expected = format!("workers=1,sched=rr,trace={}", recorder.raw_path().display());
        assert_eq!(plan.variable, *expected);
    }

    #[test]
    fn an_option_of_another_model_is_refused_by_its_name() {
        let refused = |options: &str| planned(options, "").unwrap_err();
        assert!(
            refused("--workers 2").contains("--workers") && refused("--workers 2").contains("m:n")
        );
        assert!(refused("--model m:1 --workers 2").starts_with("--workers is for --model m:n"));
        for option in [
            "--sched rr",
            "--quantum 5ms",
            "--preempt off",
            "--promote 3",
            "--pin",
            "--pool 3",
            "--trace x",
            "--stack 64K",
        ] {
            let printed = refused(option);
            assert!(printed.starts_with(option.split(' ').next().unwrap()), "{printed}");
            assert!(printed.contains("--model m:1"), "{printed}");
        }
    }

    #[test]
    fn what_only_fifo_has_is_refused_with_other_schedulers() {
        for option in ["--pool 5", "--engine-lock giant"] {
            assert!(planned(&format!("--model m:1 {option}"), "").is_err());
            assert!(planned(&format!("--model m:1 --sched rr {option}"), "").is_err());
            assert!(planned(&format!("--model m:1 --sched fifo {option}"), "").is_ok());
            assert!(planned(&format!("--model m:1 {option}"), "sched=fifo").is_ok());
        }
    }

    #[test]
    fn what_needs_libtek_is_refused_by_its_name() {
        let options = [
            "--critical ui*",
            "--rules x.toml",
            "--budget off",
            "--rt-range 1-9",
            "--no-follow-marked",
            "--no-inherit",
            "--report",
            "--report-json x",
            "--stack report",
            "--stack auto,grow",
            "--stack-margin 2 --stack 64K",
            "--stack-floor 16K --stack 64K",
            "--stack-zones 10%-90% --stack 64K",
            "--stack-profiles x --stack 64K",
        ];
        for option in options {
            let printed = planned(&format!("--model m:n {option}"), "").unwrap_err();
            assert!(printed.starts_with(option.split(' ').next().unwrap()), "{printed}");
            if !option.contains("--stack 64K") {
                assert_eq!(planned(option, ""), Ok(None));
            }
        }
        assert!(planned("--model m:1 --role a=b --stack auto,override", "").is_ok());
        assert!(planned("--model m:1 --arena-max 1 --group background --no-rules", "").is_ok());
    }

    #[test]
    fn a_quantum_is_a_time_that_timers_can_keep() {
        for (text, shown) in [
            ("50us", "50us"),
            ("5ms", "5ms"),
            ("1000us", "1ms"),
            ("10s", "10s"),
            ("1500us", "1500us"),
        ] {
            assert_eq!(text.parse::<Quantum>().unwrap().to_string(), shown);
        }
        for bad in
            ["", "5", "49us", "11s", "5 ms", "-5ms", "1.5ms", "5m", "ms", "99999999999999999999s"]
        {
            assert!(bad.parse::<Quantum>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn an_unknown_scheduler_is_refused_with_a_list_of_the_known_ones() {
        let words = ["tek", "--model", "m:1", "--sched", "lottery", "true"];
        let printed = Line::try_parse_from(words).err().unwrap().to_string();
        assert!(printed.contains("'lottery'"), "{printed}");
        assert!(printed.contains("rr, mlfq, psjf, fifo, steal"), "{printed}");
    }

    proptest! {
        #[test]
        fn the_options_come_through_whatever_is_in_the_environment(text in "[a-z=,0-9]{0,40}") {
            let plan = plan(&parsed("--model m:n --workers 3 --sched rr"), Some(OsStr::new(&text)));
            let variable = plan.unwrap().unwrap().variable.into_string().unwrap();
            prop_assert!(variable.ends_with("workers=3,sched=rr"), "{}", variable);
        }
    }
}
