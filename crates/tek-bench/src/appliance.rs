// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of the program `appliance`: its command line and its protocol.
//!
//! It prints a line of JSON when its threads run, waits for `go`, and prints a line of JSON with
//! all its measurements.

use super::programs;
use anyhow::{bail, Context};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The purpose of a thread of the appliance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// On the path of a touch event: time-critical.
    Event,
    Sensor,
    /// CPU-bound.
    Hog,
}

/// A thread that is about to run.
#[derive(Debug, Deserialize)]
pub struct ReadyThread {
    pub tid: i32,
    pub kind: Kind,
}

/// How the kernel schedules a thread, from sched_getattr(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    pub policy: i32,
    pub priority: i32,
    pub nice: i32,
    pub flags: u64,
}

/// The measurement of a thread. Counts are those of the event phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thread {
    pub name: String,
    pub group: String,
    pub kind: Kind,
    /// Context switches.
    pub voluntary: u64,
    pub involuntary: u64,
    pub cpu_ns: u64,
    /// Time runnable but not running; not every kernel counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// Loop iterations of a CPU-bound thread.
    #[serde(default)]
    #[serde(rename = "turns")]
    pub periods: u64,
    /// Longest time between two iterations; of a sensor, from when a reading was due until it was
    /// made.
    #[serde(default)]
    pub stall_ns: u64,
    /// At its start, before anything made it critical.
    pub before: Scheduling,
    /// At the end of the event phase.
    pub during: Scheduling,
    /// After it has left each state that it asked for itself.
    pub after: Scheduling,
}

/// All measurements of a run of the appliance. Times in ns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub events_phase_ns: u64,
    pub load_from_ns: u64,
    pub load_to_ns: u64,
    /// From the time that an event was due to the end of its answer.
    pub responses_ns: Vec<u64>,
    pub threads: Vec<Thread>,
    /// Time of one context switch, by thread.
    pub switch_ns: BTreeMap<String, f64>,
    /// (time, delay) of each reading, by thread.
    pub delays_ns: BTreeMap<String, Vec<(u64, u64)>>,
}

impl Measured {
    /// The responses in ms.
    pub fn responses_ms(&self) -> Vec<f64> {
        self.responses_ns.iter().map(|ns| *ns as f64 / 1e6).collect()
    }

    /// The threads of one kind.
    pub fn threads_of(&self, kind: Kind) -> impl Iterator<Item = &Thread> {
        self.threads.iter().filter(move |thread| thread.kind == kind)
    }
}

/// Measures the speed of this CPU once for a session, so that all its runs do the same work.
pub fn calibrate(program: &Path) -> anyhow::Result<u64> {
    #[derive(Deserialize)]
    struct Calibration {
        iterations_per_ms: u64,
    }
    let calibration: Calibration = programs::run_json(Command::new(program).arg("--calibrate"))?;
    Ok(calibration.iterations_per_ms)
}

#[derive(Deserialize)]
struct ReadyLine {
    ready: Vec<ReadyThread>,
}

/// A started appliance that waits for `go`. It is killed when this is dropped early.
pub struct Appliance {
    child: Child,
    output: BufReader<ChildStdout>,
    pub threads: Vec<ReadyThread>,
}

impl Appliance {
    /// Starts it and waits until all its threads run.
    pub fn start(mut command: Command) -> anyhow::Result<Appliance> {
        let mut child = command
            .arg("--wait")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let mut appliance = Appliance { child, output, threads: Vec::new() };
        appliance.threads = appliance.read_line::<ReadyLine>()?.ready;
        Ok(appliance)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it run and waits for its end. Returns also what it wrote to its standard error.
    pub fn go(mut self) -> anyhow::Result<(Measured, String)> {
        // It may have died meanwhile; then the next line is a better report than the pipe's error.
        if let Some(mut input) = self.child.stdin.take() {
            let _ = input.write_all(b"go\n");
        }
        let measured = self.read_line()?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the appliance failed at its end: {status}: {}", self.complaint());
        }
        Ok((measured, self.complaint()))
    }

    fn read_line<T: serde::de::DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.child.wait()?;
            bail!("the appliance ended early: {status}: {}", self.complaint());
        }
        serde_json::from_str(&line).context("the appliance printed something else than JSON")
    }

    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        text.trim().to_owned()
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        // Both fail harmlessly once it has ended and is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_dies_at_once_is_reported_with_its_own_words() {
        let error = Appliance::start(shell("echo no such luck >&2; exit 3")).err().unwrap();
        let text = format!("{error:#}");
        assert!(text.contains("no such luck") && text.contains('3'), "{text}");
    }

    #[test]
    fn a_program_that_talks_nonsense_is_refused() {
        assert!(Appliance::start(shell("echo hello")).is_err());
    }

    #[test]
    fn a_program_that_dies_after_it_was_ready_is_reported() {
        let script = r#"echo '{"ready":[{"tid":1,"kind":"hog"}]}'; read go; exit 4"#;
        let appliance = Appliance::start(shell(script)).unwrap();
        assert_eq!(appliance.threads.len(), 1);
        let text = format!("{:#}", appliance.go().err().unwrap());
        assert!(text.contains("ended early"), "{text}");
    }
}
