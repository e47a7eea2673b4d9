// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data about one thread of a program that tekd lifts: its CPU time, and its program.
use crate::process;
use std::fs::File;
use tek_effect::{stack_of, Identity};
use tek_policy::dependency::Allowance;
use tek_policy::Budget;

/// A thread of a program.
#[derive(Default)]
pub struct Lifted {
    /// It has a real-time policy of its own, and keeps it.
    pub is_real_time: bool,
    /// It has used its CPU time, and is not lifted before this time.
    suspended_until_ns: Option<u64>,
    allowance: Allowance,
    /// Its statistics, and its CPU time when it was read last during a lift.
    schedstat: Option<File>,
    cpu_ns: Option<u64>,
    /// Its process, and the start of the first stack of that, which each program has elsewhere.
    program: Option<(i32, Option<u64>)>,
}

impl Lifted {
    /// Whether it may be lifted now.
    pub fn may_be_lifted(&self) -> bool {
        !self.is_real_time && self.suspended_until_ns.is_none()
    }

    /// Whether it has used its CPU time.
    pub fn is_suspended(&self) -> bool {
        self.suspended_until_ns.is_some()
    }

    /// A lift has begun.
    pub fn begin(&mut self, thread: i32) {
        if self.schedstat.is_none() {
            self.schedstat = process::schedstat(thread).ok();
        }
        self.cpu_ns = self.schedstat.as_ref().and_then(process::ran_ns_in);
    }

    /// Charges the CPU time since the last call or the begin of the lift.
    pub fn charge(&mut self, budget: Budget, now_ns: u64) {
        let Some(before) = self.cpu_ns else { return };
        let Some(cpu_ns) = self.schedstat.as_ref().and_then(process::ran_ns_in) else { return };
        self.allowance.charge(cpu_ns.saturating_sub(before), budget, now_ns);
        self.cpu_ns = Some(cpu_ns);
    }

    /// A lift has ended.
    pub fn end(&mut self, budget: Budget, now_ns: u64) {
        self.charge(budget, now_ns);
        self.cpu_ns = None;
    }

    /// Whether it has just used up its CPU time, or may just be lifted again.
    pub fn changes(&mut self, budget: Budget, now_ns: u64) -> bool {
        let until = self.allowance.exhausted_until(budget, now_ns);
        let was = std::mem::replace(&mut self.suspended_until_ns, until);
        was.is_some() != until.is_some()
    }

    /// Whether its process has executed another program since the first call, or the thread has
    /// ended: one that executes a program gets the id of the first thread.
    pub fn has_executed(&mut self, thread: i32) -> bool {
        let Some(Identity { tid: process, .. }) = process::of_thread(thread) else { return true };
        // An exec in progress has no stack yet. Nor is one reported without CAP_SYS_PTRACE.
        let stack = stack_of(process);
        let Some((earlier, its)) = self.program else {
            self.program = Some((process, stack));
            return false;
        };
        self.program = Some((process, stack.or(its)));
        earlier != process || its.is_some() && stack.is_some() && its != stack
    }

    /// Whether the program of the first call is known.
    pub fn has_program(&self) -> bool {
        self.program.is_some()
    }

    /// Its process, if that is known.
    pub fn process(&self) -> Option<i32> {
        self.program.map(|(process, _)| process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;
    use std::time::Duration;

    #[test]
    fn a_thread_that_runs_all_the_time_is_suspended_and_lifted_again() {
        let (cpu, window) = (Duration::from_millis(20), Duration::from_millis(200));
        let budget = Budget::limit(cpu, window).unwrap();
        let tid = nix::unistd::gettid().as_raw();
        let mut lifted = Lifted::default();
        lifted.begin(tid);
        let until = |lifted: &mut Lifted, wanted: bool| {
            while !lifted.changes(budget, sys::monotonic_ns()) {
                lifted.charge(budget, sys::monotonic_ns());
            }
            assert_eq!(lifted.may_be_lifted(), wanted);
        };
        until(&mut lifted, false);
        until(&mut lifted, true);
    }

    #[test]
    fn a_program_is_another_one_after_exec() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read a; exec sleep 60"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        // While the program is executed its stack changes more than once.
        let status = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let is = |name: &str| {
            let status = status();
            status.contains(&format!("Name:\t{name}\n")) && status.contains("State:\tS")
        };
        while !is("sh") {}
        let mut lifted = Lifted::default();
        assert!(!lifted.has_executed(pid) && !lifted.has_executed(pid));
        drop(child.stdin.take());
        while !is("sleep") {}
        assert!(lifted.has_executed(pid) && !lifted.has_executed(pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
