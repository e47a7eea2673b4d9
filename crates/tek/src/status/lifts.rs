// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of tekd on threads of programs that it lifts for their waiters: a part of its status.
//! Fields may be added to it.
use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reported {
    /// Whether threads are lifted.
    pub on: bool,
    /// Whether they will be, when the first thread is Fast.
    pub waiting: bool,
    /// If not, why: the end of a sentence.
    pub why: Option<String>,
    /// Since tekd began.
    pub counts: Counts,
    /// The threads for which a critical thread waits.
    pub threads: Vec<Holder>,
    /// Threads that wait for each other.
    pub circles: Vec<Vec<u32>>,
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Lifts.
    pub lifts: u64,
    /// The time of all of them.
    pub lifted_ns: u64,
    /// Waits for threads that the waiter may not lift.
    pub not_allowed: u64,
    /// Waits for more threads than may be lifted for a process.
    pub too_many: u64,
    /// Answers that took too long.
    pub too_long: u64,
    /// Lifts that ended because the thread had used its CPU time.
    pub exhausted: u64,
    /// Waits beyond the highest number that tekd watches.
    pub too_many_waits: u64,
    /// Waits at the end of the longest chain of holders.
    pub too_deep: u64,
}

impl Counts {
    /// The waits for which no thread was lifted.
    pub fn refused(&self) -> u64 {
        self.not_allowed + self.too_many + self.too_many_waits + self.too_deep
    }
}

/// A thread that is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Holder {
    /// Kernel thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The priority to which it is lifted; `None`: it has its own.
    pub priority: Option<u32>,
    /// For so long.
    pub since_ns: Option<u64>,
    /// Why it is not lifted.
    pub held: Option<String>,
    /// The threads that wait for it, the most urgent first.
    pub waiters: Vec<Link>,
}

/// A thread of a chain of waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Link {
    /// Kernel thread id.
    pub tid: u32,
    /// Its name; empty if it has ended.
    pub name: String,
    /// Its priority, as far as tekd knows.
    pub priority: Option<u32>,
    /// `lock` or `answer`.
    pub because: String,
    /// The address of the lock, in the process of the waiter.
    pub lock: Option<String>,
    /// How long the wait lasts.
    pub since_ns: Option<u64>,
}

impl Reported {
    /// The threads that are lifted now.
    pub fn lifted(&self) -> usize {
        self.threads.iter().filter(|thread| thread.priority.is_some()).count()
    }

    /// The thread that a thread waits for.
    pub fn waits_for(&self, tid: u32) -> Option<u32> {
        let has = |thread: &&Holder| thread.waiters.iter().any(|waiter| waiter.tid == tid);
        self.threads.iter().find(has).map(|thread| thread.tid)
    }

    /// The most urgent thread for which a thread is lifted.
    pub fn lifted_by(&self, tid: u32) -> Option<u32> {
        let is_lifted = |thread: &&Holder| thread.tid == tid && thread.priority.is_some();
        self.threads.iter().find(is_lifted)?.waiters.first().map(|waiter| waiter.tid)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{json, Value};

    /// As tekd reports it: a chain of two locks, and a server that is not lifted.
    pub fn at_work() -> Value {
        json!({
            "on": true, "why": null, "locks": true, "answers": true, "max_wait_ms": 50,
            "budget": "80ms/100ms", "later": 1,
            "counts": {"lifts": 7, "lifted_ns": 2_500_000_000u64, "not_allowed": 3, "too_many": 0,
                       "too_long": 1, "exhausted": 0, "too_many_waits": 2, "too_deep": 4},
            "circles": [],
            "threads": [
                {"tid": 41, "pid": 30, "name": "logger", "priority": 39, "since_ns": 1_200_000,
                 "lifts": 2, "held": null, "waiters": [
                    {"tid": 40, "name": "render", "priority": 40, "because": "lock",
                     "lock": "0x7f10", "since_ns": 1_300_000}]},
                {"tid": 40, "pid": 30, "name": "render", "priority": 39, "since_ns": 1_100_000,
                 "lifts": 1, "held": null, "waiters": [
                    {"tid": 39, "name": "touch", "priority": 40, "because": "lock",
                     "lock": "0x7f20", "since_ns": 1_150_000}]},
                {"tid": 71, "pid": 70, "name": "server", "priority": null, "since_ns": null,
                 "lifts": 0, "held": "it has used its CPU time", "waiters": [
                    {"tid": 39, "name": "touch", "priority": 40, "because": "answer",
                     "lock": null, "since_ns": 9}]},
            ],
        })
    }

    #[test]
    fn each_thread_has_the_next_one_of_its_chain() {
        let reported: Reported = serde_json::from_value(at_work()).unwrap();
        assert_eq!(reported.lifted(), 2);
        assert_eq!((reported.lifted_by(41), reported.lifted_by(40)), (Some(40), Some(39)));
        assert_eq!((reported.lifted_by(71), reported.lifted_by(39)), (None, None));
        assert_eq!((reported.waits_for(40), reported.waits_for(39)), (Some(41), Some(40)));
        assert_eq!(reported.waits_for(41), None);
    }

    #[test]
    fn what_is_not_there_is_empty() {
        let off: Reported = serde_json::from_value(json!({"on": false, "why": "no"})).unwrap();
        assert_eq!(off, Reported { why: Some("no".into()), ..Reported::default() });
    }
}
