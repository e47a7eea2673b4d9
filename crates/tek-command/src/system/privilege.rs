// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether this user's threads may be real-time, and if not, the ways to get the privilege.
use super::{cgroup, line};
use nix::sys::resource::{getrlimit, rlim_t, Resource};
use nix::unistd::{geteuid, getppid, getuid, User};
use std::path::Path;
use tek_advice::{as_root, quoted, write_as_root};

/// The real-time priority that the advice below grants. It is above all that SCHED_TEK uses by
/// default (10 to 49). It is above the kernel's interrupt threads (50), in case the range is
/// raised.
const GRANT: u32 = 60;

/// The advised run-time of a control group, in each second.
const RUN_TIME_US: u32 = 300_000;

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
/// CAP_PERFMON.
pub const PERFMON: u32 = 38;
/// CAP_BPF.
pub const BPF: u32 = 39;

/// The highest real-time priority that RLIMIT_RTPRIO grants; 0: none.
pub fn rtprio_limit() -> rlim_t {
    getrlimit(Resource::RLIMIT_RTPRIO).map_or(0, |(soft, _)| soft)
}

/// Whether this process is in a user namespace: the capabilities there do not count for scheduling.
pub fn in_user_namespace() -> bool {
    // The first namespace maps all users to themselves.
    line("/proc/self/uid_map")
        .is_some_and(|map| map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"])
}

/// The ways to get the privilege, one a line: for the shell that started this command, for the user
/// from the next login on, for a service, for a container.
pub fn ways_to_get_it() -> Vec<String> {
    let mut ways = Vec::new();
    if !geteuid().is_root() {
        ways.push(for_this_shell());
        let user = User::from_uid(getuid()).ok().flatten();
        let user = user.map_or_else(|| format!(":{}", getuid()), |user| user.name);
        let line = format!("{user} - rtprio {GRANT}");
        let now = write_as_root(line, "/etc/security/limits.d/tek.conf");
        ways.push(format!("for good, from the next login on: {now}"));
    }
    ways.push(format!("for a service: LimitRTPRIO={GRANT} in the section [Service] of its unit"));
    if geteuid().is_root() || !tek_advice::root_has(&["sys_nice"]) {
        ways.push("in a container: start it with --cap-add=SYS_NICE".to_owned());
    }
    ways
}

/// For the shell that started this command: root raises its limit. If root may not raise limits,
/// root starts a new shell with CAP_SYS_NICE.
fn for_this_shell() -> String {
    if tek_advice::root_has(&["sys_nice"]) && !tek_advice::root_has(&["sys_resource"]) {
        let ways = tek_advice::with_capabilities(&["sys_nice"]);
        return ways.lines().next().unwrap_or_default().to_owned();
    }
    let limit = format!("prlimit --pid {} --rtprio={GRANT}:{GRANT}", getppid());
    format!("now, for this shell and what it starts: {}", as_root(&limit))
}

/// Why the kernel refuses real-time scheduling to a process that has the privilege, with the cure;
/// `None` if the process lacks the privilege.
pub fn refused_despite_privilege() -> Option<String> {
    if !has_capability(SYS_NICE) && rtprio_limit() == 0 {
        return None;
    }
    if let Some((0, file)) = cgroup::rt_runtime() {
        return Some(run_time_for_group(&file));
    }
    if rtprio_limit() == 0 && in_user_namespace() {
        return Some(format!(
            "root of a user namespace (a rootless container) may not use real-time priorities: \
             start the container with a limit such as `--ulimit rtprio={GRANT}`"
        ));
    }
    if let Some((hierarchy, group)) = cgroup::of_cpu() {
        let may_limit = super::kernel_config("CONFIG_RT_GROUP_SCHED") != Some(false);
        if hierarchy.version == 2 && group != hierarchy.mount && may_limit {
            return Some(only_in_topmost_group(&hierarchy.mount, &group));
        }
    }
    Some(format!(
        "the privilege is there and the kernel refuses all the same: is the priority above the \
         limit (`ulimit -r`), or does a seccomp filter or security module forbid sched_setattr? In \
         a container, try `--cap-add=SYS_NICE --ulimit rtprio={GRANT}`"
    ))
}

/// The cures where the kernel has CONFIG_RT_GROUP_SCHED and control groups of version 2: these have
/// no file that gives real-time run-time.
fn only_in_topmost_group(mount: &Path, group: &Path) -> String {
    format!(
        "the privilege is there and the kernel refuses all the same. With RT_GROUP_SCHED it allows \
         real-time threads in the topmost control group of version 2 only, and this shell is in \
         {}\nmove this shell to the topmost group: {}\nor start the kernel with rt_group_sched=0 \
         on its command line (Linux 6.16 and later)\nor, where that is not the cause: a priority \
         above the limit (`ulimit -r`), a seccomp filter, or in a container the lack of \
         `--cap-add=SYS_NICE --ulimit rtprio={GRANT}`",
        group.display(),
        write_as_root(getppid(), mount.join("cgroup.procs"))
    )
}

/// Two cures for a control group of version 1 without real-time run-time.
pub fn run_time_for_group(file: &Path) -> String {
    let group = file.parent().unwrap_or(file);
    let Some((hierarchy, _)) = cgroup::of_cpu() else { return String::new() };
    let move_shell = write_as_root(getppid(), hierarchy.mount.join("cgroup.procs"));
    // A group gets its share from the group above it, so the topmost comes first.
    let without = group.ancestors().take_while(|above| *above != hierarchy.mount);
    let without: Vec<_> = without.map(|above| above.join("cpu.rt_runtime_us")).collect();
    let give = without.iter().rev().filter(|file| super::number(file) == Some(0));
    let give: Vec<_> = give
        .map(|file| format!("echo {RUN_TIME_US} > {}", quoted(&file.display().to_string())))
        .collect();
    format!(
        "the cpu cgroup {} has no real-time run-time\n\
         move this shell to the root group: {move_shell}\n\
         or give the group a share: {}",
        group.display(),
        as_root(&give.join(" && "))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_version_2_is_left_for_the_topmost_one() {
        let cure = only_in_topmost_group(Path::new("/cg"), Path::new("/cg/user.slice"));
        let move_shell = cure.lines().find(|line| line.starts_with("move this shell")).unwrap();
        assert!(
            move_shell.contains(&format!("echo {}", getppid()))
                && move_shell.contains("/cg/cgroup.procs")
        );
        assert!(cure.contains("in /cg/user.slice\n") && cure.contains("rt_group_sched=0"));
    }
}
