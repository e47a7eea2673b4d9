// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a user gets capabilities for one shell, or a service for good.
use crate::Person;
use nix::unistd::{getegid, geteuid};

/// The capabilities that TEK needs: number and name without CAP_, capabilities(7).
const KNOWN: [(u32, &str); 7] = [
    (14, "ipc_lock"),
    (19, "sys_ptrace"),
    (21, "sys_admin"),
    (23, "sys_nice"),
    (24, "sys_resource"),
    (38, "perfmon"),
    (39, "bpf"),
];

/// Whether a process that becomes root here, as by sudo, has all of them.
pub fn root_has(names: &[&str]) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    bounding_set(&status).is_none_or(|set| {
        KNOWN.iter().filter(|(_, name)| names.contains(name)).all(|(bit, _)| set & (1 << bit) != 0)
    })
}

fn bounding_set(status: &str) -> Option<u64> {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapBnd:"))?.trim();
    u64::from_str_radix(hex, 16).ok()
}

/// The ways to get these capabilities, one a line: a shell now, and a service for good.
///
/// Every Debian system has setpriv(1). The capabilities of the new shell are ambient: programs that
/// it starts have them too.
pub fn with_capabilities(names: &[&str]) -> String {
    let person = Person::here();
    let all = |prefix: &str, between: &str| {
        let names: Vec<_> =
            names.iter().map(|name| format!("{prefix}{}", name.to_uppercase())).collect();
        names.join(between)
    };
    let service = format!(
        "for a service: AmbientCapabilities={} in the section [Service] of its unit",
        all("CAP_", " ")
    );
    // Root cannot regain a capability that its bounding set lacks, as in a container.
    if person == Person::Root || !root_has(names) {
        return format!("in a container: start it with {}\n{service}", all("--cap-add=", " "));
    }
    let list = names.iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(",");
    let shell = person.as_root(&format!(
        "setpriv --reuid={} --regid={} --init-groups --inh-caps={list} --ambient-caps={list} bash",
        geteuid(),
        getegid()
    ));
    format!("for a new shell: {shell}\n{service}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capabilities_are_named_as_setpriv_and_systemd_name_them() {
        let reported = with_capabilities(&["bpf", "perfmon"]);
        assert!(reported.contains("AmbientCapabilities=CAP_BPF CAP_PERFMON"), "{reported}");
        assert_eq!(reported.lines().count(), 2);
        assert!(
            reported.contains("+bpf,+perfmon") || reported.contains("--cap-add=BPF"),
            "{reported}"
        );
    }

    #[test]
    fn the_bounding_set_is_that_of_the_process() {
        assert_eq!(bounding_set("CapEff:\t0\nCapBnd:\t0000000000800000\n"), Some(1 << 23));
        assert_eq!(bounding_set("CapEff:\t0\n"), None);
    }
}
