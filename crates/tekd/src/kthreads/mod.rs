// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads follow the critical tasks that wait for them: threads of the kernel, where tekd.toml has
//! [kthreads], and threads of programs, unless `[inherit]` says no.
//!
//! A thread of its own does this, at a higher priority than the tasks that it helps. Below one of
//! them it would wait for the CPU that a kernel thread needs. It has a journal of its own, so that
//! it and tekd's main thread need not wait for each other. Requests of the main thread go through
//! [`Shared`], which is locked for some microseconds at a time.
//!
//! The kernel needs long to load the programs. The thread therefore begins as an ordinary thread
//! (nice -20), and tekd serves meanwhile. Without [kthreads] it begins with the first Fast thread,
//! at the lowest real-time priority.
mod apply;
mod boost;
mod command;
mod event_budget;
mod lifted;
mod load;
mod maps;
mod names;
mod reactions;
mod reactor;
mod relations;
mod reported;
mod reported_lifts;
mod rights;
mod safe_order;
mod served;
mod system;
mod threads;
mod wanted;
mod watcher;

use crate::log;
use crate::restored;
use crate::sys;
use apply::Applier;
use command::Command;
use load::open;
use maps::Maps;
use names::Names;
use nix::sys::eventfd::{EfdFlags, EventFd};
use reactions::Reactions;
use reactor::Reactor;
use relations::Relations;
use rights::Rights;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use tek_bpf::{Dependency, State as Works};
use tek_effect::{Effect, Error, Identity, PiMutex, Restored};
use tek_policy::kthread::KthreadSettings;
use tek_policy::Configuration;
pub use wanted::Wanted;
use watcher::Watching;

const STACK_BYTES: usize = 256 << 10;
/// Why no kernel thread follows.
const NO_KTHREADS: &str = "tekd.toml has no [kthreads]";
/// Below all critical threads.
const LOADING_PRIORITY: u32 = 1;

/// The directory of the journal, below tekd's state directory.
fn journal(state: &Path) -> PathBuf {
    state.join("kthreads")
}

/// Undoes the changes of a killed tekd to kernel threads; `None`: there is no journal.
pub fn restore(state: &Path) -> Result<Option<(Effect, Restored)>, Error> {
    let directory = journal(state);
    directory.exists().then(|| Effect::open(&directory)).transpose()
}

/// The state that all threads use.
struct Shared {
    state: PiMutex<State>,
    /// Readable when there are commands.
    bell: EventFd,
    /// Readable at the end, for the second thread.
    over: EventFd,
    /// Real-time priority of the thread for hot paths. It sets this before it attaches programs.
    attaching_priority: AtomicU32,
}

impl Shared {
    /// Queues a command, unless the thread takes no commands any more.
    fn notify(&self, command: Command) {
        let mut state = self.state.lock();
        if matches!(state.stage, Stage::Starting | Stage::Running) {
            state.commands.push(command);
            drop(state);
            let _ = self.bell.write(1);
        }
    }

    /// From now on no commands are queued.
    fn stop_taking(&self, stage: Stage) {
        let mut state = self.state.lock();
        state.stage = stage;
        state.commands = Vec::new();
    }
}

/// The stage of the thread.
enum Stage {
    Starting,
    Running,
    /// The reason of the failure.
    Failed(String),
    Ended,
}

struct State {
    stage: Stage,
    /// Whether threads of the kernel follow, too.
    has_kthreads: bool,
    /// `None` before the beginning, after the end, and while one of the threads uses it.
    reactor: Option<Box<Reactor>>,
    is_over: bool,
    relations: Relations,
    commands: Vec<Command>,
    dependencies: Vec<Dependency>,
    /// Threads of RCU and irq_work that are raised with ksoftirqd.
    raised_along: Vec<i32>,
    lost: u64,
    events: u64,
    /// Changes that were made, and changes that were dropped because there were too many.
    changes: (u64, u64),
    /// The number of times that events of storage cost too much CPU time.
    storage_pauses: u64,
    reactions: Reactions,
    /// The same for threads of programs.
    lift_reactions: Reactions,
}

