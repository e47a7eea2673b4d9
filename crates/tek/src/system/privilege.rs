// SPDX-License-Identifier: MIT OR Apache-2.0
//! May this user's threads be real-time, and if not, what gives them leave.
use super::{cgroup, line};
use nix::sys::resource::{getrlimit, rlim_t, Resource};

/// The real-time priority that the advice below grants. It is above all that SCHED_TEK uses by
/// default (10 to 49) and above the kernel's interrupt threads (50), should the range be raised.
const GRANT: u32 = 60;

/// Whether this process has a capability in effect, by its bit in /proc/self/status (proc(5)).
pub fn has_capability(bit: u32) -> bool {
    line("/proc/self/status")
        .and_then(|status| {
            let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?.trim();
            u64::from_str_radix(hex, 16).ok()
        })
        .is_some_and(|effective| effective & (1 << bit) != 0)
}

/// CAP_SYS_NICE.
pub const SYS_NICE: u32 = 23;
/// CAP_IPC_LOCK: locks memory beyond RLIMIT_MEMLOCK.
pub const IPC_LOCK: u32 = 14;
/// CAP_SYS_ADMIN.
pub const SYS_ADMIN: u32 = 21;
/// CAP_BPF.
pub const BPF: u32 = 39;

/// The highest real-time priority that RLIMIT_RTPRIO grants; 0: none.
pub fn rtprio_limit() -> rlim_t {
    getrlimit(Resource::RLIMIT_RTPRIO).map_or(0, |(soft, _)| soft)
}

/// Whether this process lives in a user namespace, whose capabilities do not count for
/// scheduling.
pub fn in_user_namespace() -> bool {
    // The first namespace maps all users to themselves.
    line("/proc/self/uid_map")
        .is_some_and(|map| map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"])
}

/// The ways to get the privilege, one a line.
pub fn ways_to_get_it() -> [String; 3] {
    [
        format!("now, for this shell and what it starts: sudo prlimit --pid $$ --rtprio={GRANT}:{GRANT}"),
        format!("for good: put the line `USER - rtprio {GRANT}`, with the user's name for USER, into /etc/security/limits.d/tek.conf; it counts from the next login on"),
        format!("for a service: `LimitRTPRIO={GRANT}` (or `AmbientCapabilities=CAP_SYS_NICE`) in its systemd unit"),
    ]
}

/// Why the kernel refuses real-time scheduling to a process that has the privilege, with the
/// cure; `None` when it has not got the privilege in the first place.
pub fn refused_despite_privilege() -> Option<String> {
    if !has_capability(SYS_NICE) && rtprio_limit() == 0 {
        return None;
    }
    if let Some((0, file)) = cgroup::rt_runtime() {
        let group = file.parent().unwrap_or(&file).display();
        let mount = cgroup::of_cpu().map_or_else(
            || "the root group".to_owned(),
            |(hierarchy, _)| hierarchy.mount.join("cgroup.procs").display().to_string(),
        );
        return Some(format!("the cpu cgroup {group} has no real-time run-time: as root, move this shell to the root group with `echo $$ > {mount}`, or give the group (and first each one above it) a share with `echo 300000 > {file}`", file = file.display()));
    }
    if rtprio_limit() == 0 && in_user_namespace() {
        return Some(format!("root of a user namespace (a rootless container) may not use real-time priorities: start the container with a limit such as `--ulimit rtprio={GRANT}`"));
    }
    Some(format!("the privilege is there and the kernel refuses all the same: is the priority above the limit (`ulimit -r`), or does a seccomp filter or security module forbid sched_setattr? In a container, try `--cap-add=SYS_NICE --ulimit rtprio={GRANT}`"))
}
