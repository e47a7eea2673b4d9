// SPDX-License-Identifier: MIT OR Apache-2.0
//! Noncritical RT threads of the domain. Under backend rt they are Lazy like all other threads.
//! While a thread is Fast, they are lowered below the Fast Region; afterwards they get their own
//! priorities again.
//!
//! The kernel does not report which threads are real-time, so tekd scans for them: at the start,
//! and periodically in slices in responsiveness mode. A thread becomes Fast without waiting for a
//! scan. The known threads are lowered at once.
use crate::log;
use crate::process;
use crate::sys;
use std::collections::HashMap;
use tek_effect::{Change, Effect, Error, Identity, Scheduling};
use tek_policy::RealTime;

const OTHER: u32 = libc::SCHED_OTHER as u32;
const FIFO: u32 = libc::SCHED_FIFO as u32;
const RR: u32 = libc::SCHED_RR as u32;

/// The interval of scans; longer where a scan would take more than a 200th of a CPU.
const EVERY_NS: u64 = 1_000_000_000;
const SHARE: u64 = 200;
/// The length of a slice of a scan, and the pause after it in which other threads may run.
const SLICE_NS: u64 = 300_000;
const PAUSE_NS: u64 = 5_000_000;

/// Decides which threads may be lowered.
pub trait Scope {
    /// Whether tekd may change the threads of a process.
    fn holds(&self, pid: i32) -> bool;
    /// Whether a thread is critical.
    fn is_critical(&self, thread: Identity) -> bool;
    /// Whether a process makes its threads critical by itself.
    fn switches_itself(&self, pid: i32) -> bool;
}

/// A lowered thread.
pub struct Lowered {
    pub process: Identity,
    pub had: Scheduling,
    pub has: Scheduling,
    change: Change,
}

/// All noncritical RT threads.
#[derive(Default)]
pub struct Noncritical {
    /// Real-time threads, and their processes.
    known: HashMap<Identity, Identity>,
    lowered: HashMap<Identity, Lowered>,
    /// Threads that just left the Fast Region and may have to be lowered, and their processes.
    back: Vec<(Identity, Identity)>,
    /// A thread is Fast.
    active: bool,
    examine: Sample,
}

/// A scan of all threads. It continues in the next responsiveness mode: else no scan would end
/// where that mode is frequent and short.
#[derive(Default)]
struct Sample {
    /// Processes that the scan has not reached yet.
    left: Vec<i32>,
    found: HashMap<Identity, Identity>,
    spent_ns: u64,
    /// When its next slice, or the next scan, is due.
    next_ns: u64,
}

impl Noncritical {
    /// Scans all threads at once.
    pub fn examine_all(&mut self, now_ns: u64, range: RealTime, scope: &impl Scope) {
        self.examine.begin();
        while let Some(pid) = self.examine.left.pop() {
            self.examine.found.extend(real_time_of(pid, range, scope));
        }
        self.known = self.examine.end(now_ns, sys::monotonic_ns().saturating_sub(now_ns));
    }

    /// Responsiveness mode begins, or goes on: lowers the known threads.
    pub fn enter(&mut self, effect: &mut Effect, range: RealTime, scope: &impl Scope) {
        let back = std::mem::take(&mut self.back);
        let was_active = std::mem::replace(&mut self.active, true);
        let known = (!was_active).then(|| self.known.clone());
        for (thread, process) in known.into_iter().flatten().chain(back) {
            self.lower(effect, range, scope, thread, process);
        }
    }

    /// Responsiveness mode ends: all lowered threads get their own values again.
    pub fn leave(&mut self, effect: &mut Effect) {
        self.active = false;
        self.back.clear();
        for (thread, lowered) in self.lowered.drain() {
            give_back(effect, thread, &lowered);
        }
    }

    /// A lowered thread becomes critical: it gets its own values again.
    pub fn raise(&mut self, effect: &mut Effect, thread: Identity) {
        if let Some(lowered) = self.lowered.remove(&thread) {
            give_back(effect, thread, &lowered);
        }
    }

