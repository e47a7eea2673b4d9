// SPDX-License-Identifier: MIT OR Apache-2.0
//! The critical path, as it is reported.
use super::critical::{self, Step, What};
use super::parts::Parts;
use super::read::RawThread;
use super::report::{CriticalPath, Phase, Spent, Thread};
use super::times::Times;
use std::collections::HashMap;
use tek_abi::{PROFILE_ALLOC, PROFILE_FILE, PROFILE_IDLE, PROFILE_SLEEP};

/// Phases of the critical path shorter than this share of it are reported together.
const SHORT_PHASE: f64 = 0.02;

/// The critical path of a profile with these threads.
pub fn of(times: &Times<'_>, reported: &[Thread]) -> Option<CriticalPath> {
    let threads: Vec<_> = times.raw.threads.iter().map(|raw| thread(times, raw)).collect();
    // The thread that ended last; of several the first thread.
    let last = (0..threads.len()).max_by_key(|&at| (threads[at].end, std::cmp::Reverse(at)))?;
    let phases = phases(&critical::path(&threads, last), &delayed(reported));
    let role = |thread: usize| {
        let found = reported.iter().find(|reported| reported.number == thread);
        found.map_or_else(|| "?".to_owned(), |found| found.role.clone())
    };
    let mut length_ns = 0u64;
    let mut spent = Spent::default();
    let mut roles: HashMap<String, u64> = HashMap::new();
    for phase in &phases {
        let span = phase.to_ns - phase.from_ns;
        length_ns = length_ns.saturating_add(span);
        spent += phase.spent;
        let of_role = roles.entry(role(phase.thread)).or_default();
        *of_role = of_role.saturating_add(span);
    }
    let mut roles: Vec<_> = roles.into_iter().collect();
    tek_sort::by(&mut roles, |a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut phases = together(phases, (length_ns as f64 * SHORT_PHASE) as u64);
    for phase in &mut phases {
        phase.role = if phase.changes > 0 { "(several)".to_owned() } else { role(phase.thread) };
    }
    Some(CriticalPath { length_ns, spent, roles, phases })
}

/// The facts of a thread that the path needs.
fn thread(times: &Times<'_>, raw: &RawThread) -> critical::Thread {
    let index = |number: u32| (number as usize).checked_sub(1);
    let moment = |ticks: u64| times.scale.moment(ticks);
    let thread = &raw.thread;
    let waits = raw.waits.iter().map(|wait| critical::Wait {
        begin: moment(wait.begin_ticks),
        end: moment(wait.end_ticks),
        waker: index(wait.waker).map(|waker| (waker, moment(wait.released_ticks))),
        is_idle: wait.kind == PROFILE_SLEEP,
        file: times.scale.span(wait.file_ticks),
        alloc: times.scale.span(wait.alloc_ticks),
    });
    let mut waits: Vec<_> = waits.collect();
    // The wait in which the process ended.
    if thread.end_ticks == 0 && thread.is_waiting != 0 && thread.inside != PROFILE_FILE {
        waits.push(critical::Wait {
            begin: moment(thread.since_ticks),
            end: times.end,
            is_idle: thread.inside == PROFILE_IDLE,
            file: times.scale.span(thread.ticks[PROFILE_FILE as usize]),
            alloc: times.scale.span(thread.ticks[PROFILE_ALLOC as usize]),
            waker: None,
        });
    }
    tek_sort::by_key(&mut waits, |wait| wait.end);
    let is_there = thread.begin_ticks != 0;
    critical::Thread {
        begin: if is_there { moment(thread.begin_ticks) } else { 0 },
        end: if is_there { times.end_of(thread) } else { 0 },
        creator: index(thread.creator).map(|identity| (identity, moment(thread.created_ticks))),
        waits,
        file: times.in_part(thread, PROFILE_FILE),
        alloc: times.in_part(thread, PROFILE_ALLOC),
    }
}

/// By the number of a thread: the share of its ready time in which it did not run.
fn delayed(reported: &[Thread]) -> HashMap<usize, f64> {
    let share = |thread: &Thread| {
        let Parts { work, serial, file, allocator, delay, .. } = thread.parts;
        let ready = [work, serial, file, allocator, delay];
        let ready = ready.into_iter().fold(0u64, u64::saturating_add);
        (thread.number, delay as f64 / (ready as f64).max(1.0))
    };
    reported.iter().map(share).collect()
}

/// Consecutive steps of the same thread are a phase. Roles are not known here.
fn phases(steps: &[Step], delayed: &HashMap<usize, f64>) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    for step in steps {
        let number = step.thread + 1;
        let spent = spent(step, *delayed.get(&number).unwrap_or(&0.0));
        match phases.last_mut() {
            Some(phase) if phase.thread == number => {
                phase.to_ns = step.to;
                phase.spent += spent;
            }
            _ => phases.push(Phase {
                thread: number,
                role: String::new(),
                from_ns: step.from,
                to_ns: step.to,
                spent,
                changes: 0,
            }),
        }
    }
    phases
}

/// The split of a step of a thread with this share of delay in its ready time.
fn spent(step: &Step, delayed: f64) -> Spent {
    let span = step.to - step.from;
    match step.what {
        What::Does { file, alloc } => {
            // Short calls have no delay: work has it, and only the rest is in files.
            let delay = ((span as f64 * delayed) as u64).min(span - alloc);
            let file = file.min(span - alloc - delay);
            Spent {
                work_ns: span - alloc - delay - file,
                file_ns: file,
                allocator_ns: alloc,
                delay_ns: delay,
                ..Spent::default()
            }
        }
        What::Waits | What::Starts => Spent { sync_ns: span, ..Spent::default() },
        What::Idle => Spent { idle_ns: span, ..Spent::default() },
    }
}

/// Merges consecutive phases that are too short to be read one by one.
fn together(phases: Vec<Phase>, short: u64) -> Vec<Phase> {
    let mut reported: Vec<Phase> = Vec::new();
    let mut last_was_short = false;
    for phase in phases {
        let is_short = phase.to_ns - phase.from_ns < short;
        match reported.last_mut() {
            Some(last) if is_short && last_was_short => {
                last.to_ns = phase.to_ns;
                last.spent += phase.spent;
                last.changes += 1;
            }
            _ => reported.push(phase),
        }
        last_was_short = is_short;
    }
    reported
}
