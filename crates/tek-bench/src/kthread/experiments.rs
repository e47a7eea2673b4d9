// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's experiments (kernel-threads-wapip-2007, V) as cases.
//!
//! Hogs leave 10% of each CPU idle. The 400 us of the paper's machine are too short today: a kernel
//! thread with 10% of each of two CPUs every millisecond writes 80 MB/s. A writer is held up where
//! the hogs' burst is longer than the time to fill the memory that may be dirty. So the bursts are
//! 450 ms, and the periods of Fig. 11 are measured beside them.

use super::case::{dirty, hogs, reader, writer, Case, Task, MIB};
use super::variant::{CRITICAL, LOAD};

/// The priority that interrupt threads have by themselves.
const INTERRUPT: u64 = 50;
/// The priority of hogs that must be below kswapd. Its weight and its share of the pages put kswapd
/// below its waiters.
const LOW: u64 = 5;

/// The extent of the measurements.
#[derive(Clone, Copy)]
pub struct Extent {
    pub seconds: f64,
    /// The periods and sizes of the paper's figures, too.
    pub varied: bool,
}

/// The amount that a writer writes each 50 ms: 4 MB for a disk of today, and at most half of this
/// disk's bandwidth.
#[derive(Clone, Copy)]
pub struct Writes {
    bytes: u64,
}

impl Writes {
    pub fn at(bytes_a_second: u64) -> Writes {
        let half = bytes_a_second / 20 / 2;
        let unit = if half >= MIB { MIB } else { 64 << 10 };
        Writes { bytes: (half / unit * unit).clamp(64 << 10, 4 * MIB) }
    }

    fn task(self) -> Task {
        writer(self.bytes, 50_000).with("file-bytes", 64 * self.bytes).and("@written")
    }

    /// So many of them may be dirty that 200 ms are enough to fill it: 16 MiB of 4 MB each.
    fn dirty(self) -> Vec<(&'static str, String)> {
        dirty(4 * self.bytes)
    }

    fn name(self) -> String {
        match self.bytes {
            bytes if bytes >= MIB => format!("{} MB each 50 ms", bytes / MIB),
            bytes => format!("{} kB each 50 ms", bytes >> 10),
        }
    }
}

/// V-B. The limit of dirty memory falls slowly, so the case with the least comes first.
pub fn pdflush(extent: Extent, writes: Writes) -> Vec<Case> {
    let Extent { seconds, varied } = extent;
    let mut cases = Vec::new();
    if varied {
        let task = writer(800_000, 200_000).with("file-bytes", 64 * MIB).and("@written");
        let paper = Case::new("800 kB each 200 ms, hogs of 1 s", task, seconds * 1.5);
        let load = vec![hogs(1_000_000, 900_000)];
        cases.push(Case {
            load,
            settings: dirty((2 * MIB).min(4 * writes.bytes)),
            side: true,
            ..paper
        });
    }
    let case = |name: &str, load: Task, seconds| {
        let case = Case::new(format!("{}, {name}", writes.name()), writes.task(), seconds);
        Case { load: vec![load], settings: writes.dirty(), side: true, ..case }
    };
    let main = case("hogs of 500 ms", hogs(500_000, 450_000), seconds);
    cases.push(Case { side: false, ..main });
    if varied {
        cases.push(case("hogs of 100 ms", hogs(100_000, 90_000), seconds));
        let saturating = Task::new("hog").with("priority", LOAD as u64).and("--saturate");
        let saturating = saturating.and("--witness");
        cases.push(case("saturating hogs", saturating, 4.0));
        // Fig. 11: as much work, less and less often. The writer and switches come on top.
        for period_us in [400, 600, 800, 1000] {
            let name = format!("hogs of 340 us each {period_us} us");
            cases.push(case(&name, hogs(period_us, 340), seconds / 2.0));
        }
    }
    cases
}

