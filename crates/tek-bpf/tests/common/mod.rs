// SPDX-License-Identifier: MIT OR Apache-2.0
//! A critical thread that does one thing, and the events that name it.
#![allow(dead_code)] // each test program uses a part
pub mod disk;
pub mod locks;
pub mod objects;
pub mod terminal;
pub mod waits;

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tek_bpf::{Event, Kthreads, Member, Watch, Watcher, What};

pub fn gettid() -> i32 {
    nix::unistd::gettid().as_raw()
}

/// Makes the calling thread SCHED_FIFO of this priority; 0: ordinary again.
pub fn set_priority(priority: i32) {
    set_priority_of(0, priority);
}

/// The same for any thread of this process.
pub fn set_priority_of(tid: i32, priority: i32) {
    let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
    // SAFETY: the kernel reads one int, the whole of struct sched_param.
    let done = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &priority) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Runs `work` in a thread of this priority, and returns the id of that thread.
pub fn at_priority(priority: i32, work: impl FnOnce() + Send + 'static) -> i32 {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        set_priority(priority);
        work();
        set_priority(0);
        sender.send(gettid()).unwrap();
    });
    let tid = receiver.recv().unwrap();
    thread.join().unwrap();
    tid
}

/// Attaches all programs until the caller drops the result.
pub fn watch(kthreads: &mut Kthreads) -> Watcher {
    let mut watcher = kthreads.watcher().unwrap();
    let all = Watch { pages: true, packets: true, storage: true, locks: true, answers: true };
    let packets = watcher.watch(all).unwrap();
    kthreads.set_packets(packets).unwrap();
    watcher
}

/// All programs, loaded and attached until the caller drops the second part.
pub fn watching() -> (Kthreads, Watcher) {
    let mut kthreads = Kthreads::open().unwrap();
    let watcher = watch(&mut kthreads);
    (kthreads, watcher)
}

/// The time limit for an expected event: a busy machine may need long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The events until `enough`, or until PATIENCE ends.
pub fn events_until(kthreads: &mut Kthreads, enough: impl Fn(&[Event]) -> bool) -> Vec<Event> {
    events_within(kthreads, PATIENCE, enough)
}

/// The events of two seconds.
pub fn events_for_a_while(kthreads: &mut Kthreads) -> Vec<Event> {
    events_within(kthreads, Duration::from_secs(2), |_| false)
}

/// The events until `enough`, or until this time ends.
pub fn events_within(
    kthreads: &mut Kthreads,
    time: Duration,
    enough: impl Fn(&[Event]) -> bool,
) -> Vec<Event> {
    let mut events = Vec::new();
    let limit = Instant::now() + time;
    loop {
        let is_late = Instant::now() > limit;
        kthreads.drain(|event| events.push(event)).unwrap();
        if enough(&events) || is_late {
            return events;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the descriptor is readable already, or wakes its waiter within this time. At the end of
/// the time poll() checks once more and finds events that caused no wake-up: these do not count.
pub fn wakes(kthreads: &Kthreads, milliseconds: u16) -> bool {
    let mut fds = [PollFd::new(kthreads.fd(), PollFlags::POLLIN)];
    let begun = Instant::now();
    poll(&mut fds, PollTimeout::from(milliseconds)).unwrap() == 1
        && begun.elapsed() < Duration::from_millis(milliseconds.into())
}

/// Waits until another thread of this process sleeps.
pub fn wait_until_asleep(tid: i32) {
    let limit = Instant::now() + PATIENCE;
    loop {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
        if stat.rsplit_once(") ").unwrap().1.starts_with('S') {
            return;
        }
        assert!(Instant::now() < limit, "it does not sleep: {stat}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The member that an event names.
pub fn member(event: &Event) -> Option<Member> {
    event.what.member()
}

/// The events that name this task.
pub fn of_task(events: &[Event], tid: i32) -> Vec<What> {
    events.iter().filter(|e| member(e).is_some_and(|m| m.tid == tid)).map(|e| e.what).collect()
}
