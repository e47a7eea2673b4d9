// SPDX-License-Identifier: MIT OR Apache-2.0
//! The questions that `tek doctor` asks, one function each.
use super::check::{info, no, root_or, unknown, yes, Answer, Check};
use super::trial::{Range, Trial, DEFAULT};
use super::{interrupts, kernel_threads, libraries, throttling, uthread, Backend};
use crate::system::memory::{self, Pages};
use crate::system::privilege::{self, has_capability};
use crate::system::{self, cgroup, kernel_config, library, line, number};
use nix::unistd::{access, AccessFlags};
use std::fs;
use std::path::{Path, PathBuf};
use tek_advice::{as_root, tool_as_root};

/// All of them, in the order of the report.
pub fn all(trial: &Trial) -> Vec<Check> {
    let mut checks = vec![
        library(),
        library_32(),
        rt_privilege(),
        rt_trial(trial),
        throttling::rt_throttling(),
        rt_group_sched(),
        preempt_rt(),
        interrupts::irq_threads(),
        cgroups(),
        autogroup(),
        bpf(),
        kernel_threads::kernel_threads(),
        sched_ext(),
        psi(),
        stack_measure(),
        stack_guards(),
    ];
    checks.extend(uthread::checks());
    checks.extend(libraries::checks());
    checks
}

/// The kernel's release and machine.
pub fn kernel() -> String {
    nix::sys::utsname::uname().map_or_else(
        |_| "Linux".into(),
        |name| {
            let word = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
            format!("{} {} {}", word(name.sysname()), word(name.release()), word(name.machine()))
        },
    )
}

fn library() -> Check {
    match library::find() {
        Ok((path, _)) => yes("library", path.display().to_string()),
        Err(error) => no("library", error.to_string(), error.cure()),
    }
}

/// For processors that run 32-bit programs too.
fn library_32() -> Check {
    const ID: &str = "library-32";
    let Ok((path, elf)) = library::find() else { return unknown(ID, "see library") };
    match library::sibling(&path, &elf) {
        Some((path, _)) => info(ID, path.display().to_string()),
        None => info(
            ID,
            match library::sibling_of(&path) {
                Some(path) => {
                    format!("no {}: 32-bit programs run, but not under TEK", path.display())
                }
                None => "none: 32-bit programs run, but not under TEK".into(),
            },
        ),
    }
}

fn rt_privilege() -> Check {
    let limit = privilege::rtprio_limit();
    match (has_capability(privilege::SYS_NICE), limit) {
        (true, _) => yes("rt-privilege", "CAP_SYS_NICE: any real-time priority"),
        (false, 1..) => yes("rt-privilege", format!("RLIMIT_RTPRIO: priorities up to {limit}")),
        (false, 0) => no(
            "rt-privilege",
            "neither CAP_SYS_NICE nor RLIMIT_RTPRIO",
            format!(
                "{}\nor a grant of tekd's, for a program as it is: `tek status` tells whether tekd \
                 runs, tekd.toml(5) how to grant",
                privilege::ways_to_get_it().join("\nor ")
            ),
        ),
    }
}

fn rt_trial(trial: &Trial) -> Check {
    let Range { low, high } = trial.range;
    match (&trial.low, &trial.high) {
        (Ok(()), Ok(())) if trial.range == DEFAULT => {
            yes("rt-trial", format!("a thread became SCHED_RR at priority {low} and {high}"))
        }
        (Ok(()), Ok(())) => info(
            "rt-trial",
            format!(
                "a thread became SCHED_RR at priority {low} and {high}; TEK makes do with these, \
                 because RLIMIT_RTPRIO does not grant its usual {} to {}",
                DEFAULT.low, DEFAULT.high
            ),
        ),
        (Ok(()), Err(error)) => no(
            "rt-trial",
            format!("SCHED_RR is allowed at priority {low} but not at {high}: {error}"),
            rt_cure(),
        ),
        (Err(error), _) => {
            no("rt-trial", format!("SCHED_RR at priority {low}: {error}"), rt_cure())
        }
    }
}

/// The check that has the cure, or the cure itself if no other check has it.
fn rt_cure() -> String {
    if matches!(cgroup::rt_runtime(), Some((0, _))) {
        return "see rt-group-sched".into();
    }
    privilege::refused_despite_privilege().unwrap_or_else(|| "see rt-privilege".into())
}

