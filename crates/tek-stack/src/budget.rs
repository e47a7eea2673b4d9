// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a number of threads fits into the limits of a process, and which limit is exceeded.
//!
//! Arithmetic only: the caller supplies the limits. Costs are those of the kernel and the GNU C
//! library. A stack is mapped together with its guard page and holds the thread control block and
//! static TLS. malloc reserves a heap of addresses for each of its arenas.

/// Threads beyond this are not counted: no kernel has so many.
pub const MOST_THREADS: u64 = 1 << 32;

/// Bytes of the kernel's own stack for each thread.
pub const KERNEL_STACK_BYTES: u64 = 16 << 10;

/// Bytes of a stack that every thread touches, where its use is unknown: the median of programs.
pub const USED_BYTES: u64 = 12 << 10;

/// The least that pthread_create(3) needs beside thread control block and TLS.
const LEAST_REST_BYTES: u64 = 4 << 10;

/// The threads in question; all alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Size of each stack: the program's pthread_attr_setstacksize(3).
    pub stack: u64,
    /// Size of the guard below it.
    pub guard: u64,
    /// Thread control block and static TLS, at the top of the stack.
    pub tls: u64,
    /// Bytes of the alternate signal stack with its guard page, and the number of its mappings.
    pub signal_stack: Option<(u64, u64)>,
    /// They call malloc, so that each gets an arena while there are more to be had.
    pub malloc: bool,
}

/// The process in which they are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Word size of the program: 32 or 64.
    pub bits: u8,
    /// CPUs that malloc counts.
    pub cpus: u64,
    /// The limit of malloc's arenas, if one is set.
    pub arena_max: Option<u64>,
    /// Bytes of addresses that it uses already.
    pub addresses: u64,
    /// Mappings that it has already.
    pub mappings: u64,
    /// Bytes that it has locked already.
    pub locked: u64,
    /// Memory is locked as it is mapped: mlockall(MCL_FUTURE).
    pub locks: bool,
}

impl Process {
    /// Bytes of addresses that malloc reserves for an arena, and the number of arenas beside the
    /// first, which reserves none: glibc's HEAP_MAX_SIZE and NARENAS_FROM_NCORES.
    pub fn arenas(&self) -> (u64, u64) {
        let (heap, per_cpu) = if self.bits == 32 { (1 << 20, 2) } else { (64 << 20, 8) };
        let most = self.arena_max.unwrap_or(self.cpus.saturating_mul(per_cpu));
        (heap, most.saturating_sub(1))
    }
}

/// A limited resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Addresses, up to the given limit.
    Limit,
    /// Addresses, up to RLIMIT_AS.
    RlimitAs,
    /// Addresses, up to the number that a program of this word size has.
    WordSize,
    /// RLIMIT_MEMLOCK.
    Memlock,
    /// vm.max_map_count.
    Mappings,
    /// kernel.threads-max, of the whole system.
    ThreadsMax,
    /// kernel.pid_max.
    PidMax,
    /// pids.max of a control group.
    PidsMax,
    /// RLIMIT_NPROC.
    Nproc,
    /// Memory that is free.
    Memory,
    /// Memory that may be committed under vm.overcommit_memory=2.
    Commit,
    /// The stack itself, which must hold the control block and TLS.
    Stack,
}

/// An available amount of a resource; `None`: no limit.
pub type Available = (Resource, Option<u64>);

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The resource.
    pub resource: Resource,
    /// The need of the threads, plus the process's present use where that counts.
    pub needed: u64,
    /// The available amount; `None`: no limit.
    pub available: Option<u64>,
    /// Threads that would fit by this resource alone, up to [`MOST_THREADS`].
    pub most: u64,
}

impl Item {
    /// Whether it is enough.
    pub fn fits(&self) -> bool {
        self.available.is_none_or(|available| self.needed <= available)
    }
}

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// One for each resource, in the order in which they were given.
    pub items: Vec<Item>,
}

impl Verdict {
    /// Whether every resource suffices.
    pub fn fits(&self) -> bool {
        self.items.iter().all(Item::fits)
    }

