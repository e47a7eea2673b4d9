// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs that would work on this kernel, determined without loading.
use crate::btf::Btf;
use crate::dependency::{Dependency, Group, Hook, Kind, Only, State, Target, GROUPS};
use crate::error::Error;
use std::fs;

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// bpf/calls.h reads the system calls of these processors.
const KNOWS_CALLS: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"));

impl Hook {
    /// Whether this kernel uses the program.
    pub(crate) fn is_used(&self, btf: &Btf) -> bool {
        match self.only {
            None => true,
            Some(Only::With(target)) => btf.has(target),
            Some(Only::Without(target)) => !btf.has(target),
        }
    }

    /// The hook that this kernel has.
    pub(crate) fn target_in(&self, btf: &Btf) -> Option<Target> {
        let all = [Some(self.target), self.before];
        all.into_iter().flatten().find(|&target| btf.has(target))
    }

    /// Whether this kernel uses the program and has no hook for it.
    pub(crate) fn is_lacking(&self, btf: &Btf) -> bool {
        self.is_used(btf) && self.target_in(btf).is_none()
    }
}

/// The result of [`probe`].
#[derive(Debug)]
pub struct Probe {
    /// The first reason why no program can work at all.
    pub obstacle: Option<Error>,
    /// The state of each dependency, as far as the kernel's BTF shows; empty where there is no BTF.
    pub dependencies: Vec<Dependency>,
}

/// Checks the kernel and the rights of the calling process. Changes nothing; takes some 20 ms.
pub fn probe() -> Probe {
    if cfg!(not(target_pointer_width = "64")) {
        return Probe { obstacle: Some(Error::NotBuilt), dependencies: Vec::new() };
    }
    match Btf::of_kernel() {
        Ok(btf) => Probe { obstacle: forbidden().err(), dependencies: dependencies(&btf) },
        Err(error) => Probe { obstacle: Some(error), dependencies: Vec::new() },
    }
}

/// An error where this process may not load tracing programs.
pub(crate) fn forbidden() -> Result<(), Error> {
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return Err(Error::Lockdown);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::NotPermitted { missing: missing.join(" and ") }),
    }
}

/// The capabilities that loading lacks. A status without the line counts as root's: the load
/// reports the error then.
fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let Some(effective) = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
    else {
        return Vec::new();
    };
    let has = |capability: u32| effective >> capability & 1 == 1;
    if has(CAP_SYS_ADMIN) {
        return Vec::new();
    }
    let needed = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")];
    needed.iter().filter(|(number, _)| !has(*number)).map(|(_, name)| *name).collect()
}

/// The state of each dependency, by names in the BTF alone.
pub(crate) fn dependencies(btf: &Btf) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = GROUPS
        .iter()
        .map(|group| Dependency { kind: group.kind, state: state(group, btf) })
        .collect();
    propagate(&mut found);
    found
}

fn state(group: &Group, btf: &Btf) -> State {
    let mut state = State::On { but: Vec::new() };
    let by_id = btf.has(Target::Function("bpf_task_from_pid"));
    if let Some(name) = group.variable.filter(|name| !by_id && btf.distance(name).is_none()) {
        return State::Off(format!("this kernel hides the address of its variable {name}"));
    }
    if matches!(group.kind, Kind::Locks | Kind::Answers) && !KNOWS_CALLS {
        return State::Off("the system calls of this processor are not known".to_owned());
    }
    for hook in group.hooks.iter().filter(|hook| hook.is_lacking(btf)) {
        lack(&mut state, hook, format!("this kernel has not {}", hook.target));
    }
    if let State::On { but } = &mut state {
        but.extend(
            group.limitation.filter(|_| !by_id).map(|worse| {
                format!("{worse}: this kernel has not the function bpf_task_from_pid()")
            }),
        );
    }
    state
}

/// Records that a program is missing, for this reason.
pub(crate) fn lack(state: &mut State, hook: &Hook, reason: String) {
    let State::On { but } = state else { return };
    match hook.without {
        None => *state = State::Off(reason),
        Some(worse) => {
            let message = format!("{worse}: {reason}");
            if !but.contains(&message) {
                but.push(message);
            }
        }
    }
}

/// Switches off each dependency that needs a dependency that is off.
pub(crate) fn propagate(dependencies: &mut [Dependency]) {
    let off = |dependencies: &[Dependency], kind: Kind| {
        dependencies.iter().any(|other| other.kind == kind && !other.is_on())
    };
    // One pass for each link of the longest possible chain.
    for _ in 0..GROUPS.len() {
        for group in &GROUPS {
            let Some(needed) = group.needs.filter(|&needed| off(dependencies, needed)) else {
                continue;
            };
            for mine in dependencies.iter_mut().filter(|d| d.kind == group.kind && d.is_on()) {
                mine.state = State::Off(format!("it needs {needed}, which is off"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_missing_capabilities_are_named_and_root_needs_neither() {
        let missing =
            |value: u64| missing_capabilities(&format!("Name:\tx\nCapEff:\t{value:016x}\n"));
        assert_eq!(missing(0), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing(1 << CAP_BPF), ["CAP_PERFMON"]);
        assert!(missing(1 << CAP_BPF | 1 << CAP_PERFMON).is_empty());
        assert!(missing(1 << CAP_SYS_ADMIN).is_empty());
    }

    #[test]
    fn what_is_needed_takes_with_it_what_needs_it() {
        let mut found: Vec<Dependency> = GROUPS
            .iter()
            .map(|group| Dependency { kind: group.kind, state: State::On { but: Vec::new() } })
            .collect();
        for dependency in found.iter_mut().filter(|d| d.kind == Kind::Exits) {
            dependency.state = State::Off("a test wants it so".to_owned());
        }
        propagate(&mut found);
        let writeback = found.iter().find(|d| d.kind == Kind::Writeback).unwrap();
        assert_eq!(writeback.state, State::Off("it needs workers, which is off".to_owned()));
    }
}
