// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes and times as a person reads them.
use std::time::Duration;

/// 512, 4.0K, 8.0M.
pub fn size(bytes: u64) -> String {
    let mut number = bytes as f64;
    for unit in ["", "K", "M", "G", "T"] {
        if number < 1024.0 {
            let digits = usize::from(!unit.is_empty() && number < 100.0);
            return format!("{number:.digits$}{unit}");
        }
        number /= 1024.0;
    }
    format!("{number:.0}P")
}

/// A time in ns as text: 950us, 1.2ms, 12ms, 3.45s, 2:05 (minutes), 7h12m, 3d4h.
pub fn time(ns: u64) -> String {
    let time = Duration::from_nanos(ns);
    let (seconds, minutes) = (time.as_secs(), time.as_secs() / 60);
    match seconds {
        0 if time.as_millis() == 0 => format!("{}us", time.as_micros()),
        0 if time.as_millis() < 10 => format!("{}.{}ms", time.as_millis(), ns / 100_000 % 10),
        0 => format!("{}ms", time.as_millis()),
        1..=59 => format!("{:.2}s", time.as_secs_f64()),
        60..=3599 => format!("{minutes}:{:02}", seconds % 60),
        3600..=86_399 => format!("{}h{:02}m", minutes / 60, minutes % 60),
        _ => format!("{}d{}h", minutes / 1440, minutes / 60 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_unit_that_one_reads() {
        let short = [950_000, 1_250_000, 9_999_999, 12_000_000, 3_451_000_000];
        assert_eq!(short.map(time), ["950us", "1.2ms", "9.9ms", "12ms", "3.45s"]);
        let long = [125_000_000_000, 25_920_000_000_000, 273_600_000_000_000];
        assert_eq!(long.map(time), ["2:05", "7h12m", "3d4h"]);
    }

    #[test]
    fn a_size_has_the_unit_that_one_reads() {
        assert_eq!([512, 4096, 8 << 20, 200 << 20].map(size), ["512", "4.0K", "8.0M", "200M"]);
    }
}