    /// Threads that would fit.
    pub fn most(&self) -> u64 {
        self.items.iter().map(|item| item.most).min().unwrap_or(MOST_THREADS)
    }

    /// The resource that runs out first, when one thread after the other is made.
    pub fn in_the_way(&self) -> Option<&Item> {
        self.items.iter().filter(|item| !item.fits()).min_by_key(|item| item.most)
    }
}

/// Judges whether so many threads fit.
pub fn judge(count: u64, threads: &Threads, process: &Process, room: &[Available]) -> Verdict {
    let item = |&(resource, available): &Available| {
        let cost = |count| cost(resource, count, threads, process);
        Item {
            resource,
            needed: saturate(cost(count)),
            available,
            most: available.map_or(MOST_THREADS, |available| most(u128::from(available), cost)),
        }
    };
    Verdict { items: room.iter().map(item).collect() }
}

fn saturate(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The largest number of threads whose cost is available; the cost must grow with the number.
fn most(available: u128, cost: impl Fn(u64) -> u128) -> u64 {
    let (mut fits, mut does_not) = (0, MOST_THREADS + 1);
    while does_not - fits > 1 {
        let middle = fits + (does_not - fits) / 2;
        if cost(middle) <= available {
            fits = middle;
        } else {
            does_not = middle;
        }
    }
    fits
}

fn cost(resource: Resource, count: u64, threads: &Threads, process: &Process) -> u128 {
    let wide = u128::from;
    let (heap, arenas) = process.arenas();
    let arenas = if threads.malloc { wide(count.min(arenas)) } else { 0 };
    let (signal_bytes, signal_mappings) = threads.signal_stack.unwrap_or_default();
    // The kernel counts the guard page like the rest: it is part of the same mapping at first.
    let mapped = wide(threads.stack) + wide(threads.guard) + wide(signal_bytes);
    let addresses = wide(count) * mapped + arenas * wide(heap);
    match resource {
        Resource::Limit | Resource::RlimitAs | Resource::WordSize => {
            wide(process.addresses) + addresses
        }
        Resource::Memlock => wide(process.locked) + addresses,
        // Stack and guard page; the part of a heap that is used, and the rest of it.
        Resource::Mappings => {
            let guard = u64::from(threads.guard > 0);
            let each = wide(1 + guard) + wide(signal_mappings);
            wide(process.mappings) + wide(count) * each + 2 * arenas
        }
        Resource::ThreadsMax | Resource::PidMax | Resource::PidsMax | Resource::Nproc => {
            wide(count)
        }
        Resource::Memory => {
            let touched = if process.locks {
                threads.stack
            } else {
                threads.stack.min(threads.tls.saturating_add(USED_BYTES))
            };
            wide(count) * (wide(KERNEL_STACK_BYTES) + wide(touched))
        }
        Resource::Commit => wide(count) * (wide(threads.stack) + wide(signal_bytes)),
        // It excludes every thread from the first on, or none.
        Resource::Stack if count == 0 => 0,
        Resource::Stack => wide(threads.tls) + wide(LEAST_REST_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn threads(stack: u64, malloc: bool) -> Threads {
        Threads { stack, guard: 4096, tls: 4096, signal_stack: None, malloc }
    }

    fn process(bits: u8) -> Process {
        Process {
            bits,
            cpus: 2,
            arena_max: None,
            addresses: 3 << 20,
            mappings: 25,
            locked: 0,
            locks: false,
        }
    }

    fn most_in(limit: u64, threads: &Threads, process: &Process) -> u64 {
        judge(1, threads, process, &[(Resource::Limit, Some(limit))]).most()
    }

    #[test]
    fn what_was_measured_comes_out() {
        let wide = process(64);
        assert_eq!(most_in(GIB, &threads(8 << 20, false), &wide), 127);
        let small = most_in(GIB, &threads(64 << 10, false), &wide);
        assert!((15_000..15_450).contains(&small), "{small} instead of 15,319");
        let mallocs = most_in(GIB, &threads(64 << 10, true), &wide);
        assert!((880..960).contains(&mallocs), "{mallocs} instead of 921");
        let one = Process { arena_max: Some(1), ..wide };
        let one = most_in(GIB, &threads(64 << 10, true), &one);
        assert!((15_000..15_450).contains(&one), "{one} instead of 15,152");
        let narrow = process(32);
        for (limit, stack, measured) in
            [(3, 8 << 20, 381), (4, 8 << 20, 509), (3, 256 << 10, 12_078), (4, 256 << 10, 16_109)]
        {
            let found = most_in(limit * GIB, &threads(stack, false), &narrow) as f64;
            assert!((found / f64::from(measured) - 1.0).abs() < 0.02, "{found} for {measured}");
        }
    }

    #[test]
    fn locked_threads_take_whole_stacks() {
        let locks = Process { locks: true, ..process(64) };
        let room = [(Resource::Memlock, Some(u64::MAX)), (Resource::Memory, Some(u64::MAX))];
        let verdict = judge(300, &threads(8 << 20, false), &locks, &room);
        assert!(verdict
            .items
            .iter()
            .all(|item| (2_500_000_000..2_600_000_000).contains(&item.needed)));
    }

    #[test]
    fn what_ends_first_is_in_the_way() {
        let room = [
            (Resource::RlimitAs, Some(GIB)),
            (Resource::Mappings, Some(65_530)),
            (Resource::Nproc, Some(100)),
            (Resource::PidMax, None),
        ];
        let verdict = judge(1000, &threads(8 << 20, false), &process(64), &room);
        assert!(!verdict.fits());
        assert_eq!(verdict.most(), 100);
        assert_eq!(verdict.in_the_way().unwrap().resource, Resource::Nproc);
        assert_eq!(verdict.items[1].most, (65_530 - 25) / 2);
        let verdict = judge(100, &threads(8 << 20, false), &process(64), &room);
        assert!(verdict.fits() && verdict.in_the_way().is_none());
    }

    #[test]
    fn a_stack_too_small_for_its_tls_is_in_the_way_of_every_thread() {
        let room = [(Resource::Stack, Some(16 << 10))];
        let big = Threads { tls: 313 << 10, ..threads(16 << 10, false) };
        assert_eq!(judge(1, &big, &process(64), &room).most(), 0);
        assert!(judge(1, &threads(16 << 10, false), &process(64), &room).fits());
    }

    #[test]
    fn malloc_makes_no_more_arenas_than_it_may() {
        assert_eq!(process(64).arenas(), (64 << 20, 15));
        assert_eq!(process(32).arenas(), (1 << 20, 3));
        assert_eq!(Process { arena_max: Some(1), ..process(64) }.arenas(), (64 << 20, 0));
    }

    proptest! {
        #[test]
        fn as_many_fit_as_the_answer_has_and_not_one_more(
            stack in any::<u64>(), guard in any::<u64>(), tls in any::<u64>(),
            signal_stack in proptest::option::of(any::<(u64, u64)>()), malloc in any::<bool>(),
            cpus in any::<u64>(), arena_max in proptest::option::of(any::<u64>()),
            base in any::<u64>(), available in any::<u64>(), locks in any::<bool>(),
            which in 0usize..12,
        ) {
            use Resource::*;
            let resource = [
                Limit, RlimitAs, WordSize, Memlock, Mappings, ThreadsMax, PidMax, PidsMax, Nproc,
                Memory, Commit, Stack,
            ][which];
            let threads = Threads { stack, guard, tls, signal_stack, malloc };
            let process = Process {
                bits: 64, cpus, arena_max, addresses: base, mappings: base, locked: base, locks,
            };
            let judged = |count| judge(count, &threads, &process, &[(resource, Some(available))]);
            let fits = |count| judged(count).fits();
            let most = judged(1).most();
            if fits(0) {
                prop_assert!(fits(most));
            } else {
                prop_assert_eq!(most, 0);
            }
            // A result beyond 64 bits saturates.
            if most < MOST_THREADS && available < u64::MAX {
                prop_assert!(!fits(most + 1));
            }
        }
    }
}
