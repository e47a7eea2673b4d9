// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel threads follow the critical tasks that wait for them.
//!
//! A thread of its own does this, at a higher priority than the tasks that it helps. Below one of
//! them it would wait for the CPU that a kernel thread needs. It has a journal of its own, so that
//! it and tekd's main thread need not wait for each other. Requests of the main thread go through
//! [`Shared`], which is locked for some microseconds at a time.
//!
//! The kernel needs long to load the programs. The thread therefore begins as an ordinary thread
//! (nice -20), and tekd serves meanwhile.
mod apply;
mod boost;
mod command;
mod names;
mod reactor;
mod relations;
mod reported;
mod safe_order;
mod served;
mod storage_budget;
mod system;
mod threads;
mod watcher;

use crate::domain::Domain;
use crate::log;
use crate::restored;
use apply::Applier;
use command::Command;
use hdrhistogram::Histogram;
use names::Names;
use nix::sys::eventfd::{EfdFlags, EventFd};
use reactor::Reactor;
use relations::Relations;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use tek_bpf::{Dependency, State as Works, Watcher};
use tek_effect::{Effect, Error, PiMutex, Restored};
use tek_policy::kthread::KthreadSettings;
use tek_policy::Pattern;
use watcher::Watching;

const STACK_BYTES: usize = 256 << 10;
/// The range of the reaction times in the histogram.
const SHORTEST_NS: u64 = 100;
const LONGEST_NS: u64 = 60_000_000_000;

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
}

impl State {
    fn new(relations: Relations) -> Self {
        Self {
            stage: Stage::Starting,
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
        }
    }
}

/// The times from the event to the changed priority.
struct Reactions(Option<Histogram<u64>>);

impl Reactions {
    fn new() -> Self {
        Self(Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, 2).ok())
    }

    fn take(&mut self, all_ns: &mut Vec<u64>) {
        let mut histogram = self.0.as_mut();
        for ns in all_ns.drain(..) {
            if let Some(histogram) = &mut histogram {
                histogram.saturating_record(ns);
            }
        }
    }

    fn reported(&self) -> Value {
        let Some(histogram) = &self.0 else { return Value::Null };
        let at = |quantile| histogram.value_at_quantile(quantile);
        json!({ "p50": at(0.5), "p99": at(0.99), "max": histogram.max(), "n": histogram.len() })
    }
}

/// The thread, if the configuration has kernel threads followed.
pub struct Kthreads {
    names: Names,
    running: Option<(Arc<Shared>, JoinHandle<()>)>,
    why_not: String,
}

/// The parameters of [`Kthreads::start`].
pub struct Wanted<'a> {
    pub settings: Option<&'a KthreadSettings>,
    pub state: &'a Path,
    pub domain: Domain,
    pub protected: Vec<Pattern>,
    /// Real-time priority of the thread for hot paths: below tekd's main thread.
    pub attaching_priority: u32,
}

impl Kthreads {
    /// Starts the thread if the configuration wants it. [`Kthreads::told`] reports later whether
    /// this kernel supports it.
    pub fn start(wanted: Wanted) -> Self {
        let Some(settings) = wanted.settings.cloned() else {
            return Self::not("tekd.toml has no [kthreads]");
        };
        let (effect, restored) = match Effect::open(&journal(wanted.state)) {
            Ok(opened) => opened,
            Err(error) => return Self::failed(&error.to_string()),
        };
        restored::announce(&restored);
        if !system::is_in_memory(wanted.state) {
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
        let functions = functions(&settings);
        if functions.is_empty() && !settings.functions.is_empty() {
            log::warning(
                "tekd.toml names functions that this kernel does not have, or tekd may not read \
                 their addresses (CAP_SYSLOG allows it)",
            );
        }
        let state = State::new(Relations::new(settings, system::reclaimers(), functions));
        let attaching_priority = AtomicU32::new(wanted.attaching_priority);
        let state = PiMutex::new(state);
        let shared = Arc::new(Shared { state, bell, over, attaching_priority });
        let theirs = Arc::clone(&shared);
        let begin = move || begin(&theirs, effect, wanted.domain, wanted.protected);
        let thread =
            Builder::new().name("kthreads".to_owned()).stack_size(STACK_BYTES).spawn(begin);
        match thread {
            Ok(thread) => Self {
                names: Names::new(),
                running: Some((shared, thread)),
                why_not: String::new(),
            },
            Err(error) => Self::failed(&error.to_string()),
        }
    }

    fn not(why: &str) -> Self {
        Self { names: Names::new(), running: None, why_not: why.to_owned() }
    }

    fn failed(why: &str) -> Self {
        report_failure(why);
        Self::not(why)
    }

    /// Makes an ordinary thread critical with this real-time priority; `None` ends that.
    pub fn set_fast(&self, tid: i32, priority: Option<u8>) {
        self.notify(Command::Fast(tid, priority));
    }

    /// Keeps the thread for hot paths below tekd's main thread, which has another priority now.
    pub fn set_attaching_priority(&self, priority: u32) {
        if let Some((shared, _)) = &self.running {
            shared.attaching_priority.store(priority, Ordering::Relaxed);
        }
    }

    /// Passes on new settings.
    pub fn reload(&self, settings: &KthreadSettings) {
        self.notify(Command::Settings(Box::new(settings.clone()), functions(settings)));
    }

    fn notify(&self, command: Command) {
        if let Some((shared, _)) = &self.running {
            shared.notify(command);
        }
    }

    /// The report for `tek kthreads` and `tek explain`.
    pub fn reported(&self) -> Value {
        let Some((shared, _)) = &self.running else {
            return json!({ "on": false, "why": self.why_not });
        };
        let state = shared.state.lock();
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
    log::warning(&format!("kernel threads do not follow their waiters: {why}"));
}

/// The start of the thread, which loads the programs that it uses.
fn begin(shared: &Arc<Shared>, effect: Effect, domain: Domain, protected: Vec<Pattern>) {
    let (mut programs, watcher) = match open() {
        Ok(opened) => opened,
        Err(why) => {
            effect.close();
            report_failure(&why);
            shared.stop_taking(Stage::Failed(why));
            return;
        }
    };
    let (rate, priority) = {
        let mut state = shared.state.lock();
        state.dependencies = programs.dependencies().to_vec();
        let settings = &state.relations.settings;
        (settings.changes_per_second, settings.priority)
    };
    let applier = Applier::new(effect, rate);
    let watching = Watching::start(shared, watcher);
    // tekd's main thread is real-time too, and no critical task.
    let own = std::process::id() as i32;
    if let Err(error) = programs.set_follow(own, Some(tek_bpf::Follow::Ignore)) {
        log::warning(&error.to_string());
    }
    let mut reactor = Reactor::new(programs, applier, domain, protected, priority, watching);
    reactor.raise_messengers();
    {
        let mut state = shared.state.lock();
        state.reactor = Some(Box::new(reactor));
        state.stage = Stage::Running;
    }
    threads::follow(shared);
    shared.stop_taking(Stage::Ended);
}

fn open() -> Result<(tek_bpf::Kthreads, Watcher), String> {
    let mut programs = tek_bpf::Kthreads::open().map_err(|error| error.to_string())?;
    let watcher = programs.watcher().ok_or("its programs have a watcher already")?;
    Ok((programs, watcher))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_wait_only_for_a_thread_that_will_take_them() {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event_fd = || EventFd::from_flags(flags).unwrap();
        let relations = Relations::new(KthreadSettings::default(), Vec::new(), HashMap::new());
        let state = PiMutex::new(State::new(relations));
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
