// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives events of critical tasks and kernel threads, and reacts at once.
//!
//! The reactor sleeps while no task is critical. The BPF programs wake it only for events that need
//! a reaction at once. It reads other events whenever it is awake. While a thread is boosted it
//! also wakes by itself, so that a boost ends soon after its last relation.
use super::apply::Applier;
use super::command::Command;
use super::event_budget::EventBudget;
use super::maps::Question;
use super::relations::Relations;
use super::rights::{Right, Rights};
use super::system;
use super::watcher::Watching;
use super::State;
use crate::log;
use crate::sys;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tek_bpf::{Event, Follow, Kthreads, Member, Packets, Watch, What};
use tek_effect::Identity;
use tek_policy::dependency::Ratio;

/// While a thread is boosted, the minimum interval of reads without a wake-up.
const LEAST_TICK_NS: u64 = 5_000_000;
/// The time for which programs on hot paths stay attached after the last event.
const WATCH_NS: u64 = 10_000_000_000;
/// The time after which the reactor releases the lock, even if there are more events.
const SLICE_NS: u64 = 1_000_000;
/// The minimum interval of checks of memory.
const MEMORY_NS: u64 = 50_000_000;

/// The next step of one of the threads.
pub enum Next {
    /// Call [`Reactor::run_once`] again at once.
    Again,
    /// Sleep until the next event, at most for this time.
    Sleep(Option<Duration>),
    End,
}

/// The data of the thread that is awake.
pub struct Reactor {
    programs: Kthreads,
    applier: Applier,
    rights: Rights,
    /// The real-time priority of the threads.
    pub priority: u32,
    /// The followed tasks, with their processes.
    followed: HashMap<i32, Member>,
    /// Tasks that the programs ignore.
    ignored: HashSet<i32>,
    /// Whether kernel threads follow.
    has_kthreads: bool,
    watches_until: Option<u64>,
    /// The same for the programs that watch packets, since the last packet for another thread.
    packets_until: Option<u64>,
    wanted: Watch,
    watching: Watching,
    storage: EventBudget,
    waits: EventBudget,
    next_memory_ns: u64,
    next_charge_ns: u64,
    /// The number of times that events were lost.
    lost: u64,
    /// Events that are not taken in yet.
    backlog: VecDeque<Event>,
    /// Waits of tasks for threads of other processes, until it is known whether both share memory.
    pending: HashMap<i32, (Question, Event)>,
}

impl Reactor {
    pub fn new(
        programs: Kthreads,
        applier: Applier,
        rights: Rights,
        priority: u32,
        has_kthreads: bool,
        watching: Watching,
    ) -> Self {
        Self {
            programs,
            applier,
            rights,
            priority,
            followed: HashMap::new(),
            ignored: HashSet::new(),
            has_kthreads,
            watches_until: None,
            packets_until: None,
            wanted: Watch::default(),
            watching,
            storage: EventBudget::for_storage(),
            waits: EventBudget::for_waits(),
            next_memory_ns: 0,
            next_charge_ns: 0,
            lost: 0,
            backlog: VecDeque::new(),
            pending: HashMap::new(),
        }
    }

    /// The descriptor to wait on for events.
    pub fn events(&self) -> io::Result<OwnedFd> {
        self.programs.fd().try_clone_to_owned()
    }

    /// Excludes one of tekd's own threads from the critical tasks.
    pub fn ignore(&mut self, own: i32) -> io::Result<()> {
        self.programs.set_follow(own, Some(Follow::Ignore)).map_err(io::Error::other)
    }

    /// Restores all values. The kernel needs long to unload programs, and no task waits for that.
    pub fn end(self) {
        for failed in self.applier.effect.close().failed {
            log::error(&failed);
        }
        let _ = sys::become_ordinary();
        drop(self.programs);
        drop(self.watching);
    }

    /// Does all work that is due now.
    pub fn run_once(&mut self, state: &mut State) -> io::Result<Next> {
        let before_ns = sys::cpu_ns();
        let next = self.react(state);
        let used_ns = sys::cpu_ns().saturating_sub(before_ns);
        let now = sys::monotonic_ns();
        if self.waits.spend(used_ns, now) && self.waits.pauses() == 1 {
            log::warning(
                "tekd's reacting threads use more than half of a CPU, so tekd ignores locks and \
                 answers for a second each time",
            );
        }
        if self.storage.spend(used_ns, now) && self.storage.pauses() == 1 {
            log::warning(
                "events of storage use more than a quarter of a CPU, so tekd ignores them for ten \
                 seconds each time: fewer or slower file operations of critical threads cost less",
            );
        }
        state.storage_pauses = self.storage.pauses();
        next
    }

