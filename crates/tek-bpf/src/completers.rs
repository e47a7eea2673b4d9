// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupt threads that complete the requests of each disk queue, derived from their names.
//! The programs replace these entries when a thread completes a request.
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use tek_procfs::path;

/// A queue of a disk, with the layout of bpf/block.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// major << 20 | minor
    pub disk: u32,
    pub queue: u32,
}

/// The value of bpf/common.h for a queue that is not known.
const ANY_QUEUE: u32 = u32::MAX;

/// All places with a known completer, and the id and name of that thread.
pub(crate) fn find_completers() -> Vec<(Place, i32, String)> {
    let threads = interrupt_threads();
    if threads.is_empty() {
        return Vec::new();
    }
    let interrupts = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let names: HashMap<u32, &str> = interrupts.lines().filter_map(number_and_name).collect();
    let mut found = Vec::new();
    for disk in entries(Path::new("/sys/block")) {
        let Some(number) = number_of(&disk) else { continue };
        for interrupt in interrupts_of(&disk) {
            let Some((tid, thread)) = threads.get(&interrupt) else { continue };
            let queue = names.get(&interrupt).and_then(|name| queue_of(name));
            for queue in [queue, Some(ANY_QUEUE)].into_iter().flatten() {
                found.push((Place { disk: number, queue }, *tid, thread.clone()));
            }
        }
    }
    found
}

/// The threads by the number of their interrupt, as in "irq/27-virtio1-req.0".
fn interrupt_threads() -> HashMap<u32, (i32, String)> {
    let thread = |directory: PathBuf| {
        let tid = directory.file_name()?.to_str()?.parse::<i32>().ok()?;
        let name = fs::read_to_string(path(tid, "comm").ok()?).ok()?;
        let number = name.strip_prefix("irq/")?.split('-').next()?.parse().ok()?;
        // A kernel thread has no program.
        path(tid, "exe")
            .and_then(fs::read_link)
            .is_err()
            .then(|| (number, (tid, name.trim_end().to_owned())))
    };
    entries(Path::new("/proc")).into_iter().filter_map(thread).collect()
}

/// Parses a line of /proc/interrupts: the number of the interrupt, and the name of its owner.
fn number_and_name(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.trim_start().split_once(':')?;
    Some((number.parse().ok()?, rest.split_ascii_whitespace().next_back()?))
}

/// "virtio1-req.3" is of queue 3, "nvme0q1" of queue 0, because q0 belongs to the controller.
fn queue_of(name: &str) -> Option<u32> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number: u32 = name[name.len() - digits..].parse().ok()?;
    if name.starts_with("nvme") {
        number.checked_sub(1)
    } else {
        name.contains("req.").then_some(number)
    }
}

fn number_of(disk: &Path) -> Option<u32> {
    let text = fs::read_to_string(disk.join("dev")).ok()?;
    let (major, minor) = text.trim_end().split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

/// The interrupts of the nearest device above the disk that has interrupts.
fn interrupts_of(disk: &Path) -> Vec<u32> {
    let Ok(device) = fs::canonicalize(disk.join("device")) else { return Vec::new() };
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse().ok();
    let of = |device: &Path| -> Vec<u32> {
        let mut numbers: Vec<u32> =
            entries(&device.join("msi_irqs")).iter().filter_map(number).collect();
        let only = fs::read_to_string(device.join("irq")).unwrap_or_default();
        numbers.extend(only.trim_end().parse::<u32>().ok().filter(|irq| *irq > 0));
        numbers
    };
    device.ancestors().map(of).find(|numbers| !numbers.is_empty()).unwrap_or_default()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_in_the_name_of_the_interrupt() {
        assert_eq!(queue_of("virtio1-req.3"), Some(3));
        assert_eq!(queue_of("nvme0q1"), Some(0));
        assert_eq!(queue_of("nvme0q0"), None);
        assert_eq!(queue_of("virtio1-config"), None);
        assert_eq!(queue_of("ahci[0000:00:1f.2]"), None);
        assert_eq!(queue_of("mmc0"), None);
    }

    #[test]
    fn a_line_of_the_list_of_interrupts_has_a_number_and_a_name() {
        let line = " 27:   120   3  PCI-MSIX-0000:00:05.0   1-edge      virtio1-req.0";
        assert_eq!(number_and_name(line), Some((27, "virtio1-req.0")));
        assert_eq!(number_and_name("NMI:   0   0   Non-maskable interrupts"), None);
        assert_eq!(number_and_name("           CPU0       CPU1"), None);
    }

    #[test]
    fn looking_fails_nowhere() {
        assert!(find_completers()
            .iter()
            .all(|(place, tid, name)| { place.disk > 0 && *tid > 2 && name.starts_with("irq/") }));
    }
}