impl State {
    fn new(relations: Relations, has_kthreads: bool) -> Self {
        Self {
            stage: Stage::Starting,
            has_kthreads,
            reactor: None,
            is_over: false,
            relations,
            commands: Vec::new(),
            dependencies: Vec::new(),
            raised_along: Vec::new(),
            lost: 0,
            events: 0,
            changes: (0, 0),
            storage_pauses: 0,
            reactions: Reactions::new(),
            lift_reactions: Reactions::new(),
        }
    }
}

/// The thread, if the configuration has threads followed.
pub struct Kthreads {
    names: Names,
    running: Option<(Arc<Shared>, JoinHandle<()>)>,
    /// What the thread begins with when the first thread is Fast.
    waiting: Option<Box<Wanted>>,
    why_not: String,
}

impl Kthreads {
    /// Starts the thread if the configuration wants it. [`Kthreads::reported`] reports later
    /// whether this kernel supports it.
    pub fn start(wanted: Wanted) -> Self {
        if wanted.configuration.kthreads.is_some() {
            return Self::start_now(wanted);
        }
        match restore(&wanted.state) {
            Ok(Some((effect, restored))) => {
                restored::announce(&restored);
                effect.close();
            }
            Ok(None) => {}
            Err(error) => return Self::failed(&error.to_string()),
        }
        let mut this = Self::not(NO_KTHREADS);
        this.waiting = Some(Box::new(wanted));
        this
    }

    fn start_now(wanted: Wanted) -> Self {
        let (effect, restored) = match Effect::open(&journal(&wanted.state)) {
            Ok(opened) => opened,
            Err(error) => return Self::failed(&error.to_string()),
        };
        restored::announce(&restored);
        if wanted.configuration.kthreads.is_some() && !system::is_in_memory(&wanted.state) {
            log::warning(&format!(
                "{} is on a disk, for which tekd may have to wait while kernel threads are late: a \
                 directory in memory (tmpfs) is better",
                wanted.state.display()
            ));
        }
        let event_fd = || EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let (bell, over) = match event_fd().and_then(|bell| Ok((bell, event_fd()?))) {
            Ok(pair) => pair,
            Err(error) => return Self::failed(&error.to_string()),
        };
        let settings = wanted.settings();
        let functions = functions(&settings);
        if functions.is_empty() && !settings.functions.is_empty() {
            log::warning(
                "tekd.toml names functions that this kernel does not have, or tekd may not read \
                 their addresses (CAP_SYSLOG allows it)",
            );
        }
        let inherit = wanted.configuration.inherit;
        let relations = Relations::new(settings, inherit, system::reclaimers(), functions);
        let attaching_priority = AtomicU32::new(wanted.attaching_priority);
        let state = PiMutex::new(State::new(relations, wanted.configuration.kthreads.is_some()));
        let shared = Arc::new(Shared { state, bell, over, attaching_priority });
        let theirs = Arc::clone(&shared);
        let begin = move || begin(&theirs, effect, wanted);
        let thread =
            Builder::new().name("kthreads".to_owned()).stack_size(STACK_BYTES).spawn(begin);
        match thread {
            Ok(thread) => {
                let mut this = Self::not("");
                this.running = Some((shared, thread));
                this
            }
            Err(error) => Self::failed(&error.to_string()),
        }
    }

    fn not(why: &str) -> Self {
        Self { names: Names::new(), running: None, waiting: None, why_not: why.to_owned() }
    }

    fn failed(why: &str) -> Self {
        report_failure(why);
        Self::not(why)
    }

    /// A thread is about to become Fast. It gets its own values, if it is lifted, and is lifted no
    /// more from now on. `quota`: how many threads may be lifted for its process.
    pub fn claim(&mut self, thread: Identity, process: Identity, quota: u32) {
        if let Some(wanted) = self.waiting.take_if(|wanted| wanted.inherits()) {
            *self = Self::start_now(*wanted);
        }
        let Some((shared, _)) = &self.running else { return };
        let mut state = shared.state.lock();
        let State { reactor, relations, .. } = &mut *state;
        relations.add_fast(thread.tid, process.tid, quota);
        if let Some(reactor) = reactor {
            reactor.release(relations, thread);
        }
        drop(state);
        let _ = shared.bell.write(1);
    }

    /// The thread is Fast no more.
    pub fn disclaim(&self, thread: Identity) {
        if let Some((shared, _)) = &self.running {
            shared.state.lock().relations.remove_fast(thread.tid);
            let _ = shared.bell.write(1);
        }
    }

