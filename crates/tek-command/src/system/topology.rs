// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distances between CPUs, and the order in which threads take them.
//!
//! From /sys/devices/system, which hwloc reads on Linux too. Five small files a CPU need no C
//! library that the smallest devices would have to install.
use super::{line, number};
use libc::c_ulong;
use nix::errno::Errno;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

/// The kernel's directory.
pub const ROOT: &str = "/sys/devices/system";

/// A CPU, as Linux counts them: a hardware thread of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub number: u32,
    /// How fast it is, compared with the other CPUs; the kernel's 1024 is the fastest.
    pub capacity: i64,
    /// From the outside to the inside: package, NUMA node, last cache, core. A level that the
    /// kernel does not report is the same for all, and the core is the CPU's own.
    pub within: [i64; 4],
}

impl Cpu {
    const NODE: usize = 1;

    fn read(root: &Path, number_of: u32) -> Self {
        let directory = root.join(format!("cpu/cpu{number_of}"));
        let first = |file: &str| first_of(&line(directory.join(file))?);
        let core = first("topology/thread_siblings_list").unwrap_or_else(|| i64::from(number_of));
        let within = [
            number(directory.join("topology/physical_package_id")).unwrap_or(0),
            node_of(&directory).unwrap_or(0),
            last_cache(&directory).unwrap_or(0),
            core,
        ];
        let capacity = number(directory.join("cpu_capacity")).unwrap_or(1024);
        Self { number: number_of, capacity, within }
    }
}

/// The first number of a list such as `2-3,6`.
fn first_of(list: &str) -> Option<i64> {
    list.split([',', '-']).next()?.trim().parse().ok()
}

/// The entry node*N* of a CPU's directory.
fn node_of(directory: &Path) -> Option<i64> {
    let names = fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).min()
}

/// The first CPU of those that share the cache of the highest level.
fn last_cache(directory: &Path) -> Option<i64> {
    let caches = fs::read_dir(directory.join("cache")).ok()?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let shared = line(path.join("shared_cpu_list"))?;
        Some((number(path.join("level"))?, first_of(&shared)?))
    });
    caches.max_by_key(|&(level, _)| level).map(|(_, first)| first)
}

/// These CPUs.
pub fn read(root: &Path, numbers: &[u32]) -> Vec<Cpu> {
    numbers.iter().map(|&number| Cpu::read(root, number)).collect()
}

/// The CPUs that this process, and so the program, may use: affinity, cpusets and offline CPUs
/// count.
pub fn allowed() -> Vec<u32> {
    affinity(|words| {
        // SAFETY: so many bytes may be written there. It is the C library's symbol, because tek may
        // itself be in a run.
        let failed =
            unsafe { libc::sched_getaffinity(0, size_of_val(words), words.as_mut_ptr().cast()) };
        Errno::result(failed).map(drop)
    })
}

/// The CPUs of a set that the kernel writes into as many words as it needs; none if the kernel
/// fails.
fn affinity(ask: impl Fn(&mut [c_ulong]) -> nix::Result<()>) -> Vec<u32> {
    /// The words of a set of 1024 CPUs. `MOST` is a multiple of the largest set of Linux.
    const USUAL: usize = 1024 / c_ulong::BITS as usize;
    const MOST: usize = 64 * USUAL;
    let mut words = vec![0; USUAL];
    while let Err(error) = ask(&mut words) {
        if error != Errno::EINVAL || words.len() >= MOST {
            return Vec::new();
        }
        words.resize(2 * words.len(), 0);
    }
    let is_set =
        |&cpu: &u32| words[(cpu / c_ulong::BITS) as usize] >> (cpu % c_ulong::BITS) & 1 == 1;
    (0..c_ulong::BITS * words.len() as u32).filter(is_set).collect()
}

/// Whether memory is nearer to some of them than to the rest.
pub fn has_nodes(cpus: &[Cpu]) -> bool {
    cpus.iter().map(|cpu| cpu.within[Cpu::NODE]).collect::<BTreeSet<_>>().len() > 1
}

/// Neighbours first: all of a core, then all of a cache, a node and a package; the fastest first.
pub fn compact(cpus: &[Cpu]) -> Vec<u32> {
    let mut cpus: Vec<_> = cpus.iter().collect();
    tek_sort::by_key(&mut cpus, |cpu| (Reverse(cpu.capacity), cpu.within, cpu.number));
    cpus.into_iter().map(|cpu| cpu.number).collect()
}

/// As far from each other as possible: each core once, the fastest first, and packages, nodes and
/// caches in alternation. Then once more for the second hardware threads of the cores, and so on.
pub fn spread(cpus: &[Cpu]) -> Vec<u32> {
    let mut cpus: Vec<_> = cpus.iter().collect();
    tek_sort::by_key(&mut cpus, |cpu| cpu.number);
    let mut seen = HashMap::<_, usize>::new();
    let mut ranked: Vec<_> = cpus
        .into_iter()
        .map(|cpu| {
            let rank = seen.entry(cpu.within).or_default();
            *rank += 1;
            (*rank, cpu)
        })
        .collect();
    tek_sort::by_key(&mut ranked, |&(rank, cpu)| {
        (rank, Reverse(cpu.capacity), cpu.within, cpu.number)
    });
    let alike = ranked.chunk_by(|(one, a), (other, b)| one == other && a.capacity == b.capacity);
    alike
        .flat_map(|group| interleaved(&group.iter().map(|&(_, cpu)| cpu).collect::<Vec<_>>(), 0))
        .collect()
}

