// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kills tekd, its clients or both at any moment, and checks that all is restored afterwards.
//! Meanwhile processes become critical and normal again as fast as they can, fork and execute
//! programs. Then tekd restores, and the state is compared with the state before.

mod groups;
mod snapshot;

use crate::daemon::{self, Backend, Daemon, Settings};
use crate::ground::{Ground, User};
use crate::json::Row;
use crate::random::Random;
use anyhow::{ensure, Context};
use indicatif::ProgressBar;
use nix::sys::signal::Signal;
use serde::Serialize;
use snapshot::{Base, Snapshot};
use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Processes that are clients.
const CLIENTS: usize = 4;
/// The first kill comes at most so long after a start.
const MOST_BEFORE: Duration = Duration::from_millis(40);
/// A process that is executing a program at the kill has executed it by then.
const EXECUTED: Duration = Duration::from_millis(4);
/// So many differences are reported in full.
const REPORTED_MOST: usize = 20;

/// Policy, priority and nice of the clients, by their number.
const BASES: [(i32, i32, i32); 4] = [
    (libc::SCHED_OTHER, 0, -3),
    (libc::SCHED_BATCH, 0, 5),
    (libc::SCHED_FIFO, 3, 0),
    (libc::SCHED_IDLE, 0, 7),
];

/// The result.
#[derive(Debug, Default, Serialize)]
pub struct Measured {
    pub seed: u64,
    pub kills: usize,
    /// The names of tekd's settings in these kills.
    pub of: Vec<&'static str>,
    pub differences: usize,
    /// The first of them.
    #[serde(rename = "told")]
    pub reported: Vec<String>,
    /// Changes that `tekd --restore` undid.
    pub undone: usize,
    /// Processes that executed a program meanwhile.
    pub executed: usize,
    /// The failures that tekd reported.
    pub complaints: Vec<String>,
}

#[derive(Clone, Copy)]
enum Victim {
    Tekd,
    Client,
    All,
}

/// One of the processes.
struct Switcher {
    child: Child,
    base: Base,
}

