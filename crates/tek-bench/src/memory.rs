// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments that use more memory than the machine has.

use std::fs;

/// Reading a file fills no more memory than this.
const MOST_BYTES: u64 = 1 << 30;

/// The bytes of memory that an experiment has to fill. An error: why it does not.
pub fn to_fill() -> Result<u64, String> {
    let bytes = total_bytes();
    if bytes <= MOST_BYTES {
        return Ok(bytes);
    }
    Err(format!(
        "there are {} MB of memory, too much to fill: tek lab run --kind irqthreads --memory 256M",
        bytes >> 20
    ))
}

fn total_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib << 10)
}