    /// Whether a thread of a program is lifted at present.
    pub fn is_lifted(&self, thread: Identity) -> bool {
        self.running.as_ref().is_some_and(|(shared, _)| {
            let state = shared.state.lock();
            state.relations.served(thread.tid).is_some_and(|it| it.boost.is_lifted(thread))
        })
    }

    /// A process executed another program.
    pub fn executed(&self, process: i32) {
        let Some((shared, _)) = &self.running else { return };
        let mut state = shared.state.lock();
        let State { reactor, relations, .. } = &mut *state;
        if let Some(reactor) = reactor {
            reactor.forget_rights(process);
            relations.end_waits_for_process(process);
            drop(state);
            let _ = shared.bell.write(1);
        }
    }

    /// Makes an ordinary thread critical with this real-time priority; `None` ends that.
    pub fn set_fast(&self, tid: i32, priority: Option<u8>) {
        self.notify(Command::Fast(tid, priority));
    }

    /// Keeps the thread for hot paths below tekd's main thread, which has another priority now.
    pub fn set_attaching_priority(&mut self, priority: u32) {
        if let Some(wanted) = &mut self.waiting {
            wanted.attaching_priority = priority;
        }
        if let Some((shared, _)) = &self.running {
            shared.attaching_priority.store(priority, Ordering::Relaxed);
        }
    }

    /// Passes on another configuration. A [kthreads] that is new, or gone, has no effect before a
    /// restart.
    pub fn reload(&mut self, configuration: &Configuration) {
        if let Some(wanted) = &mut self.waiting {
            wanted.configuration = configuration.clone();
        }
        let has_kthreads = |shared: &Shared| shared.state.lock().has_kthreads;
        let follows = self.running.as_ref().is_some_and(|(shared, _)| has_kthreads(shared));
        if let Some(settings) = configuration.kthreads.as_ref().filter(|_| follows) {
            let functions = functions(settings);
            self.notify(Command::Settings(Box::new(settings.clone()), functions));
        }
        self.notify(Command::Configuration(Box::new(configuration.clone())));
    }

    fn notify(&self, command: Command) {
        if let Some((shared, _)) = &self.running {
            shared.notify(command);
        }
    }

    /// The report about lifted threads of programs.
    pub fn reported_lifts(&self) -> Value {
        let Some((shared, _)) = &self.running else {
            let is_waiting = self.waiting.as_ref().is_some_and(|wanted| wanted.inherits());
            let why = match self.why_not.as_str() {
                _ if is_waiting => "no thread is Fast",
                NO_KTHREADS => "tekd.toml switches lifts off, or has no [[grant]]",
                why => why,
            };
            return json!({ "on": false, "waiting": is_waiting, "why": why });
        };
        let mut reported = reported_lifts::of(&shared.state.lock());
        // Names are read without the lock, so that the threads can go on.
        reported_lifts::add_names(&mut reported);
        reported
    }

    /// The report for `tek kthreads` and `tek explain`.
    pub fn reported(&self) -> Value {
        let Some((shared, _)) = &self.running else {
            return json!({ "on": false, "why": self.why_not });
        };
        let state = shared.state.lock();
        if !state.has_kthreads {
            return json!({ "on": false, "why": NO_KTHREADS });
        }
        match &state.stage {
            Stage::Starting => {
                let why = "its programs are being loaded";
                return json!({ "on": false, "starting": true, "why": why });
            }
            Stage::Failed(why) => return json!({ "on": false, "why": why }),
            Stage::Running | Stage::Ended => {}
        }
        let ended = state.reactor.is_none();
        let (threads, dependencies) =
            (reported::collect(&state.relations), state.dependencies.clone());
        let dependency = |dependency: &Dependency| {
            let (on, printed) = match &dependency.state {
                Works::On { but } => (true, but.join("; ")),
                Works::Off(why) => (false, why.clone()),
            };
            json!({ "name": dependency.kind.name(), "on": on, "why": printed })
        };
        let settings = &state.relations.settings;
        let mut reported = json!({
            "on": !ended,
            "why": ended.then_some("its thread has ended"),
            "method": format!("{:?}", settings.method).to_lowercase(),
            "linger_ms": settings.linger_ns() / 1_000_000,
            "off": settings.off.iter().map(|class| class.name()).collect::<Vec<_>>(),
            "protected": settings.protected.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "dependencies": dependencies.iter().map(dependency).collect::<Vec<_>>(),
            "raised_along": state.raised_along,
            "counts": {
                "events": state.events,
                "lost": state.lost,
                "changes": state.changes.0,
                "dropped": state.changes.1,
                "storage_pauses": state.storage_pauses,
            },
            "reaction_ns": state.reactions.reported(),
        });
        // The names are read without the lock, so that the other thread can go on.
        drop(state);
        reported["threads"] = reported::threads(threads, &self.names);
        reported
    }
}