/// V-A. The judged case: a reader above the interrupt threads' 50, and a load between the two. The
/// paper's own (Figs. 3 to 6) is a writer beside a task of lower priority, 40, that reads the same
/// disk on the same CPU. The writer is at 50, as interrupt threads are by themselves: an interrupt
/// thread that works for the reader holds it up. Today that lasts microseconds (docs/results.md).
pub fn irq(extent: Extent) -> Vec<Case> {
    // A disk has an interrupt for each CPU: on one CPU all are of the same thread.
    let above = |name: &str, cpu: Option<u64>| {
        let task = reader(32 << 10, 20_000, CRITICAL).with("file-bytes", 64 * MIB);
        let task = cpu.into_iter().fold(task, |task, cpu| task.with("cpu", cpu));
        Case {
            load: vec![hogs(500_000, 350_000).with("priority", INTERRUPT + 5)],
            files: vec![("read".to_owned(), 64 * MIB)],
            side: cpu.is_some(),
            ..Case::new(name, task.and("--direct").and("@read"), extent.seconds)
        }
    };
    let mut cases =
        vec![above("32 kB from the disk each 20 ms, hogs above interrupt threads", None)];
    let case = |name: String, more: &[&str], ms: u64| {
        let task = writer(16, 250).with("priority", INTERRUPT).with("cpu", 0);
        let task = more.iter().fold(task, |task, option| task.and(option));
        let disturber = reader(100 << 10, ms * 1000, LOAD).with("priority", INTERRUPT - 10);
        let disturber = disturber.with("cpu", 0).with("file-bytes", 64 * MIB);
        Case {
            side: true,
            load: vec![disturber.and("--direct").and("@read")],
            files: vec![("written".to_owned(), MIB), ("read".to_owned(), 64 * MIB)],
            ..Case::new(name, task.with("file-bytes", MIB).and("@written"), extent.seconds)
        }
    };
    if extent.varied {
        cases.push(above("the same on one CPU", Some(0)));
        cases.push(case("16 B each 250 us, reads of 100 kB".to_owned(), &[], 0));
        for ms in [10, 25, 50, 100, 200] {
            cases.push(case(format!("16 B each 250 us, reads of 100 kB each {ms} ms"), &[], ms));
        }
        // The same where it waits for the disk itself.
        let name = "16 B to the disk each 250 us, reads of 100 kB".to_owned();
        cases.push(case(name, &["--sync"], 0));
    }
    cases
}

/// V-C, Figs. 13 to 16: there is less memory than is read.
pub fn kswapd(extent: Extent, memory_bytes: u64) -> Vec<Case> {
    let sizes: &[u64] = if extent.varied { &[32, 16, 64] } else { &[32] };
    let bytes = memory_bytes * 3 / 2 / MIB * MIB;
    let case = |&kib: &u64| {
        let task = reader(kib << 10, 20_000, CRITICAL).with("sample-ms", 20);
        // The filler goes on while hogs keep kswapd off the CPU; otherwise memory would not get
        // short.
        let filler = reader(64 << 10, 5_000, CRITICAL - 20).with("file-bytes", bytes).and("@read");
        Case {
            side: kib != 32,
            // All real-time tasks together stay below the kernel's limit, kswapd too while it is
            // real-time. Equation (3) gives kswapd less if fewer pages belong to the waiters: the
            // hogs are below that.
            load: vec![hogs(500_000, 350_000).with("priority", LOW)],
            beside: vec![filler],
            files: vec![("read".to_owned(), bytes)],
            ..Case::new(
                format!("{kib} kB each 20 ms"),
                task.with("file-bytes", bytes).and("@read"),
                extent.seconds * 2.0,
            )
        }
    };
    sizes.iter().map(case).collect()
}

/// V-D, Figs. 17 to 19: as for pdflush, while new workers have to be created.
pub fn worker(extent: Extent, writes: Writes) -> Vec<Case> {
    vec![Case {
        load: vec![hogs(500_000, 450_000)],
        beside: vec![Task::new("spawner").and("300")],
        settings: writes.dirty(),
        ..Case::new(
            format!("{}, new workers each 300 ms", writes.name()),
            writes.task(),
            extent.seconds,
        )
    }]
}

