// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that have executed a program and may belong in another group.
//!
//! Any user can execute programs without end, so they are placed a few at a time, within a bound.
//! If too many wait, the last ones are dropped, and a scan of all processes alternates with those
//! that wait. If the events alone take too much time, tekd receives none of them for a while, and
//! then scans all processes.
use super::load::Stopwatch;
use super::Server;
use crate::process;
use crate::sys;
use std::collections::{HashSet, VecDeque};

/// The most processes that wait.
const MOST: usize = 1024;
/// The length of a slice of placing; then a request may be served.
const SLICE_NS: u64 = 300_000;
/// The most events in one read.
const MANY_NEWS: usize = 64;
/// The shortest interval of scans.
const CHECK_NS: u64 = 1_000_000_000;

/// The processes that wait.
#[derive(Default)]
pub struct Newcomers {
    waiting: VecDeque<i32>,
    known: HashSet<i32>,
    /// The rest of a scan of all processes, and whether its process is next.
    examined: Vec<i32>,
    is_examination: bool,
    /// When a scan of all processes is due.
    examine_at_ns: Option<u64>,
    next_ns: Option<u64>,
    /// Executed programs are not reported before this time.
    silent_until_ns: Option<u64>,
}

impl Newcomers {
    /// A process has executed a program.
    pub fn add(&mut self, pid: i32, now_ns: u64) {
        if self.known.len() >= MOST {
            self.add_all(now_ns);
        } else if self.known.insert(pid) {
            self.waiting.push_back(pid);
            self.next_ns.get_or_insert(now_ns);
        }
    }

    /// Events of executed programs were lost.
    pub fn add_all(&mut self, now_ns: u64) {
        self.examine_at_ns.get_or_insert(now_ns + CHECK_NS);
        self.next_ns.get_or_insert(now_ns + CHECK_NS);
    }

    /// Whether executed programs are to be reported.
    pub fn are_reported(&self) -> bool {
        self.silent_until_ns.is_none()
    }

    /// `true`: they are to be reported again from now on. Then a scan of all processes is due.
    fn end_silence(&mut self, now_ns: u64) -> bool {
        let has_ended = self.silent_until_ns.take_if(|until| *until <= now_ns).is_some();
        if has_ended {
            self.add_all(now_ns);
        }
        has_ended
    }

    /// When there is work.
    pub fn next_ns(&self) -> Option<u64> {
        self.next_ns.into_iter().chain(self.silent_until_ns).min()
    }

    /// The next process; calls `all` for all processes if a scan is due.
    fn next(&mut self, now_ns: u64, all: impl FnOnce() -> Vec<i32>) -> Option<i32> {
        if self.examined.is_empty() && self.examine_at_ns.is_some_and(|at| at <= now_ns) {
            self.examine_at_ns = None;
            self.examined = all();
        }
        self.is_examination = !self.is_examination;
        if self.is_examination || self.waiting.is_empty() {
            if let Some(pid) = self.examined.pop() {
                return Some(pid);
            }
        }
        let pid = self.waiting.pop_front()?;
        self.known.remove(&pid);
        Some(pid)
    }

    /// Goes on at this time, or when a scan is due.
    fn go_on_at(&mut self, at_ns: u64) {
        let is_empty = self.waiting.is_empty() && self.examined.is_empty();
        let there = (!is_empty).then_some(at_ns);
        self.next_ns = there.or(self.examine_at_ns.map(|examine| examine.max(at_ns)));
    }
}

impl Server {
    /// Reads some events of processes, on their account. Changes of clients are always reported.
    pub(super) fn receive_news(&mut self) {
        let watch = Stopwatch::start();
        self.receive_news_of(MANY_NEWS);
        let now_ns = sys::monotonic_ns();
        self.load.news.charge(watch.ns(now_ns), now_ns);
        if let Some(until) = self.load.news.exhausted_until(now_ns) {
            if self.has_newcomers() && self.newcomers.are_reported() {
                self.newcomers.silent_until_ns = Some(until);
                self.choose_news();
            }
        }
        self.place_newcomers(now_ns);
    }

