// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profiler's clock, and the length of its ticks in nanoseconds.
use crate::system;
use std::thread;
use std::time::Duration;
use tek_abi::{ProfileHeader, PROFILE_CLOCK_MONOTONIC};

/// Two readings of both clocks that are nearer to each other are too imprecise.
const SHORTEST_NS: u64 = 10_000_000;

/// Whether the processor's counter counts evenly, alike on all processors and in all states.
pub fn counter_is_good() -> bool {
    if cfg!(target_arch = "aarch64") {
        return true;
    }
    let source = system::line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cfg!(target_arch = "x86_64") && tsc_is_good(source.as_deref(), &flags)
}

/// If the kernel chose a slower clock, it found this one unreliable. The clocks of virtual machines
/// are derived from it.
fn tsc_is_good(source: Option<&str>, cpuinfo: &str) -> bool {
    match source.map(str::trim) {
        Some("tsc") => true,
        Some("hpet" | "acpi_pm" | "pit" | "jiffies" | "refined-jiffies") => false,
        _ => ["constant_tsc", "nonstop_tsc"].iter().all(|flag| cpuinfo.contains(flag)),
    }
}

/// CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register, which every processor of this kind has.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads a register, which Linux lets programs read.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks) };
        return ticks;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    monotonic_ns()
}

/// The frequency of the counter, from a reading at the beginning and one at the end.
pub struct Calibration {
    ns: u64,
    ticks: u64,
}

impl Calibration {
    /// The reading at the beginning.
    pub fn begin() -> Self {
        Self { ns: monotonic_ns(), ticks: counter() }
    }

    /// Nanoseconds of a tick; waits for a moment if it began just now.
    pub fn ns_per_tick(&self) -> f64 {
        let passed = monotonic_ns().saturating_sub(self.ns);
        if passed < SHORTEST_NS {
            thread::sleep(Duration::from_nanos(SHORTEST_NS - passed));
        }
        let ns = monotonic_ns().saturating_sub(self.ns);
        ns as f64 / counter().saturating_sub(self.ticks).max(1) as f64
    }
}

/// From ticks to nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    start_ticks: u64,
    start_ns: u64,
    ns_per_tick: f64,
}

impl Scale {
    /// The scale of a file.
    pub fn of(header: &ProfileHeader, ns_per_tick: f64) -> Self {
        let monotonic = header.clock == PROFILE_CLOCK_MONOTONIC;
        Self {
            start_ticks: header.start_ticks,
            start_ns: header.start_ns,
            ns_per_tick: if monotonic { 1.0 } else { ns_per_tick },
        }
    }

    /// A time between two moments.
    pub fn span(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick) as u64
    }

    /// The ticks of a time.
    pub fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 / self.ns_per_tick) as u64
    }

    /// A moment, from the file's start on.
    pub fn moment(&self, ticks: u64) -> u64 {
        self.span(ticks.saturating_sub(self.start_ticks))
    }

    /// The same of CLOCK_MONOTONIC.
    pub fn moment_of_ns(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_not_believed_where_the_kernel_does_not() {
        let flags = "flags\t\t: fpu tsc constant_tsc nonstop_tsc";
        assert!(tsc_is_good(Some("tsc\n"), ""));
        assert!(tsc_is_good(Some("kvm-clock"), flags));
        assert!(!tsc_is_good(Some("kvm-clock"), "flags : fpu tsc"));
        assert!(!tsc_is_good(Some("hpet"), flags));
        assert!(!tsc_is_good(Some("acpi_pm\n"), flags));
    }

    #[test]
    fn the_counter_agrees_with_the_clock() {
        let calibration = Calibration::begin();
        let first = calibration.ns_per_tick();
        thread::sleep(Duration::from_millis(50));
        let second = calibration.ns_per_tick();
        assert!((first / second - 1.0).abs() < 0.2, "{first} {second}");
    }
}