    fn react(&mut self, state: &mut State) -> io::Result<Next> {
        let commands = std::mem::take(&mut state.commands);
        state.is_over |= !self.obey(commands, &mut state.relations);
        if state.is_over {
            return Ok(Next::End);
        }
        let read = self.read(&mut state.relations).map_err(io::Error::other)?;
        let now = sys::monotonic_ns();
        state.relations.expire(now);
        if now >= self.next_charge_ns {
            let began_cpu_ns = sys::cpu_ns();
            self.applier.charge_lifted(&mut state.relations, now);
            self.next_charge_ns = now + sys::period_ns(began_cpu_ns, LEAST_TICK_NS);
        }
        self.settle(&mut state.relations);
        // Work that can wait.
        self.applier.effect.check_returned(now);
        for work in state.relations.drop_cancelled(now) {
            let _ = self.programs.forget_work(work);
        }
        if self.has_kthreads {
            self.find_journals(&mut state.relations);
            self.examine_memory(&mut state.relations, now);
            self.applier.superiors.keep_up(&mut self.applier.effect);
        }
        let again = self.watch(&mut state.relations, read > 0, now);
        let check = self.applier.effect.next_check_ns().map(|at| at.saturating_sub(now));
        let again = again.into_iter().chain(check).min();
        state.events += read;
        state.lost = self.lost;
        state.changes = (self.applier.changes.made(), self.applier.changes.dropped());
        state.raised_along = self.applier.superiors.raised();
        state.reactions.take(&mut self.applier.reactions_ns);
        state.lift_reactions.take(&mut self.applier.lift_reactions_ns);
        // Events that came meanwhile may cause no wake-up.
        Ok(if read > 0 { Next::Again } else { Next::Sleep(again.map(Duration::from_nanos)) })
    }

    /// `false`: the reactor must end.
    fn obey(&mut self, commands: Vec<Command>, relations: &mut Relations) -> bool {
        for command in commands {
            match command {
                Command::Stop => return false,
                Command::Fast(tid, priority) => {
                    let _ = self.programs.set_fast(tid, priority);
                }
                Command::Watched(watch, packets) => {
                    if self.wanted.packets {
                        let _ = self.programs.set_packets(packets);
                    }
                    if !watch.storage {
                        let _ = self.programs.forget_storage();
                    }
                    if !watch.locks || !watch.answers {
                        let _ = self.programs.forget_waits();
                        self.pending.clear();
                        relations.end_all_waits();
                    }
                    if watch == Watch::default() && !self.has_kthreads {
                        self.unfollow_all();
                    }
                }
                Command::Configuration(configuration) => {
                    // Their next events are checked anew.
                    self.unfollow_all();
                    relations.change_inherit(configuration.inherit);
                    self.rights.change(*configuration);
                    // Rights may have ended.
                    let _ = self.programs.forget_waits();
                    self.pending.clear();
                    relations.end_all_waits();
                }
                Command::Shares(question, answer) => self.note_answer(question, answer, relations),
                Command::Settings(settings, functions) => {
                    self.applier.changes.set_rate(settings.changes_per_second);
                    if self.priority != settings.priority {
                        self.priority = settings.priority;
                        self.applier.raise_messengers(self.priority);
                    }
                    relations.change_settings(*settings, functions);
                }
            }
        }
        true
    }

    /// Takes in new events for about [`SLICE_NS`], and returns their number.
    fn read(&mut self, relations: &mut Relations) -> Result<u64, tek_bpf::Error> {
        let begin = sys::monotonic_ns();
        let mut read = 0;
        if self.backlog.is_empty() {
            let backlog = &mut self.backlog;
            self.programs.drain(|event| backlog.push_back(event))?;
        }
        while let Some(event) = self.backlog.pop_front() {
            read += 1;
            if event.lost {
                self.lost += 1;
                self.programs.forget()?;
                relations.forget_all(event.time);
                // The end of some tasks may be lost: a later task with such an id is checked anew.
                self.followed.clear();
                self.pending.clear();
            }
            if self.is_wanted(&event) && self.is_allowed(&event, relations) {
                relations.take(&event);
                if matches!(event.what, What::PacketBegan { .. }) {
                    self.packets_until = Some(sys::monotonic_ns() + WATCH_NS);
                }
                if let What::UringQueued { member, request } = event.what {
                    let woken = if event.woke { event.time } else { 0 };
                    let workers = system::uring_workers(member.process);
                    relations.uring(member, request, &workers, woken);
                }
            }
            if sys::monotonic_ns() >= begin + SLICE_NS {
                break;
            }
        }
        Ok(read)
    }

