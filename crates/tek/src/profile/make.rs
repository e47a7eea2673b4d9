// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a report of the raw profile: ticks become times, and addresses names.
use super::locks;
use super::parts::{self, Measured, Parts, Sampled};
use super::path;
use super::read::{Raw, RawThread};
use super::report::{Known, Lost, Object, Overhead, Profile, Role, Site, Thread, Uses};
use super::times::Times;
use tek_abi::{
    printable, ProfileObject, ProfileThread, PROFILE_ALLOC, PROFILE_FILE, PROFILE_IDLE,
    PROFILE_JOIN, PROFILE_SPIN, PROFILE_SYNC,
};
use tek_model::Functions;

/// Most objects of a report.
const MOST_OBJECTS: usize = 1000;

/// Makes one report.
struct Maker<'a> {
    raw: &'a Raw,
    known: &'a Known,
    times: Times<'a>,
    functions: Functions,
}

impl Profile {
    /// Makes it.
    pub fn of(raw: &Raw, known: &Known) -> Self {
        let times = Times::of(raw, known);
        Maker { raw, known, times, functions: Functions::default() }.make()
    }
}

impl Maker<'_> {
    /// The time in files in which the thread was on no CPU.
    fn off_file(&self, thread: &ProfileThread) -> u64 {
        let part = PROFILE_FILE as usize;
        let of = self.times.scale.span(thread.sampled[part]) as f64;
        let off = (of - thread.sampled_file_run as f64).max(0.0) / of.max(1.0);
        let known = (self.times.scale.span(thread.ticks[part]) as f64 * off) as u64;
        known.saturating_add(self.times.in_last(thread, PROFILE_FILE))
    }

    fn measured(&self, number: usize, raw: &RawThread) -> Measured {
        let thread = &raw.thread;
        let part = |part: u32| self.times.in_part(thread, part);
        let sampled = |part: u32| Sampled {
            of: self.times.scale.span(thread.sampled[part as usize]),
            delay: thread.sampled_delay[part as usize],
        };
        let spins = raw.objects.iter().filter(|object| object.kind == PROFILE_SPIN);
        let spin = spins.fold(0u64, |sum, object| sum.saturating_add(object.wait_ticks));
        let mut serial = self.times.scale.span(thread.serial_ticks);
        let header = &self.raw.header;
        // The interval that was still open.
        if header.active & 0xffff == 1
            && header.active >> 16 == number as u64
            && header.serial_since != 0
        {
            serial = serial.saturating_add(
                self.times.end.saturating_sub(self.times.scale.moment(header.serial_since)),
            );
        }
        // The thread's own last reading, or the one from outside, whichever came later.
        let begin = self.times.scale.moment(thread.begin_ticks);
        let read =
            (thread.run_ns, thread.delay_ns, self.times.scale.moment(thread.scheduler_ticks));
        let seen =
            self.known.scheduler.get(&thread.tid).map(|seen| {
                (seen.run_ns, seen.delay_ns, self.times.scale.moment_of_ns(seen.at_ns))
            });
        let (run, delay, at) = match seen {
            Some(seen) if thread.end_ticks == 0 && seen.2 > read.2 => seen,
            _ => read,
        };
        let mut run = run.saturating_sub(thread.first_run_ns);
        let mut delay = delay.saturating_sub(thread.first_delay_ns);
        // From then on until its end, or its present wait, it went on as before.
        let until = if thread.is_waiting != 0 && thread.end_ticks == 0 {
            self.times.scale.moment(thread.since_ticks)
        } else {
            self.times.end_of(thread)
        };
        let rest = until.saturating_sub(at.max(begin)) as f64;
        let ran = run as f64 / (run.saturating_add(delay) as f64).max(1.0);
        let ran = if run == 0 && delay == 0 { 1.0 } else { ran };
        run = run.saturating_add((rest * ran) as u64);
        delay = delay.saturating_add((rest * (1.0 - ran)) as u64);
        let life = self.times.end_of(thread).saturating_sub(begin);
        Measured {
            life,
            sync: part(PROFILE_SYNC),
            // For the program the length of a call includes its counting.
            file: part(PROFILE_FILE).saturating_add(self.cost_in(thread, PROFILE_FILE) as u64),
            alloc: part(PROFILE_ALLOC).saturating_add(self.cost_in(thread, PROFILE_ALLOC) as u64),
            idle: part(PROFILE_IDLE),
            long_file: self.times.scale.span(thread.long_ticks[PROFILE_FILE as usize]),
            long_alloc: self.times.scale.span(thread.long_ticks[PROFILE_ALLOC as usize]),
            off_file: self.off_file(thread),
            spin: self.times.scale.span(spin),
            serial,
            serial_file: self.times.scale.span(thread.serial_part[PROFILE_FILE as usize]),
            serial_alloc: self.times.scale.span(thread.serial_part[PROFILE_ALLOC as usize]),
            run: (thread.scheduler_ticks != 0).then_some(run),
            delay,
            sampled: [sampled(PROFILE_SYNC), sampled(PROFILE_IDLE)],
        }
    }

    /// The name of a thread: by its function, and by its name where that is its own.
    fn role(&mut self, number: usize, thread: &ProfileThread, main_name: &str) -> String {
        let name = printable(&thread.name);
        let routine = match (thread.function, thread.routine) {
            _ if number == 1 => return "main".to_owned(),
            (0, 0) => "(not by pthread_create)".to_owned(),
            (0, address) | (address, _) => self.place(address),
        };
        let own = name.trim_end_matches(|c: char| c.is_ascii_digit() || "-_:/#".contains(c));
        if name == main_name || own.is_empty() || name.is_empty() {
            routine
        } else {
            format!("{routine} [{own}]")
        }
    }

    fn place(&mut self, address: u64) -> String {
        self.functions.name(&self.raw.modules, address).unwrap_or_else(|| format!("{address:#x}"))
    }

    /// The call before the address that it returns to.
    fn site(&mut self, address: u64) -> String {
        self.place(address.saturating_sub(1))
    }

    fn uses(&self, uses: &locks::Uses) -> Uses {
        let scale = &self.times.scale;
        Uses {
            count: uses.count,
            contended: uses.contended,
            wait_ns: scale.span(uses.wait),
            wait_most_ns: scale.span(uses.wait_most),
            holds: uses.holds.min(uses.count),
            hold_mean_ns: scale.span(uses.hold / uses.holds.max(1)),
            hold_most_ns: scale.span(uses.hold_most),
        }
    }

    fn object(&mut self, object: &locks::Object) -> Object {
        let name = match object.address {
            0 if object.kind == PROFILE_JOIN => "(threads)".to_owned(),
            0 => "(several)".to_owned(),
            address => self.place(address),
        };
        let sites = object
            .sites
            .iter()
            .map(|(site, uses)| Site { name: self.site(*site), uses: self.uses(uses) });
        let sites = sites.collect();
        let uses = self.uses(&object.uses);
        Object { kind: locks::kind(object.kind), name, address: object.address, uses, sites }
    }

    /// The unfinished wait of a thread for another one, and its object.
    fn still_waits(&self, thread: &ProfileThread) -> Option<ProfileObject> {
        let is_in = thread.end_ticks == 0
            && thread.is_waiting != 0
            && thread.inside == PROFILE_SYNC
            && thread.wait_kind != 0;
        let wait_ticks = self.times.scale.ticks(self.times.in_last(thread, PROFILE_SYNC));
        let is_join = thread.wait_kind == PROFILE_JOIN;
        is_in.then(|| ProfileObject {
            object: if is_join { 0 } else { thread.waits_for },
            site: thread.waits_at,
            kind: thread.wait_kind,
            count: 1,
            contended: 1,
            wait_ticks,
            wait_most: wait_ticks,
            ..Default::default()
        })
    }

    /// The ns of `count` events that cost `each` 1/1024 ticks.
    fn cost_of(&self, count: u64, each: u64) -> f64 {
        self.times.scale.span(1 << 10) as f64 / 1024.0 * count as f64 * each as f64 / 1024.0
    }

    /// The time that counting added to the calls of a part, in ns.
    fn cost_in(&self, thread: &ProfileThread, part: u32) -> f64 {
        let (header, part) = (&self.raw.header, part as usize);
        let timed = thread.timed[part].min(thread.calls[part]);
        self.cost_of(thread.calls[part] - timed, header.counted_cost)
            + self.cost_of(timed, header.timed_cost)
    }

    /// The time that counting added to the whole thread, in ns.
    fn cost(&self, thread: &ProfileThread) -> u64 {
        let header = &self.raw.header;
        let parts = [PROFILE_SYNC, PROFILE_FILE, PROFILE_ALLOC, PROFILE_IDLE];
        let calls: f64 = parts.iter().map(|&part| self.cost_in(thread, part)).sum();
        let asked = thread.timed[0];
        (calls
            + self.cost_of(thread.locks, header.lock_cost)
            + self.cost_of(asked, header.scheduler_cost)) as u64
    }

    fn make(mut self) -> Profile {
        let main_name = self.raw.threads.first().map(|thread| printable(&thread.thread.name));
        let main_name = main_name.unwrap_or_default();
        let mut threads = Vec::new();
        let mut total = Parts::default();
        let mut lost = Lost::default();
        let mut cost = 0u64;
        let still: Vec<_> =
            self.raw.threads.iter().map(|thread| self.still_waits(&thread.thread)).collect();
        for (index, raw) in self.raw.threads.iter().enumerate() {
            let (number, thread) = (index + 1, &raw.thread);
            if thread.begin_ticks == 0 {
                continue;
            }
            let measured = self.measured(number, raw);
            let parts = parts::split(&measured);
            total += parts;
            lost.waits = lost.waits.saturating_add(thread.lost_waits);
            lost.acquisitions = lost.acquisitions.saturating_add(thread.lost_objects);
            cost = cost.saturating_add(self.cost(&raw.thread));
            let role = self.role(number, thread, &main_name);
            let waits = locks::merge(raw.objects.iter().chain(&still[index]));
            let waits = waits.into_iter().take(50);
            let waits = waits.filter(|object| object.uses.wait > 0).collect::<Vec<_>>();
            let waits = waits
                .iter()
                .map(|object| {
                    let object = self.object(object);
                    let site = object.sites.first().map_or("?", |site| site.name.as_str());
                    let what = format!("{} {}", object.kind, object.name);
                    ((what, site.to_owned()), object.uses.wait_ns)
                })
                .collect();
            threads.push(Thread {
                number,
                tid: thread.tid,
                name: printable(&thread.name),
                role,
                begin_ns: self.times.scale.moment(thread.begin_ticks),
                life_ns: measured.life,
                parts,
                locks: thread.locks,
                file_calls: thread.calls[PROFILE_FILE as usize],
                allocator_calls: thread.calls[PROFILE_ALLOC as usize],
                waits,
            });
        }
        let header = &self.raw.header;
        let became_another = header.end_ticks == 0 && header.replaced != 0;
        lost.threads = u64::from(header.lost_threads);
        let merged = self.raw.threads.iter().flat_map(|thread| &thread.objects);
        let merged = locks::merge(merged.chain(still.iter().flatten()));
        let more_objects = merged.len().saturating_sub(MOST_OBJECTS);
        let objects = merged.iter().take(MOST_OBJECTS).map(|object| self.object(object)).collect();
        let threads_ns =
            threads.iter().fold(0u64, |sum, thread| sum.saturating_add(thread.life_ns));
        let critical_path = (lost.waits == 0 && lost.threads == 0)
            .then(|| path::of(&self.times, &threads))
            .flatten();
        Profile {
            program: printable(&header.program),
            pid: header.pid,
            wall_ns: self.times.end,
            threads_ns,
            parts: total,
            ended: header.end_ticks != 0 || became_another,
            became_another,
            still_waiting: still.iter().flatten().count(),
            roles: roles(&threads),
            objects,
            more_objects,
            more_files: self.raw.modules.len() >= tek_abi::PROFILE_MAX_MODULES as usize,
            critical_path,
            overhead: Overhead {
                start_ns: header.start_cost,
                calls_ns: cost,
                percent: 100.0 * cost as f64 / (threads_ns as f64).max(1.0),
            },
            lost,
            scheduler: self.raw.threads.iter().any(|thread| thread.thread.scheduler_ticks != 0),
            threads,
        }
    }
}

fn roles(threads: &[Thread]) -> Vec<Role> {
    let mut roles: Vec<Role> = Vec::new();
    for thread in threads {
        match roles.iter_mut().find(|role| role.name == thread.role) {
            Some(role) => {
                role.threads += 1;
                role.life_ns = role.life_ns.saturating_add(thread.life_ns);
                role.parts += thread.parts;
            }
            None => roles.push(Role {
                name: thread.role.clone(),
                threads: 1,
                life_ns: thread.life_ns,
                parts: thread.parts,
            }),
        }
    }
    roles
}