    /// Places some of the processes that wait.
    pub(super) fn place_newcomers(&mut self, now_ns: u64) {
        if self.newcomers.end_silence(now_ns) {
            self.choose_news();
        }
        if self.newcomers.next_ns.is_none_or(|at| at > now_ns) {
            return;
        }
        let mut at_ns = now_ns;
        while at_ns < now_ns + SLICE_NS {
            if let Some(until) = self.load.chores.exhausted_until(at_ns) {
                return self.newcomers.go_on_at(until);
            }
            let watch = Stopwatch::start();
            let Some(pid) = self.newcomers.next(at_ns, process::all) else { break };
            self.place_new(pid);
            at_ns = sys::monotonic_ns();
            self.load.chores.charge(watch.ns(at_ns), at_ns);
        }
        self.newcomers.go_on_at(at_ns + SLICE_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Vec<i32> {
        unreachable!("no look is due");
    }

    #[test]
    fn each_is_placed_once_in_the_order_of_arrival() {
        let mut newcomers = Newcomers::default();
        assert_eq!(newcomers.next_ns(), None);
        [7, 8, 7].into_iter().for_each(|pid| newcomers.add(pid, 5));
        assert_eq!(newcomers.next_ns(), Some(5));
        let placed = [(); 3].map(|()| newcomers.next(5, none));
        assert_eq!(placed, [Some(7), Some(8), None]);
        newcomers.go_on_at(9);
        assert_eq!(newcomers.next_ns(), None);
        newcomers.add(7, 6);
        assert_eq!(newcomers.next(6, none), Some(7));
    }

    #[test]
    fn where_too_many_wait_all_processes_are_scanned_later() {
        let mut newcomers = Newcomers::default();
        (0..2000).for_each(|pid| newcomers.add(pid, 5));
        let placed = (0..).take_while(|_| newcomers.next(5, none).is_some()).count();
        assert_eq!(placed, MOST);
        newcomers.go_on_at(6);
        assert_eq!(newcomers.next_ns(), Some(5 + CHECK_NS));
        // More processes that execute programs do not delay the end of the scan.
        [7, 8, 9].into_iter().for_each(|pid| newcomers.add(pid, 5));
        let mut all = Some(vec![1, 2]);
        let mut next = || newcomers.next(5 + CHECK_NS, || all.take().unwrap());
        let placed: Vec<_> = std::iter::from_fn(&mut next).collect();
        assert_eq!(placed.len(), 5);
        assert!(placed[..4].contains(&1) && placed[..4].contains(&2), "{placed:?}");
        newcomers.go_on_at(9 + CHECK_NS);
        assert_eq!(newcomers.next_ns(), None);
    }

    #[test]
    fn after_a_time_without_reports_all_processes_are_scanned() {
        let mut newcomers = Newcomers::default();
        newcomers.add(7, 5);
        newcomers.silent_until_ns = Some(20);
        assert_eq!(newcomers.next(6, none), Some(7));
        newcomers.go_on_at(7);
        assert_eq!(newcomers.next_ns(), Some(20));
        assert!(!newcomers.end_silence(19) && !newcomers.are_reported());
        assert!(newcomers.end_silence(20) && newcomers.are_reported());
        assert_eq!(newcomers.next_ns(), Some(20 + CHECK_NS));
        // Another such period does not delay the scan.
        newcomers.silent_until_ns = Some(20 + 2 * CHECK_NS);
        assert_eq!(newcomers.next(20 + CHECK_NS, || vec![1]), Some(1));
        assert!(newcomers.end_silence(20 + 2 * CHECK_NS));
        assert_eq!(newcomers.next(20 + 3 * CHECK_NS, || vec![1]), Some(1));
    }
}
