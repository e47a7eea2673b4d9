// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeated samples: the time between them, and their end.
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{tcgetattr, tcsetattr, LocalFlags, SetArg, Termios};
use nix::time::{clock_gettime, ClockId};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tek_command::entry::before_panic;

/// Samples at equal intervals, until the user ends it.
pub struct Pace {
    interval: Duration,
    next: Instant,
    /// The CPU time of this process at the begin of the last sample.
    began: Duration,
    signals: SignalFd,
    keys: Option<Keys>,
}

impl Pace {
    /// From now on SIGINT and SIGTERM end the samples instead of the process.
    pub fn new(interval: Duration) -> anyhow::Result<Self> {
        let mut ends = SigSet::empty();
        ends.add(Signal::SIGINT);
        ends.add(Signal::SIGTERM);
        ends.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&ends, flags)?;
        Ok(Self {
            interval,
            next: Instant::now() + interval,
            began: cpu_time(),
            signals,
            keys: None,
        })
    }

    /// From now on the key q ends them too, where there is a keyboard.
    pub fn watch_keys(&mut self) {
        self.keys = Keys::take();
    }

    /// Waits for the time of the next sample; false when the user ends it.
    pub fn wait(&mut self) -> anyhow::Result<bool> {
        let end = self.next.max(Instant::now() + rest(self.began));
        loop {
            // Polled at least once: a sample may take longer than the interval.
            let left = end.saturating_duration_since(Instant::now());
            // Rounded up, so as not to wake too early and poll once more for the rest.
            let left_ms = left.as_micros().div_ceil(1000);
            let timeout = PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX);
            let stdin = io::stdin();
            let mut ready = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            if self.keys.is_some() {
                ready.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut ready, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready = |at: usize| ready.get(at).is_some_and(|fd| fd.any() == Some(true));
            if is_ready(0) || is_ready(1) && Keys::want_to_end() {
                return Ok(false);
            }
            if left.is_zero() {
                break;
            }
        }
        // Samples that took longer than the interval are left out, not made up for.
        self.next = (end + self.interval).max(Instant::now());
        self.began = cpu_time();
        Ok(true)
    }
}

/// The CPU time of this process so far.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The time to the next sample, at least, after one that began at this CPU time: samples use no
/// more than half of a CPU, however short the interval.
pub fn rest(began: Duration) -> Duration {
    cpu_time().saturating_sub(began)
}

/// The keyboard in a mode that delivers each key at once; restored when dropped.
struct Keys(Termios);

impl Keys {
    fn take() -> Option<Self> {
        if !io::stdin().is_terminal() {
            return None;
        }
        let before = tcgetattr(io::stdin()).ok()?;
        let mut now = before.clone();
        now.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &now).ok()?;
        let usual = Mutex::new(before.clone());
        before_panic(move || {
            if let Ok(usual) = usual.lock() {
                restore(&usual);
            }
        });
        Some(Self(before))
    }

    /// Reads the typed keys; a keyboard that is gone ends the samples too.
    fn want_to_end() -> bool {
        let mut typed = [0; 64];
        match io::stdin().read(&mut typed) {
            Ok(0) | Err(_) => true,
            Ok(length) => typed[..length].iter().any(|key| matches!(key, b'q' | b'Q')),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        restore(&self.0);
    }
}

fn restore(usual: &Termios) {
    let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, usual);
}

/// `2`, `0.5s`, `200ms`, `5m`: from 10 ms to a day; a number alone is seconds.
pub fn interval(text: &str) -> Result<Duration, String> {
    const FORM: &str = "write a time such as 2s, 0.5 or 200ms, from 10ms to a day";
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let scale = match &text[unit..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        _ => return Err(FORM.into()),
    };
    let seconds = text[..unit].parse::<f64>().map_err(|_| FORM)? * scale;
    if !(0.01..=86_400.0).contains(&seconds) {
        return Err(FORM.into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_sample_that_took_longer_than_the_interval_there_is_a_rest() {
        let mut pace = Pace::new(Duration::from_millis(10)).unwrap();
        pace.wait().unwrap();
        let (began, work) = (cpu_time(), Duration::from_millis(100));
        while cpu_time() < began + work {
            std::hint::spin_loop();
        }
        let ended = Instant::now();
        pace.wait().unwrap();
        assert!(ended.elapsed() >= work);
    }

    #[test]
    fn an_interval_is_seconds_or_has_a_unit() {
        let ms = |text| interval(text).map(|time| time.as_millis());
        assert_eq!([ms("2"), ms("0.5s"), ms("200ms"), ms("5m")], [2000, 500, 200, 300_000].map(Ok));
        for bad in ["", "s", "-1", "1h", "9ms", "nan", "inf", "2 s", "1e9"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
