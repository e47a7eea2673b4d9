// SPDX-License-Identifier: MIT OR Apache-2.0
//! The execution of a program of this benchmark: its kind of threads, and its number of CPUs.

use crate::programs;
use anyhow::{anyhow, Context};
use serde::{de::DeserializeOwned, Serialize};
use std::io;
use std::mem;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tek_command::system::library;

/// The schedulers of user-level threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sched {
    Rr,
    Mlfq,
    Psjf,
    Fifo,
    Steal,
}

impl Sched {
    /// As TEK_UTHREAD has it.
    pub fn name(self) -> &'static str {
        match self {
            Sched::Rr => "rr",
            Sched::Mlfq => "mlfq",
            Sched::Psjf => "psjf",
            Sched::Fifo => "fifo",
            Sched::Steal => "steal",
        }
    }
}

/// The source of preemption at the end of a quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Preempt {
    Defer,
    Klt,
}

impl Preempt {
    /// As TEK_UTHREAD has it.
    pub fn name(self) -> &'static str {
        match self {
            Preempt::Defer => "defer",
            Preempt::Klt => "klt",
        }
    }
}

/// The granularity of the locks of the scheduler `fifo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lock {
    Giant,
    Worker,
    Object,
}

impl Lock {
    /// As TEK_UTHREAD has it.
    pub fn name(self) -> &'static str {
        match self {
            Lock::Giant => "giant",
            Lock::Worker => "worker",
            Lock::Object => "object",
        }
    }
}

/// The setting of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Setting {
    pub workers: usize,
    pub sched: Sched,
    pub quantum_us: u64,
    pub preempt: Preempt,
    /// `None`: the default.
    pub lock: Option<Lock>,
}

impl Setting {
    /// One worker, deferred preemption.
    pub fn one(sched: Sched, quantum_us: u64) -> Setting {
        Setting { workers: 1, sched, quantum_us, preempt: Preempt::Defer, lock: None }
    }

    fn variable(&self) -> String {
        let mut all = format!(
            "workers={},sched={},quantum={}us,preempt={}",
            self.workers,
            self.sched.name(),
            self.quantum_us,
            self.preempt.name()
        );
        if let Some(lock) = self.lock {
            all += ",lock=";
            all += lock.name();
        }
        all
    }
}

/// For people.
pub fn quantum(us: u64) -> String {
    if us >= 1000 && us.is_multiple_of(1000) {
        format!("{} ms", us / 1000)
    } else {
        format!("{us} us")
    }
}

/// The kind of threads that a program has.
#[derive(Clone, Copy)]
pub enum Threads<'a> {
    /// The threads that it was built with.
    Own,
    /// The threads that it was built with, under this setting.
    Custom(&'a Setting),
    /// libtek-uthread.so's instead of the C library's.
    Preloaded(&'a Setting),
}

/// The CPUs that it has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cpus {
    All,
    /// The last one that `tek` may use.
    One,
}

/// A benchmark program, ready to be started; its arguments are to be added.
pub fn command(name: &str, threads: Threads, cpus: Cpus) -> anyhow::Result<Command> {
    let mut command = Command::new(programs::find("uthread", name)?);
    command.env_remove("LD_PRELOAD");
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("TEK_") {
            command.env_remove(variable);
        }
    }
    match threads {
        Threads::Own => {}
        Threads::Custom(setting) => {
            command.env("TEK_UTHREAD", setting.variable());
        }
        Threads::Preloaded(setting) => {
            command.env("LD_PRELOAD", preload()?).env("TEK_UTHREAD", setting.variable());
        }
    }
    if cpus == Cpus::One {
        // SAFETY: it makes system calls only: no allocation, no lock.
        unsafe { command.pre_exec(keep_to_one_cpu) };
    }
    Ok(command)
}

/// The library that is preloaded, or why there is none and what to do about it.
pub fn preload() -> anyhow::Result<PathBuf> {
    let found = library::find_uthread().map_err(|error| anyhow!("{error}; {}", error.cure()));
    found.map(|(path, _)| path)
}

fn keep_to_one_cpu() -> io::Result<()> {
    // SAFETY: zero is a valid set, the sizes are those of the sets, and CPU_* stay within them.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        let size = mem::size_of_val(&set);
        if libc::sched_getaffinity(0, size, &mut set) < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut all = 0..libc::CPU_SETSIZE as usize;
        let last = all.rfind(|&cpu| libc::CPU_ISSET(cpu, &set)).unwrap_or(0);
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(last, &mut set);
        libc::sched_setaffinity(0, size, &set)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Runs a program that prints one JSON document, and reads it. A program that hangs is ended after
/// `limit`.
pub fn run_json<T: DeserializeOwned>(command: Command, limit: Duration) -> anyhow::Result<T> {
    let printed = programs::output_within(command, limit)?;
    serde_json::from_slice(&printed).context("it printed something else than JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_gets_all_of_the_settings() {
        let setting = Setting { workers: 2, ..Setting::one(Sched::Steal, 200) };
        assert_eq!(setting.variable(), "workers=2,sched=steal,quantum=200us,preempt=defer");
        let setting = Setting { lock: Some(Lock::Object), ..Setting::one(Sched::Fifo, 50) };
        assert_eq!(
            setting.variable(),
            "workers=1,sched=fifo,quantum=50us,preempt=defer,lock=object"
        );
    }

    #[test]
    fn a_quantum_is_written_in_the_unit_that_fits() {
        assert_eq!([quantum(50), quantum(1500), quantum(5000)], ["50 us", "1500 us", "5 ms"]);
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_hangs_is_ended_and_named_so() {
        let error = run_json::<u32>(shell("exec sleep 60"), Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("ended after"), "{error}");
    }

    #[test]
    fn a_program_that_fails_is_reported_with_its_own_words() {
        let script = "echo no such luck >&2; exit 3";
        let error = run_json::<u32>(shell(script), Duration::from_secs(9)).unwrap_err();
        assert!(error.to_string().contains("no such luck"), "{error}");
        assert_eq!(run_json::<u32>(shell("echo 7"), Duration::from_secs(9)).unwrap(), 7);
    }

    #[test]
    fn a_program_on_one_cpu_has_one() {
        let mut command = shell("nproc");
        // SAFETY: as in command().
        unsafe { command.pre_exec(keep_to_one_cpu) };
        assert_eq!(run_json::<u32>(command, Duration::from_secs(9)).unwrap(), 1);
    }
}
