// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries all facts about one thread.
use super::facts::{Facts, HeldUp, Kernel, Other, Tek};
use super::kernel;
use super::rules;
use crate::system::{self, cgroup, library, privilege};
use crate::words;
use std::io;
use tek_abi::{
    text, BASE_RESET_ON_FORK, BASE_SAVED, FLAG_ADOPTED, FLAG_MARKED, FLAG_NAMED, HELD_UP_DEADLOCK,
    SCHED_POLICY,
};
use tek_advice::quoted;
use tek_model::{Detail, Device, Error, Functions, Program, Task, Wanted};

/// The most queries for a thread that enters and leaves all the time.
const SAMPLES: usize = 4;

/// Collects the facts. `Err`: there is no such thread (`NotFound`), or /proc is not readable.
pub fn of(tid: u32) -> io::Result<Facts> {
    let detail = Detail::of(tid)?;
    let device = examine(detail.pid, tid)?;
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
fn examine(pid: u32, tid: u32) -> io::Result<Device> {
    let wanted = Wanted {
        pids: vec![pid],
        directories: tek_model::directories(),
        groups: true,
        schedstat: true,
        switches: true,
        modules: true,
        held_up: true,
        uthreads: true,
        ..Wanted::default()
    };
    let overridden = |device: &Device| {
        let mut tasks = device.programs.iter().flat_map(|program| &program.tasks);
        let task = tasks.find(|task| task.stat.tid == tid && task.is_overridden())?;
        task.record.map(|own| own.record.seq)
    };
    let mut device = Device::examine(&wanted)?;
    let mut before = None;
    for _ in 0..SAMPLES {
        let now = overridden(&device);
        if now.is_none() || now == before {
            break;
        }
        before = now;
        device = Device::examine(&wanted)?;
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
    let mut waits = |tid: u32| {
        let wait = program.held_up.iter().find(|wait| wait.tid == tid)?;
        Some(held_up(program, functions, wait, now_ns))
    };
    let tid = task.stat.tid;
    let lifted_by = chain(program, &mut waits, tid, waiter_of);
    let waits_for = chain(program, &mut waits, tid, holder_of);
    let wait = waits(tid);
    let deadlock = deadlock(program, &mut waits, tid);
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
        lifted_by,
        waits_for,
        wait,
        deadlock,
        rule: side.rule,
        base: saved.then(|| (policy_name(side.base_policy.into()), side.base_priority)),
        base_reset_on_fork: saved && side.base_flags & BASE_RESET_ON_FORK != 0,
        ..Tek::default()
    }
}

fn held_up(
    program: &Program,
    functions: &mut Functions,
    wait: &tek_abi::HeldUp,
    now_ns: u64,
) -> HeldUp {
    let modules = &program.modules;
    let object = (wait.object != 0).then(|| {
        let name = functions.name(modules, wait.object);
        name.unwrap_or_else(|| format!("{:#x}", wait.object))
    });
    HeldUp {
        kind: words::inversion(wait.kind),
        object,
        call: functions.call(modules, wait.call),
        for_ns: now_ns.saturating_sub(wait.since_ns),
    }
}

/// The thread for which a thread is lifted.
fn waiter_of(program: &Program, tid: u32) -> Option<u32> {
    let task = program.tasks.iter().find(|task| task.stat.tid == tid)?;
    task.record.map(|own| own.side.lifted_for).filter(|&waiter| waiter != 0 && task.is_fast())
}

/// The thread that is lifted for a thread.
fn holder_of(program: &Program, tid: u32) -> Option<u32> {
    let mut tids = program.tasks.iter().map(|task| task.stat.tid);
    tids.find(|&other| waiter_of(program, other) == Some(tid))
}

/// The threads after this one; they are of one moment only almost, so they may form a circle.
fn chain(
    program: &Program,
    mut wait: impl FnMut(u32) -> Option<HeldUp>,
    tid: u32,
    next: impl Fn(&Program, u32) -> Option<u32>,
) -> Vec<Other> {
    let mut tids = vec![tid];
    while let Some(tid) = next(program, tids[tids.len() - 1]).filter(|tid| !tids.contains(tid)) {
        tids.push(tid);
    }
    tids.into_iter().skip(1).map(|tid| other(program, &mut wait, tid)).collect()
}

fn other(program: &Program, wait: &mut impl FnMut(u32) -> Option<HeldUp>, tid: u32) -> Other {
    Other { tid, name: name_of(program, tid), wait: wait(tid) }
}

fn name_of(program: &Program, tid: u32) -> Option<String> {
    let task = program.tasks.iter().find(|task| task.stat.tid == tid)?;
    Some(task.stat.name.clone())
}

/// The circle in which a thread waits, or that it waits for: the last thread is one of the others,
/// unless the table has no room for all.
fn deadlock(
    program: &Program,
    mut wait: impl FnMut(u32) -> Option<HeldUp>,
    tid: u32,
) -> Vec<Other> {
    let is_of = |one: &&tek_abi::HeldUp, tid| one.tid == tid && one.kind & HELD_UP_DEADLOCK != 0;
    let holder = |tid| program.held_up.iter().find(|one| is_of(one, tid)).map(|one| one.holder);
    let (mut tids, mut last) = (vec![tid], tid);
    while let Some(next) = holder(last) {
        let is_closed = tids.contains(&next);
        tids.push(next);
        if is_closed {
            break;
        }
        last = next;
    }
    if tids.len() == 1 {
        return Vec::new();
    }
    tids.into_iter().map(|tid| other(program, &mut wait, tid)).collect()
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
    fn this_thread_does_not_run_under_tek_and_the_command_for_that_is_shown() {
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
