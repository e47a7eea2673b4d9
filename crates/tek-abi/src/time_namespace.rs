// SPDX-License-Identifier: MIT OR Apache-2.0
//! Offsets of the clocks of this process from those of the initial time namespace
//! (time_namespaces(7)). Times that another process reads or compares are converted to the initial
//! namespace first.
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// Linux 5.11 began to shift the start times in /proc/PID/stat.
const STAT_SHIFTED_SINCE: (u32, u32) = (5, 11);

/// The offsets in ns; all are 0 outside of a time namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeOffsets {
    /// Offset of CLOCK_MONOTONIC.
    pub monotonic_ns: i64,
    /// Offset of CLOCK_BOOTTIME.
    pub boottime_ns: i64,
    /// Offset of start times in /proc/PID/stat, field 22, which the kernel shifts by the reader's
    /// namespace.
    pub stat_ns: i64,
}

impl TimeOffsets {
    /// The offsets of this process, read once. `None`: they are not known, because there is no
    /// /proc, or only children of this process will be in the namespace that /proc shows.
    pub fn own() -> Option<Self> {
        static OWN: OnceLock<Option<TimeOffsets>> = OnceLock::new();
        *OWN.get_or_init(Self::read)
    }

    fn read() -> Option<Self> {
        let Ok(text) = fs::read_to_string("/proc/self/timens_offsets") else {
            // A kernel without time namespaces has one clock.
            let has_proc = fs::metadata("/proc/self/stat").is_ok();
            let has_namespaces = fs::metadata("/proc/self/ns/time").is_ok();
            return (has_proc && !has_namespaces).then(Self::default);
        };
        let inode = |file| fs::metadata(file).ok().map(|metadata| metadata.ino());
        // The text describes the namespace of future children.
        if inode("/proc/self/ns/time")? != inode("/proc/self/ns/time_for_children")? {
            return None;
        }
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self::parse(&text, &kernel)
    }

    /// Parses lines that are the name of a clock, seconds and nanoseconds.
    fn parse(text: &str, kernel: &str) -> Option<Self> {
        let offset = |clock| {
            let mut lines = text.lines().map(|line| line.split_ascii_whitespace());
            let mut line = lines.find_map(|mut line| (line.next()? == clock).then_some(line))?;
            let seconds: i64 = line.next()?.parse().ok()?;
            let ns: i64 = line.next()?.parse().ok()?;
            seconds.checked_mul(1_000_000_000)?.checked_add(ns)
        };
        let boottime_ns = offset("boottime")?;
        let stat_ns = if shifts_stat(kernel) { boottime_ns } else { 0 };
        Some(Self { monotonic_ns: offset("monotonic")?, boottime_ns, stat_ns })
    }

    /// Field 22 of /proc/PID/stat, which this process read, as a reader in the initial namespace
    /// would have it; one more where the offset is no multiple of a tick and the field is rounded
    /// down.
    pub fn initial_ticks(&self, ticks: u64, ticks_a_second: u64) -> u64 {
        let tick_ns = i128::from(1_000_000_000 / ticks_a_second.max(1));
        let ns = i128::from(ticks) * tick_ns - i128::from(self.stat_ns);
        u64::try_from((ns + tick_ns - 1).div_euclid(tick_ns)).unwrap_or(0)
    }
}

/// Whether this release of the kernel shifts the start times in /proc/PID/stat.
fn shifts_stat(kernel: &str) -> bool {
    let mut numbers = kernel.split(|character: char| !character.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse().ok());
    match (number(), number()) {
        (Some(major), Some(minor)) => (major, minor) >= STAT_SHIFTED_SINCE,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "monotonic           5         7\nboottime           -1 999999999\n";

    #[test]
    fn each_clock_has_an_offset_of_seconds_and_nanoseconds() {
        let offsets = TimeOffsets::parse(TEXT, "6.1.0-rt").unwrap();
        assert_eq!((offsets.monotonic_ns, offsets.boottime_ns), (5_000_000_007, -1));
        assert_eq!(TimeOffsets::parse("monotonic 0 0\n", "6.1"), None);
        assert_eq!(TimeOffsets::parse("monotonic 0 0\nboottime 9223372037 0\n", "6.1"), None);
    }

    #[test]
    fn before_linux_5_11_start_times_are_not_shifted() {
        for (kernel, stat_ns) in [("5.10.0-28-amd64", 0), ("5.11.0", -1), ("6.1.0", -1), ("10", -1)]
        {
            assert_eq!(TimeOffsets::parse(TEXT, kernel).unwrap().stat_ns, stat_ns, "{kernel}");
        }
    }

    #[test]
    fn a_start_time_is_that_of_the_initial_namespace() {
        let offsets = |stat_ns| TimeOffsets { stat_ns, ..TimeOffsets::default() };
        assert_eq!(TimeOffsets::default().initial_ticks(815, 100), 815);
        assert_eq!(offsets(100_000_000_000_000).initial_ticks(10_000_815, 100), 815);
        assert_eq!(offsets(-5_000_000_000).initial_ticks(315, 100), 815);
        // A start at 815.9 ticks, read with an offset of 0.3: 816.2, of which the field has 816.
        assert_eq!(offsets(3_000_000).initial_ticks(816, 100), 816);
        assert_eq!(offsets(i64::MAX).initial_ticks(0, 100), 0);
    }

    #[test]
    fn this_process_knows_its_own() {
        assert!(TimeOffsets::own().is_some());
    }
}
