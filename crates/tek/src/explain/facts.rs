// SPDX-License-Identifier: MIT OR Apache-2.0
//! All facts about one thread.
use super::daemon::Known;
use super::kernel;
use super::kthread::{Follows, WaitsFor};
use super::rules::{self, RuleFact};
use crate::system::{self, cgroup, library, privilege};
use crate::words;
use serde::Serialize;
use std::io;
use tek_abi::{
    text, BASE_RESET_ON_FORK, BASE_SAVED, FLAG_ADOPTED, FLAG_MARKED, FLAG_NAMED, SCHED_POLICY,
};
use tek_advice::quoted;
use tek_model::{Detail, Device, Error, Functions, Program, Task, Wanted};

/// The most queries for a thread that enters and leaves all the time.
const LOOKS: usize = 4;

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

/// Collects the facts. `Err`: there is no such thread (`NotFound`), or /proc is not readable.
pub fn of(tid: u32) -> io::Result<Facts> {
    let detail = Detail::of(tid)?;
    let device = look(detail.pid, tid)?;
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let program = device.programs.first().ok_or_else(gone)?;
    let task = program.tasks.iter().find(|task| task.stat.tid == tid).ok_or_else(gone)?;
    let mut facts = Facts {
        schema: 1,
        tid,
        pid: detail.pid,
        program: program.name.clone(),
        name: task.stat.name.clone(),
        named: task.record.map(|own| own.record.flags & FLAG_NAMED != 0),
        kernel_thread: task.stat.kernel.then(|| kernel::what_is(&task.stat.name).to_owned()),
        guard: !task.stat.kernel && library::is_helper(&task.stat.name),
        uthreads: (!program.workers.is_empty()).then_some(program.uthreads.len()),
        carries: program.workers.iter().position(|place| place.tid == tid),
        age_ns: device.time_ns.saturating_sub(task.stat.start_ns),
        kernel: of_kernel(&detail, task),
        group: task.seat.map(words::group),
        ..Facts::default()
    };
    let mut functions = Functions::default();
    facts.tek = task.record.map(|_| of_tek(program, task, &mut functions, device.time_ns));
    facts.not_known = problems_of(&device.problems, detail.pid);
    // From here on, last, the process's environment is read, because that can block.
    let is_known = task.stat.kernel || facts.guard || facts.uthreads.is_some();
    if facts.tek.is_none() && !is_known {
        facts.not_known.push(without_tek(program, &facts));
    }
    if facts.tek.is_some() {
        let symbol = task
            .record
            .and_then(|own| functions.symbol(&program.modules, own.record.start_routine));
        if let Err(reason) = rules::add(&mut facts, task, symbol.as_deref()) {
            facts.not_known.push(reason);
        }
    }
    Ok(facts)
}

/// Queries a process. The table is read before /proc. If a thread leaves the Fast Region in
/// between, another program seems to have changed its policy. So this counts only if the record is
/// the same at the next query.
fn look(pid: u32, tid: u32) -> io::Result<Device> {
    let wanted = Wanted {
        pids: vec![pid],
        directories: tek_model::directories(),
        groups: true,
        schedstat: true,
        switches: true,
        modules: true,
        uthreads: true,
        ..Wanted::default()
    };
    let overridden = |device: &Device| {
        let mut tasks = device.programs.iter().flat_map(|program| &program.tasks);
        let task = tasks.find(|task| task.stat.tid == tid && task.is_overridden())?;
        task.record.map(|own| own.record.seq)
    };
    let mut device = Device::look(&wanted)?;
    let mut before = None;
    for _ in 0..LOOKS {
        let now = overridden(&device);
        if now.is_none() || now == before {
            break;
        }
        before = now;
        device = Device::look(&wanted)?;
    }
    Ok(device)
}

fn of_kernel(detail: &Detail, task: &Task) -> Kernel {
    let place = cgroup::of_cpu_in(&detail.cgroups);
    let is_weighed = place.as_ref().is_some_and(|(within, group)| within.weighs(group));
    let group = place.map(|(_, directory)| directory);
    Kernel {
        policy: policy_name(task.stat.policy),
        rt_priority: task.stat.rt_priority,
        nice: task.stat.nice,
        state: task.stat.state,
        cpus: detail.cpus.clone(),
        cgroup_rt_runtime_us: group
            .as_ref()
            .and_then(|group| system::number(group.join("cpu.rt_runtime_us"))),
        // Without the final slash of the root group's path.
        cgroup: group.map(|group| group.components().as_path().display().to_string()),
        autogroup: detail
            .autogroup
            .clone()
            .filter(|group| !group.is_empty() && system::autogroup() == Some(true))
            // The kernel makes autogroups only of threads that are in no group with a weight.
            .filter(|_| !is_weighed),
        sys_nice: detail.capabilities & (1 << privilege::SYS_NICE) != 0,
        rtprio_limit: detail.rtprio_limit,
        cpu_ns: task.schedstat.map_or(task.stat.cpu_ns, |times| times.cpu_ns),
        run_delay_ns: task.schedstat.map(|times| times.run_delay_ns),
        voluntary_switches: task.switches.map(|switches| switches.voluntary),
        involuntary_switches: task.switches.map(|switches| switches.involuntary),
    }
}

