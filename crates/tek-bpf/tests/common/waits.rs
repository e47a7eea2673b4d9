// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that hold something or wait for it, and the events that name them.
use super::{gettid, of_task, set_priority};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use tek_bpf::{Event, Evidence, Kind, Kthreads, State, What};

/// A thread that holds something until `release`.
pub struct Holder {
    pub tid: i32,
    pub go: mpsc::Sender<()>,
    pub thread: JoinHandle<()>,
}

impl Holder {
    pub fn start(
        take: impl FnOnce() + Send + 'static,
        give: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (go, gone) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            take();
            sender.send(gettid()).unwrap();
            gone.recv().unwrap();
            give();
        });
        Self { tid: receiver.recv().unwrap(), go, thread }
    }

    pub fn release(self) {
        self.go.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

/// A critical thread that takes something and gives it back.
pub fn start_waiter(priority: i32, work: impl FnOnce() + Send + 'static) -> (i32, JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        sender.send(gettid()).unwrap();
        set_priority(priority);
        work();
        set_priority(0);
    });
    (receiver.recv().unwrap(), thread)
}

/// The threads that a task waits for, with what is known of them. Without the calling thread as a
/// guess: beside load it may be the only one that does not sleep, where the test has it asleep.
pub fn holders(events: &[Event], tid: i32) -> Vec<(i32, Option<i32>, Evidence)> {
    let holder = |what: &What| match what {
        What::LockAwaited { holder, owner, evidence, .. } => Some((holder.tid, *owner, *evidence)),
        _ => None,
    };
    let is_own_guess = |&(tid, _, evidence): &(i32, Option<i32>, Evidence)| {
        tid == gettid() && evidence == Evidence::Guessed
    };
    of_task(events, tid).iter().filter_map(holder).filter(|found| !is_own_guess(found)).collect()
}

pub fn has_ended(events: &[Event], tid: i32) -> bool {
    of_task(events, tid).iter().any(|what| matches!(what, What::LockEnded { .. }))
}

/// Whether each relation of the task has ended.
pub fn all_ended(events: &[Event], tid: i32) -> bool {
    let reported = of_task(events, tid);
    let count = |which: fn(&What) -> bool| reported.iter().filter(|what| which(what)).count();
    count(|what| matches!(what, What::LockAwaited { .. }))
        == count(|what| matches!(what, What::LockEnded { .. }))
}

/// Whether the programs find threads of other processes: since Linux 6.2.
pub fn finds_processes(kthreads: &Kthreads) -> bool {
    let locks = kthreads.dependencies().iter().find(|d| d.kind == Kind::Locks).unwrap();
    match &locks.state {
        State::On { but } => !but.iter().any(|text| text.starts_with("holders of other processes")),
        State::Off(_) => false,
    }
}

pub fn entries(kthreads: &Kthreads, name: &str) -> i32 {
    let entries = kthreads.entries().unwrap();
    entries.iter().find(|(map, _)| *map == name).map(|(_, count)| *count).unwrap()
}
