// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds processes with Fast threads that executed another program, where the kernel reports no
//! events.
//!
//! The first stack of a process moves with each program that it executes. Reading its address takes
//! some microseconds, so all such processes are polled often, while there are any.
use crate::sys;
use std::collections::{HashMap, HashSet};
use tek_effect::Identity;

/// The interval of polls.
const CHECK_NS: u64 = 10_000_000;

/// The programs that processes run.
#[derive(Default)]
pub struct Programs {
    stacks: HashMap<Identity, u64>,
    next_ns: Option<u64>,
}

impl Programs {
    /// Records the present program of a process that is about to get its first Fast thread.
    pub fn note(&mut self, process: Identity, now_ns: u64) {
        if let Ok(stack) = process.stack_start() {
            self.stacks.insert(process, stack);
            self.next_ns.get_or_insert(now_ns + CHECK_NS);
        }
    }

    /// When the next poll is due.
    pub fn next_ns(&self) -> Option<u64> {
        self.next_ns
    }

    /// The processes that executed another program since the last poll, if a poll is due. Removes
    /// processes that are not in `present`.
    pub fn executed(&mut self, present: &HashSet<Identity>, now_ns: u64) -> Vec<Identity> {
        if self.next_ns.is_none_or(|at| at > now_ns) {
            return Vec::new();
        }
        let began_cpu_ns = sys::cpu_ns();
        self.stacks.retain(|process, _| present.contains(process));
        let is_other = |(process, stack): &(&Identity, &u64)| {
            process.stack_start().is_ok_and(|it| it != **stack)
        };
        let executed: Vec<Identity> =
            self.stacks.iter().filter(is_other).map(|(process, _)| *process).collect();
        self.stacks.retain(|process, _| !executed.contains(process));
        let period_ns = sys::period_ns(began_cpu_ns, CHECK_NS);
        self.next_ns = (!self.stacks.is_empty()).then_some(now_ns + period_ns);
        executed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_executes_a_program_is_noticed_once() {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exec sh -c 'echo executed; read line'"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let process = Identity::of_process(i32::try_from(child.id()).unwrap()).unwrap();
        let present = HashSet::from([process]);
        let mut programs = Programs::default();
        assert_eq!(programs.next_ns(), None);
        programs.note(process, 1);
        assert_eq!(programs.next_ns(), Some(1 + CHECK_NS));
        assert!(programs.executed(&present, 1 + CHECK_NS).is_empty());
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(programs.executed(&present, 2 + CHECK_NS).is_empty(), "no look is due");
        assert_eq!(programs.executed(&present, 1 + 2 * CHECK_NS), [process]);
        assert!(programs.executed(&present, 1 + 9 * CHECK_NS).is_empty());
        assert_eq!(programs.next_ns(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_program_without_a_fast_thread_is_not_checked_any_more() {
        let own = Identity::of_process(i32::try_from(std::process::id()).unwrap()).unwrap();
        let mut programs = Programs::default();
        programs.note(own, 0);
        assert!(programs.executed(&HashSet::new(), CHECK_NS).is_empty());
        assert_eq!(programs.next_ns(), None);
    }
}