fn of_tek(program: &Program, task: &Task, functions: &mut Functions, now_ns: u64) -> Tek {
    let Some(own) = task.record else { return Tek::default() };
    let (record, side) = (own.record, own.side);
    let mut name = |address: u64| {
        (address != 0).then(|| {
            let name = functions.name(&program.modules, address);
            name.unwrap_or_else(|| format!("what is at {address:#x}, in a file that is not known"))
        })
    };
    let fast_now_ns = match side.fast_since_ns {
        0 => 0,
        since => now_ns.saturating_sub(since),
    };
    let creator_tid = (side.creator_tid != 0).then_some(side.creator_tid);
    let creator = program.tasks.iter().find(|task| Some(task.stat.tid) == creator_tid);
    let saved = side.base_flags & BASE_SAVED != 0;
    Tek {
        role: (record.role_bytes != 0).then(|| text(&side.role)),
        function: name(record.start_routine),
        creator_tid,
        creator: creator.map(|task| task.stat.name.clone()),
        call_site: name(side.call_site),
        adopted: record.flags & FLAG_ADOPTED != 0,
        group: words::group(record.group()),
        marked: record.flags & FLAG_MARKED != 0,
        fast: task.is_fast(),
        overridden: task.is_overridden(),
        fast_now_ns,
        fast_ns: side.fast_ns.saturating_add(fast_now_ns),
        stays: side.stays,
        overruns: side.overruns,
        priority: (i32::from(record.policy) == SCHED_POLICY && !task.is_overridden())
            .then_some(record.priority),
        reasons: words::reasons(side.reasons),
        rule: side.rule,
        base: saved.then(|| (policy_name(side.base_policy.into()), side.base_priority)),
        base_reset_on_fork: saved && side.base_flags & BASE_RESET_ON_FORK != 0,
        ..Tek::default()
    }
}

fn policy_name(number: u32) -> String {
    match words::policy(number) {
        Some(name) => format!("SCHED_{}", name.to_uppercase()),
        None => format!("policy {number}"),
    }
}

/// The problems with the table of this process.
fn problems_of(problems: &[Error], pid: u32) -> Vec<String> {
    let file = format!("{pid}.table");
    let texts = problems.iter().map(|problem| match std::error::Error::source(problem) {
        Some(source) => format!("{problem}: {source}"),
        None => problem.to_string(),
    });
    texts.filter(|text| text.contains(&file)).collect()
}

fn without_tek(program: &Program, facts: &Facts) -> String {
    // Only a table that was read has the properties of its pages.
    if program.page_bytes != 0 {
        return "its program runs under TEK, but has no record of this thread: either it has never \
                talked to TEK (made by a raw clone(2) or by the C library), or its record is being \
                written: try again"
            .into();
    }
    if facts.not_known.is_empty() && rules::is_preloaded(program.pid) {
        return "what TEK could tell (role, function, creator): libtek.so is in its LD_PRELOAD but \
                not in it: a static, set-user-ID or foreign program, in which TEK cannot ride"
            .into();
    }
    format!(
        "what TEK could tell (role, function, creator): it does not run under TEK, or its table is \
         hidden from you; start it, with its arguments behind: tek run --critical {} -- {}",
        quoted(&facts.name),
        quoted(&facts.program)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_does_not_run_under_tek_and_is_told_how_it_could() {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let facts = of(tid).unwrap();
        assert_eq!((facts.tid, facts.pid), (tid, std::process::id()));
        assert_eq!(facts.kernel.policy, "SCHED_OTHER");
        assert!(facts.tek.is_none() && facts.kernel_thread.is_none());
        assert!(facts.not_known[0].contains("tek run --critical"), "{facts:?}");
    }

    #[test]
    fn a_thread_that_is_not_there_is_not_found() {
        assert_eq!(of(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