impl Switcher {
    fn start(ground: &Ground, number: u64) -> anyhow::Result<Switcher> {
        let (policy, priority, nice) = BASES[number as usize % BASES.len()];
        let mut command = ground.command("switcher", User::Own, false);
        command.arg(ground.socket()).arg(number.to_string());
        command.args([policy, priority, nice].map(|it| it.to_string()));
        let child = command.stdin(Stdio::null()).spawn().context("cannot start switcher")?;
        let mut switcher = Switcher { child, base: Base::default() };
        let tasks = format!("/proc/{}/task", switcher.pid());
        let end = Instant::now() + Duration::from_secs(60);
        // Its threads start when it has its policy.
        while fs::read_dir(&tasks).map_or(0, Iterator::count) != 3 {
            ensure!(Instant::now() < end, "switcher does not run");
            sleep(Duration::from_millis(1));
        }
        switcher.base = Base::of(switcher.pid()).context("switcher has ended")?;
        Ok(switcher)
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for Switcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills so often. `settings` are those that work here.
pub fn measure(
    ground: &Ground,
    kills: usize,
    seed: u64,
    settings: &[(&'static str, Settings)],
    spinner: &ProgressBar,
) -> anyhow::Result<Measured> {
    let mut random = Random::new(seed);
    let of = settings.iter().map(|(name, _)| *name).collect();
    let mut measured = Measured { seed, of, ..Measured::default() };
    let mut switchers = Vec::new();
    for number in 0..CLIENTS {
        switchers.push(Switcher::start(ground, number as u64)?);
    }
    let _ = fs::remove_file(ground.path("log"));
    let mut before = examine(&switchers);
    while measured.kills < kills {
        let (name, settings) = settings[random.below(settings.len() as u64) as usize];
        spinner.set_message(format!("kill {} of {kills}, {name}", measured.kills + 1));
        let killed = random.below(CLIENTS as u64) as usize;
        let victim = kill_somebody(ground, settings, &mut switchers[killed], &mut random)?;
        restore(ground, settings, &mut random, &mut measured)?;
        sleep(EXECUTED);
        let seen = examine(&switchers);
        let bases: Vec<_> = switchers.iter().map(|it| (it.pid(), it.base.clone())).collect();
        let different = before.differences(&seen, &bases);
        measured.differences += different.len();
        let announce =
            different.iter().map(|it| format!("kill {}, {name}: {it}", measured.kills + 1));
        measured
            .reported
            .extend(announce.take(REPORTED_MOST.saturating_sub(measured.reported.len())));
        measured.executed += before.executed(&seen);
        measured.kills += 1;
        for (number, switcher) in switchers.iter_mut().enumerate() {
            // A difference that follows from an earlier one is not reported again.
            let is_killed = number == killed && !matches!(victim, Victim::Tekd);
            if is_killed || !different.is_empty() {
                *switcher = Switcher::start(ground, random.below(100))?;
            }
        }
        before = examine(&switchers);
    }
    drop(switchers);
    let log = fs::read_to_string(ground.path("log")).unwrap_or_default();
    measured.complaints =
        log.lines().filter(|line| line.contains("failed")).map(str::to_owned).collect();
    Ok(measured)
}

fn examine(switchers: &[Switcher]) -> Snapshot {
    let pids: Vec<i32> = switchers.iter().map(Switcher::pid).collect();
    Snapshot::of(&pids)
}

/// Starts tekd, and ends it, or a client, or both.
fn kill_somebody(
    ground: &Ground,
    settings: Settings,
    client: &mut Switcher,
    random: &mut Random,
) -> anyhow::Result<Victim> {
    let mut daemon = Daemon::start(ground, settings)?;
    sleep(random.part_of(MOST_BEFORE));
    let victim = [Victim::Tekd, Victim::Client, Victim::All][random.below(3) as usize];
    if !matches!(victim, Victim::Tekd) {
        client.kill();
    }
    if matches!(victim, Victim::Client) {
        sleep(random.part_of(MOST_BEFORE / 2));
    }
    let cleanly = matches!(victim, Victim::Client) && random.below(2) == 0;
    daemon.end(if cleanly { Signal::SIGTERM } else { Signal::SIGKILL })?;
    Ok(victim)
}

/// By `--restore`, or by another tekd that is started and ends.
fn restore(
    ground: &Ground,
    settings: Settings,
    random: &mut Random,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    if random.below(2) == 0 {
        measured.undone += daemon::restore(ground)?;
    } else {
        Daemon::start(ground, settings)?.stop()?;
    }
    let state = ground.state();
    let last = || fs::read_to_string(ground.path("log")).unwrap_or_default();
    let last = || last().lines().rev().take(3).collect::<Vec<_>>().join("; ");
    let left = || fs::read_to_string(state.join("journal")).unwrap_or_default();
    ensure!(!state.exists(), "{} is still there: {}{}", state.display(), left(), last());
    Ok(())
}

/// The settings under which kills are tried.
pub fn settings() -> Vec<(&'static str, Settings)> {
    let groups = Settings { groups: true, ..Settings::of(Backend::Rt) };
    let all = [
        ("rt", Settings::of(Backend::Rt)),
        ("rt with groups", groups),
        ("fair", Settings::of(Backend::Fair)),
    ];
    // A process that switches as fast as it can overruns any budget.
    all.map(|(name, settings)| (name, Settings { guard: false, ..settings })).into()
}

/// For people.
pub fn report(it: &Measured) -> String {
    let mut text = format!(
        "{} kills of tekd, clients and both while modes change, with forks and {} executions (seed \
         {}; {}):\n{} differences between what there was and what there is after each restore, {} \
         changes undone\n",
        it.kills,
        it.executed,
        it.seed,
        it.of.join(", "),
        it.differences,
        it.undone
    );
    for reported in it.reported.iter().chain(&it.complaints) {
        text += &format!("  {reported}\n");
    }
    text
}

/// The rows of the JSON document.
pub fn rows(it: &Measured) -> Vec<Row> {
    let number = |metric, value: usize| Row::number("faults", "tekd", metric, "1", value as f64);
    vec![
        number("kills", it.kills),
        number("differences", it.differences),
        number("changes undone by --restore", it.undone),
        number("programs executed", it.executed),
        number("complaints", it.complaints.len()),
    ]
}