    /// Whether the event concerns a task of the domain, or no single task.
    fn is_wanted(&mut self, event: &Event) -> bool {
        if let What::TaskExited { tid, .. } = event.what {
            self.followed.remove(&tid);
            self.ignored.remove(&tid);
            self.pending.remove(&tid);
            return true;
        }
        // The end of a wait is not reported while these programs are detached.
        if matches!(event.what, What::StorageAwaited { .. }) && !self.wanted.storage {
            return false;
        }
        if let What::StorageAwaited { owner: Some(process), .. } = event.what {
            // A thread outside the domain is not touched for any task.
            if !self.rights.holds(process) {
                return false;
            }
        }
        let Some(member) = event.what.member().filter(|member| !member.via) else { return true };
        if let Some(known) = self.followed.get_mut(&member.tid) {
            known.priority = member.priority;
            return true;
        }
        let is_held = self.rights.holds(member.process);
        // tekd's own threads are no critical tasks, including the thread for hot paths.
        let is_own = u32::try_from(member.process) == Ok(std::process::id());
        let follow = if is_held && !is_own { Follow::Follow } else { Follow::Ignore };
        let _ = self.programs.set_follow(member.tid, Some(follow));
        match follow {
            Follow::Follow => drop(self.followed.insert(member.tid, member)),
            Follow::Ignore => drop(self.ignored.insert(member.tid)),
        }
        follow == Follow::Follow
    }

    /// Whether a task may lift the thread of a program that it waits for.
    fn is_allowed(&mut self, event: &Event, relations: &mut Relations) -> bool {
        let now = sys::monotonic_ns();
        let (member, thread, owner, evidence, lock) = match event.what {
            What::LockAwaited { member, lock, holder, owner, evidence } if self.wanted.locks => {
                (member, holder.tid, owner, evidence, Some(lock))
            }
            What::AnswerAwaited { member, server, owner, evidence } if self.wanted.answers => {
                (member, server.tid, owner, evidence, None)
            }
            // Its end is not reported while these programs are detached.
            What::LockAwaited { .. } | What::AnswerAwaited { .. } => return false,
            What::LockEnded { member, .. } => {
                self.pending.remove(&member.tid);
                return true;
            }
            _ => return true,
        };
        match self.rights.may_lift(member, thread, owner, evidence, lock, now) {
            Right::Yes => return true,
            Right::No => relations.refuse(member, lock.is_some()),
            Right::Asked(question) => {
                relations.end_lock(member.tid);
                self.pending.insert(member.tid, (question, *event));
            }
        }
        false
    }

    /// An answer about memory has come: the waits for which it was asked begin now.
    fn note_answer(&mut self, question: Question, answer: bool, relations: &mut Relations) {
        self.rights.note(question, answer, sys::monotonic_ns());
        let its = self.pending.extract_if(|_, (asked, _)| *asked == question);
        let events: Vec<Event> = its.map(|(_, (_, event))| event).collect();
        for event in events {
            if self.is_allowed(&event, relations) {
                relations.take(&event);
            }
        }
    }

    /// A process may have other rights now.
    pub fn forget_rights(&mut self, process: i32) {
        self.rights.forget(process);
    }

    /// Follows no task from now on, because no BPF program reports the end of a task.
    fn unfollow_all(&mut self) {
        for task in self.followed.drain().map(|(task, _)| task).chain(self.ignored.drain()) {
            let _ = self.programs.set_follow(task, None);
        }
    }

    /// Another part of tekd is about to change a thread: the thread gets its own values, and the
    /// programs know it as a boosted thread no more.
    pub fn release(&mut self, relations: &mut Relations, thread: Identity) {
        self.applier.release(relations, thread.tid);
        // What it has from now on is not of an earlier lift.
        self.applier.effect.settle(thread);
        if relations.served(thread.tid).is_some() {
            let _ = self.programs.set_boosted(thread.tid, None);
        }
    }