/// Sorted CPUs: one of each part at this level, in alternation.
fn interleaved(cpus: &[&Cpu], level: usize) -> Vec<u32> {
    if cpus.first().is_none_or(|cpu| level == cpu.within.len()) {
        return cpus.iter().map(|cpu| cpu.number).collect();
    }
    let parts = cpus.chunk_by(|one, other| one.within[level] == other.within[level]);
    let parts: Vec<_> = parts.map(|part| interleaved(part, level + 1)).collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|at| parts.iter().filter_map(move |part| part.get(at).copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two packages with two cores of two hardware threads each, counted as PCs do: siblings last.
    fn server() -> Vec<Cpu> {
        (0..8)
            .map(|number| {
                let core = i64::from(number % 4);
                Cpu { number, capacity: 1024, within: [core / 2, core / 2, core / 2, core] }
            })
            .collect()
    }

    #[test]
    fn compact_fills_a_core_and_then_a_package() {
        assert_eq!(compact(&server()), [0, 4, 1, 5, 2, 6, 3, 7]);
    }

    #[test]
    fn spread_alternates_packages_and_takes_second_hardware_threads_last() {
        assert_eq!(spread(&server()), [0, 2, 1, 3, 4, 6, 5, 7]);
    }

    #[test]
    fn the_fastest_cores_come_first() {
        // Four slow cores and two fast ones, each kind with a cache of its own.
        let board: Vec<_> = (0..6)
            .map(|number| {
                let slow = number < 4;
                let cache = if slow { 0 } else { 4 };
                Cpu {
                    number,
                    capacity: if slow { 446 } else { 1024 },
                    within: [0, 0, cache, number.into()],
                }
            })
            .collect();
        assert_eq!(spread(&board), [4, 5, 0, 1, 2, 3]);
        assert_eq!(compact(&board), [4, 5, 0, 1, 2, 3]);
    }

    #[test]
    fn nodes_count_among_the_cpus_that_may_be_used() {
        assert!(has_nodes(&server()));
        assert!(!has_nodes(&server()[..2]));
        assert!(!has_nodes(&[]));
    }

    #[test]
    fn it_is_read_from_the_files_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let cpu = root.path().join("cpu/cpu3");
        for (file, text) in [
            ("topology/physical_package_id", "1\n"),
            ("topology/thread_siblings_list", "2-3\n"),
            ("cache/index0/level", "1\n"),
            ("cache/index0/shared_cpu_list", "2-3\n"),
            ("cache/index3/level", "3\n"),
            ("cache/index3/shared_cpu_list", "0-3,8-11\n"),
            ("node1/cpulist", "0-3\n"),
            ("cpu_capacity", "512\n"),
        ] {
            let path = cpu.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let known = Cpu { number: 3, capacity: 512, within: [1, 1, 0, 2] };
        let unknown = Cpu { number: 4, capacity: 1024, within: [0, 0, 0, 4] };
        assert_eq!(read(root.path(), &[3, 4]), [known, unknown]);
    }

    #[test]
    fn a_kernel_for_many_cpus_gets_as_much_room_as_it_needs() {
        let of_4096 = |words: &mut [c_ulong]| {
            if size_of_val(words) < 512 {
                return Err(Errno::EINVAL);
            }
            words[0] = 1;
            words[2000 / c_ulong::BITS as usize] = 1 << (2000 % c_ulong::BITS);
            Ok(())
        };
        assert_eq!(affinity(of_4096), [0, 2000]);
        assert_eq!(affinity(|_| Err(Errno::EINVAL)), [0u32; 0]);
        assert_eq!(affinity(|_| Err(Errno::ENOSYS)), [0u32; 0]);
    }

    #[test]
    fn this_machine_can_be_read() {
        let allowed = allowed();
        let cpus = read(Path::new(ROOT), &allowed);
        assert_eq!(cpus.len(), allowed.len());
        assert!(!cpus.is_empty());
    }

    proptest! {
        #[test]
        fn each_order_has_each_cpu_once(
            cpus in prop::collection::vec((0i64..3, 0i64..3, 0i64..3, 0i64..4, 0i64..2), 0..40)
        ) {
            let numbers = 0..u32::try_from(cpus.len()).unwrap();
            let cpus: Vec<_> = cpus.into_iter().zip(numbers.clone())
                .map(|((a, b, c, d, capacity), number)| {
                    Cpu { number, capacity, within: [a, b, c, d] }
                })
                .collect();
            for mut order in [spread(&cpus), compact(&cpus)] {
                order.sort_unstable();
                prop_assert_eq!(order, numbers.clone().collect::<Vec<_>>());
            }
        }
    }
}
