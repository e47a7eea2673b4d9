// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one loop: waits for clients, for the clock, for signals and for the kernel's events.
//!
//! While no thread is Fast, tekd only sleeps: the timer, the canary and the watchdog are off. The
//! events of other processes are off, too, unless executed programs may have to be placed.
mod births;
mod changes;
mod clients;
mod lazy;
mod load;
mod loading;
mod newcomers;
mod room;

use crate::backends::Backends;
use crate::canary::Canary;
use crate::configuration::Loaded;
use crate::connection::Connection;
use crate::domain::Domain;
use crate::exec_watch::ExecWatch;
use crate::history::History;
use crate::listener::Listener;
use crate::log;
use crate::notify::Notify;
use crate::peer::{Accounts, Peer};
use crate::programs::Programs;
use crate::region::{Left, Refused, Region};
use crate::siblings::Siblings;
use crate::subordinate::Subordinates;
use crate::sys;
use anyhow::Result;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tek_abi::{Reply, Request, TELL_LEFT};
use tek_effect::{Change, Identity};
use tek_policy::Configuration;

/// The subject of an epoll event. Numbers from FIRST_CONNECTION on are connections. Numbers with
/// the bit PROCESS are processes.
const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const TIMER: u64 = 2;
const NEWS: u64 = 3;
const BIRTHS: u64 = 4;
const LOADED: u64 = 5;
const FIRST_CONNECTION: u64 = 16;
const PROCESS: u64 = 1 << 63;

/// How long tekd stays awake after the last thread left: another thread often follows soon.
const LINGER_NS: u64 = 1_000_000_000;
/// The interval at which failed undo operations are tried again.
const TRY_AGAIN_NS: u64 = 100_000_000;
/// The interval at which children of Fast threads are moved out of the Fast group.
const TIDY_NS: u64 = 100_000_000;
/// After an alarm no thread is critical for this multiple of the canary's limit.
const ALARM_SHARE: u64 = 2;

/// Counts since the start.
#[derive(Default)]
pub struct Counters {
    pub granted: u64,
    pub refused: u64,
    pub expelled: u64,
    pub alarms: u64,
}

/// Carries out a request of a process. Returns the reply, and the file that goes with it.
pub type Answer = fn(&mut Server, i32, &Request) -> (Reply, Option<OwnedFd>);