fn rt_group_sched() -> Check {
    const ID: &str = "rt-group-sched";
    match cgroup::rt_runtime() {
        Some((0, file)) => no(
            ID,
            format!("this process's cpu cgroup has no real-time run-time ({})", file.display()),
            privilege::run_time_for_group(&file),
        ),
        Some((runtime, file)) => yes(
            ID,
            format!(
                "in the kernel; this process's cpu cgroup may use {runtime} us a period ({})",
                file.display()
            ),
        ),
        None => match kernel_config("CONFIG_RT_GROUP_SCHED") {
            Some(true) => info(
                ID,
                "in the kernel, but no cgroup of version 1 shows its limits: a group other than \
                 the root one may be refused (see rt-trial)",
            ),
            Some(false) => info(ID, "not in the kernel: cgroups do not limit real-time threads"),
            None => info(ID, "no limit to be seen"),
        },
    }
}

fn preempt_rt() -> Check {
    match system::is_preempt_rt() {
        true => info("preempt-rt", "a PREEMPT_RT kernel"),
        false => info("preempt-rt", "not a PREEMPT_RT kernel; TEK needs none"),
    }
}

fn cgroups() -> Check {
    let hierarchies = cgroup::hierarchies(&line("/proc/self/mountinfo").unwrap_or_default());
    let known = ["cpu", "cpuset", "memory", "io", "blkio", "pids"];
    let mut words = Vec::new();
    for version in [1, 2] {
        let mut controllers = Vec::new();
        let mut mounted = false;
        for hierarchy in hierarchies.iter().filter(|h| h.version == version) {
            mounted = true;
            controllers.extend(controllers_of(hierarchy));
        }
        controllers.retain(|name| known.contains(&name.as_str()));
        controllers.sort();
        controllers.dedup();
        if mounted {
            let list = controllers.join(", ");
            let list = if list.is_empty() { "none of cpu, memory, io ...".into() } else { list };
            words.push(format!("version {version} with {list}"));
        }
    }
    if words.is_empty() {
        return no("cgroup", "none mounted", as_root(cgroup::MOUNT));
    }
    yes("cgroup", words.join("; "))
}

fn controllers_of(hierarchy: &cgroup::Hierarchy) -> Vec<String> {
    if hierarchy.version == 1 {
        return hierarchy.controllers.clone();
    }
    let list = line(hierarchy.mount.join("cgroup.controllers")).unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}

fn autogroup() -> Check {
    match system::autogroup() {
        Some(false) => info("autogroup", "off"),
        Some(true) => {
            info("autogroup", "on: sessions share the CPU evenly, and nice counts only within one")
        }
        None => info("autogroup", "not in the kernel"),
    }
}

fn can_load_bpf() -> bool {
    let has = |numbers: &[u32]| numbers.iter().all(|&number| has_capability(number));
    has(&[privilege::BPF, privilege::PERFMON]) || has(&[privilege::SYS_ADMIN])
}

fn has_btf() -> bool {
    Path::new("/sys/kernel/btf/vmlinux").exists()
}

fn bpf() -> Check {
    if !has_btf() {
        return no(
            "bpf",
            "the kernel has no type information (/sys/kernel/btf/vmlinux)",
            "build it with CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF",
        );
    }
    if !can_load_bpf() {
        let setting = match number("/proc/sys/kernel/unprivileged_bpf_disabled") {
            Some(0) => "open to all users, but not for tracing",
            _ => "closed to unprivileged users",
        };
        return no("bpf", format!("in the kernel, {setting}"), root_or(&["bpf", "perfmon"]));
    }
    yes("bpf", "programs with type information (BTF) can be loaded")
}

fn sched_ext() -> Check {
    match line("/sys/kernel/sched_ext/state") {
        Some(state) => yes("sched-ext", format!("in the kernel, {state}")),
        None => no(
            "sched-ext",
            "not in the kernel",
            "use Linux 6.12 or later built with CONFIG_SCHED_CLASS_EXT",
        ),
    }
}

fn psi() -> Check {
    // Where it is built in but switched off, the file exists and cannot be read.
    match fs::read("/proc/pressure/cpu") {
        Ok(_) => yes("psi", "pressure stall information in /proc/pressure"),
        Err(_) => no(
            "psi",
            "no pressure stall information",
            "add psi=1 to the kernel's command line and boot, on a kernel built with CONFIG_PSI",
        ),
    }
}

fn stack_measure() -> Check {
    const ID: &str = "stack-measure";
    match memory::pages() {
        Pages::Scan => yes(ID, "stacks can be measured, by PAGEMAP_SCAN"),
        Pages::Pagemap => {
            yes(ID, "stacks can be measured, by /proc/self/pagemap: Linux 6.7 is faster")
        }
        Pages::Mincore => info(
            ID,
            "stacks can be measured, but only by mincore: pages that were swapped out do not count",
        ),
    }
}

