// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Fast Region: the threads that tekd has made critical.
use crate::backends::Backends;
use crate::guard::{Account, Overrun};
use crate::ledger::{Ledger, Owner};
use crate::lineage::Lineage;
use crate::log;
use crate::member::{Ask, Member, Reason, Target};
use crate::sys;
use std::collections::HashMap;
use std::time::Duration;
use tek_effect::Identity;
use tek_policy::Counts;

/// Why a request is not granted, for a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub errno: i32,
    pub why: String,
}

impl Refused {
    pub fn new(errno: i32, why: impl Into<String>) -> Self {
        Self { errno, why: why.into() }
    }
}

impl From<tek_effect::Error> for Refused {
    fn from(error: tek_effect::Error) -> Self {
        // A reply has no room for a path; the log has it for the administrator.
        let why = match &error {
            tek_effect::Error::File { tried, advice, .. } => {
                log::warning(&error.to_string());
                format!("tekd cannot {tried} a file: {advice}")
            }
            error => error.to_string(),
        };
        Self::new(error.errno(), why)
    }
}

impl From<tek_policy::Refusal> for Refused {
    fn from(refusal: tek_policy::Refusal) -> Self {
        Self::new(refusal.errno(), refusal.to_string())
    }
}

/// A thread that is no longer Fast, for a notice to its process and to the process that asked.
#[derive(Clone, Debug)]
pub struct Left {
    pub tid: i32,
    pub errno: i32,
    pub value: [u64; 2],
    pub why: String,
    /// The overrun that ended it, if one did.
    pub over: Option<Overrun>,
    /// The processes that get the notice, its own first.
    pub to: Vec<i32>,
}

/// All Fast threads.
#[derive(Default)]
pub struct Region {
    members: HashMap<i32, Member>,
    /// Accounts of threads that were Fast.
    ledger: Ledger,
    /// Children of threads that are away from their groups.
    pub lineage: Lineage,
    /// No thread may enter before this time.
    closed_until_ns: u64,
    /// No budget is polled before this time.
    rests_until_ns: u64,
    /// Start of the present period with members, and the length of all earlier ones.
    since_ns: Option<u64>,
    before_ns: u64,
}

impl Region {
    /// The Fast threads.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// One Fast thread.
    pub fn member(&self, thread: Identity) -> Option<&Member> {
        self.members.get(&thread.tid).filter(|member| member.target.thread == thread)
    }