    /// A thread with a real-time policy of its own is no longer critical.
    pub fn note_back(&mut self, thread: Identity, process: Identity) {
        self.back.push((thread, process));
    }

    /// When the next slice is due; `None`: outside responsiveness mode.
    pub fn next_ns(&self) -> Option<u64> {
        self.active.then_some(self.examine.next_ns)
    }

    /// Runs a slice of a scan, if one is due, and lowers the threads that it finds.
    pub fn examine(
        &mut self,
        effect: &mut Effect,
        now_ns: u64,
        range: RealTime,
        scope: &impl Scope,
    ) {
        if !self.active || self.examine.next_ns > now_ns {
            return;
        }
        let (began_ns, began_cpu_ns) = (sys::monotonic_ns(), sys::cpu_ns());
        if self.examine.left.is_empty() {
            self.examine.begin();
        }
        let spent_cpu_ns = || sys::cpu_ns().saturating_sub(began_cpu_ns);
        while let Some(pid) = self.examine.left.pop() {
            for (thread, process) in real_time_of(pid, range, scope) {
                self.examine.found.insert(thread, process);
                self.known.insert(thread, process);
                self.lower(effect, range, scope, thread, process);
            }
            if sys::monotonic_ns().saturating_sub(began_ns) >= SLICE_NS {
                break;
            }
        }
        if !self.examine.left.is_empty() {
            self.examine.pause(now_ns, spent_cpu_ns());
            return;
        }
        self.forget_ended(effect);
        self.known = self.examine.end(now_ns, spent_cpu_ns());
        self.known.extend(self.lowered.iter().map(|(&thread, its)| (thread, its.process)));
    }

    /// Removes ended threads from the journal, which would else grow in a long responsiveness mode.
    fn forget_ended(&mut self, effect: &mut Effect) {
        let ended = |thread: &Identity| !thread.is_there();
        let ended: Vec<Identity> = self.lowered.keys().copied().filter(ended).collect();
        ended.into_iter().for_each(|thread| self.raise(effect, thread));
    }

    /// The lowered threads.
    pub fn lowered(&self) -> impl Iterator<Item = (Identity, &Lowered)> {
        self.lowered.iter().map(|(&thread, lowered)| (thread, lowered))
    }

    /// One lowered thread.
    pub fn lowered_one(&self, thread: Identity) -> Option<&Lowered> {
        self.lowered.get(&thread)
    }

    fn lower(
        &mut self,
        effect: &mut Effect,
        range: RealTime,
        scope: &impl Scope,
        thread: Identity,
        process: Identity,
    ) {
        if scope.is_critical(thread) || self.lowered.contains_key(&thread) {
            return;
        }
        let Ok(had) = Scheduling::of(thread.tid) else { return };
        if !is_lowered_from(had, range) || is_marked(had, range) {
            return; // its policy is another one by now
        }
        // Below the lowest real-time priority there is only SCHED_OTHER.
        let has = match range.low {
            1 => Scheduling { policy: OTHER, priority: 0, ..had },
            low => Scheduling { priority: low - 1, ..had },
        };
        match effect.set_scheduling_of_line(thread, has) {
            Ok(change) => {
                self.lowered.insert(thread, Lowered { process, had, has, change });
            }
            Err(Error::Gone { .. }) => {}
            Err(error) => log::warning(&format!("a real-time thread is not lowered: {error}")),
        }
    }
}

impl Sample {
    fn begin(&mut self) {
        self.left = process::all();
        self.found.clear();
        self.spent_ns = 0;
    }

    /// Ends a slice that took `spent_ns`.
    fn pause(&mut self, now_ns: u64, spent_ns: u64) {
        self.spent_ns += spent_ns;
        self.next_ns = now_ns + PAUSE_NS;
    }

