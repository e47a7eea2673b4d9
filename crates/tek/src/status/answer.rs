// SPDX-License-Identifier: MIT OR Apache-2.0
//! The status of tekd. Fields may be added to it.
use super::kthreads::Reported as Kthreads;
use super::lifts::Reported as Lifts;
use anyhow::{ensure, Context};
use serde::Deserialize;
use serde_json::Value;

/// The version that this tek understands.
const SCHEMA: u64 = 1;

/// All of it.
#[derive(Debug, Deserialize)]
pub struct Status {
    /// Of tekd.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it was started: RFC 3339.
    pub since: String,
    /// Its domain: `device`, `cgroup:PATH`, `pid:N`.
    pub domain: Vec<String>,
    /// `normal`, or `responsiveness` while a thread is Fast.
    pub mode: String,
    /// Threads that are Fast by it.
    pub fast: Vec<Fast>,
    /// Processes that may have such threads.
    pub clients: Vec<Client>,
    /// Requests that it refused lately, the last first.
    pub refused: Vec<Refusal>,
    /// Threads that it sent back lately, the last first.
    pub overran: Vec<Overrun>,
    /// The thread that notices when the fair class does not run.
    pub canary: Option<Canary>,
    /// How time-critical threads come before noncritical ones: `rt` or `fair`.
    #[serde(default)]
    pub backend: Option<String>,
    /// Why it is that one.
    #[serde(default)]
    pub backend_why: Option<String>,
    /// The groups that share the CPUs.
    #[serde(default)]
    pub groups: Option<Groups>,
    /// Why there are none.
    #[serde(default)]
    pub groups_why: Option<String>,
    /// Threads of the kernel.
    #[serde(default)]
    pub kthreads: Option<Kthreads>,
    /// Threads of programs that are lifted for their waiters.
    #[serde(default)]
    pub inherit: Option<Lifts>,
    /// Real-time threads that are not critical, and wait below those that are.
    #[serde(default)]
    pub lowered: Vec<Lowered>,
}

/// A thread that waits.
#[derive(Debug, Deserialize)]
pub struct Lowered {
    /// Kernel thread id.
    pub tid: u32,
    /// Process.
    pub pid: u32,
    /// Name of that.
    pub program: String,
    /// Name of the thread.
    pub name: String,
    /// Its own policy: `SCHED_FIFO`.
    pub policy: String,
    /// And its real-time priority.
    pub priority: u32,
    /// Its priority meanwhile.
    pub lowered_to: u32,
}

/// The groups, and where they are.
#[derive(Debug, Deserialize)]
pub struct Groups {
    /// For people.
    pub place: String,
    /// Percent of the CPUs that the Lazy Region reserves under the backend `fair`.
    pub floor_percent: u64,
    /// All of them.
    pub groups: Vec<Group>,
    /// Threads that could not be moved.
    pub left: u64,
}

/// A group.
#[derive(Debug, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// As cpu.weight has it.
    pub weight: u64,
    /// Its directory.
    pub path: String,
    /// Its threads.
    pub threads: u64,
    /// Processes; `null`: the kernel does not report them.
    pub processes: Option<u64>,
}

/// A thread that is Fast.
#[derive(Debug, Deserialize)]
pub struct Fast {
    /// Kernel thread id.
    pub tid: u32,
    /// Process.
    pub pid: u32,
    /// Name of that.
    pub program: String,
    /// Name of the thread.
    pub name: String,
    /// User.
    pub uid: u32,
    /// Of SCHED_TEK.
    pub priority: i32,
    /// In force; 0: its own was no lower.
    pub rt_priority: u32,
    /// The age of the request, in ms.
    pub since_ms: u64,
    /// The remaining time, in ms; `null`: until it leaves.
    pub until_ms: Option<u64>,
    /// Process that asked for it.
    pub asked_by: u32,
    /// By which grant.
    pub why: String,
}

/// A process with a grant.
#[derive(Debug, Deserialize)]
pub struct Client {
    /// Process.
    pub pid: u32,
    /// Name of it.
    pub program: String,
    /// User.
    pub uid: u32,
    /// `switch`, or `limit`.
    pub grant: String,
    /// Its threads that are Fast.
    pub fast: u64,
    /// The most that can be.
    pub quota: u64,
}