    /// The total time with members, in ns.
    pub fn responsive_ns(&self, now_ns: u64) -> u64 {
        self.before_ns + self.since_ns.map_or(0, |since| now_ns.saturating_sub(since))
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The members of a process and of a user by their own requests. Barred accounts count as well:
    /// else a process would go on with another thread.
    pub fn counts(&self, process: Identity, uid: u32, now_ns: u64) -> Counts {
        let there = self.counts_there(process, uid);
        let barred = self.ledger.barred(process, uid, now_ns);
        Counts { process: barred.process + there.process, user: barred.user + there.user }
    }

    fn counts_there(&self, process: Identity, uid: u32) -> Counts {
        let own =
            || self.members.values().filter_map(|m| Some((m.target.process, m.own.as_ref()?)));
        Counts {
            process: count(own().filter(|(its, _)| *its == process)),
            user: count(own().filter(|(_, ask)| ask.uid == uid)),
        }
    }

    /// The number of threads of other processes that are in it by a request of this user.
    pub fn count_by_hand(&self, uid: u32) -> u32 {
        count(self.members.values().filter_map(|m| m.by_hand.as_ref()).filter(|ask| ask.uid == uid))
    }

    /// The latest Fast thread among those that only this user requested.
    pub fn last_of(&self, uid: u32) -> Option<i32> {
        let is_sole = |member: &&Member| member.asks().all(|ask| ask.uid == uid);
        let since = |member: &Member| Some((member.best()?.since_ns, member.target.thread.tid));
        self.members.values().filter(is_sole).filter_map(since).max().map(|(_, tid)| tid)
    }

    /// The refusal while a thread is barred, with the time that is left.
    pub fn is_closed_to(&self, thread: Identity, now_ns: u64) -> Option<Refused> {
        let reported = |left: Duration| format!("{:.1} s", left.as_secs_f64());
        if self.closed_until_ns > now_ns {
            let left = reported(Duration::from_nanos(self.closed_until_ns - now_ns));
            let why = format!("ordinary threads did not run for too long: nobody for {left}");
            return Some(Refused::new(libc::EDQUOT, why));
        }
        let left = self.ledger.of(thread)?.banned_for(now_ns)?;
        let why = format!("the thread overran its budget: not again for {}", reported(left));
        Some(Refused::new(libc::EDQUOT, why))
    }

    /// Chooses the account that a new Fast thread takes over: its own or that of an earlier thread.
    fn choose_account(
        &mut self,
        backends: &mut Backends,
        target: Target,
        ask: &Ask,
        owner: &Owner,
    ) -> Result<Option<Identity>, Refused> {
        let now = ask.since_ns;
        if self.ledger.of(target.thread).is_none() {
            // Threads that ended without a notice leave accounts to take over, too.
            let may_have_ended = |m: &Member| m.owner.uid == owner.uid && m.may_have_ended();
            self.forget_ended(backends, may_have_ended);
        }
        let there = self.counts_there(target.process, ask.uid);
        let previous = self.ledger.choose(target.thread, owner, there, ask.quota, now);
        let account = previous.and_then(|previous| self.ledger.of(previous));
        match account.and_then(|account| account.banned_for(now)) {
            None => Ok(previous),
            Some(left) => {
                let left = left.as_secs_f64();
                let why = format!("a thread before it overran the budget: not for {left:.1} s");
                Err(Refused::new(libc::EDQUOT, why))
            }
        }
    }

    /// Makes the member of a thread that is about to become Fast; the thread is not changed yet.
    fn new_member(
        &mut self,
        backends: &mut Backends,
        target: Target,
        reason: Reason,
        ask: &Ask,
    ) -> Result<Member, Refused> {
        let owner = owner_of(target, reason, ask);
        let previous = self.choose_account(backends, target, ask, &owner)?;
        backends.before_fast(target.thread, target.process, ask.quota.process);
        let member = Member::new(target, owner, Account::new(ask.since_ns));
        let mut member = member.inspect_err(|_| backends.kthreads.disclaim(target.thread))?;
        let Some(previous) = previous else { return Ok(member) };
        if let Some(account) = self.ledger.remove(previous) {
            let is_own = previous == target.thread;
            member.account = if is_own { account } else { account.taken_over() };
        }
        Ok(member)
    }

    /// Puts a request into force. Returns the real-time priority that tekd set; 0: none.
    pub fn enter(
        &mut self,
        backends: &mut Backends,
        target: Target,
        reason: Reason,
        ask: Ask,
    ) -> Result<u32, Refused> {
        let now = ask.since_ns;
        let tid = target.thread.tid;
        if let Some(refused) = self.is_closed_to(target.thread, now) {
            return Err(refused);
        }
        if self.members.get(&tid).is_some_and(|member| member.target.thread != target.thread) {
            self.remove(backends, tid); // it ended, and another thread has its id
        }
        if !self.members.contains_key(&tid) {
            let member = self.new_member(backends, target, reason, &ask)?;
            self.members.insert(tid, member);
            self.since_ns.get_or_insert(now);
            backends.set_mode(true);
        }
        let Some(member) = self.members.get_mut(&tid) else {
            return Err(Refused::new(libc::ESRCH, "the thread has ended"));
        };
        let is_new = member.asks().next().is_none();
        // A request that only changes the priority keeps its start.
        let since_ns = member.slot(reason).as_ref().map_or(now, |ask| ask.since_ns);
        let before = member.slot(reason).replace(Ask { since_ns, ..ask });
        if is_new {
            member.begin(now);
        }
        match settle(member, backends) {
            Ok(()) => {
                if is_new {
                    member.next_check_ns = next_check(&member.account, now);
                }
                if let Some(way) = member.way(backends) {
                    self.lineage.add(member.target.process.tid, way);
                }
                Ok(member.rt_priority())
            }
            Err(error) => {
                *member.slot(reason) = before;
                if is_new {
                    self.remove(backends, tid);
                }
                if matches!(error, tek_effect::Error::Executing { .. }) {
                    self.forget_ended(backends, |member| member.target.process == target.process);
                }
                Err(error.into())
            }
        }
    }

    /// Charges the time that a child ran, at most, with the weight of the thread that made it.
    pub fn charge(&mut self, process: i32, parent_thread: i32, ns: u64) {
        let mut of_process: Vec<&mut Member> =
            self.members.values_mut().filter(|m| m.target.process.tid == process).collect();
        tek_sort::by_key(&mut of_process, |m| m.target.thread.tid != parent_thread);
        if let Some(member) = of_process.first_mut() {
            member.account.charge(ns);
        }
    }

    /// Ends a request; false: there was none.
    pub fn leave(&mut self, backends: &mut Backends, tid: i32, reason: Reason) -> bool {
        let Some(member) = self.members.get_mut(&tid) else { return false };
        let there = member.slot(reason).take().is_some();
        if member.best().is_none() {
            self.remove(backends, tid);
        } else if let Err(error) = settle(member, backends) {
            log::warning(&format!("{error}"));
            self.remove(backends, tid);
        }
        there
    }

    /// Ends all requests for threads of a process, or only its own; returns these threads.
    pub fn leave_process(
        &mut self,
        backends: &mut Backends,
        process: Identity,
        also_by_hand: bool,
    ) -> Vec<i32> {
        let of_process = |member: &&Member| member.target.process == process;
        let tids: Vec<i32> =
            self.members().filter(of_process).map(|m| m.target.thread.tid).collect();
        for &tid in &tids {
            self.leave(backends, tid, Reason::Own);
            if also_by_hand {
                self.leave(backends, tid, Reason::ByHand);
            }
        }
        self.ledger.orphan(process);
        tids
    }

    /// Gives all members a priority of the present range.
    pub fn settle_all(&mut self, backends: &mut Backends) {
        let mut settled = |member: &mut Member| settle(member, backends).err();
        let failed: Vec<(i32, tek_effect::Error)> = self
            .members
            .iter_mut()
            .filter_map(|(&tid, member)| Some((tid, settled(member)?)))
            .collect();
        for (tid, error) in failed {
            log::warning(&error.to_string());
            self.remove(backends, tid);
        }
    }

    /// Removes threads that ended without a notice.
    pub fn forget_ended(&mut self, backends: &mut Backends, among: impl Fn(&Member) -> bool) {
        let ended = |member: &&Member| !member.target.thread.is_there();
        let tids: Vec<i32> = self
            .members()
            .filter(|member| among(member))
            .filter(ended)
            .map(|member| member.target.thread.tid)
            .collect();
        tids.into_iter().for_each(|tid| self.remove(backends, tid));
    }

    /// Removes all members, and admits none until `until_ns`.
    pub fn close(&mut self, backends: &mut Backends, until_ns: u64, why: &str) -> Vec<Left> {
        self.closed_until_ns = until_ns;
        let tids: Vec<i32> = self.members.keys().copied().collect();
        tids.into_iter()
            .filter_map(|tid| {
                let left = self.left(tid, libc::EDQUOT, [0, 0], why.to_owned());
                self.remove(backends, tid);
                left
            })
            .collect()
    }

    /// Does the work that is due: ends timed requests and polls budgets. Returns the threads that
    /// left.
    pub fn run_once(&mut self, backends: &mut Backends, now_ns: u64) -> Vec<Left> {
        let mut all_left = self.end_timed(backends, now_ns);
        let is_due = |member: &Member| member.next_check_ns <= now_ns;
        if now_ns < self.rests_until_ns || !self.members().any(is_due) {
            return all_left;
        }
        let began_cpu_ns = sys::cpu_ns();
        let mut gone = Vec::new();
        for member in self.members.values_mut().filter(|member| is_due(member)) {
            member.next_check_ns = next_check(&member.account, now_ns);
            let tid = member.target.thread.tid;
            match member.target.thread.is_there() {
                false => gone.push((tid, None)),
                true => gone.extend(member.examine(now_ns).map(|over| (tid, Some(over)))),
            }
        }
        for (tid, over) in gone {
            all_left.extend(over.and_then(|over| {
                let why = format!(
                    "it used {} ms of {} ms of CPU time",
                    over.used_ns / 1_000_000,
                    over.of_ns / 1_000_000
                );
                let left = self.left(tid, libc::EDQUOT, [over.used_ns, over.of_ns], why)?;
                Some(Left { over: Some(over), ..left })
            }));
            self.remove(backends, tid);
        }
        self.rests_until_ns = now_ns + sys::period_ns(began_cpu_ns, 0);
        all_left
    }

    fn end_timed(&mut self, backends: &mut Backends, now_ns: u64) -> Vec<Left> {
        let is_over = |ask: &Option<Ask>| {
            ask.as_ref().is_some_and(|ask| ask.until_ns > 0 && ask.until_ns <= now_ns)
        };
        let over: Vec<(i32, Reason)> = self
            .members
            .iter()
            .flat_map(|(&tid, member)| {
                let own = is_over(&member.own).then_some((tid, Reason::Own));
                own.into_iter().chain(is_over(&member.by_hand).then_some((tid, Reason::ByHand)))
            })
            .collect();
        let mut all_left = Vec::new();
        for (tid, reason) in over {
            let (errno, why) = match self.stays_after(backends, tid, reason) {
                Ok(true) => continue,
                Ok(false) => (libc::ETIME, "its time is over".to_owned()),
                Err(error) => {
                    log::warning(&error.to_string());
                    (error.errno(), error.to_string())
                }
            };
            let left = self.left(tid, errno, [0, 0], why);
            self.leave(backends, tid, reason);
            if !self.members.contains_key(&tid) {
                all_left.extend(left);
            }
        }
        all_left
    }

    /// Whether a request whose time is over goes on with another priority.
    fn stays_after(
        &mut self,
        backends: &mut Backends,
        tid: i32,
        reason: Reason,
    ) -> Result<bool, tek_effect::Error> {
        let Some(member) = self.members.get_mut(&tid) else { return Ok(false) };
        let Some(ask) = member.slot(reason) else { return Ok(false) };
        let Some(then) = ask.then.take() else { return Ok(false) };
        (ask.priority, ask.until_ns) = (then, 0);
        settle(member, backends).map(|()| true)
    }

    /// When `run_once` has work.
    pub fn next_ns(&self) -> Option<u64> {
        let ends = self.members().flat_map(Member::asks).map(|ask| ask.until_ns);
        let samples = self.members().map(|it| it.next_check_ns.max(self.rests_until_ns));
        ends.filter(|&until| until > 0).chain(samples).min()
    }

    /// The notice for a thread that is about to leave.
    pub fn left(&self, tid: i32, errno: i32, value: [u64; 2], why: String) -> Option<Left> {
        let member = self.members.get(&tid)?;
        let mut to = vec![member.target.process.tid];
        to.extend(member.by_hand.as_ref().map(|ask| ask.pid).filter(|&pid| pid != to[0]));
        Some(Left { tid, errno, value, why, over: None, to })
    }

    fn remove(&mut self, backends: &mut Backends, tid: i32) {
        let Some(mut member) = self.members.remove(&tid) else { return };
        match member.give_back(backends) {
            Ok(_) | Err(tek_effect::Error::Executing { .. }) => {}
            Err(error) => log::warning(&error.to_string()),
        }
        backends.after_fast(member.target.thread, member.target.process, member.base);
        let now = sys::monotonic_ns();
        if self.members.is_empty() {
            self.before_ns = self.responsive_ns(now);
            self.since_ns = None;
            backends.set_mode(false);
        }
        member.end(now);
        self.ledger.keep(member.target.thread, member.owner, member.account, now);
    }
}

/// The owner of the account that is opened for a request.
fn owner_of(target: Target, reason: Reason, ask: &Ask) -> Owner {
    Owner {
        process: target.process,
        uid: ask.uid,
        grant: ask.grant.clone(),
        connected_ns: ask.connected_ns,
        by_itself: reason == Reason::Own,
    }
}

/// Gives a member the values of its requests.
fn settle(member: &mut Member, backends: &mut Backends) -> Result<(), tek_effect::Error> {
    let Some(ask) = member.best() else { return Ok(()) };
    let (priority, granted, budget) = (ask.priority, ask.granted, ask.budget);
    let cpu_ns = member.cpu_ns().unwrap_or(0);
    member.account.set_budgets(granted, budget, sys::monotonic_ns(), cpu_ns);
    member.set(backends, priority)
}

/// At whole multiples of the interval, so that the polls of several threads share one wake-up.
fn next_check(account: &Account, now_ns: u64) -> u64 {
    let interval = account.interval_ns().max(1);
    (now_ns / interval + 1) * interval
}

fn count<T>(of: impl Iterator<Item = T>) -> u32 {
    u32::try_from(of.count()).unwrap_or(u32::MAX)
}
