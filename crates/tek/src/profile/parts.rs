// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits a thread's time into parts that sum to the thread's life, from the counted times and the
//! scheduler's.
//!
//! Calls are timed by the clock, so each may contain delay: time in which the thread was ready
//! without a CPU. The delay in waits is sampled, and scaled to all waits. The rest of the delay is
//! in work and in long calls, by their shares. Short calls have none: a thread that loses a CPU
//! does not have it back at once. Calls that the profiler does not know may wait too: time off the
//! CPU that no known call explains is `other`. File calls explain their sampled time off the CPU;
//! spin locks explain nothing.
use serde::Serialize;
use std::ops::AddAssign;

/// The measured times of a thread, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub life: u64,
    pub sync: u64,
    pub file: u64,
    pub alloc: u64,
    pub idle: u64,
    /// Long calls, for files and for the allocator.
    pub long_file: u64,
    pub long_alloc: u64,
    /// The part of the files' time off the CPU: scaled from the sampled calls, and the whole call
    /// that the thread is in.
    pub off_file: u64,
    /// The part of sync that was waited for on a CPU: spin locks.
    pub spin: u64,
    /// The time while no other thread was active, and its parts in files and in the allocator.
    pub serial: u64,
    pub serial_file: u64,
    pub serial_alloc: u64,
    /// The scheduler's times: on a CPU, and ready; `None`: it was not polled.
    pub run: Option<u64>,
    pub delay: u64,
    /// For waits for threads, and for idle ones: the time around which the scheduler was polled,
    /// and the ready time that it had counted.
    pub sampled: [Sampled; 2],
}

/// A part of the waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampled {
    pub of: u64,
    pub delay: u64,
}

impl Sampled {
    /// The delay in `all`, at the same share.
    fn share(self, all: u64) -> f64 {
        if self.of == 0 {
            return 0.0;
        }
        all as f64 * (self.delay as f64 / self.of as f64).min(1.0)
    }
}

/// Parts of a life, in ns; they sum to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// Beside other threads of the program.
    pub work: u64,
    /// While no other thread did anything.
    pub serial: u64,
    /// Waiting for other threads.
    pub sync: u64,
    /// In calls for files.
    pub file: u64,
    /// In malloc() and its family.
    pub allocator: u64,
    /// Ready, but no CPU was free.
    pub delay: u64,
    /// Waiting for a time, for events, for other processes.
    pub idle: u64,
    /// Waiting in calls that are not known.
    pub other: u64,
}

impl Parts {
    /// Their numbers, in the order of [`tek_command::values::time::PARTS`].
    pub fn all(&self) -> [u64; 8] {
        let Self { work, serial, sync, file, allocator, delay, idle, other } = *self;
        [work, serial, sync, file, allocator, delay, idle, other]
    }

    pub fn sum(&self) -> u64 {
        self.all().iter().fold(0, |sum, &part| sum.saturating_add(part))
    }
}

impl AddAssign for Parts {
    fn add_assign(&mut self, more: Self) {
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut self.work, more.work);
        add(&mut self.serial, more.serial);
        add(&mut self.sync, more.sync);
        add(&mut self.file, more.file);
        add(&mut self.allocator, more.allocator);
        add(&mut self.delay, more.delay);
        add(&mut self.idle, more.idle);
        add(&mut self.other, more.other);
    }
}