/// IV: a third task between the waiter and the rest. With one writer the boost is above it. With a
/// second writer of priority 20, equation (2) is below it, equation (1) is not. The hogs are below
/// both, so that the second writer always has pages to be written back. The third task's bursts are
/// not in step with the writers': they begin at all moments of their periods.
pub fn equations(extent: Extent, writes: Writes) -> Vec<Case> {
    let bystander = Task::new("bystander").with("priority", CRITICAL as u64 - 20);
    let bystander = bystander.with("period-us", 11_000).with("busy-us", 4_400);
    let second = Task::new("writer").with("bytes", 16 << 10).with("period-us", 5_000);
    let second = second.with("priority", 20).with("files", 6).with("file-bytes", 32 * MIB);
    let case = |name: &str, beside: Vec<Task>| Case {
        // All real-time tasks together stay below what RT throttling allows.
        load: vec![hogs(500_000, 350_000).with("priority", 10)],
        beside,
        settings: writes.dirty(),
        ..Case::new(name, writes.task(), extent.seconds)
    };
    vec![
        case("one writer", vec![bystander.clone()]),
        case("a second writer at 20", vec![bystander, second.and("@second")]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Extent = Extent { seconds: 6.0, varied: true };

    #[test]
    fn the_periods_of_the_figures_are_varied_as_in_the_paper() {
        let names: Vec<_> =
            pdflush(FULL, Writes::at(u64::MAX)).into_iter().map(|case| case.name).collect();
        assert!(names.iter().any(|name| name.ends_with("each 400 us")), "{names:?}");
        assert!(names.iter().any(|name| name.ends_with("each 1000 us")), "{names:?}");
        assert_eq!(irq(FULL).len(), 9);
        assert_eq!(kswapd(FULL, 256 * MIB).len(), 3);
    }

    #[test]
    fn a_slow_disk_is_written_to_at_half_its_speed_and_a_fast_one_as_on_a_device_of_today() {
        let case = |speed| pdflush(FULL, Writes::at(speed)).remove(1);
        assert!(case(500 * MIB).name.starts_with("4 MB each 50 ms"));
        assert_eq!(case(500 * MIB).dirty_bytes(), Some(16 * MIB));
        assert!(case(60 * MIB).name.starts_with("1 MB each 50 ms"));
        assert!(case(10 * MIB).name.starts_with("256 kB each 50 ms"));
        assert_eq!(case(10 * MIB).dirty_bytes(), Some(MIB));
    }

    #[test]
    fn the_limit_of_dirty_memory_only_rises_from_case_to_case() {
        let limits = pdflush(FULL, Writes::at(u64::MAX))
            .into_iter()
            .map(|case| case.settings[0].1.parse::<u64>());
        let limits: Vec<u64> = limits.map(Result::unwrap).collect();
        assert!(limits.is_sorted(), "{limits:?}");
    }

    #[test]
    fn hogs_are_above_interrupt_threads_and_below_their_waiters() {
        let case = irq(FULL).remove(0);
        let last = |task: &Task| {
            let at = task.arguments.iter().rposition(|it| it == "--priority").unwrap();
            task.arguments[at + 1].parse::<u64>().unwrap()
        };
        assert!(last(&case.task) > last(&case.load[0]) && last(&case.load[0]) > INTERRUPT);
        assert!(!case.side && irq(FULL)[1..].iter().all(|case| case.side));
    }

    #[test]
    fn saturating_hogs_are_bounded_and_reported_apart() {
        let saturates = |case: &Case| case.load[0].arguments.contains(&"--saturate".to_owned());
        let apart: Vec<_> =
            pdflush(FULL, Writes::at(u64::MAX)).into_iter().filter(saturates).collect();
        assert_eq!(apart.len(), 1);
        assert!(apart[0].side && apart[0].seconds <= 5.0);
    }

    #[test]
    fn what_is_read_does_not_fit_into_memory() {
        assert!(kswapd(FULL, 256 * MIB)[0].files[0].1 > 256 * MIB);
    }
}
