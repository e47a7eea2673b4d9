// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the scheduler's times of the program's threads now and then, from outside: for threads
//! that are killed, or never report them.
use super::clock;
use nix::poll::PollTimeout;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

const SHORTEST: Duration = Duration::from_millis(200);

/// A sample may take at most one part in so many of the time.
const SHARE: u32 = 200;

/// Of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// On a CPU.
    pub run_ns: u64,
    /// Ready, but not on one.
    pub delay_ns: u64,
    /// The time of the reading, by CLOCK_MONOTONIC.
    pub at_ns: u64,
}

/// The last readings.
#[derive(Default)]
pub struct Watch {
    seen: HashMap<u32, Seen>,
    /// The time of the next sample, and the pause after it.
    next: Option<Instant>,
    pause: Duration,
}

impl Watch {
    /// Samples, if it is time; returns the time until the next call.
    pub fn examine(&mut self, pid: i32) -> PollTimeout {
        let now = Instant::now();
        match self.next {
            // The program is only about to begin.
            None => self.pause = SHORTEST,
            Some(next) if now < next => return timeout(next - now),
            Some(_) => {
                for entry in
                    fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten()
                {
                    let tid = entry.file_name().to_str().and_then(|tid| tid.parse().ok());
                    let text = fs::read_to_string(entry.path().join("schedstat"));
                    let times = text.ok().as_deref().and_then(times);
                    if let (Some(tid), Some((run_ns, delay_ns))) = (tid, times) {
                        let at_ns = clock::monotonic_ns();
                        self.seen.insert(tid, Seen { run_ns, delay_ns, at_ns });
                    }
                }
                self.pause = SHORTEST.max(now.elapsed() * SHARE);
            }
        }
        self.next = Some(now + self.pause);
        timeout(self.pause)
    }

    /// The last reading of each thread.
    pub fn finish(self) -> HashMap<u32, Seen> {
        self.seen
    }
}

fn timeout(time: Duration) -> PollTimeout {
    PollTimeout::try_from(time + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
}

/// On a CPU, and ready.
fn times(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let (Some(Ok(run)), Some(Ok(delay))) = (numbers.next(), numbers.next()) else { return None };
    Some((run, delay))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_times_are_understood() {
        assert_eq!(times("12 34 5\n"), Some((12, 34)));
        assert_eq!(times("12"), None);
        assert_eq!(times(""), None);
    }

    #[test]
    fn threads_are_seen_by_the_second_scan() {
        let mut watch = Watch::default();
        let pid = std::process::id() as i32;
        watch.examine(pid);
        watch.next = Some(Instant::now());
        watch.examine(pid);
        assert!(watch.finish().contains_key(&(pid as u32)));
    }
}
