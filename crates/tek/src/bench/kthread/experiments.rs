// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's experiments (kernel-threads-wapip-2007, V) as cases.
//!
//! Hogs leave 10% of each CPU idle. What the paper's machine needed 400 us for takes longer today: a
//! kernel thread that gets 10% of each of two CPUs every millisecond writes 80 MB/s. A writer
//! is held up where the hogs' turn is longer than what it takes to fill the memory that may be
//! dirty; so the turns are 450 ms, and the periods of Fig. 11 are measured beside them.

use super::case::{dirty, hogs, reader, writer, Case, Task, MIB};
use super::variant::{CRITICAL, LOAD};

/// The priority that interrupt threads have by themselves.
const INTERRUPT: u64 = 50;

/// How much of them is measured.
#[derive(Clone, Copy)]
pub struct Extent {
    pub seconds: f64,
    /// The periods and sizes of the paper's figures, too.
    pub varied: bool,
}

/// For a disk of today: 4 MB each 50 ms, of which 16 MiB may be dirty.
fn writes_4_mb() -> Task {
    writer(4 * MIB, 50_000).with("file-bytes", 256 * MIB).and("@written")
}

/// V-B. The limit of dirty memory falls slowly, so the case with the least comes first.
pub fn pdflush(extent: Extent) -> Vec<Case> {
    let Extent { seconds, varied } = extent;
    let mut cases = Vec::new();
    if varied {
        let task = writer(800_000, 200_000).with("file-bytes", 64 * MIB).and("@written");
        let paper = Case::new("800 kB each 200 ms, hogs of 1 s", task, seconds * 1.5);
        let load = vec![hogs(1_000_000, 900_000)];
        cases.push(Case { load, settings: dirty(2 * MIB), side: true, ..paper });
    }
    let case = |name: &str, load: Task, seconds| {
        let case = Case::new(name, writes_4_mb(), seconds);
        Case { load: vec![load], settings: dirty(16 * MIB), side: true, ..case }
    };
    let main = case("4 MB each 50 ms, hogs of 500 ms", hogs(500_000, 450_000), seconds);
    cases.push(Case { side: false, ..main });
    if varied {
        cases.push(case("4 MB each 50 ms, hogs of 100 ms", hogs(100_000, 90_000), seconds));
        let saturating = Task::new("hog").with("priority", LOAD as u64).and("--saturate");
        let saturating = saturating.and("--witness");
        cases.push(case("4 MB each 50 ms, saturating hogs", saturating, 4.0));
        // Fig. 11: as much work, less and less often. The writer and switches come on top.
        for period_us in [400, 600, 800, 1000] {
            let name = format!("4 MB each 50 ms, hogs of 340 us each {period_us} us");
            cases.push(case(&name, hogs(period_us, 340), seconds / 2.0));
        }
    }
    cases
}

/// V-A, Figs. 3 to 6: another task of lower priority uses the same disk, on the same CPU as on the
/// paper's machine. Interrupt threads have priority 50 by themselves, and so has the writer: it is held up
/// by one that serves the reader at 40.
pub fn irq(extent: Extent) -> Vec<Case> {
    let case = |name: String, more: &[&str], ms: u64| {
        let task = writer(16, 250).with("priority", INTERRUPT).with("cpu", 0);
        let task = more.iter().fold(task, |task, option| task.and(option));
        let disturber = reader(100 << 10, ms * 1000, LOAD).with("priority", INTERRUPT - 10);
        let disturber = disturber.with("cpu", 0).with("file-bytes", 64 * MIB);
        Case {
            side: ms > 0 || !more.is_empty(),
            load: vec![disturber.and("--direct").and("@read")],
            files: vec![("written".to_owned(), MIB), ("read".to_owned(), 64 * MIB)],
            ..Case::new(name, task.with("file-bytes", MIB).and("@written"), extent.seconds)
        }
    };
    let mut cases = vec![case("16 B each 250 us, reads of 100 kB".to_owned(), &[], 0)];
    if extent.varied {
        for ms in [10, 25, 50, 100, 200] {
            cases.push(case(format!("16 B each 250 us, reads of 100 kB each {ms} ms"), &[], ms));
        }
        // Where the disk itself is waited for.
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
        // What fills the memory meanwhile is not critical.
        let filler = reader(256 << 10, 5_000, 0).with("file-bytes", bytes).and("@read");
        Case {
            side: kib != 32,
            load: vec![hogs(500_000, 450_000)],
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
pub fn worker(extent: Extent) -> Vec<Case> {
    vec![Case {
        load: vec![hogs(500_000, 450_000)],
        beside: vec![Task::new("spawner").and("300")],
        settings: dirty(16 * MIB),
        ..Case::new("4 MB each 50 ms, new workers each 300 ms", writes_4_mb(), extent.seconds)
    }]
}

/// IV: a third task between the one that waits and what else there is. With one writer the boost is
/// above it; with a second one of priority 20 equation (2) is below it, equation (1) is not.
pub fn equations(extent: Extent) -> Vec<Case> {
    let bystander = Task::new("bystander").with("priority", CRITICAL as u64 - 20);
    let bystander = bystander.with("period-us", 10_000).with("busy-us", 4_000);
    let second = Task::new("writer").with("bytes", 64 << 10).with("period-us", 20_000);
    let second = second.with("priority", 20).with("files", 6).with("file-bytes", 32 * MIB);
    let case = |name: &str, beside: Vec<Task>| Case {
        // All real-time tasks together stay below what RT throttling allows.
        load: vec![hogs(500_000, 350_000)],
        beside,
        settings: dirty(16 * MIB),
        ..Case::new(name, writes_4_mb(), extent.seconds)
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
        let names: Vec<_> = pdflush(FULL).into_iter().map(|case| case.name).collect();
        assert!(names.iter().any(|name| name.ends_with("each 400 us")), "{names:?}");
        assert!(names.iter().any(|name| name.ends_with("each 1000 us")), "{names:?}");
        assert_eq!(irq(FULL).len(), 7);
        assert_eq!(kswapd(FULL, 256 * MIB).len(), 3);
    }

    #[test]
    fn the_limit_of_dirty_memory_only_rises_from_case_to_case() {
        let limits = pdflush(FULL).into_iter().map(|case| case.settings[0].1.parse::<u64>());
        let limits: Vec<u64> = limits.map(Result::unwrap).collect();
        assert!(limits.is_sorted(), "{limits:?}");
    }

    #[test]
    fn saturating_hogs_are_bounded_and_reported_apart() {
        let saturates = |case: &Case| case.load[0].arguments.contains(&"--saturate".to_owned());
        let apart: Vec<_> = pdflush(FULL).into_iter().filter(saturates).collect();
        assert_eq!(apart.len(), 1);
        assert!(apart[0].side && apart[0].seconds <= 5.0);
    }

    #[test]
    fn what_is_read_does_not_fit_into_memory() {
        assert!(kswapd(FULL, 256 * MIB)[0].files[0].1 > 256 * MIB);
    }
}