    fn settle(&mut self, relations: &mut Relations) {
        let programs = &mut self.programs;
        self.applier.settle(relations, |thread, covered| {
            // After an error the next event of this priority wakes this thread once more.
            let _ = programs.set_boosted(thread, covered);
        });
        if self.applier.effect.owes() {
            self.applier.effect.try_again();
        }
    }

    /// Runs after the changes that are due, because it reads the names of all kernel threads.
    fn find_journals(&mut self, relations: &mut Relations) {
        let disks = relations.without_journal();
        for disk in &disks {
            relations.set_journal(*disk, system::journal(*disk));
        }
        if !disks.is_empty() {
            self.settle(relations);
        }
    }

    /// Updates the owners of pages, which matter only while a task waits for memory.
    fn examine_memory(&mut self, relations: &mut Relations, now: u64) {
        if !relations.wants_memory() || now < self.next_memory_ns {
            return;
        }
        let began_cpu_ns = sys::cpu_ns();
        let mut anonymous: HashMap<i32, u64> = HashMap::new();
        let mut owned = 0;
        let mut owners = Vec::new();
        for member in self.followed.values() {
            let brought = self.programs.pages(member.tid).unwrap_or(0);
            let own = anonymous.entry(member.process).or_insert_with(|| {
                let pages = system::anonymous_pages(member.process);
                owned += pages;
                pages
            });
            owned += brought;
            if brought + *own > 0 {
                owners.push(*member);
            }
        }
        self.next_memory_ns = now + sys::period_ns(began_cpu_ns, MEMORY_NS);
        relations.owners(&owners, Ratio::of(owned, system::pages_on_lists()));
        self.settle(relations);
    }

    /// Requests the programs on hot paths that are needed, and returns the maximum time to sleep.
    fn watch(&mut self, relations: &mut Relations, active: bool, now: u64) -> Option<u64> {
        if relations.remembers_many() {
            self.forget_ended(relations);
        }
        if active || !relations.is_empty() {
            self.watches_until = Some(now + WATCH_NS);
        }
        let is_over = self.watches_until.is_some_and(|until| until <= now);
        if is_over && !relations.changes_by_itself() {
            self.watches_until = None;
            self.packets_until = None;
        }
        // Most tasks send no packet that another thread must process.
        self.packets_until = self.packets_until.filter(|until| *until > now);
        let watches = self.watches_until.is_some();
        let follows = !self.followed.is_empty();
        let storage = follows && self.has_kthreads && !self.storage.is_paused(now);
        if self.wanted.storage && !storage {
            relations.end_all_for_storage(now);
        }
        let inherits = self.has_critical(relations) && !self.waits.is_paused(now);
        self.want(Watch {
            pages: watches && self.has_kthreads && (self.wanted.pages || follows),
            packets: self.packets_until.is_some(),
            // As long as tasks are followed: an operation after a pause of the task is as urgent.
            storage,
            locks: inherits && relations.inherit().locks,
            answers: inherits && relations.inherit().answers,
        });
        if relations.changes_by_itself() {
            let lifts = relations.all().any(|it| it.is_user() && it.boost.now.is_some());
            let linger_ns = match self.has_kthreads && !lifts {
                true => relations.settings.linger_ns(),
                false => 0,
            };
            let tick = linger_ns.max(LEAST_TICK_NS);
            let end = relations.next_end_ns().map_or(tick, |at| at.saturating_sub(now));
            return Some(end.min(tick));
        }
        if !watches {
            self.forget_ended(relations);
        }
        // The programs of storage are attached again at the end of a pause.
        let pause = self.storage.remaining_ns(now).filter(|_| !self.followed.is_empty());
        let waits = self.waits.remaining_ns(now).filter(|_| self.has_critical(relations));
        let watched = self.watches_until.map(|until| until - now);
        watched.into_iter().chain(pause).chain(waits).min()
    }

    /// Whether a task is critical, so that the threads that it waits for matter.
    fn has_critical(&self, relations: &Relations) -> bool {
        relations.has_fast() || (self.has_kthreads && !self.followed.is_empty())
    }

    fn want(&mut self, wanted: Watch) {
        if wanted == self.wanted {
            return;
        }
        self.wanted = wanted;
        if !wanted.packets {
            // The value changes before the ends of packets become invisible.
            let _ = self.programs.set_packets(Packets::NotWatched);
        }
        self.watching.want(wanted);
    }

    fn forget_ended(&mut self, relations: &mut Relations) {
        for thread in relations.forget_ended() {
            let _ = self.programs.set_boosted(thread, None);
        }
        self.applier.give_back_orphans(relations);
    }
}