/// A request that was refused.
#[derive(Debug, Deserialize)]
pub struct Refusal {
    /// The process that asked.
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// Name of the process.
    pub program: String,
    /// How long ago.
    pub ago_ms: u64,
    /// Why it was refused.
    pub why: String,
}

/// A thread that used more CPU time than its budget.
#[derive(Debug, Deserialize)]
pub struct Overrun {
    /// Kernel thread id.
    pub tid: u32,
    /// Process.
    pub pid: u32,
    /// How long ago.
    pub ago_ms: u64,
    /// The CPU time that it had used
    pub used_ms: u64,
    /// in a window of that length.
    pub window_ms: u64,
    /// For so long it could not come back.
    pub banned_ms: u64,
}

/// The canary.
#[derive(Debug, Deserialize)]
pub struct Canary {
    /// The longest time for which it may be kept from running.
    pub limit_ms: u64,
    /// How often all threads were sent back to normal.
    pub demoted: u64,
}

impl Status {
    /// Takes it from JSON.
    pub fn deserialize_from(answered: &Value) -> anyhow::Result<Self> {
        let schema = answered.get("schema").and_then(Value::as_u64);
        ensure!(
            schema == Some(SCHEMA),
            "the answer of tekd has another format than this tek knows ({schema:?} and not \
             {SCHEMA}): use tek and tekd of one version"
        );
        Self::deserialize(answered).context("the answer of tekd is not complete")
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// A daemon at work.
    pub fn at_work() -> Value {
        json!({
            "schema": 1, "version": "0.1.0", "pid": 7, "since": "2026-11-22T09:30:00Z",
            "domain": ["cgroup:/appliance", "pid:815"], "mode": "responsiveness", "later": {},
            "fast": [
                {"tid": 816, "pid": 815, "program": "fridge", "name": "gas\u{1b}[2J", "uid": 0,
                 "priority": -3, "rt_priority": 32, "since_ms": 65_000, "until_ms": null,
                 "asked_by": 815, "why": "[[grant]] 2", "more": 1},
                {"tid": 817, "pid": 815, "program": "fridge", "name": "door", "uid": 0,
                 "priority": 0, "rt_priority": 29, "since_ms": 12, "until_ms": 4_988,
                 "asked_by": 900, "why": "tek critical"},
            ],
            "clients": [
                {"pid": 815, "program": "fridge", "uid": 0, "grant": "switch", "fast": 2,
                 "quota": 8},
                {"pid": 920, "program": "player", "uid": 54321, "grant": "limit", "fast": 0,
                 "quota": 4},
            ],
            "refused": [{"pid": 930, "uid": 54321, "program": "miner", "ago_ms": 2_500,
                         "why": "no grant names this user"}],
            "overran": [{"tid": 818, "pid": 815, "ago_ms": 400, "used_ms": 812,
                         "window_ms": 1000, "banned_ms": 2000}],
            "canary": {"limit_ms": 1000, "demoted": 0},
            "backend": "rt", "groups": null, "groups_why": "tekd.toml has no [groups]",
            "kthreads": {"on": false, "why": "tekd.toml has no [kthreads]"},
            "lowered": [{"tid": 941, "pid": 940, "program": "logger", "name": "flush",
                         "policy": "SCHED_FIFO", "priority": 60, "lowered_to": 9}],
        })
    }

    #[test]
    fn what_is_not_known_yet_is_passed_over() {
        let status = Status::deserialize_from(&at_work()).unwrap();
        assert_eq!((status.fast.len(), status.clients[1].quota), (2, 4));
        assert_eq!((status.fast[0].until_ms, status.fast[1].until_ms), (None, Some(4988)));
    }

    #[test]
    fn another_format_and_half_of_one_are_errors_with_the_reason() {
        let error = |answered: Value| Status::deserialize_from(&answered).unwrap_err();
        assert!(error(json!({"schema": 2})).to_string().contains("tek and tekd of one version"));
        assert!(error(json!([])).to_string().contains("tek and tekd of one version"));
        assert_eq!(error(json!({"schema": 1})).to_string(), "the answer of tekd is not complete");
        let mut wrong = at_work();
        wrong["fast"][0]["tid"] = json!(-1);
        assert_eq!(error(wrong).to_string(), "the answer of tekd is not complete");
    }
}
