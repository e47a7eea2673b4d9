// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU time and memory that tekd itself takes while no process is critical.

use crate::daemon::{Backend, Daemon, Settings};
use crate::ground::{Ground, User};
use crate::json::Row;
use crate::programs::Program;
use serde::Serialize;
use std::thread::sleep;
use std::time::Duration;

/// tekd stays awake for a second after the last thread left, and longer on a busy machine: it is at
/// rest once it has not woken for so long.
const SETTLES: Duration = Duration::from_millis(2500);
const MOST_TRIES: u32 = 6;

/// The measurement.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub seconds: u64,
    pub wake_ups: u64,
    pub cpu_us: f64,
    pub resident_mb: f64,
}

/// Measures it after a process was critical once.
pub fn measure(ground: &Ground, seconds: u64) -> anyhow::Result<Measured> {
    let daemon = Daemon::start(ground, Settings::of(Backend::Rt))?;
    let mut command = ground.command("switches", User::Number(0), false);
    command.arg("1");
    let mut program = Program::start(command)?;
    program.line()?;
    program.announce("go\n")?;
    program.line()?;
    drop(program);
    let mut before = daemon.usage()?;
    for _ in 0..MOST_TRIES {
        sleep(SETTLES);
        let now = daemon.usage()?;
        let woke = now.since(before).wake_ups > 0;
        before = now;
        if !woke {
            break;
        }
    }
    sleep(Duration::from_secs(seconds));
    let used = daemon.usage()?.since(before);
    daemon.stop()?;
    Ok(Measured {
        seconds,
        wake_ups: used.wake_ups,
        cpu_us: used.cpu_ns as f64 / 1e3,
        resident_mb: used.resident_kib as f64 * 1024.0 / 1e6,
    })
}

/// For people.
pub fn report(it: &Measured) -> String {
    format!(
        "tekd at rest, {} s: {} wake-ups, {:.0} us of CPU time, {:.1} MB resident\n",
        it.seconds, it.wake_ups, it.cpu_us, it.resident_mb
    )
}

/// The rows of the JSON document.
pub fn rows(it: &Measured) -> Vec<Row> {
    let number = |metric, unit, value| Row::number("tekd at rest", "rt", metric, unit, value);
    vec![
        number("wake-ups", "1", it.wake_ups as f64),
        number("CPU time", "us", it.cpu_us),
        number("resident memory", "MB", it.resident_mb),
    ]
}
