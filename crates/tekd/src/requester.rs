// SPDX-License-Identifier: MIT OR Apache-2.0
//! What decides which grant is for a process.
use crate::configuration;
use crate::process::Person;
use tek_policy::{Configuration, Requester};

/// The input of the decision on grants, for a process in these cgroups.
pub fn requester(
    pid: i32,
    person: &Person,
    configuration: &Configuration,
    cgroups: Vec<String>,
) -> Requester {
    let active = configuration::is_active(person.uid);
    let mut requester = person.requester(pid, active, cgroups);
    // A path is read only if a grant names it, because its file system can delay that.
    let is_named = |path: &String| {
        let mut patterns = configuration.grants.iter().flat_map(|grant| &grant.programs);
        patterns.any(|pattern| pattern.is_path_of(path))
    };
    requester.program = requester.program.filter(|path| is_named(path) && person.has_program(path));
    requester
}
