// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load: four programs of four users that have nothing to do with the appliance.

use crate::ground::{Ground, User};
use crate::programs::Program;
use anyhow::Context;
use serde::{Deserialize, Serialize};

/// The programs. Each belongs to a group.
pub const PROGRAMS: [&str; 4] = ["media", "network", "updater", "indexer"];

/// The load to create.
#[derive(Clone, Copy, Default)]
pub struct Plan {
    /// CPU-bound threads of all programs together.
    pub hogs: usize,
    /// Threads that are idle most of the time.
    pub idle: usize,
    /// Each CPU-bound thread stays on one CPU.
    pub pinned: bool,
    /// Each program in a session of its own.
    pub own_sessions: bool,
    /// Of `appliance --calibrate`.
    pub iterations_per_ms: u64,
}

/// The CPU time and delays of a CPU-bound thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hog {
    /// The CPU on which it stayed; -1: any.
    pub cpu: i32,
    pub cpu_ns: u64,
    /// The longest time without the CPU.
    pub stall_ns: u64,
}

/// The results of the threads of all programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Had {
    pub hogs: Vec<Hog>,
    /// The longest delay of an idle thread's short work, in ns.
    pub idle_late_ns: u64,
}

impl Had {
    /// The longest time that one of them waited.
    pub fn stall_ns(&self) -> Option<u64> {
        let hogs = self.hogs.iter().map(|hog| hog.stall_ns);
        hogs.chain((self.idle_late_ns > 0).then_some(self.idle_late_ns)).max()
    }
}

/// Programs that wait for `go`, or run. They are killed when this is dropped early.
#[derive(Default)]
pub struct Load {
    programs: Vec<Program>,
}

impl Load {
    /// Starts all of them and waits until their threads are there.
    pub fn start(ground: &Ground, plan: &Plan) -> anyhow::Result<Load> {
        let share = |all: usize| all / PROGRAMS.len();
        let mut load = Load::default();
        if plan.hogs + plan.idle == 0 {
            return Ok(load);
        }
        for (number, name) in (1..).zip(PROGRAMS) {
            let mut command = ground.command(name, User::Number(number), plan.own_sessions);
            command.arg("--hogs").arg(share(plan.hogs).to_string());
            command.arg("--idle").arg(share(plan.idle).to_string());
            command.arg("--iterations-per-ms").arg(plan.iterations_per_ms.to_string());
            command.arg("--limit").arg("300");
            if plan.pinned {
                command.arg("--pin");
            }
            load.programs.push(Program::start(command).context(name)?);
        }
        for program in &mut load.programs {
            program.read_line::<serde_json::Value>()?;
        }
        Ok(load)
    }

    /// Their processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.programs.iter().map(Program::pid)
    }

    /// Lets them run until `stop`.
    pub fn go(&mut self) -> anyhow::Result<()> {
        self.programs.iter_mut().try_for_each(|program| program.announce("go\n"))
    }

    /// Lets them run until the second of these times, CLOCK_MONOTONIC in ns; their CPU time is
    /// counted from the first.
    pub fn go_between(&mut self, from_ns: u64, to_ns: u64) -> anyhow::Result<()> {
        let line = format!("go {from_ns} {to_ns}\n");
        self.programs.iter_mut().try_for_each(|program| program.announce(&line))
    }

    /// Ends the programs that run until `stop`.
    pub fn stop(mut self) -> anyhow::Result<Had> {
        self.programs.iter_mut().try_for_each(|program| program.announce("stop\n"))?;
        self.wait()
    }

    /// Waits for their end.
    pub fn wait(mut self) -> anyhow::Result<Had> {
        let mut all = Had::default();
        for program in &mut self.programs {
            let had: Had = program.read_line()?;
            all.hogs.extend(had.hogs);
            all.idle_late_ns = all.idle_late_ns.max(had.idle_late_ns);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_thread_that_is_late_stalls_as_a_busy_one_does() {
        let hog = |stall_ns| Hog { cpu: -1, cpu_ns: 1, stall_ns };
        let mut had = Had { hogs: vec![hog(5), hog(7)], idle_late_ns: 6 };
        assert_eq!(had.stall_ns(), Some(7));
        had.idle_late_ns = 9;
        assert_eq!(had.stall_ns(), Some(9));
        assert_eq!(Had::default().stall_ns(), None);
    }
}
