// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user-level thread: from its process's table, because the kernel does not know it.
use super::amounts::time;
use super::describe::Section;
use crate::units::size;
use crate::words;
use serde::Serialize;
use std::io;
use tek_abi::{text, FLAG_MAIN, SCHED_POLICY, STACK_EXPLICIT, STACK_OWN, STACK_UNCLEAN};
use tek_model::{Device, Functions, Program, Uthread, Wanted};

/// A user-level thread: a stable format, to which fields may be added.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    /// Version of this format.
    pub schema: u32,
    /// Always true.
    pub user: bool,
    /// Number in its process.
    pub number: u32,
    /// Process.
    pub pid: u32,
    /// Name of that.
    pub program: String,
    /// Name; `null` if none was set.
    pub name: Option<String>,
    /// Whether it is the first thread.
    pub first: bool,
    /// Time since it began.
    pub age_ns: u64,
    /// `S` while it waits, `R` while it runs or is ready.
    pub state: char,
    /// The object of its wait: a word, as in `tek ps`; `null` if it does not wait.
    pub waits: Option<&'static str>,
    /// The same as the end of a sentence.
    #[serde(skip)]
    pub waits_for: &'static str,
    /// The worker on which it runs, or ran last.
    pub worker: Option<u16>,
    /// Kernel thread that carries that worker.
    pub worker_tid: Option<u32>,
    /// How many workers there are.
    pub workers: usize,
    /// SCHED_*, as it was set.
    pub policy: String,
    /// With it.
    pub priority: i8,
    /// Its role.
    pub role: Option<String>,
    /// Its function.
    pub function: Option<String>,
    /// Number of its creator.
    pub creator: Option<u32>,
    /// The creator's name, if it lives and has one.
    pub creator_name: Option<String>,
    /// The place of the creation in the program.
    pub call_site: Option<String>,
    /// Size of its stack.
    pub stack_bytes: Option<u64>,
    /// The part certainly used, by it or, with `stack_reused`, by an earlier thread.
    pub peak_bytes: Option<u64>,
    /// Used at most.
    pub bound_bytes: Option<u64>,
    /// Whether an earlier thread had the same stack.
    pub stack_reused: bool,
    /// Whether its program chose the size, or gave the memory.
    pub stack_explicit: bool,
}

/// Collects the facts. `Err`: there is no such thread (`NotFound`), or /proc is not readable.
pub fn of(pid: u32, number: u32) -> io::Result<Facts> {
    let wanted = Wanted {
        pids: vec![pid],
        directories: tek_model::directories(),
        modules: true,
        stacks: true,
        uthreads: true,
        ..Wanted::default()
    };
    let device = Device::examine(&wanted)?;
    let program = device.programs.first().ok_or(io::ErrorKind::NotFound)?;
    let find = |number| program.uthreads.iter().find(|uthread| uthread.number() == number);
    let uthread = find(number).ok_or(io::ErrorKind::NotFound)?;
    let creator = Some(uthread.own.side.creator_tid).filter(|&creator| creator != 0);
    Ok(Facts {
        creator,
        creator_name: creator.and_then(find).and_then(Uthread::name),
        age_ns: device.time_ns.saturating_sub(uthread.own.record.start_ns),
        ..reported(program, uthread)
    })
}

fn reported(program: &Program, uthread: &Uthread) -> Facts {
    let (record, side) = (uthread.own.record, uthread.own.side);
    let mut functions = Functions::default();
    let mut name = |address: u64| {
        (address != 0).then(|| {
            let name = functions.name(&program.modules, address);
            name.unwrap_or_else(|| format!("what is at {address:#x}, in a file that is not known"))
        })
    };
    let waits = words::waits(side.waits);
    let stack_bytes = u64::from(record.stack_pages) * u64::from(program.page_bytes);
    Facts {
        schema: 1,
        user: true,
        number: uthread.number(),
        pid: program.pid,
        program: program.name.clone(),
        name: uthread.name(),
        first: record.flags & FLAG_MAIN != 0,
        state: uthread.state(),
        waits: waits.map(|(word, _)| word),
        waits_for: waits.map_or("", |(_, what)| what),
        worker: uthread.worker.map(|worker| worker.number),
        worker_tid: uthread.worker.and_then(|worker| worker.tid),
        workers: program.workers.len(),
        policy: policy(record.policy),
        priority: record.priority,
        role: (record.role_bytes != 0).then(|| text(&side.role)),
        function: name(record.start_routine),
        call_site: name(side.call_site),
        stack_bytes: (stack_bytes != 0).then_some(stack_bytes),
        peak_bytes: uthread.stack.and_then(|stack| stack.peak_bytes),
        bound_bytes: uthread.stack.map(|stack| stack.bound_bytes),
        stack_reused: side.stack_flags & STACK_UNCLEAN != 0,
        stack_explicit: side.stack_flags & (STACK_EXPLICIT | STACK_OWN) != 0,
        ..Facts::default()
    }
}

fn policy(number: u8) -> String {
    match words::policy(number.into()) {
        _ if i32::from(number) == SCHED_POLICY => "SCHED_TEK".into(),
        Some(name) => format!("SCHED_{}", name.to_uppercase()),
        None => format!("policy {number}"),
    }
}