fn stack_guards() -> Check {
    const ID: &str = "stack-guards";
    match memory::has_light_guards() {
        true => yes(ID, "guards of signal stacks need no mappings (MADV_GUARD_INSTALL)"),
        false => info(
            ID,
            "each guard of a signal stack is a mapping of vm.max_map_count: Linux 6.13 needs none",
        ),
    }
}

/// SCHED_RR above everything fair.
pub fn rt_backend(trial: &Trial) -> Backend {
    let usable = trial.low.is_ok();
    Backend {
        name: "rt",
        usable,
        why: match &trial.low {
            Ok(()) => "real-time priorities: needs no more than rt-trial showed".into(),
            Err(error) => format!("real-time priorities: {error}"),
        },
        cure: (!usable).then(rt_cure),
    }
}

/// Weights of control groups.
pub fn fair_backend() -> Backend {
    let problem = fair_problem();
    let usable = problem.is_ok();
    let (why, cure) = match problem {
        Ok(directory) => (format!("{} can be written", directory.display()), None),
        Err((why, cure)) => (why, Some(cure)),
    };
    Backend { name: "fair", usable, why: format!("cgroup weights: {why}"), cure }
}

/// The control group in which groups can be made, or the reason and the cure where there is none.
fn fair_problem() -> Result<PathBuf, (String, String)> {
    let Some((hierarchy, directory)) = cgroup::of_cpu() else {
        return Err(("no cpu controller".to_owned(), cgroup::mount_cpu()));
    };
    // The root group of a hierarchy has no weight; groups are made below it.
    if !controllers_of(&hierarchy).iter().any(|name| name == "cpu") {
        // In a container the mount shows a group below the root: it gets controllers from above.
        let cure = match hierarchy.mount.join("cgroup.type").exists() {
            true => {
                "enable it in the groups above: on the host, echo +cpu > cgroup.subtree_control \
                     in the directory of each, from the topmost down"
                    .to_owned()
            }
            false => cgroup::mount_cpu(),
        };
        return Err(("the cpu controller is not enabled".to_owned(), cure));
    }
    if access(&directory, AccessFlags::W_OK).is_err() {
        let why = format!("{} cannot be written", directory.display());
        let cure = match nix::unistd::geteuid().is_root() {
            true => as_root(&format!("mount -o remount,rw {}", hierarchy.mount.display())),
            false => format!(
                "root can, and so tekd: {}\n\
                 or for a service: Delegate=cpu in the section [Service] of its unit",
                tool_as_root("tek", "doctor")
            ),
        };
        return Err((why, cure));
    }
    Ok(directory)
}

/// TEK's own scheduler, as a BPF program.
pub fn scx_backend() -> Backend {
    let check = sched_ext();
    let (usable, why, cure) = match (check.answer, can_load_bpf() && has_btf()) {
        (Answer::Yes, true) => (true, "sched_ext: can be loaded".to_owned(), None),
        (Answer::Yes, false) => {
            let cure = root_or(&["bpf", "perfmon", "sys_admin"]);
            (false, "sched_ext: this user cannot load it".to_owned(), Some(cure))
        }
        _ => (false, format!("sched_ext: {}", check.found), check.cure),
    };
    Backend { name: "scx", usable, why, cure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn eperm() -> io::Error {
        io::Error::from_raw_os_error(libc::EPERM)
    }

    fn trial(range: Range, low: io::Result<()>, high: io::Result<()>) -> Trial {
        Trial { range, low, high }
    }

    #[test]
    fn every_no_has_a_cure() {
        let refused = trial(DEFAULT, Err(eperm()), Ok(()));
        for check in all(&refused) {
            assert_eq!(check.answer == Answer::No, check.cure.is_some(), "{}", check.id);
        }
        for backend in [rt_backend(&refused), fair_backend(), scx_backend()] {
            assert_eq!(!backend.usable, backend.cure.is_some(), "{}", backend.name);
        }
    }

    #[test]
    fn the_rt_backend_can_be_used_as_soon_as_the_lowest_priority_is_granted() {
        let granted = trial(DEFAULT, Ok(()), Err(eperm()));
        assert!(rt_backend(&granted).usable);
        assert_eq!(rt_trial(&granted).answer, Answer::No);
    }

    #[test]
    fn a_limit_that_narrows_the_range_is_no_fault() {
        let narrow = trial(Range { low: 4, high: 4 }, Ok(()), Ok(()));
        assert_eq!(rt_trial(&narrow).answer, Answer::Info);
        assert!(rt_backend(&narrow).usable);
    }
}
