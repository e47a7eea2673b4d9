// SPDX-License-Identifier: MIT OR Apache-2.0
//! The critical path, as it is told.
use super::critical::{self, What};
use super::make::Maker;
use super::parts::Parts;
use super::report::{CriticalPath, Phase, Thread};
use std::collections::HashMap;
use tek_abi::{PROFILE_ALLOC, PROFILE_FILE, PROFILE_IDLE, PROFILE_SLEEP};

/// Phases of the critical path shorter than this share of it are told together.
const SHORT_PHASE: f64 = 0.02;

/// That of a profile with these threads.
pub fn of(maker: &Maker<'_>, told: &[Thread]) -> Option<CriticalPath> {
    let index = |number: u32| (number as usize).checked_sub(1);
    let moment = |ticks: u64| maker.scale.moment(ticks);
    let threads: Vec<_> = maker
        .raw
        .threads
        .iter()
        .map(|raw| {
            let thread = &raw.thread;
            let waits = raw.waits.iter().map(|wait| critical::Wait {
                begin: moment(wait.begin_ticks),
                end: moment(wait.end_ticks),
                waker: index(wait.waker).map(|waker| (waker, moment(wait.released_ticks))),
                is_idle: wait.kind == PROFILE_SLEEP,
                file: maker.scale.span(wait.file_ticks),
                alloc: maker.scale.span(wait.alloc_ticks),
            });
            let mut waits: Vec<_> = waits.collect();
            // The wait that the process ended in.
            if thread.end_ticks == 0 && thread.is_waiting != 0 && thread.inside != PROFILE_FILE {
                waits.push(critical::Wait {
                    begin: moment(thread.since_ticks),
                    end: maker.end,
                    is_idle: thread.inside == PROFILE_IDLE,
                    file: maker.scale.span(thread.ticks[PROFILE_FILE as usize]),
                    alloc: maker.scale.span(thread.ticks[PROFILE_ALLOC as usize]),
                    waker: None,
                });
            }
            waits.sort_by_key(|wait| wait.end);
            let is_there = thread.begin_ticks != 0;
            critical::Thread {
                begin: if is_there { moment(thread.begin_ticks) } else { 0 },
                end: if is_there { maker.end_of(thread) } else { 0 },
                creator: index(thread.creator).map(|who| (who, moment(thread.created_ticks))),
                waits,
                file: maker.in_part(thread, PROFILE_FILE),
                alloc: maker.in_part(thread, PROFILE_ALLOC),
            }
        })
        .collect();
    // Who ended last; of several the first thread.
    let last = (0..threads.len()).max_by_key(|&at| (threads[at].end, std::cmp::Reverse(at)))?;
    let steps = critical::path(&threads, last);
    let role = |thread: usize| {
        let found = told.iter().find(|told| told.number == thread + 1);
        found.map_or_else(|| "?".to_owned(), |found| found.role.clone())
    };
    let mut path = CriticalPath {
        length_ns: 0,
        work_ns: 0,
        file_ns: 0,
        allocator_ns: 0,
        sync_ns: 0,
        delay_ns: 0,
        idle_ns: 0,
        roles: Vec::new(),
        phases: Vec::new(),
    };
    let delayed: HashMap<usize, f64> = told
        .iter()
        .map(|told| {
            let Parts { work, serial, file, allocator, delay, .. } = told.parts;
            let ready = [work, serial, file, allocator, delay];
            let ready = ready.into_iter().fold(0u64, u64::saturating_add);
            (told.number, delay as f64 / (ready as f64).max(1.0))
        })
        .collect();
    let mut by_thread: HashMap<usize, u64> = HashMap::new();
    let mut phases: Vec<Phase> = Vec::new();
    for step in &steps {
        let span = step.to - step.from;
        let of_thread = by_thread.entry(step.thread).or_default();
        *of_thread = of_thread.saturating_add(span);
        if phases.last().is_none_or(|phase| phase.thread != step.thread + 1) {
            phases.push(Phase::begin(step.thread + 1, String::new(), step.from));
        }
        if let Some(phase) = phases.last_mut() {
            phase.to_ns = step.to;
            match step.what {
                What::Does { file, alloc } => {
                    let share = delayed.get(&(step.thread + 1)).unwrap_or(&0.0);
                    // What is short has no delay in it: work has it, and only the rest lies in files.
                    let delay = ((span as f64 * share) as u64).min(span - alloc);
                    let file = file.min(span - alloc - delay);
                    phase.file_ns = phase.file_ns.saturating_add(file);
                    phase.allocator_ns = phase.allocator_ns.saturating_add(alloc);
                    phase.work_ns = phase.work_ns.saturating_add(span - alloc - delay - file);
                    phase.delay_ns = phase.delay_ns.saturating_add(delay);
                }
                What::Waits | What::Starts => phase.sync_ns = phase.sync_ns.saturating_add(span),
                What::Idle => phase.idle_ns = phase.idle_ns.saturating_add(span),
            }
        }
    }
    for phase in &phases {
        path.length_ns = path.length_ns.saturating_add(phase.to_ns - phase.from_ns);
        path.work_ns = path.work_ns.saturating_add(phase.work_ns);
        path.file_ns = path.file_ns.saturating_add(phase.file_ns);
        path.allocator_ns = path.allocator_ns.saturating_add(phase.allocator_ns);
        path.sync_ns = path.sync_ns.saturating_add(phase.sync_ns);
        path.delay_ns = path.delay_ns.saturating_add(phase.delay_ns);
        path.idle_ns = path.idle_ns.saturating_add(phase.idle_ns);
    }
    let mut by_role: HashMap<String, u64> = HashMap::new();
    for (thread, span) in by_thread {
        let of_role = by_role.entry(role(thread)).or_default();
        *of_role = of_role.saturating_add(span);
    }
    path.roles = by_role.into_iter().collect();
    path.roles.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    path.phases = together(phases, (path.length_ns as f64 * SHORT_PHASE) as u64);
    for phase in &mut path.phases {
        phase.role =
            if phase.changes > 0 { "(several)".to_owned() } else { role(phase.thread - 1) };
    }
    Some(path)
}

impl Phase {
    fn begin(thread: usize, role: String, from_ns: u64) -> Self {
        Self {
            thread,
            role,
            from_ns,
            to_ns: from_ns,
            work_ns: 0,
            file_ns: 0,
            allocator_ns: 0,
            sync_ns: 0,
            delay_ns: 0,
            idle_ns: 0,
            changes: 0,
        }
    }

    fn add(&mut self, next: &Self) {
        self.to_ns = next.to_ns;
        self.work_ns = self.work_ns.saturating_add(next.work_ns);
        self.file_ns = self.file_ns.saturating_add(next.file_ns);
        self.allocator_ns = self.allocator_ns.saturating_add(next.allocator_ns);
        self.sync_ns = self.sync_ns.saturating_add(next.sync_ns);
        self.delay_ns = self.delay_ns.saturating_add(next.delay_ns);
        self.idle_ns = self.idle_ns.saturating_add(next.idle_ns);
    }
}

/// Phases that nobody would read one by one become one where they follow each other.
fn together(phases: Vec<Phase>, short: u64) -> Vec<Phase> {
    let mut told: Vec<Phase> = Vec::new();
    let mut last_was_short = false;
    for phase in phases {
        let is_short = phase.to_ns - phase.from_ns < short;
        match told.last_mut() {
            Some(last) if is_short && last_was_short => {
                last.add(&phase);
                last.changes += 1;
            }
            _ => told.push(phase),
        }
        last_was_short = is_short;
    }
    told
}