impl Drop for Kthreads {
    fn drop(&mut self) {
        self.notify(Command::Stop);
        if let Some((_, thread)) = self.running.take() {
            let _ = thread.join();
        }
    }
}

/// The functions of the kernel that have a weight of their own.
fn functions(settings: &KthreadSettings) -> HashMap<u64, String> {
    match settings.functions.is_empty() {
        true => HashMap::new(),
        false => system::functions(|_, name| settings.functions.contains_key(name)),
    }
}

fn report_failure(why: &str) {
    log::warning(&format!("threads do not follow their waiters: {why}"));
}

/// The start of the thread, which loads the programs that it uses.
fn begin(shared: &Arc<Shared>, effect: Effect, wanted: Wanted) {
    let has_kthreads = wanted.configuration.kthreads.is_some();
    if !has_kthreads {
        // The first thread is Fast already, and busy programs would delay an ordinary thread.
        let _ = sys::become_first(LOADING_PRIORITY);
    }
    let (mut programs, watcher) = match open(has_kthreads) {
        Ok(opened) => opened,
        Err(why) => {
            effect.close();
            match has_kthreads {
                true => report_failure(&why),
                // Most users have not asked for it.
                false => log::info(&format!("no thread is lifted for its waiters: {why}")),
            }
            shared.stop_taking(Stage::Failed(why));
            return;
        }
    };
    // The types of the kernel, of which the programs are made, take 10 MiB.
    sys::return_freed_memory();
    let (rate, priority) = {
        let mut state = shared.state.lock();
        state.dependencies = programs.dependencies().to_vec();
        let settings = &state.relations.settings;
        (settings.changes_per_second, settings.priority)
    };
    let mut applier = Applier::new(effect, rate, wanted.is_fair);
    applier.raise_messengers(priority);
    let watching = Watching::start(shared, watcher);
    // tekd's main thread is real-time too, and no critical task.
    let own = std::process::id() as i32;
    if let Err(error) = programs.set_follow(own, Some(tek_bpf::Follow::Ignore)) {
        log::warning(&error.to_string());
    }
    let answers = Arc::clone(shared);
    let maps =
        Maps::start(move |question, answer| answers.notify(Command::Shares(question, answer)));
    let rights = Rights::new(wanted.domain, wanted.configuration, maps);
    let reactor = Reactor::new(programs, applier, rights, priority, has_kthreads, watching);
    {
        let mut state = shared.state.lock();
        state.reactor = Some(Box::new(reactor));
        state.stage = Stage::Running;
    }
    threads::follow(shared);
    shared.stop_taking(Stage::Ended);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tek_policy::dependency::InheritSettings;

    #[test]
    fn commands_wait_only_for_a_thread_that_will_take_them() {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event_fd = || EventFd::from_flags(flags).unwrap();
        let (settings, inherit) = (KthreadSettings::default(), InheritSettings::OFF);
        let relations = Relations::new(settings, inherit, Vec::new(), HashMap::new());
        let state = PiMutex::new(State::new(relations, true));
        let attaching_priority = AtomicU32::new(51);
        let shared = Shared { state, bell: event_fd(), over: event_fd(), attaching_priority };
        let waiting = || shared.state.lock().commands.len();
        shared.notify(Command::Fast(1, None));
        shared.notify(Command::Stop);
        assert_eq!(waiting(), 2);
        shared.stop_taking(Stage::Failed("no programs".to_owned()));
        assert_eq!(waiting(), 0);
        shared.notify(Command::Fast(1, None));
        assert_eq!(waiting(), 0);
    }
}