/// The state of tekd.
pub struct Server {
    pub backends: Backends,
    pub region: Region,
    pub peers: HashMap<i32, Peer>,
    pub connections: HashMap<u64, Connection>,
    /// The number of connections of each user.
    connections_of: HashMap<u32, usize>,
    pub configuration: Configuration,
    /// Where the configuration comes from.
    pub source: String,
    pub domain: Domain,
    pub exec_watch: Option<ExecWatch>,
    /// Processes whose changes the kernel reports.
    watched_processes: HashSet<i32>,
    /// The replacement where there is no `exec_watch`.
    programs: Programs,
    compare_at_ns: u64,
    pub counters: Counters,
    pub history: History,
    /// Seconds since 1970.
    pub started: u64,
    /// Processes whose grants are to end, and why.
    pub ending: Vec<(Identity, &'static str)>,
    /// Children of processes whose limit was raised, and the inherited values that they must lose.
    pub born: HashMap<i32, Change>,
    pub births: births::Births,
    siblings: Siblings,
    newcomers: newcomers::Newcomers,
    subordinates: Subordinates,
    /// The log has the line that limits cannot be raised.
    pub limits_described: bool,
    /// Accounts of recent clients that are not connected, with their users, and the number at which
    /// full accounts are removed.
    spent: HashMap<Identity, (u32, Accounts)>,
    spent_most: usize,
    sent_away: log::Seldom,
    not_placed: log::Seldom,
    load: load::Load,
    loading: loading::Loading,
    file: Option<PathBuf>,
    canary: Canary,
    notify: Notify,
    answer: Answer,
    listener: Listener,
    epoll: Epoll,
    signals: SignalFd,
    timer: TimerFd,
    timer_at_ns: Option<u64>,
    /// No connection is accepted before this time.
    door_at_ns: Option<u64>,
    /// When failed undo operations are tried again.
    try_at_ns: Option<u64>,
    next_tidy_ns: u64,
    next_connection: u64,
    awake: bool,
    rest_at_ns: Option<u64>,
    next_well_ns: Option<u64>,
    stop: bool,
}

/// The parts of a server.
pub struct Parts {
    pub backends: Backends,
    pub loaded: Loaded,
    pub file: Option<PathBuf>,
    pub domain: Domain,
    pub listener: Listener,
    pub signals: SignalFd,
    pub canary: Canary,
    pub exec_watch: Option<ExecWatch>,
    pub birth_watch: Option<ExecWatch>,
    pub notify: Notify,
    pub answer: Answer,
}

impl Server {
    /// Assembles the server. Clients are served from `run` on.
    pub fn new(parts: Parts) -> Result<Self> {
        let Parts { backends, loaded, file, domain, listener, signals, canary, .. } = parts;
        let (exec_watch, notify, answer) = (parts.exec_watch, parts.notify, parts.answer);
        let births = births::Births::new(parts.birth_watch);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let readable = |number| EpollEvent::new(EpollFlags::EPOLLIN, number);
        epoll.add(listener.fd(), readable(LISTENER))?;
        epoll.add(&signals, readable(SIGNALS))?;
        epoll.add(timer.as_fd(), readable(TIMER))?;
        if let Some(watch) = &exec_watch {
            epoll.add(watch.fd(), readable(NEWS))?;
        }
        if let Some(watch) = births.watch() {
            let once = EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT;
            epoll.add(watch.fd(), EpollEvent::new(once, BIRTHS))?;
        }
        let load = load::Load::new(loaded.configuration.named_users());
        let mut server = Self {
            backends,
            region: Region::default(),
            peers: HashMap::new(),
            connections: HashMap::new(),
            connections_of: HashMap::new(),
            configuration: loaded.configuration,
            source: loaded.source,
            domain,
            exec_watch,
            watched_processes: HashSet::new(),
            programs: Programs::default(),
            compare_at_ns: 0,
            counters: Counters::default(),
            history: History::default(),
            started: seconds_since_1970(),
            ending: Vec::new(),
            born: HashMap::new(),
            births,
            siblings: Siblings::default(),
            newcomers: newcomers::Newcomers::default(),
            subordinates: Subordinates::read(),
            limits_described: false,
            spent: HashMap::new(),
            spent_most: clients::MANY_ACCOUNTS,
            sent_away: log::Seldom::default(),
            not_placed: log::Seldom::default(),
            load,
            loading: loading::Loading::new(&epoll)?,
            file,
            canary,
            notify,
            answer,
            listener,
            epoll,
            signals,
            timer,
            timer_at_ns: None,
            door_at_ns: None,
            try_at_ns: None,
            next_tidy_ns: 0,
            next_connection: FIRST_CONNECTION,
            awake: false,
            rest_at_ns: None,
            next_well_ns: None,
            stop: false,
        };
        server.examine_all_noncritical();
        server.backends.placement.serve();
        Ok(server)
    }

    /// Serves until a signal ends it, then undoes all changes, after an error as well.
    pub fn run(mut self) -> Result<()> {
        let served = self.serve_all();
        self.finish();
        served
    }