/// The facts in plain sentences.
pub fn describe(facts: &Facts) -> Vec<Section> {
    let mut sections = vec![
        ("Who it is", identity(facts)),
        ("How it runs", runs(facts)),
        ("Its stack", stack(facts)),
    ];
    sections.retain(|(_, paragraphs)| !paragraphs.is_empty());
    sections
}

fn identity(facts: &Facts) -> Vec<String> {
    let Facts { number, pid, program, .. } = facts;
    let name = facts.name.as_deref().unwrap_or(program);
    let which = if facts.first { "the first" } else { "a" };
    let mut reported = vec![format!(
        "{name} [u{number}] is {which} user-level thread of {program} [{pid}], {} old.",
        time(facts.age_ns)
    )];
    if let Some(role) = &facts.role {
        reported.push(format!("Its role: {role}."));
    }
    if let Some(function) = &facts.function {
        reported.push(format!("It runs {function}."));
    }
    if let Some(creator) = facts.creator {
        let name = facts.creator_name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
        let site = facts.call_site.as_ref().map(|site| format!(", at {site}")).unwrap_or_default();
        reported.push(format!("It was created by {name}[u{creator}]{site}."));
    }
    reported
}

fn runs(facts: &Facts) -> Vec<String> {
    let mut reported = vec![match facts.state {
        'S' => format!("It waits {}.", facts.waits_for),
        _ => "It runs, or is ready to and waits for its turn on a worker.".into(),
    }];
    reported.push(match (facts.worker, facts.worker_tid) {
        (None, _) => "It has not run yet.".into(),
        (Some(worker), tid) => {
            let carried = tid
                .map(|tid| format!(", which thread {tid} of the kernel carries"))
                .unwrap_or_default();
            let of = match facts.workers {
                0 | 1 => String::new(),
                count => format!(" of {count}"),
            };
            format!("Its worker, now or when it ran last, is {worker}{of}{carried}.")
        }
    });
    let Facts { policy, priority, .. } = facts;
    reported.push(match policy.as_str() {
        "SCHED_TEK" => format!(
            "It has the policy SCHED_TEK, with priority {priority}: it goes before all threads of \
             the program that have not."
        ),
        _ => format!(
            "Its policy is {policy}, its priority {priority}: that counts among the threads of the \
             program, with --sched fifo."
        ),
    });
    reported
}

fn stack(facts: &Facts) -> Vec<String> {
    let Some(bytes) = facts.stack_bytes else { return Vec::new() };
    let chosen = if facts.stack_explicit { ", as its program chose" } else { "" };
    let mut reported = vec![format!("It has {} of stack{chosen}.", size(bytes))];
    let by = match facts.stack_reused {
        true => "it or an earlier thread on the same stack",
        false => "it",
    };
    reported.push(match (facts.peak_bytes, facts.bound_bytes) {
        (Some(peak), Some(bound)) => {
            format!("Of that {by} used {} certainly, {} at most.", size(peak), size(bound))
        }
        (None, Some(bound)) => format!("Of that {by} used {} at most.", size(bound)),
        _ => "How much of it was used is not known: you may not look into the process.".into(),
    });
    reported
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch() -> Facts {
        Facts {
            number: 3,
            pid: 12,
            program: "fridge".into(),
            name: Some("touch".into()),
            age_ns: 10_000_000_000,
            state: 'S',
            waits: Some("file"),
            waits_for: "for a file or a socket",
            worker: Some(1),
            worker_tid: Some(14),
            workers: 2,
            policy: "SCHED_TEK".into(),
            role: Some("touch input".into()),
            function: Some("touch_run".into()),
            creator: Some(1),
            stack_bytes: Some(8 << 20),
            peak_bytes: Some(5 << 10),
            bound_bytes: Some(8 << 10),
            stack_reused: true,
            ..Facts::default()
        }
    }

    fn text(facts: &Facts) -> String {
        describe(facts)
            .into_iter()
            .flat_map(|(_, reported)| reported)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn a_user_level_thread_has_its_worker_its_policy_and_its_stack() {
        let text = text(&touch());
        for part in [
            "touch [u3] is a user-level thread of fridge [12], 10.00 s old.",
            "Its role: touch input.",
            "It runs touch_run.",
            "created by [u1].",
            "It waits for a file or a socket.",
            "is 1 of 2, which thread 14 of the kernel carries.",
            "SCHED_TEK, with priority 0: it goes before",
            "It has 8.0M of stack.",
            "it or an earlier thread on the same stack used 5.0K certainly, 8.0K at most.",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let facts = Facts { program: "x".into(), policy: policy(0), ..Facts::default() };
        let text = text(&facts);
        assert!(text.contains("It has not run yet.") && text.contains("SCHED_OTHER"), "{text}");
        assert!(!text.contains("stack") && !text.contains("created"), "{text}");
        assert_eq!([policy(84), policy(99)], ["SCHED_TEK", "policy 99"]);
    }

    #[test]
    fn a_thread_that_is_not_there_is_not_found() {
        let error = of(std::process::id(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
