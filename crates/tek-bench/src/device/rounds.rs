// SPDX-License-Identifier: MIT OR Apache-2.0
//! Touch events beside the load, in alternation, round after round.

use super::load::{Had, Load};
use super::setup::{Setup, Variant};
use crate::alternate::{order, progress_bar};
use crate::appliance::{Appliance, Kind, Measured};
use crate::daemon::{group_name, Backend, Daemon, Usage};
use crate::ground::{Ground, User};
use crate::json::NotRun;
use anyhow::{bail, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The programs are placed by then.
const PLACED: Duration = Duration::from_secs(60);

/// The plan of the rounds.
pub struct Plan {
    pub rounds: usize,
    /// Touch events of a run.
    pub events: usize,
    /// The same where they take long.
    pub slow_events: fn(usize) -> usize,
    pub setups: Vec<Setup>,
    pub iterations_per_ms: u64,
}

impl Plan {
    fn events_of(&self, setup: Setup) -> usize {
        match (setup.variant, setup.load) {
            (Variant::Conventional | Variant::Groups, Some(load)) => (self.slow_events)(load.hogs),
            _ => self.events,
        }
    }
}

/// One run.
#[derive(Serialize)]
pub struct Run {
    pub appliance: Measured,
    pub load: Had,
    /// CPU time of tekd, and how long it was, in ns.
    pub tekd_ns: Option<(u64, u64)>,
}

impl Run {
    /// The longest time that a noncritical thread waited, in ms.
    pub fn stall_ms(&self) -> Option<f64> {
        let sensors = self.appliance.threads_of(Kind::Sensor).map(|thread| thread.stall_ns);
        let load = self.load.stall_ns()?;
        Some(sensors.chain([load]).max()? as f64 / 1e6)
    }
}

/// All that was measured: for each setup one entry a round.
#[derive(Default)]
pub struct Session {
    pub runs: BTreeMap<Setup, Vec<Run>>,
    pub not_run: Vec<NotRun>,
    /// Setups that ran well in some rounds and then failed: their numbers are left out too.
    pub failed: Vec<NotRun>,
}

impl Session {
    fn lacks(&self, setup: Setup) -> bool {
        let mut without = self.not_run.iter().chain(&self.failed);
        without.any(|entry| entry.variant == setup.name())
    }

    fn give_up(&mut self, setup: Setup, error: &anyhow::Error) {
        let variant = setup.name();
        match self.runs.remove(&setup).map_or(0, |runs| runs.len()) {
            0 => self.not_run.push(NotRun { variant, reason: format!("{error:#}") }),
            good => {
                let reason = format!("after {good} good rounds, which are left out: {error:#}");
                self.failed.push(NotRun { variant, reason });
            }
        }
    }
}

/// Runs all of it. A setup that cannot be run, or fails once, is left out and named with the
/// reason.
pub fn measure(plan: &Plan, ground: &Ground) -> Session {
    let mut session = Session::default();
    let progress = progress_bar(plan.rounds * plan.setups.len());
    for round in 0..plan.rounds {
        for setup in order(&plan.setups, round) {
            if !session.lacks(setup) {
                progress.set_message(format!("round {}, {}", round + 1, setup.name()));
                match run_once(setup, plan, ground, round as u64 + 1) {
                    Ok(run) => session.runs.entry(setup).or_default().push(run),
                    Err(error) => session.give_up(setup, &error),
                }
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    session
}

fn run_once(setup: Setup, plan: &Plan, ground: &Ground, seed: u64) -> anyhow::Result<Run> {
    let settings = setup.variant.settings();
    let daemon = settings.map(|settings| Daemon::start(ground, settings)).transpose()?;
    let load = setup.load.map(|load| load.plan(plan.iterations_per_ms)).unwrap_or_default();
    let mut load = Load::start(ground, &load)?;
    let appliance = start_appliance(setup, plan, ground, seed)?;
    let backend = setup.variant.backend();
    if settings.is_some_and(|settings| settings.groups) {
        for pid in load.pids().chain([appliance.pid()]) {
            wait_until_placed(pid)?;
        }
    }
    if let (Some(daemon), Some(backend)) = (&daemon, backend) {
        verify_fast(daemon, &appliance, backend)?;
    }

    load.go()?;
    let (begin, before) = (Instant::now(), usage(&daemon)?);
    let (measured, printed) = appliance.go()?;
    let used = usage(&daemon)?.zip(before).map(|(after, before)| after.since(before).cpu_ns);
    let tekd_ns = used.zip(u64::try_from(begin.elapsed().as_nanos()).ok());
    let load = load.stop()?;
    daemon.map(Daemon::stop).transpose()?;
    ensure!(printed.is_empty(), "the appliance said: {printed}");
    verify_policies(setup.variant, &measured)?;
    Ok(Run { appliance: measured, load, tekd_ns })
}

fn start_appliance(
    setup: Setup,
    plan: &Plan,
    ground: &Ground,
    seed: u64,
) -> anyhow::Result<Appliance> {
    let name = if setup.variant.backend().is_some() { "appliance-tek" } else { "appliance" };
    let own_session = setup.load.is_some_and(|load| load.own_sessions);
    let mut command = ground.command(name, User::Number(0), own_session);
    let events = plan.events_of(setup) as u64;
    command.args(["--no-load", "--no-switch-cost"]);
    for (option, value) in [
        ("--events", events),
        ("--iterations-per-ms", plan.iterations_per_ms),
        ("--seed", seed),
        ("--limit", 60 + 5 * events),
    ] {
        command.arg(option).arg(value.to_string());
    }
    Appliance::start(command)
}

fn usage(daemon: &Option<Daemon>) -> anyhow::Result<Option<Usage>> {
    daemon.as_ref().map(Daemon::usage).transpose()
}

/// Waits until tekd has put a process into one of its groups.
fn wait_until_placed(pid: u32) -> anyhow::Result<()> {
    let end = Instant::now() + PLACED;
    while !is_placed(&fs::read_to_string(format!("/proc/{pid}/cgroup"))?) {
        if Instant::now() > end {
            bail!("tekd did not place process {pid} in any of its groups");
        }
        sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn is_placed(cgroups: &str) -> bool {
    cgroups.contains(&format!("/{}/", group_name()))
}

/// A variant must not silently be another one.
fn verify_fast(daemon: &Daemon, appliance: &Appliance, backend: Backend) -> anyhow::Result<()> {
    let fast = daemon.fast_threads(appliance.pid(), backend)?;
    // A thread that a critical one waits for may be lifted at this moment.
    for thread in appliance.threads.iter().filter(|thread| thread.kind == Kind::Event) {
        ensure!(fast.contains(&thread.tid), "thread {} of the appliance is ordinary", thread.tid);
    }
    Ok(())
}

fn verify_policies(variant: Variant, measured: &Measured) -> anyhow::Result<()> {
    let critical = variant.backend().map_or(libc::SCHED_OTHER, Backend::policy);
    for thread in &measured.threads {
        let meant = if thread.kind == Kind::Event { critical } else { libc::SCHED_OTHER };
        let has = thread.during.policy;
        ensure!(has == meant, "thread {} had policy {has}, not {meant} as meant", thread.name);
        ensure!(thread.after == thread.before, "thread {} was not given back", thread.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::setup::TWENTY;

    #[test]
    fn a_setup_that_fails_after_good_rounds_is_not_hidden_among_those_that_cannot_run() {
        let rt = Setup::under(TWENTY, Variant::Rt);
        let mut session = super::super::fixture::session();
        session.give_up(rt, &anyhow::anyhow!("tekd ended"));
        assert!(session.lacks(rt) && !session.runs.contains_key(&rt));
        assert_eq!((session.not_run.len(), session.failed.len()), (0, 1));
        session.give_up(Setup::under(TWENTY, Variant::Fair), &anyhow::anyhow!("no groups here"));
        assert_eq!((session.not_run.len(), session.failed.len()), (1, 1));
    }

    #[test]
    fn a_group_of_another_name_is_not_the_benchmarks() {
        let own = format!("4:cpu:/{}/lazy/normal\n", group_name());
        assert!(is_placed(&own));
        assert!(!is_placed("4:cpu:/tek/lazy/normal\n") && !is_placed("4:cpu:/\n"));
    }
}