    fn serve_all(&mut self) -> Result<()> {
        self.listen_for_news(self.needs_news());
        self.notify.ready();
        // The watchdog began with the start, and there is no critical thread yet.
        self.notify.rest();
        let mut events = [EpollEvent::empty(); 32];
        while !self.stop {
            self.set_timer()?;
            let now = sys::monotonic_ns();
            let waits = self.load.next_ns(now).is_none_or(|at| at > now);
            let timeout = if waits { EpollTimeout::NONE } else { EpollTimeout::ZERO };
            let count = match self.epoll.wait(&mut events, timeout) {
                Err(Errno::EINTR) => continue,
                count => count?,
            };
            // The kernel's events of a process precede the requests of that process.
            if let Some(place) = events[..count].iter().position(|event| event.data() == NEWS) {
                events[..=place].rotate_right(1);
            }
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.let_in(),
                    SIGNALS => self.receive_signals(),
                    TIMER => self.run_once(),
                    NEWS => self.receive_news(),
                    BIRTHS => self.receive_births(),
                    LOADED => self.take_loaded(),
                    process if process & PROCESS != 0 => self.process_ended(process),
                    connection => self.arrived(connection, event.events()),
                }
                self.follow_up();
            }
            // One message, and then the more urgent events again.
            if let Some(connection) = self.load.next(sys::monotonic_ns()) {
                self.serve(connection);
                self.follow_up();
            }
        }
        Ok(())
    }

    /// Runs after each step that may have begun or ended a request.
    fn follow_up(&mut self) {
        self.end_those_that_are_to();
        self.follow_mode();
        self.follow_lineage();
    }

    fn finish(mut self) {
        self.notify.stopping();
        self.connections.clear();
        let Self { backends, region, peers, .. } = self;
        drop((region, peers));
        let restored = backends.close();
        for failed in &restored.failed {
            log::error(failed);
        }
        log::info(&format!("stopped; {} changes were undone", restored.undone));
    }

    /// A connected client.
    pub fn peer(&mut self, pid: i32) -> Result<&mut Peer, Refused> {
        let unknown = || Refused::new(libc::ESRCH, "the process is not connected");
        self.peers.get_mut(&pid).ok_or_else(unknown)
    }

    /// A thread may become Fast: starts the canary, the events and the watchdog. True: they were
    /// off.
    pub fn awaken(&mut self, now_ns: u64) -> bool {
        self.rest_at_ns = Some(now_ns + LINGER_NS);
        self.births.go_on();
        if std::mem::replace(&mut self.awake, true) {
            return false;
        }
        self.wake_canary();
        self.listen_for_news(true);
        self.notify.watch();
        self.next_well_ns = self.notify.interval().map(|interval| after(now_ns, interval));
        true
    }

    fn wake_canary(&self) {
        self.canary.wake(Duration::from_secs(self.configuration.canary_seconds.into()));
    }

    fn rest(&mut self) {
        self.awake = false;
        self.rest_at_ns = None;
        self.next_well_ns = None;
        self.canary.rest();
        self.notify.rest();
        self.end_lineage();
        self.listen_for_news(self.needs_news());
    }

    /// Whether events matter although no thread is Fast.
    fn needs_news(&self) -> bool {
        // A process with a raised limit could switch by itself in another program, too.
        self.peers.values().any(|peer| peer.limit.is_some()) || self.has_newcomers()
    }

    /// Whether executed programs may have to be placed. Other processes begin in their parents'
    /// groups.
    fn has_newcomers(&self) -> bool {
        let is_open = self.domain.has_newcomers() || !self.configuration.places.is_empty();
        self.backends.placement.why_not().is_none() && is_open
    }

    fn listen_for_news(&mut self, listen: bool) {
        if !listen {
            self.be_sure_of_nobody();
        }
        if listen {
            self.choose_news();
        } else {
            self.watched_processes.clear();
        }
        let failed = self.exec_watch.as_mut().and_then(|watch| watch.listen(listen).err());
        if let Some(error) = failed {
            log::warning(&format!("the kernel reports no events of processes: {error}"));
            self.exec_watch = None;
            self.be_sure_of_nobody();
        }
        // Events may have come before the socket was in the epoll set.
        if listen {
            self.receive_news();
        }
    }

    fn set_timer(&mut self) -> Result<()> {
        let rest = self.rest_at_ns.filter(|_| self.region.is_empty());
        let has_strays = rest.is_some() && self.backends.placement.may_have_strays();
        if self.try_at_ns.is_none() && (self.backends.owes() || has_strays) {
            self.try_at_ns = Some(sys::monotonic_ns() + TRY_AGAIN_NS);
        }
        let now = sys::monotonic_ns();
        let noncritical = self.backends.noncritical.next_ns();
        // While a message may be served, `serve_all` does not wait: it needs no timer for that. The
        // door needs one even if its time has passed: only the timer opens it.
        let load = [self.load.next_ns(now).filter(|at| *at > now), self.door_at_ns];
        let placement = self.backends.placement.next_ns();
        let placement =
            placement.map(|at| at.max(self.load.chores.exhausted_until(now).unwrap_or(0)));
        let due = [self.try_at_ns, self.backends.effect.next_check_ns(), self.next_well_ns];
        let news = [self.programs.next_ns(), self.newcomers.next_ns(), self.births.next_ns()];
        let next = [self.region.next_ns(), rest, noncritical, placement];
        let next = next.into_iter().chain(due).chain(load).chain(news).flatten().min();
        if next == self.timer_at_ns {
            return Ok(());
        }
        match next {
            Some(at) => self.timer.set(
                Expiration::OneShot(TimeSpec::from_duration(sys::own_monotonic(at.max(1)))),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )?,
            None => self.timer.unset()?,
        }
        self.timer_at_ns = next;
        Ok(())
    }

    /// Does the work that is due by the clock.
    fn run_once(&mut self) {
        let _ = self.timer.wait();
        let now = sys::monotonic_ns();
        let late = self.timer_at_ns.take().map_or(0, |at| now.saturating_sub(at));
        self.canary.excuse(now, late);
        self.open_door(now);
        if self.try_at_ns.is_some_and(|at| at <= now) {
            self.backends.try_again(&self.configuration, &self.domain);
            self.try_at_ns = None;
        }
        self.backends.check_returned(now);
        if let Some(late) = self.canary.is_late(now) {
            self.alarm(now, late);
        }
        let left = self.region.run_once(&mut self.backends, now);
        for left in left {
            if let Some(over) = left.over {
                self.counters.expelled += 1;
                self.history.overran(now, &left, over);
                log::warning(&format!("thread {} is critical no more: {}", left.tid, left.why));
            }
            self.inform(&left);
        }
        if self.next_tidy_ns <= now && !self.region.is_empty() {
            let began_cpu_ns = sys::cpu_ns();
            self.backends.tidy(&self.configuration, &self.domain);
            if self.exec_watch.is_none() {
                self.return_all();
            }
            self.next_tidy_ns = now + sys::period_ns(began_cpu_ns, TIDY_NS);
        }
        self.examine_noncritical(now);
        self.place_newcomers(now);
        self.go_on_placing(now);
        self.poll_births(now);
        if self.exec_watch.is_none() {
            self.poll_news(now);
        }
        if self.next_well_ns.is_some_and(|at| at <= now) {
            self.notify.is_well();
            self.next_well_ns = self.notify.interval().map(|interval| after(now, interval));
        }
        if !self.region.is_empty() {
            self.rest_at_ns = Some(now + LINGER_NS);
        } else if self.rest_at_ns.is_some_and(|at| at <= now) {
            self.rest();
        }
    }

    /// Ordinary threads do not run: no thread stays critical.
    fn alarm(&mut self, now: u64, late: Duration) {
        self.counters.alarms += 1;
        let shut = u64::from(self.configuration.canary_seconds) * 1_000_000_000 * ALARM_SHARE;
        let why = format!("ordinary threads did not run for {:.1} s", late.as_secs_f64());
        log::warning(&format!("{why}: nobody is critical for {} s", shut / 1_000_000_000));
        for left in self.region.close(&mut self.backends, now + shut, &why) {
            self.inform(&left);
        }
        self.canary.forgive(now);
    }

    fn inform(&mut self, left: &Left) {
        let mut reply = Reply::to(&Request::new(TELL_LEFT, 0)).refused(left.errno, &left.why);
        reply.tid = u32::try_from(left.tid).unwrap_or(0);
        reply.value = left.value;
        let peers = left.to.iter().filter_map(|pid| self.peers.get(pid));
        let ids: Vec<u64> = peers.flat_map(|peer| peer.connections.iter().copied()).collect();
        for id in ids {
            self.send(id, &reply, None);
        }
    }

    fn send(&mut self, id: u64, reply: &Reply, file: Option<&OwnedFd>) {
        let sent = self.connections.get(&id).map(|connection| connection.send(reply, file));
        if matches!(sent, Some(Err(_))) {
            self.close(id);
        }
    }

    fn receive_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match i32::try_from(signal.ssi_signo).map(Signal::try_from) {
                Ok(Ok(Signal::SIGHUP)) => self.reload(),
                _ => self.stop = true,
            }
        }
    }
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn after(now_ns: u64, interval: Duration) -> u64 {
    now_ns + u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX / 2)
}
