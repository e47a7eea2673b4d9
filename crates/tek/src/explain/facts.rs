// SPDX-License-Identifier: MIT OR Apache-2.0
//! All facts about one thread, as values.
use super::daemon::Known;
use super::kthread::{Follows, WaitsFor};
use serde::Serialize;

/// A thread: a stable format, to which fields may be added.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    /// Version of this format.
    pub schema: u32,
    /// Kernel thread id.
    pub tid: u32,
    /// Process.
    pub pid: u32,
    /// Name of that.
    pub program: String,
    /// Name.
    pub name: String,
    /// Whether the name was set for this very thread; `null` without TEK.
    pub named: Option<bool>,
    /// The purpose of a kernel thread, as far as known.
    pub kernel_thread: Option<String>,
    /// Whether it is one of TEK's own, which watches the budgets or the stacks of its process.
    pub guard: bool,
    /// How many user-level threads its program has; `null`: it has no engine.
    pub uthreads: Option<usize>,
    /// The worker of those that it carries.
    pub carries: Option<usize>,
    /// Time since it began.
    pub age_ns: u64,
    /// The kernel's values for it.
    pub kernel: Kernel,
    /// The contents of its table; `null` if it does not run under TEK.
    pub tek: Option<Tek>,
    /// The group to which its control group belongs: `tek groups`.
    pub group: Option<String>,
    /// The report of tekd; `null` if tekd does not run.
    pub daemon: Option<Known>,
    /// The waiters of a kernel thread; `null` for other threads.
    pub follows: Option<Follows>,
    /// The kernel threads for which it waits, as far as tekd knows.
    pub waits_for: Vec<WaitsFor>,
    /// The missing facts, and the cure.
    pub not_known: Vec<String>,
}

/// The kernel's values for a thread.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Kernel {
    /// SCHED_*.
    pub policy: String,
    /// Real-time priority; 0: none.
    pub rt_priority: u32,
    /// Nice value, which counts with the fair policies.
    pub nice: i8,
    /// State letter of proc(5).
    pub state: char,
    /// CPUs that it may run on.
    pub cpus: String,
    /// Directory of its cpu control group.
    pub cgroup: Option<String>,
    /// Real-time run-time of the control group a period, in us; `null` where there is no such
    /// limit.
    pub cgroup_rt_runtime_us: Option<i64>,
    /// Its autogroup; `null` where the kernel makes none.
    pub autogroup: Option<String>,
    /// Whether its process may use any real-time priority.
    pub sys_nice: bool,
    /// RLIMIT_RTPRIO of its process.
    pub rtprio_limit: Option<u64>,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time that it was ready and waited for a CPU; `null` where the kernel does not count it.
    pub run_delay_ns: Option<u64>,
    /// How often it left its CPU to wait.
    pub voluntary_switches: Option<u64>,
    /// How often it left because another thread was to run.
    pub involuntary_switches: Option<u64>,
}

/// TEK's knowledge and actions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tek {
    /// Its role.
    pub role: Option<String>,
    /// Its function.
    pub function: Option<String>,
    /// The thread that created it.
    pub creator_tid: Option<u32>,
    /// The creator's name, if it lives.
    pub creator: Option<String>,
    /// The place of the creation in the program.
    pub call_site: Option<String>,
    /// Whether TEK did not see its creation and adopted it later.
    pub adopted: bool,
    /// Its group.
    pub group: String,
    /// Whether it is marked time-critical.
    pub marked: bool,
    /// Whether it is in the Fast Region.
    pub fast: bool,
    /// Whether TEK put it there, and another program has set its policy since.
    pub overridden: bool,
    /// For how long now.
    pub fast_now_ns: u64,
    /// The total time in the Fast Region.
    pub fast_ns: u64,
    /// How often it entered.
    pub stays: u32,
    /// How often the guard thread sent it back.
    pub overruns: u32,
    /// Its SCHED_TEK priority, if it has that policy.
    pub priority: Option<i8>,
    /// TEK_WHY_*, without the prefix.
    pub reasons: Vec<&'static str>,
    /// The thread for which it is lifted; of several the most critical one. Then the thread for
    /// which that one is lifted, and so on.
    pub lifted_by: Vec<Other>,
    /// The thread that is lifted because this one waits for it. Then the thread for which that one
    /// waits, and so on.
    pub waits_for: Vec<Other>,
    /// What it waits for, if it is time-critical by itself, and the first one of `waits_for` is
    /// not; or if it waits in a deadlock.
    pub wait: Option<HeldUp>,
    /// A deadlock in which it waits, or that it waits for: this thread, the thread for which it
    /// waits, and so on, up to one that is listed before, or of a long deadlock the first ones.
    /// Empty: none that TEK knows.
    pub deadlock: Vec<Other>,
    /// Number of the rule behind the reason `rule`; 0: TEK_CRITICAL, or not that reason.
    pub rule: u8,
    /// The entry of TEK_CRITICAL that its name fits, as GLOB[=NICE], if that is behind the reason
    /// `rule`.
    pub critical_pattern: Option<String>,
    /// The values that are restored when it leaves the Fast Region: SCHED_*, and a real-time
    /// priority.
    pub base: Option<(String, u8)>,
    /// Whether reset-on-fork is restored.
    pub base_reset_on_fork: bool,
    /// The rules that hold for it, with what they set.
    pub rules: Vec<RuleFact>,
    /// Its budget: from a rule, or the one that its process was started with.
    pub budget: Option<String>,
}

/// Another thread of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Other {
    /// Kernel thread id.
    pub tid: u32,
    /// Name; `null`: it has ended.
    pub name: Option<String>,
    /// What it waits for, if it is time-critical by itself, or in a deadlock.
    pub wait: Option<HeldUp>,
}

/// The wait of a time-critical thread for a thread that is not, or is lifted only, or a wait in a
/// deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeldUp {
    /// `mutex`, `rwlock`, `condition` (its mutex), `join`.
    pub kind: &'static str,
    /// The lock: its symbol, or its address; `null` for a join.
    pub object: Option<String>,
    /// The call that waits, as `function (file.c:88)`.
    pub call: Option<String>,
    /// For how long it has waited so far.
    pub for_ns: u64,
}

/// A rule behind something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleFact {
    /// Its number in TEK_RULES, from 1.
    pub number: usize,
    /// Where it comes from.
    pub source: String,
    /// The rule.
    pub text: String,
    /// The settings of the thread that it decided.
    pub sets: Vec<&'static str>,
}
