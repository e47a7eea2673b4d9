// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of the kernel: files in /proc and /sys that can be read, and written to put them back.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The settings beside all of /proc/sys. A setting comes before those that depend on it.
const PATTERNS: [&str; 26] = [
    "/sys/devices/system/cpu/cpu*/online",
    "/sys/kernel/tracing/tracing_on",
    "/sys/kernel/tracing/current_tracer",
    "/sys/kernel/tracing/set_*",
    "/sys/kernel/tracing/trace_clock",
    "/sys/kernel/tracing/tracing_cpumask",
    "/sys/kernel/tracing/[ku]probe_events",
    "/proc/irq/default_smp_affinity",
    "/proc/irq/*/smp_affinity",
    "/sys/block/*/queue/scheduler",
    "/sys/class/net/*/mtu",
    "/sys/class/net/*/flags",
    "/sys/devices/virtual/workqueue/*",
    "/sys/devices/virtual/workqueue/*/*",
    "/sys/fs/cgroup/cgroup.*",
    "/sys/fs/cgroup/*/cgroup.clone_children",
    "/sys/fs/cgroup/*/cpu.[crs]*",
    "/sys/fs/cgroup/*/cpuset.*",
    "/sys/fs/cgroup/*/memory.swappiness",
    "/sys/fs/cgroup/*/notify_on_release",
    "/sys/fs/cgroup/*/release_agent",
    "/sys/kernel/debug/sched/*",
    "/sys/kernel/debug/sched/fair_server/*/*",
    "/sys/kernel/mm/*/*",
    "/sys/kernel/rcu_*",
    "/sys/module/*/parameters/*",
];

/// Files that change by themselves, act when they are written, or are checked elsewhere.
const NOT: [&str; 12] = [
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/tainted",
    "/proc/sys/net/ipv4/tcp_fastopen_key",
    "/proc/sys/vm/compact_memory",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/vm/stat_refresh",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/cgroup.threads",
    "/sys/kernel/tracing/set_event_notrace_pid",
];

/// Longer files are no settings.
const MOST_BYTES: usize = 4096;

/// Settings and their values.
pub(super) struct Settings(BTreeMap<PathBuf, String>);

impl Settings {
    /// Reads the settings that can be changed.
    pub(super) fn take() -> Self {
        let mut paths = Vec::new();
        collect(Path::new("/proc/sys"), &mut paths);
        for pattern in PATTERNS {
            paths.extend(glob::glob(pattern).into_iter().flatten().flatten());
        }
        let paths = paths.into_iter().filter(|path| can_be_set(path));
        Self(paths.filter_map(|path| Some((path.clone(), read(&path)?))).collect())
    }

    /// Restores changed settings; reports those that it cannot restore.
    pub(super) fn restore(&self) -> Vec<String> {
        // Some can only be set after another one.
        for _ in 0..2 {
            let mut same = true;
            for (path, was) in self.in_order() {
                let now = read(path).unwrap_or_default();
                if now != *was {
                    same = false;
                    // The read of the next round checks the result.
                    for value in values(path, was, &now) {
                        let _ = fs::write(path, value);
                    }
                }
            }
            if same {
                return Vec::new();
            }
        }
        let differing = self.0.iter().filter_map(|(path, was)| {
            let now = read(path).unwrap_or_default();
            let (now, was) = (now.trim_end(), was.trim_end());
            (now != was).then(|| format!("{} is {now}, was {was}", path.display()))
        });
        differing.collect()
    }

    /// CPUs before all settings of CPUs.
    fn in_order(&self) -> impl Iterator<Item = (&PathBuf, &String)> {
        let first = |path: &Path| path.starts_with("/sys/devices/system/cpu");
        let of = move |wanted| self.0.iter().filter(move |(path, _)| first(path) == wanted);
        of(true).chain(of(false))
    }
}

fn collect(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), into),
            Ok(kind) if kind.is_file() => into.push(entry.path()),
            _ => {}
        }
    }
}

fn can_be_set(path: &Path) -> bool {
    if NOT.iter().any(|not| path == Path::new(not)) {
        return false;
    }
    fs::metadata(path).is_ok_and(|about| {
        let mode = about.permissions().mode();
        about.is_file() && mode & 0o444 != 0 && mode & 0o222 != 0
    })
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().filter(|text| text.len() <= MOST_BYTES)
}

/// The values to write, one after another, so that a file reads as before.
fn values(path: &Path, was: &str, now: &str) -> Vec<String> {
    let name = path.file_name().unwrap_or_default();
    let missing = |from: &str, of: &str| -> Vec<String> {
        let there: Vec<&str> = of.split_whitespace().collect();
        let words = from.split_whitespace().filter(|word| !there.contains(word));
        words.map(str::to_owned).collect()
    };
    if name == "cgroup.subtree_control" {
        let more = missing(now, was).into_iter().map(|word| format!("-{word}"));
        return more.chain(missing(was, now).into_iter().map(|word| format!("+{word}"))).collect();
    }
    if path.starts_with("/sys/kernel/debug/sched") && name == "features" {
        return missing(was, now);
    }
    // In "always [madvise] never" or "none (full) lazy" one is in force.
    for (open, close) in [('[', ']'), ('(', ')')] {
        let chosen = was.split_once(open).and_then(|(_, rest)| rest.split_once(close));
        if let Some((chosen, _)) = chosen.filter(|_| was.split_whitespace().count() > 1) {
            return vec![chosen.to_owned()];
        }
    }
    // A text that begins so only reports that there is nothing.
    match was.starts_with('#') || was.starts_with("no pid") {
        true => vec![String::new()],
        false => vec![was.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::values;
    use std::path::Path;

    #[test]
    fn what_is_written_restores_the_content_of_a_file() {
        let of = |path: &str, was: &str, now: &str| values(Path::new(path), was, now);
        assert_eq!(of("/proc/sys/vm/swappiness", "60\n", "1\n"), ["60\n"]);
        let control = "/sys/fs/cgroup/cgroup.subtree_control";
        assert_eq!(of(control, "cpu io\n", "cpu pids\n"), ["-pids", "+io"]);
        let huge = "/sys/kernel/mm/transparent_hugepage/enabled";
        assert_eq!(of(huge, "always [madvise] never\n", "[always] madvise never\n"), ["madvise"]);
        assert_eq!(of("/sys/kernel/debug/sched/preempt", "none (full) lazy", "x"), ["full"]);
        let features = "/sys/kernel/debug/sched/features";
        assert_eq!(of(features, "A NO_B C", "NO_A NO_B C"), ["A"]);
        let filter = "/sys/kernel/tracing/set_ftrace_filter";
        assert_eq!(of(filter, "#### all functions enabled ####\n", "schedule\n"), [""]);
    }
}
