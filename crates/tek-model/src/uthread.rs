// SPDX-License-Identifier: MIT OR Apache-2.0
//! User-level threads, which the kernel does not know: from their process's table.
use crate::{StackUse, Thread};
use tek_abi::{text, WorkerPlace, FLAG_NAMED};

/// A user-level thread.
#[derive(Clone, Copy, Debug)]
pub struct Uthread {
    /// Its record in the table.
    pub own: Thread,
    /// Use of its stack, by it or an earlier thread: seen from outside.
    pub stack: Option<StackUse>,
    /// The worker that it runs on, or did last.
    pub worker: Option<Worker>,
}

/// A worker of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its number, from 0.
    pub number: u16,
    /// The kernel thread that carries it.
    pub tid: Option<u32>,
}

impl Worker {
    /// The worker that a record names by `number`, from 1; `None` for 0.
    pub(crate) fn of(number: u16, places: &[WorkerPlace]) -> Option<Self> {
        let number = number.checked_sub(1)?;
        let place = places.get(usize::from(number));
        Some(Self { number, tid: place.map(|place| place.tid).filter(|&tid| tid != 0) })
    }
}

impl Uthread {
    /// Its number in its process, from 1.
    pub fn number(&self) -> u32 {
        self.own.record.tid
    }

    /// The name that was set for it.
    pub fn name(&self) -> Option<String> {
        (self.own.record.flags & FLAG_NAMED != 0).then(|| text(&self.own.side.name))
    }

    /// `S` while it waits, `R` while it runs or is ready.
    pub fn state(&self) -> char {
        if self.own.side.waits != 0 {
            'S'
        } else {
            'R'
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_not_listed_has_its_number_at_least() {
        let places = [WorkerPlace { tid: 7, reserved: 0 }, WorkerPlace::default()];
        let of = |number| Worker::of(number, &places);
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some(Worker { number: 0, tid: Some(7) }));
        assert_eq!(of(2), Some(Worker { number: 1, tid: None }));
        assert_eq!(of(u16::MAX), Some(Worker { number: u16::MAX - 1, tid: None }));
    }
}