    /// Ends the last slice; returns all threads that the scan found.
    fn end(&mut self, now_ns: u64, spent_ns: u64) -> HashMap<Identity, Identity> {
        self.spent_ns += spent_ns;
        self.next_ns = now_ns + EVERY_NS.max(self.spent_ns * SHARE);
        std::mem::take(&mut self.found)
    }
}

/// Real-time threads of a process that are to be lowered, and that process. Its identity is read
/// only if it has any: most processes have none.
fn real_time_of(pid: i32, range: RealTime, scope: &impl Scope) -> Vec<(Identity, Identity)> {
    let mut tids = process::threads(pid).unwrap_or_default();
    tids.retain(|&tid| sys::is_real_time(tid));
    if tids.is_empty() || !scope.holds(pid) || scope.switches_itself(pid) {
        return Vec::new();
    }
    let Ok(process) = Identity::of_process(pid) else { return Vec::new() };
    tids.retain(|&tid| {
        Scheduling::of(tid).is_ok_and(|had| is_lowered_from(had, range) && !is_marked(had, range))
    });
    tids.into_iter().filter_map(|tid| Some((Identity::of(tid).ok()?, process))).collect()
}

/// Whether a thread would precede a Fast thread, or share its priority.
fn is_lowered_from(had: Scheduling, range: RealTime) -> bool {
    [FIFO, RR].contains(&had.policy) && had.priority >= range.low
}

/// Whether a thread has the values of critical threads that do not ask tekd: those of rtkit, or of
/// libtek in a process with rights of its own. The budget guard of such a process is one above.
fn is_marked(had: Scheduling, range: RealTime) -> bool {
    had.reset_on_fork && (range.low..=range.high + 1).contains(&had.priority)
}

fn give_back(effect: &mut Effect, thread: Identity, lowered: &Lowered) {
    match effect.give_back(lowered.change) {
        Ok(_) | Err(Error::Executing { .. }) => {}
        Err(error) => {
            let tid = thread.tid;
            log::warning(&format!("thread {tid} could not be given back its priority: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    /// A scope that allows no change.
    struct Nobody;

    impl Scope for Nobody {
        fn holds(&self, _: i32) -> bool {
            false
        }

        fn is_critical(&self, _: Identity) -> bool {
            false
        }

        fn switches_itself(&self, _: i32) -> bool {
            false
        }
    }

    fn directory() -> PathBuf {
        std::env::temp_dir().join(format!("tekd-others-{}", std::process::id()))
    }

    #[test]
    fn a_scan_goes_on_though_other_work_took_longer_than_a_slice() {
        let (mut effect, _) = Effect::open(&directory().with_extension("late")).unwrap();
        let (mut noncritical, range) = (Noncritical::default(), RealTime { low: 10, high: 49 });
        noncritical.enter(&mut effect, range, &Nobody);
        noncritical.examine.begin();
        let before = noncritical.examine.left.len();
        let long_ago_ns = sys::monotonic_ns() - 100 * SLICE_NS;
        noncritical.examine.next_ns = long_ago_ns;
        noncritical.examine(&mut effect, long_ago_ns, range, &Nobody);
        assert!(noncritical.examine.left.len() < before);
        effect.close();
    }

    #[test]
    fn a_scan_comes_to_its_end_though_no_thread_is_fast_for_long() {
        let (mut effect, _) = Effect::open(&directory()).unwrap();
        let (mut noncritical, range) = (Noncritical::default(), RealTime { low: 10, high: 49 });
        let is_at_its_end = (0..1000).any(|_| {
            let now_ns = sys::monotonic_ns();
            noncritical.enter(&mut effect, range, &Nobody);
            noncritical.examine(&mut effect, now_ns, range, &Nobody);
            noncritical.leave(&mut effect);
            std::thread::sleep(Duration::from_nanos(PAUSE_NS));
            noncritical.examine.next_ns >= now_ns + EVERY_NS
        });
        assert!(is_at_its_end, "{} processes are left", noncritical.examine.left.len());
        effect.close();
    }
}
