// SPDX-License-Identifier: MIT OR Apache-2.0
//! The object of a sleeping thread's wait: its system call, and the time at which it ends.
//!
//! Only a process that may trace the thread can read that. The kernel reads the thread's registers,
//! and its memory for the time of the wait; for that moment it holds the lock of the address space
//! as a reader.
use crate::Process;
use nix::libc;
use procfs_core::process::Syscall;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A sleeping thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When it ends, if no event ends it before.
    pub end: End,
    /// Whether an event beside the end of its time and a signal can wake it.
    pub has_events: bool,
}

/// When a wait ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Never.
    Never,
    /// After so many ns.
    After(u64),
    /// At this time of the clock that the thread chose, in ns.
    At(u64),
}

/// The argument of a system call that has its timeout.
#[derive(Clone, Copy)]
enum Time {
    /// No time.
    None,
    /// Milliseconds; negative: for ever.
    Ms(usize),
    /// A pointer to a struct timespec; null: for ever.
    After(usize),
    /// A pointer to a struct timeval; null: for ever.
    #[cfg(target_arch = "x86_64")]
    AfterUs(usize),
    /// A pointer to the struct timespec of the end.
    At(usize),
    /// A descriptor, perhaps of a timer: see timerfd_create(2).
    Timer(usize),
}

impl Process {
    /// The wait of one of its threads. `None` if the thread does not wait, has ended, may not be
    /// traced, or has other system calls than this processor's usual programs.
    pub fn wait(&self, tid: u32) -> Option<Wait> {
        let Syscall::Blocked { syscall_number, argument_registers, program_counter, .. } =
            self.parse_syscall(tid)?
        else {
            return None;
        };
        // A 32-bit program on a 64-bit kernel has other numbers.
        if cfg!(target_pointer_width = "64") && program_counter >> 32 == 0 {
            return None;
        }
        let (time, has_events) = time_of(syscall_number, &argument_registers);
        Some(Wait { end: self.end_of(time, &argument_registers)?, has_events })
    }

    fn parse_syscall(&self, tid: u32) -> Option<Syscall> {
        self.read(&format!("task/{tid}/syscall"))
    }

    fn end_of(&self, time: Time, arguments: &[u64; 6]) -> Option<End> {
        let unit_ns = |index: usize, ns: u64| -> Option<Option<u64>> {
            let address = arguments[index];
            if address == 0 {
                return Some(None);
            }
            let memory = self.open_file("mem")?;
            let (seconds, rest) = (word(&memory, address)?, word(&memory, address + WORD)?);
            Some(Some(seconds.checked_mul(1_000_000_000)?.checked_add(rest.checked_mul(ns)?)?))
        };
        let after = |time: Option<u64>| time.map_or(End::Never, End::After);
        Some(match time {
            Time::None => End::Never,
            Time::Ms(index) => match arguments[index] as i32 {
                ms if ms < 0 => End::Never,
                ms => End::After(ms as u64 * 1_000_000),
            },
            Time::After(index) => after(unit_ns(index, 1)?),
            #[cfg(target_arch = "x86_64")]
            Time::AfterUs(index) => after(unit_ns(index, 1000)?),
            Time::At(index) => unit_ns(index, 1)?.map_or(End::Never, End::At),
            Time::Timer(index) => after(self.timer_ns(arguments[index])),
        })
    }

    /// The interval of a timer; `None` for another descriptor.
    fn timer_ns(&self, descriptor: u64) -> Option<u64> {
        let text = self.text(&format!("fdinfo/{}", descriptor as i32))?;
        let interval = text.lines().find_map(|line| line.strip_prefix("it_interval: ("))?;
        let (seconds, ns) = interval.strip_suffix(')')?.split_once(", ")?;
        let ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
        Some(ns).filter(|&ns| ns > 0)
    }
}

const WORD: u64 = size_of::<usize>() as u64;

fn word(memory: &File, address: u64) -> Option<u64> {
    let mut bytes = [0; size_of::<usize>()];
    memory.read_exact_at(&mut bytes, address).ok()?;
    u64::try_from(isize::from_ne_bytes(bytes)).ok()
}

