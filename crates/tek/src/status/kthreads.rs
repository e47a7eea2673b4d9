// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of tekd on kernel threads: a part of its status. Fields may be added to it.
use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Reported {
    /// Whether they follow the priorities of their waiters.
    pub on: bool,
    /// If not, why: the end of a sentence.
    pub why: Option<String>,
    /// `weighted` or `plain`.
    pub method: Option<String>,
    /// How long a waiter still counts after its wait has ended, in ms.
    pub linger_ms: u64,
    /// Classes that are left alone.
    pub off: Vec<String>,
    /// Patterns for names of threads that are left alone.
    pub protected: Vec<String>,
    /// The dependencies that can be known on this kernel.
    pub dependencies: Vec<Dependency>,
    /// The threads for which a critical thread waits or waited.
    pub threads: Vec<Kthread>,
    /// The threads that must come before one of these, and were raised with it.
    pub raised_along: Vec<u32>,
    /// Since tekd began.
    pub counts: Counts,
    /// Since tekd began.
    pub reaction_ns: Reaction,
}

/// A kind of relations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// Whether it is known.
    pub on: bool,
    /// Why not, or its limitations.
    #[serde(default)]
    pub why: String,
}

/// A thread of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Kthread {
    /// Kernel thread id.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// As tekd.toml calls it.
    pub class: String,
    /// `None`: it is left alone.
    pub weight: Option<f64>,
    /// The share of the memory on the LRU lists that belongs to the waiters; 1 except for kswapd.
    pub ratio: f64,
    /// The mean of the waiters' priorities.
    pub mean: Option<f64>,
    /// The highest of them.
    pub highest: Option<u32>,
    /// The real-time priority that tekd gave it; `None`: it has its own.
    pub priority: Option<u32>,
    /// Its own policy and priority, if tekd queried them.
    pub usual: Option<Usual>,
    /// Why its priority differs from the computed one.
    pub held: Option<String>,
    /// For so long it has had a priority of its waiters.
    pub since_ms: Option<u64>,
    /// How often it got such a priority.
    pub boosts: u64,
    /// The total time with such a priority.
    pub boosted_ms: u64,
    /// The function of the work that a thread waits for.
    pub work: Option<String>,
    /// R(k): its waiters.
    pub members: Vec<Member>,
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Usual {
    /// The kernel's number of the policy.
    pub policy: u32,
    /// Real-time priority; 0: none.
    #[serde(default)]
    pub priority: u32,
    /// Nice value.
    #[serde(default)]
    pub nice: i32,
}

/// A task that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Member {
    /// Kernel thread id.
    pub tid: u32,
    /// Name; empty if it has ended.
    pub name: String,
    /// The priority that counts.
    pub priority: u32,
    /// How often it is in R(k): once for each file, work or request.
    pub times: u64,
    /// `its write to vda`.
    pub waits_for: Option<String>,
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Counts {
    /// Beginnings and ends of relations, and the like.
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Priorities that were changed.
    pub changes: u64,
    /// Changes that were dropped, because there were too many.
    pub dropped: u64,
    /// Pauses of the events of storage, which used too much CPU time.
    pub storage_pauses: u64,
}

/// From the event to the changed priority, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Reaction {
    /// Median.
    pub p50: u64,
    /// 99 of 100 were no longer than this.
    pub p99: u64,
    /// The longest.
    pub max: u64,
    /// How many there were.
    pub n: u64,
}

impl Reported {
    /// How many have a priority other than their own.
    pub fn boosted(&self) -> usize {
        self.threads.iter().filter(|thread| thread.priority.is_some()).count()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{json, Value};

    /// As tekd reports it: a worker that writes files of two back, one that is held, one at rest.
    pub fn at_work() -> Value {
        json!({
            "on": true, "why": null, "method": "weighted", "linger_ms": 20, "later": {},
            "off": ["irq"], "protected": ["kworker/1:*"],
            "dependencies": [
                {"name": "workers", "on": true, "why": ""},
                {"name": "page cache", "on": false, "why": "this kernel has not the tracepoint x"},
                {"name": "reclaim", "on": true, "why": "kcompactd is not followed: no y"},
            ],
            "threads": [
                {"tid": 45, "name": "kworker/0:1", "class": "writeback", "weight": 0.8,
                 "ratio": 1.0, "mean": 15.0, "highest": 15, "priority": 12,
                 "usual": {"policy": 0, "priority": 0, "nice": 0}, "held": null,
                 "since_ms": 1500, "boosts": 7, "boosted_ms": 4200, "work": "wb_workfn",
                 "members": [
                    {"tid": 812, "name": "player", "priority": 15, "times": 2,
                     "waits_for": "its write to vda"},
                    {"tid": 77, "name": "net\u{1b}[2J", "priority": 15, "times": 1,
                     "waits_for": "its work flush_to_ldisc"}]},
                {"tid": 57, "name": "kswapd0", "class": "kswapd", "weight": 0.8, "ratio": 0.3,
                 "mean": 50.0, "highest": 50, "priority": null, "usual": null,
                 "held": "too many changes a second", "boosts": 0, "boosted_ms": 0,
                 "work": null, "members": [
                    {"tid": 812, "name": "player", "priority": 50, "times": 1,
                     "waits_for": "free memory"}]},
                {"tid": 46, "name": "kworker/1:0", "class": "worker", "weight": null,
                 "ratio": 1.0, "mean": null, "highest": null, "priority": null,
                 "usual": {"policy": 0, "priority": 0, "nice": -20}, "held": null,
                 "boosts": 3, "boosted_ms": 9000, "work": null, "members": []},
            ],
            "raised_along": [16],
            "counts": {"events": 4000, "lost": 0, "changes": 14, "dropped": 2,
                       "storage_pauses": 1},
            "reaction_ns": {"p50": 12_000, "p99": 48_000, "max": 90_000, "n": 7},
        })
    }

    /// The same, read.
    pub fn reported() -> Reported {
        serde_json::from_value(at_work()).unwrap()
    }

    #[test]
    fn what_is_not_known_yet_is_passed_over_and_what_is_not_there_is_empty() {
        assert_eq!((reported().boosted(), reported().threads[0].members.len()), (1, 2));
        let off: Reported = serde_json::from_value(json!({"on": false, "why": "no"})).unwrap();
        assert_eq!(off, Reported { why: Some("no".into()), ..Reported::default() });
    }
}