/// The parts of a thread's life.
pub fn split(measured: &Measured) -> Parts {
    let life = measured.life;
    // The allocator's time is an estimate, and comes last.
    let mut left = life;
    let mut take = |wanted: u64| {
        let taken = wanted.min(left);
        left -= taken;
        taken
    };
    let sync = take(measured.sync);
    let idle = take(measured.idle);
    let file = take(measured.file);
    let alloc = take(measured.alloc);

    let delay = measured.delay.min(life) as f64;
    let mut in_waits = [measured.sampled[0].share(sync), measured.sampled[1].share(idle)];
    let sum: f64 = in_waits.iter().sum();
    if sum > delay {
        in_waits = in_waits.map(|part| part * delay / sum);
    }
    let [in_sync, in_idle] = in_waits;

    // Time off the CPU is waiting in known waits; the rest that no known call explains is other or
    // delay.
    let off = measured.run.map_or(0.0, |run| life as f64 - run as f64);
    let in_calls = sync.saturating_sub(measured.spin) as f64 + idle as f64;
    let off_file = (measured.off_file.min(file) as f64).min((off - in_calls).max(0.0));
    let unknown = (off - in_calls - off_file).max(0.0);

    // Delay lies where the thread ran, unless there is not so much time without a CPU.
    let delayed = (delay - in_sync - in_idle).max(0.0);
    let long_file = (measured.long_file.min(file) as f64 - off_file).max(0.0);
    let long_alloc = measured.long_alloc.min(alloc) as f64;
    let ran = (left as f64 - unknown).max(0.0) + long_alloc;
    let in_file = (delayed * long_file / (long_file + ran).max(1.0)).min(off_file);
    let delayed = (delayed - in_file).min(left as f64 + long_alloc);
    // The delay in files beyond their share: there is no other place for it.
    let (in_file, delayed) = if measured.run.is_some() && delayed > unknown {
        let more = (delayed - unknown).min(off_file - in_file);
        (in_file + more, delayed - more)
    } else {
        (in_file, delayed)
    };
    let other = (unknown - delayed).clamp(0.0, left as f64);
    let busy = left as f64 - other;
    let ready = busy + long_alloc;
    let keep = if ready > 0.0 { (1.0 - delayed / ready).max(0.0) } else { 1.0 };

    let all_work = busy * keep;
    let alone =
        measured.serial.saturating_sub(measured.serial_file.saturating_add(measured.serial_alloc));
    let serial = (alone as f64 * keep).min(all_work);
    let in_alloc = long_alloc * (1.0 - keep);
    let mut parts = Parts {
        work: 0,
        serial: serial as u64,
        sync: (sync as f64 - in_sync) as u64,
        file: (file as f64 - in_file) as u64,
        allocator: (alloc as f64 - in_alloc) as u64,
        delay: (in_sync + in_idle + in_file + busy * (1.0 - keep) + in_alloc) as u64,
        idle: (idle as f64 - in_idle) as u64,
        other: other as u64,
    };
    // The rounding error goes to the largest part.
    let rest = parts.sum();
    if rest <= life {
        parts.work = life - rest;
    } else {
        parts.sync = parts.sync.saturating_sub(rest - life);
    }
    // A thread that was alone all the time has no work beside other threads, except rounding
    // errors.
    if parts.work < 1000 && all_work as u64 <= parts.serial.saturating_add(1000) {
        parts.serial = parts.serial.saturating_add(std::mem::take(&mut parts.work));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_thread_that_only_works_has_only_work() {
        let measured = Measured { life: 100 * MS, run: Some(100 * MS), ..Default::default() };
        assert_eq!(split(&measured), Parts { work: 100 * MS, ..Default::default() });
    }

    #[test]
    fn what_the_scheduler_counted_in_waits_is_delay_and_not_waiting() {
        let measured = Measured {
            life: 100 * MS,
            sync: 40 * MS,
            run: Some(50 * MS),
            delay: 20 * MS,
            sampled: [Sampled { of: 10 * MS, delay: 5 * MS }, Sampled::default()],
            ..Default::default()
        };
        let parts = split(&measured);
        assert_eq!((parts.sync, parts.delay, parts.other), (20 * MS, 20 * MS, 10 * MS));
        assert_eq!(parts.work, 50 * MS);
    }

    #[test]
    fn delay_outside_of_waits_is_taken_from_work_and_from_long_calls_by_their_shares() {
        let measured = Measured {
            life: 100 * MS,
            file: 30 * MS,
            long_file: 20 * MS,
            off_file: 10 * MS,
            alloc: 10 * MS,
            run: Some(60 * MS),
            delay: 40 * MS,
            ..Default::default()
        };
        let parts = split(&measured);
        assert_eq!((parts.work, parts.file, parts.allocator), (30 * MS, 20 * MS, 10 * MS));
        assert_eq!(parts.delay, 40 * MS);
    }

    #[test]
    fn calls_for_files_explain_only_as_much_sleep_as_they_slept() {
        let mut measured = Measured {
            life: 100 * MS,
            file: 20 * MS,
            long_file: 20 * MS,
            run: Some(20 * MS),
            ..Default::default()
        };
        // They were copied, and the rest of the time it slept where no call is profiled.
        let parts = split(&measured);
        assert_eq!((parts.file, parts.other, parts.work), (20 * MS, 80 * MS, 0));
        // They slept half of their time.
        measured.off_file = 10 * MS;
        let parts = split(&measured);
        assert_eq!((parts.file, parts.other, parts.work), (20 * MS, 70 * MS, 10 * MS));
    }

    #[test]
    fn spin_locks_explain_no_sleep() {
        let measured = Measured {
            life: 100 * MS,
            sync: 40 * MS,
            spin: 30 * MS,
            run: Some(50 * MS),
            ..Default::default()
        };
        let parts = split(&measured);
        assert_eq!((parts.sync, parts.other, parts.work), (40 * MS, 40 * MS, 20 * MS));
    }

    #[test]
    fn sleep_that_is_not_measured_is_other() {
        let measured =
            Measured { life: 100 * MS, run: Some(30 * MS), sync: 10 * MS, ..Default::default() };
        let parts = split(&measured);
        assert_eq!((parts.other, parts.work, parts.sync), (60 * MS, 30 * MS, 10 * MS));
    }

    #[test]
    fn work_alone_is_serial_but_files_meanwhile_are_files() {
        let measured = Measured {
            life: 100 * MS,
            file: 10 * MS,
            run: Some(100 * MS),
            serial: 40 * MS,
            serial_file: 10 * MS,
            ..Default::default()
        };
        let parts = split(&measured);
        assert_eq!((parts.serial, parts.work, parts.file), (30 * MS, 60 * MS, 10 * MS));
    }

    proptest! {
        #[test]
        fn no_numbers_make_it_panic(life: u64, numbers: [u64; 8], run: Option<u64>) {
            let _ = split(&Measured {
                life,
                sync: numbers[0],
                file: numbers[1],
                long_file: numbers[2],
                off_file: numbers[3],
                serial: numbers[4],
                serial_file: numbers[5],
                delay: numbers[6],
                spin: numbers[7],
                run,
                ..Default::default()
            });
        }

        #[test]
        fn parts_sum_to_the_life_whatever_was_measured(
            life in 0u64..1 << 50,
            numbers in proptest::collection::vec(0u64..1 << 51, 16),
            run in proptest::option::of(0u64..1 << 51),
        ) {
            let measured = Measured {
                life,
                sync: numbers[0],
                file: numbers[1],
                alloc: numbers[2],
                idle: numbers[3],
                long_file: numbers[12],
                long_alloc: numbers[13],
                off_file: numbers[14],
                spin: numbers[15],
                serial: numbers[4],
                serial_file: numbers[5],
                serial_alloc: numbers[6],
                run,
                delay: numbers[7],
                sampled: [
                    Sampled { of: numbers[8], delay: numbers[9] },
                    Sampled { of: numbers[10], delay: numbers[11] },
                ],
            };
            let parts = split(&measured);
            prop_assert!(parts.sum().abs_diff(life) <= 10, "{parts:?}");
        }
    }
}