/// The timeout argument of a system call, and whether an event can end it.
fn time_of(number: i64, arguments: &[u64; 6]) -> (Time, bool) {
    match number as libc::c_long {
        libc::SYS_nanosleep => (Time::After(0), false),
        libc::SYS_clock_nanosleep if arguments[1] & libc::TIMER_ABSTIME as u64 != 0 => {
            (Time::At(2), false)
        }
        libc::SYS_clock_nanosleep => (Time::After(2), false),
        libc::SYS_read => (Time::Timer(0), true),
        libc::SYS_futex => (futex_time(arguments[1]), true),
        libc::SYS_ppoll => (Time::After(2), arguments[1] > 0),
        libc::SYS_pselect6 => (Time::After(4), arguments[0] > 0),
        libc::SYS_epoll_pwait => (Time::Ms(3), true),
        libc::SYS_epoll_pwait2 => (Time::After(3), true),
        libc::SYS_rt_sigtimedwait => (Time::After(2), true),
        // Processors younger than these two do not have them.
        #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
        libc::SYS_poll => (Time::Ms(2), arguments[1] > 0),
        #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
        libc::SYS_epoll_wait => (Time::Ms(3), true),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => (Time::AfterUs(4), arguments[0] > 0),
        _ => (Time::None, true),
    }
}

fn futex_time(operation: u64) -> Time {
    match operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT => Time::After(3),
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI | libc::FUTEX_WAIT_REQUEUE_PI => Time::At(3),
        _ => Time::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// The wait of a new thread of this process that calls `sleep`, once it has begun.
    fn wait_in(sleep: impl FnOnce() + Send + 'static) -> Wait {
        let (report, reported) = channel();
        std::thread::spawn(move || {
            report.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            sleep();
        });
        let tid = reported.recv().unwrap();
        let own = Process::open(std::process::id()).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            if let Some(wait) = own.wait(tid).filter(|_| own.stat(tid).unwrap().state == 'S') {
                return wait;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("it does not wait");
    }

    #[test]
    fn the_wait_of_a_sleeping_thread_has_its_remaining_time() {
        let wait = wait_in(|| std::thread::sleep(Duration::from_millis(61_250)));
        assert!(!wait.has_events);
        // The C library and the kernel store the remaining time.
        assert!(matches!(wait.end, End::After(ns) if ns <= 61_250_000_000 && ns > 60_000_000_000));
    }

    #[test]
    fn a_thread_that_waits_for_another_one_waits_without_an_end() {
        let (keep, retained) = channel::<()>();
        let wait = wait_in(move || {
            let _ = retained.recv();
        });
        assert_eq!(wait, Wait { end: End::Never, has_events: true });
        drop(keep);
    }

    #[test]
    fn a_wait_for_descriptors_or_a_time_has_the_time() {
        let (read, write) = nix::unistd::pipe().unwrap();
        let wait = wait_in(move || {
            let mut all = [nix::poll::PollFd::new(read.as_fd(), nix::poll::PollFlags::POLLIN)];
            nix::poll::poll(&mut all, 61_250u16).unwrap();
        });
        assert!(wait.has_events);
        assert!(matches!(wait.end, End::After(ns) if ns == 61_250_000_000));
        drop(write);
    }

    #[test]
    fn a_wait_for_a_timer_has_its_interval() {
        use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::empty()).unwrap();
        let every = Expiration::Interval(Duration::from_secs(61).into());
        timer.set(every, TimerSetTimeFlags::empty()).unwrap();
        assert_eq!(wait_in(move || timer.wait().unwrap()).end, End::After(61_000_000_000));
    }

    #[test]
    fn a_thread_that_runs_does_not_wait() {
        let (report, reported) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = std::thread::spawn(move || {
            report.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            while !ends.load(Ordering::Relaxed) {}
        });
        let own = Process::open(std::process::id()).unwrap();
        let tid = reported.recv().unwrap();
        // Its message may still be on its way.
        let runs = (0..20_000).any(|_| own.wait(tid).is_none());
        is_over.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(runs);
    }
}
