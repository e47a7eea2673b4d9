// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel threads, memory and functions of the kernel, read from /proc.
use crate::process::{self, Status};
use nix::sys::statfs::{statfs, FsType, TMPFS_MAGIC};
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use tek_bpf::{Device, Name, Thread};
use tek_procfs::{path, thread_path};

/// kthreadd, which creates all other kernel threads.
const KTHREADD: i32 = 2;

/// All kernel threads with their names.
pub fn kernel_threads() -> impl Iterator<Item = (i32, String)> {
    candidates().into_iter().filter_map(|pid| {
        let status = Status::of(pid).ok()?;
        let is_kernels = pid == KTHREADD || status.parent() == Some(KTHREADD);
        is_kernels.then(|| (pid, status.name().to_owned()))
    })
}

/// kthreadd and its children, which the kernel lists: the processes of users may be many. Without
/// the list, all processes.
fn candidates() -> Vec<i32> {
    let Ok(children) = fs::read_to_string("/proc/2/task/2/children") else { return process::all() };
    let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    std::iter::once(KTHREADD).chain(children).collect()
}

/// The kswapd of each node.
pub fn reclaimers() -> Vec<Thread> {
    kernel_threads()
        .filter(|(_, name)| name.strip_prefix("kswapd").is_some_and(|n| n.parse::<u32>().is_ok()))
        .map(|(tid, name)| Thread { tid, name: Name::new(&name) })
        .collect()
}

/// The thread that ends the transactions of ext4 on a disk, as in "jbd2/vda1-8".
pub fn journal(disk: Device) -> Option<Thread> {
    let beginning = format!("jbd2/{}-", self::disk(disk.major, disk.minor));
    // The kernel truncates names.
    let beginning = &beginning[..beginning.len().min(15)];
    let named = |(_, name): &(i32, String)| name.starts_with(beginning);
    kernel_threads().find(named).map(|(tid, name)| Thread { tid, name: Name::new(&name) })
}

/// The io_uring workers of a process.
pub fn uring_workers(pid: i32) -> Vec<Thread> {
    let named = |tid: i32| {
        let name = fs::read_to_string(thread_path(pid, tid, "comm").ok()?).ok()?;
        let name = name.trim_end();
        name.starts_with("iou-wrk-").then(|| Thread { tid, name: Name::new(name) })
    };
    process::threads(pid).unwrap_or_default().into_iter().filter_map(named).collect()
}

/// The number of resident pages of a process that belong to no file.
pub fn anonymous_pages(pid: i32) -> u64 {
    let text = path(pid, "statm").and_then(fs::read_to_string).unwrap_or_default();
    let mut fields = text.split_ascii_whitespace().skip(1).map_while(|field| field.parse().ok());
    let (resident, shared): (u64, u64) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared)
}

/// The number of pages on the lists that reclaim takes pages from.
pub fn pages_on_lists() -> u64 {
    const LISTS: [&str; 4] =
        ["nr_inactive_anon", "nr_active_anon", "nr_inactive_file", "nr_active_file"];
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter(|(name, _)| LISTS.contains(name)).filter_map(|(_, n)| n.parse::<u64>().ok()).sum()
}

/// The wanted functions of the kernel by address. Compilers append parts to names after a dot;
/// these are removed.
pub fn functions(wanted: impl Fn(u64, &str) -> bool) -> HashMap<u64, String> {
    let Ok(file) = fs::File::open("/proc/kallsyms") else { return HashMap::new() };
    let (mut found, mut reader, mut line) = (HashMap::new(), BufReader::new(file), String::new());
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        let mut fields = line.split_ascii_whitespace();
        let address = fields.next().and_then(|field| u64::from_str_radix(field, 16).ok());
        if let (Some(address), Some("t" | "T"), Some(name)) =
            (address, fields.next(), fields.next())
        {
            let name = name.split('.').next().unwrap_or(name);
            if address != 0 && wanted(address, name) {
                found.insert(address, name.to_owned());
            }
        }
        line.clear();
    }
    found
}

/// Whether a directory is on a file system in memory.
pub fn is_in_memory(directory: &Path) -> bool {
    const RAMFS: FsType = FsType(0x8584_58f6_u32 as _); // linux/magic.h
    let kinds = [TMPFS_MAGIC, RAMFS];
    statfs(directory).is_ok_and(|about| kinds.contains(&about.filesystem_type()))
}

/// The name of a disk.
pub fn disk(major: u32, minor: u32) -> String {
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent"));
    let text = text.unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("DEVNAME="));
    name.map_or_else(|| format!("{major}:{minor}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_threads_and_functions() {
        assert!(kernel_threads().any(|(tid, name)| (tid, name.as_str()) == (2, "kthreadd")));
        assert!(pages_on_lists() > 100);
        assert!(anonymous_pages(std::process::id() as i32) > 10);
        let found = functions(|_, name| name == "wb_workfn");
        assert!(found.is_empty() || found.values().any(|name| name == "wb_workfn"));
    }
}
