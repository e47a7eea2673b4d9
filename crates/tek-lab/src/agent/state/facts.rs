// SPDX-License-Identifier: MIT OR Apache-2.0
//! State that can be read, but not restored from outside.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the kernel may take to clean up after processes that are gone.
const SETTLES_WITHIN: Duration = Duration::from_secs(1);

/// Lists of present objects, by their kind.
#[derive(PartialEq, Eq)]
pub(super) struct Facts(BTreeMap<&'static str, BTreeSet<String>>);

impl Facts {
    pub(super) fn take() -> Self {
        let first_word = |line: &str| line.split_whitespace().next().unwrap_or("").to_owned();
        let mut facts = BTreeMap::from([
            ("mount", lines("/proc/self/mountinfo", str::to_owned)),
            ("module", lines("/proc/modules", first_word)),
            ("swap", lines("/proc/swaps", first_word)),
            ("cgroup of process 1", lines("/proc/self/cgroup", str::to_owned)),
            ("sched_ext state", lines("/sys/kernel/sched_ext/state", str::to_owned)),
            ("network interface", names("/sys/class/net")),
            ("tracing instance", names("/sys/kernel/tracing/instances")),
            ("BPF program", bpf_programs()),
        ]);
        facts.insert("loop device", loops());
        facts.insert("taint", taint());
        Self(facts)
    }

    /// Reports the differences.
    pub(super) fn differing(&self) -> Vec<String> {
        let start = Instant::now();
        loop {
            let now = Self::take();
            if now == *self {
                return Vec::new();
            }
            if start.elapsed() > SETTLES_WITHIN {
                return self.compare(&now);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn compare(&self, now: &Self) -> Vec<String> {
        let mut differing = Vec::new();
        for (what, now) in &now.0 {
            let was = &self.0[what];
            differing.extend(now.difference(was).map(|item| format!("{what}: now {item}")));
            differing.extend(was.difference(now).map(|item| format!("{what}: no more {item}")));
        }
        differing
    }
}

fn lines(path: &str, take: impl Fn(&str) -> String) -> BTreeSet<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(take).collect()
}

fn names(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Loop devices in use, and the files that they show.
fn loops() -> BTreeSet<String> {
    let devices = names("/sys/block").into_iter().filter(|name| name.starts_with("loop"));
    let used = devices.filter_map(|name| {
        let file = Path::new("/sys/block").join(&name).join("loop/backing_file");
        Some(format!("{name} {}", fs::read_to_string(file).ok()?.trim_end()))
    });
    used.collect()
}

/// Why the kernel cannot be trusted any more: a warning, an oops, a foreign module.
fn taint() -> BTreeSet<String> {
    lines("/proc/sys/kernel/tainted", |flags| format!("the kernel has the flags {flags}"))
        .into_iter()
        .filter(|text| !text.ends_with(" 0"))
        .collect()
}

/// The loaded BPF programs, by number.
fn bpf_programs() -> BTreeSet<String> {
    /// Command of bpf(2).
    const BPF_PROG_GET_NEXT_ID: i32 = 11;
    #[repr(C)]
    struct NextId {
        start: u32,
        next: u32,
        open_flags: u32,
    }
    let mut found = BTreeSet::new();
    let mut id = NextId { start: 0, next: 0, open_flags: 0 };
    loop {
        // SAFETY: it reads and writes `id`, of the size that it receives.
        let done = unsafe {
            libc::syscall(libc::SYS_bpf, BPF_PROG_GET_NEXT_ID, &mut id, size_of::<NextId>())
        };
        if done != 0 {
            return found; // no more, or a kernel without bpf(2)
        }
        found.insert(format!("number {}", id.next));
        id.start = id.next;
    }
}
