// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeated looks at the device.
//!
//! Most threads sleep most of the time, and reading them is most of the cost of a look. Of a
//! process that has not run since the last look, only the CPU time is read. In other processes only
//! the times of each sleeping thread are read. A sleeping thread's name, policy, priority and state
//! can change too: it is read again once in [`crate::ROUND`] looks, and at every look if it is in
//! sight.
use crate::device::Device;
use crate::sleepers::Sleepers;
use crate::task::Wanted;
use std::collections::HashSet;
use std::io;

/// Repeated looks at the device.
#[derive(Debug, Default)]
pub struct Watch {
    /// The data to read. It knows sleeping threads only with times ([`Wanted::schedstat`]).
    pub wanted: Wanted,
    sleepers: Sleepers,
}

impl Watch {
    /// Repeated looks that read these data.
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, sleepers: Sleepers::default() }
    }

    /// Reads everything.
    pub fn examine(&self) -> io::Result<Device> {
        Device::examine(&self.wanted)
    }

    /// Reads all of the threads that ran since the last call and of those with these tids; of the
    /// other threads only that they slept.
    pub fn examine_changes(&mut self, in_sight: HashSet<u32>) -> io::Result<Device> {
        self.sleepers.begin(in_sight);
        Device::examine_with(&self.wanted, &mut self.sleepers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::wait_until_forgotten;
    use crate::process::{Entry, Process, SchedStat};
    use crate::sleepers::{slept, ROUND};
    use crate::task::Task;
    use std::sync::mpsc::{channel, Receiver, Sender};
    use std::thread::JoinHandle;

    fn own() -> Watch {
        Watch::new(Wanted {
            pids: vec![std::process::id()],
            schedstat: true,
            switches: true,
            ..Wanted::default()
        })
    }

    /// A thread that sleeps, and runs the functions that it receives.
    struct Sleeper {
        tid: u32,
        orders: Option<Sender<fn()>>,
        done: Receiver<u32>,
        thread: Option<JoinHandle<()>>,
    }

    impl Sleeper {
        fn new() -> Self {
            let ((report, done), (orders, received)) = (channel(), channel::<fn()>());
            let thread = std::thread::spawn(move || {
                report.send(nix::unistd::gettid().as_raw() as u32).unwrap();
                for order in received {
                    order();
                    report.send(0).unwrap();
                }
            });
            let tid = done.recv().unwrap();
            Self { tid, orders: Some(orders), done, thread: Some(thread) }
        }

        fn does(&self, order: fn()) {
            self.orders.as_ref().unwrap().send(order).unwrap();
            self.done.recv().unwrap();
        }

        fn end(&mut self) {
            self.orders = None;
            if let Some(thread) = self.thread.take() {
                thread.join().unwrap();
                wait_until_forgotten(self.tid);
            }
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.end();
        }
    }

    fn find(device: &Device, tid: u32) -> Option<Task> {
        let mut tasks = device.programs.iter().flat_map(|program| &program.tasks);
        tasks.find(|task| task.stat.tid == tid).cloned()
    }

    /// Looks until a thread's data stay the same. A thread that waits for a CPU has not settled.
    fn settle(watch: &mut Watch, tid: u32) -> Task {
        let mut examine = || find(&watch.examine_changes(HashSet::new()).unwrap(), tid).unwrap();
        let mut task = examine();
        for _ in 0..1000 {
            let next = examine();
            if slept(&next, task.schedstat) && next.stat.state == 'S' {
                return next;
            }
            task = next;
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        panic!("it does not sleep");
    }

    #[test]
    fn what_a_thread_that_ran_did_is_seen_by_the_next_scan() {
        let mut watch = own();
        let mut sleeper = Sleeper::new();
        let tid = sleeper.tid;
        let before = settle(&mut watch, tid);
        sleeper.does(|| nix::sys::prctl::set_name(c"it ran").unwrap());
        let after = settle(&mut watch, tid);
        assert_eq!(after.stat.name, "it ran");
        assert!(after.schedstat.unwrap().slices > before.schedstat.unwrap().slices);
        assert!(after.switches.unwrap().voluntary > before.switches.unwrap().voluntary);
        sleeper.end();
        let device = watch.examine_changes(HashSet::new()).unwrap();
        assert_eq!(find(&device, tid).map(|task| task.stat.tid), None);
    }

    #[test]
    fn what_another_thread_changes_of_a_sleeping_one_is_seen_within_a_round_and_in_sight_at_once() {
        let mut watch = own();
        let sleeper = Sleeper::new();
        let tid = sleeper.tid;
        settle(&mut watch, tid);
        let name = format!("/proc/self/task/{tid}/comm");
        std::fs::write(&name, "other").unwrap();
        let samples = |watch: &mut Watch, in_sight: HashSet<u32>| {
            let device = watch.examine_changes(in_sight).unwrap();
            find(&device, tid).unwrap().stat.name
        };
        let seen = (0..ROUND).position(|_| samples(&mut watch, HashSet::new()) == "other");
        assert!(seen.is_some());
        std::fs::write(&name, "third").unwrap();
        assert_eq!(samples(&mut watch, HashSet::from([tid])), "third");
    }

    #[test]
    fn a_sleeping_thread_is_read_again_only_once_a_round() {
        let mut watch = own();
        let sleeper = Sleeper::new();
        settle(&mut watch, sleeper.tid);
        let process = Process::open(std::process::id()).unwrap();
        let mut from_before = 0;
        for _ in 0..ROUND {
            watch.sleepers.begin(HashSet::new());
            let seen = watch.sleepers.read(&process, &watch.wanted).unwrap();
            let of = seen.threads.iter().find(|(entry, ..)| entry.tid == sleeper.tid).unwrap();
            from_before += u32::from(of.2);
            let (entries, tasks): (Vec<_>, Vec<_>) =
                seen.threads.into_iter().map(|(entry, task, _)| (entry, task)).unzip();
            watch.sleepers.keep(process.pid(), seen.cpu_time, &entries, &tasks);
        }
        assert_eq!(from_before, ROUND - 1);
    }

    #[test]
    fn another_thread_with_the_same_tid_is_not_taken_for_it() {
        let mut watch = own();
        let sleeper = Sleeper::new();
        settle(&mut watch, sleeper.tid);
        let pid = std::process::id();
        for (entry, _) in &mut watch.sleepers.next.get_mut(&pid).unwrap().threads {
            entry.inode += 1;
        }
        watch.sleepers.begin(HashSet::new());
        let process = Process::open(pid).unwrap();
        let seen = watch.sleepers.read(&process, &watch.wanted).unwrap();
        assert!(seen.threads.iter().all(|(.., is_from_before)| !is_from_before));
    }

    #[test]
    fn a_process_that_slept_is_not_even_listed_until_it_runs() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut watch = Watch::new(Wanted { pids: vec![child.id()], ..own().wanted });
        let before = settle(&mut watch, child.id());
        // A thread that does not exist: the look reports it as remembered.
        let threads = &mut watch.sleepers.next.get_mut(&child.id()).unwrap().threads;
        let mut another = before.clone();
        another.stat.tid = 4_194_305;
        threads.push((Entry { tid: another.stat.tid, inode: 1 }, another));
        let count = |device: Device| device.programs[0].tasks.len();
        watch.sleepers.samples = ROUND; // so that this look does not reread it
        assert_eq!(count(watch.examine_changes(HashSet::new()).unwrap()), 2);
        use std::io::{Read, Write};
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(count(watch.examine_changes(HashSet::new()).unwrap()), 1);
        let after = settle(&mut watch, child.id());
        assert!(after.schedstat.unwrap().slices > before.schedstat.unwrap().slices);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn where_no_times_are_recorded_no_thread_is_taken_to_have_slept() {
        let sleeper = Sleeper::new();
        let task = settle(&mut own(), sleeper.tid);
        let with = |slices| {
            let schedstat = task.schedstat.map(|times| SchedStat { slices, ..times });
            slept(&Task { schedstat, ..task.clone() }, schedstat)
        };
        assert_eq!([with(3), with(0)], [true, false]);
        assert!(!slept(&Task { schedstat: None, ..task }, None));
    }
}
