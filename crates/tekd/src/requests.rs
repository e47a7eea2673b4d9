// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of clients, and the replies.
mod group;

use crate::connection::Connection;
use crate::history::Asker;
use crate::log;
use crate::member::{Ask, Member, Reason, Target};
use crate::peer::Still;
use crate::process;
use crate::region::{Refused, Region};
use crate::server::Server;
use crate::status;
use crate::sys;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tek_abi::{
    Reply, Request, ASK_CRITICAL, ASK_ENTER, ASK_EXPLAIN, ASK_GROUP, ASK_HELLO, ASK_LEAVE,
    ASK_LIFT, ASK_NORMAL, ASK_PROCESS, ASK_STATUS, ASK_THEN, GRANT_LIMIT, GRANT_SWITCH,
};
use tek_effect::{Error, Identity, Limits, Resource};
use tek_policy::{Budget, Counts, Priority, Refusal};

type Result<T> = std::result::Result<T, Refused>;

/// The reply to a request, and the file that goes with it.
pub fn answer(server: &mut Server, pid: i32, request: &Request) -> (Reply, Option<OwnedFd>) {
    let mut reply = Reply::to(request);
    match act(server, pid, request, &mut reply) {
        Ok(file) => (reply, file),
        Err(refused) => {
            server.counters.refused += 1;
            server.history.refused(sys::monotonic_ns(), asker(server, pid), &refused);
            (Reply::to(request).refused(refused.errno, &refused.why), None)
        }
    }
}

fn asker(server: &Server, pid: i32) -> Asker {
    let peer = server.peers.get(&pid);
    let connection = peer.and_then(|peer| server.connections.get(peer.connections.first()?));
    let checked = peer.and_then(|peer| peer.checked.as_ref());
    let uid = checked.map(|checked| checked.person.uid);
    Asker {
        pid,
        uid: uid.or(connection.map(Connection::uid)).unwrap_or(u32::MAX),
        name: checked.map(|checked| checked.name.clone()).unwrap_or_default(),
    }
}

fn act(
    server: &mut Server,
    pid: i32,
    request: &Request,
    reply: &mut Reply,
) -> Result<Option<OwnedFd>> {
    let now = sys::monotonic_ns();
    server.peer(pid)?.may_ask(now)?;
    match request.kind {
        ASK_HELLO => {
            is_still_itself(server, pid)?;
            reply.value = [hello(server, pid)?, budget_ns(server.peer(pid)?.grant()?.terms.budget)];
        }
        ASK_ENTER => {
            may_have_something(server, pid, now)?;
            reply.rt_priority = enter(server, pid, request, now)?;
            reply.value[0] = match later_priority(request)? {
                Some(later) if reply.rt_priority != 0 => {
                    server.backends.range.priority(later).into()
                }
                _ => 0,
            };
        }
        ASK_LEAVE => leave(server, pid, request)?,
        ASK_CRITICAL => {
            may_have_something(server, pid, now)?;
            reply.rt_priority = critical(server, pid, request, now)?;
        }
        ASK_NORMAL => {
            is_still_itself(server, pid)?;
            normal(server, pid, request)?;
        }
        ASK_STATUS => {
            let viewer = server.peer(pid)?.viewer()?;
            return Ok(Some(status::file(&status::of_all(server, viewer))?));
        }
        ASK_EXPLAIN => {
            let viewer = server.peer(pid)?.viewer()?;
            let about = status::of_thread(server, thread_id(request)?, viewer)?;
            return Ok(Some(status::file(&about)?));
        }
        ASK_GROUP => {
            is_still_itself(server, pid)?;
            group::place(server, pid, request)?;
        }
        kind => return Err(Refused::new(libc::EINVAL, format!("there is no request {kind}"))),
    }
    Ok(None)
}

/// Checks a client. Ends it if it became another one, which the grant does not cover.
fn is_still_itself(server: &mut Server, pid: i32) -> Result<()> {
    let peer = server.peers.get_mut(&pid).ok_or_else(unknown)?;
    match peer.check(&server.configuration, &server.domain, &server.backends.placement.originals)? {
        Still::Itself => {
            if peer.grant().is_ok() {
                let uid = peer.connected_uid();
                server.note_grant(uid);
            }
            Ok(())
        }
        Still::Another(why) => {
            server.ending.push((peer.process, why));
            Err(Refused::new(libc::EPERM, format!("{why}: connect again")))
        }
    }
}

/// Whether a client has a grant at all. Then the events are on, and the client was checked after
/// that, so a later change of it will be reported.
fn may_have_something(server: &mut Server, pid: i32, now: u64) -> Result<()> {
    server.receive_all_news();
    if server.peer(pid)?.is_sure {
        server.awaken(now);
        return server.peer(pid)?.grant().map(drop);
    }
    is_still_itself(server, pid)?;
    server.peer(pid)?.grant()?;
    let process = server.peer(pid)?.process;
    if server.awaken(now) | server.watch_changes_of(process) {
        is_still_itself(server, pid)?;
    }
    server.peer(pid)?.is_sure = server.is_notified_of_rest();
    Ok(())
}

fn unknown() -> Refused {
    Refused::new(libc::ESRCH, "the process is not connected")
}

fn hello(server: &mut Server, pid: i32) -> Result<u64> {
    let high = server.configuration.real_time.high;
    let peer = server.peers.get_mut(&pid).ok_or_else(unknown)?;
    let grant = peer.grant()?;
    if !grant.terms.limit || peer.checked.as_ref().is_some_and(|checked| checked.domain.is_err()) {
        return Ok(GRANT_SWITCH);
    }
    may_have_something(server, pid, sys::monotonic_ns())?;
    if server.exec_watch.is_none() {
        server.describe_limits(
            "the kernel reports no events of children, which would keep the limit",
        );
        return Ok(GRANT_SWITCH);
    }
    server.watch_births(true);
    if !server.births.are_received() {
        server.describe_limits("the kernel does not tell of children, which would keep the limit");
        return Ok(GRANT_SWITCH);
    }
    match raise_limit(server, pid, u64::from(high) + 1) {
        Ok(()) => Ok(GRANT_SWITCH | GRANT_LIMIT),
        Err(gone @ Error::Gone { .. }) => {
            server.watch_births(false);
            Err(gone.into())
        }
        Err(error) => {
            server.describe_limits(&error.to_string());
            server.watch_births(false);
            Ok(GRANT_SWITCH)
        }
    }
}

/// Lets a client give its threads real-time priorities up to the highest granted one. One more is
/// for the budget guard in the process.
fn raise_limit(server: &mut Server, pid: i32, wanted: u64) -> std::result::Result<(), Error> {
    let Some(peer) = server.peers.get_mut(&pid) else { return Err(Error::Gone { tid: pid }) };
    let there = Limits::of(pid, Resource::Rtprio)?;
    let process = peer.process;
    if peer.limit.is_none() && there.soft < wanted {
        let (soft, hard) = (there.soft.max(wanted), there.hard.max(wanted));
        let change =
            server.backends.effect.set_limit(peer.process, Resource::Rtprio, soft, hard)?;
        peer.limit = Some(change);
        server.note_maker(process.tid);
    }
    Ok(())
}

fn enter(server: &mut Server, pid: i32, request: &Request, now: u64) -> Result<u32> {
    let tid = thread_id(request)?;
    let process = server.peer(pid)?.process;
    let thread = Identity::of_thread_of(pid, tid).map_err(|error| match error {
        Error::Gone { .. } => {
            Refused::new(libc::ESRCH, format!("{tid} is no thread of this process"))
        }
        error => error.into(),
    })?;
    let ask = ask(server, pid, request, now)?;
    let peer = server.peer(pid)?;
    if let Some(Err(outside)) = peer.checked.as_ref().map(|checked| checked.domain) {
        return Err(Refused::new(libc::EPERM, outside.to_string()));
    }
    let terms = &peer.grant()?.terms;
    let more = server.region.member(thread).is_none_or(|member| member.own.is_none());
    let may_add =
        |region: &Region| terms.may_add(u32::from(more), region.counts(process, ask.uid, now));
    if may_add(&server.region).is_err() {
        let of_user = |member: &Member| member.asks().any(|other| other.uid == ask.uid);
        server.region.forget_ended(&mut server.backends, of_user);
    }
    while let Err(refusal) = may_add(&server.region) {
        let of_process = matches!(refusal, Refusal::ProcessThreads(_)).then_some(process);
        if ask.is_lift || !server.end_a_lift(ask.uid, of_process) {
            return Err(refusal.into());
        }
    }
    if server.region.member(thread).is_none() {
        server.make_room_for(ask.uid, 1)?;
    }
    let target = Target { thread, process };
    server.note_program(process, now);
    let given = server.region.enter(&mut server.backends, target, Reason::Own, ask)?;
    server.counters.granted += 1;
    Ok(given)
}

fn leave(server: &mut Server, pid: i32, request: &Request) -> Result<()> {
    let tid = thread_id(request)?;
    let process = server.peer(pid)?.process;
    let is_own = server
        .region
        .members()
        .any(|member| member.target.thread.tid == tid && member.target.process == process);
    if is_own {
        server.region.leave(&mut server.backends, tid, Reason::Own);
    }
    Ok(())
}

/// The result of a request under the client's grant; takes one switch off its account.
fn ask(server: &mut Server, pid: i32, request: &Request, now: u64) -> Result<Ask> {
    let priority = Priority::try_from(i64::from(request.priority))
        .map_err(|wrong| Refused::new(libc::EINVAL, wrong.to_string()))?;
    let mut then = later_priority(request)?;
    let (mut priority, mut until_ns) = (priority, request.until_ns);
    if until_ns > 0 && until_ns <= now {
        let over = || Refused::new(libc::ETIME, "until_ns is over: give a later time");
        (priority, until_ns) = (then.take().ok_or_else(over)?, 0);
    }
    let asked = asked_budget(request)?;
    let uid = server.peer(pid)?.checked.as_ref().ok_or_else(unknown)?.person.uid;
    let uid = server.user_of(uid);
    let peer = server.peer(pid)?;
    let grant = peer.grant()?;
    [Some(priority), then].into_iter().flatten().try_for_each(|it| grant.terms.may_have(it))?;
    let is_lift = request.flags & ASK_LIFT != 0;
    match is_lift {
        true => grant.terms.may_lift(&mut peer.switches, now)?,
        false => grant.terms.may_switch(&mut peer.switches, now)?,
    }
    let checked = peer.checked.as_ref().ok_or_else(unknown)?;
    Ok(Ask {
        priority,
        until_ns,
        then,
        is_lift,
        granted: grant.terms.budget,
        budget: asked.or_wider(grant.terms.budget),
        quota: Counts { process: grant.terms.threads, user: grant.terms.user_threads },
        pid,
        uid,
        name: checked.name.clone(),
        connected_ns: peer.since_ns,
        grant: grant.source.clone(),
        since_ns: now,
    })
}

/// The priority that a thread has from the end of its time on.
fn later_priority(request: &Request) -> Result<Option<Priority>> {
    if request.flags & ASK_THEN == 0 {
        return Ok(None);
    }
    if request.until_ns == 0 {
        return Err(Refused::new(libc::EINVAL, "TEK_ASK_THEN needs until_ns"));
    }
    Priority::try_from(i64::from(request.then_priority))
        .map(Some)
        .map_err(|wrong| Refused::new(libc::EINVAL, wrong.to_string()))
}

/// The budget that a thread asks for.
fn asked_budget(request: &Request) -> Result<Budget> {
    let of = |us: u32| Duration::from_micros(us.into());
    match (request.budget_us, request.window_us) {
        (0, 0) => Ok(Budget::Off),
        (cpu, window) => Budget::limit(of(cpu), of(window))
            .map_err(|wrong| Refused::new(libc::EINVAL, wrong.to_string())),
    }
}

/// The threads that CRITICAL and NORMAL mean.
fn targets(server: &mut Server, pid: i32, request: &Request) -> Result<Vec<Target>> {
    let id = thread_id(request)?;
    let gone = || Refused::new(libc::ESRCH, format!("there is no thread {id}"));
    let uid = server.peer(pid)?.checked.as_ref().ok_or_else(unknown)?.person.uid;
    server.peer(pid)?.grant()?.terms.may_change_other_users(uid)?;
    let process = process::of_thread(id).ok_or_else(gone)?;
    server
        .domain
        .check(process.tid, &server.configuration.protected, &server.backends.placement.originals)
        .map_err(|outside| Refused::new(libc::EPERM, outside.to_string()))?;
    let whole = request.flags & ASK_PROCESS != 0;
    let tids = match whole {
        true if process.tid != id => {
            return Err(Refused::new(libc::EINVAL, format!("{id} is a thread, no process")))
        }
        true => process::threads(id).map_err(|_| gone())?,
        false => vec![id],
    };
    let targets: Vec<Target> = tids
        .into_iter()
        .filter_map(|tid| Some(Target { thread: Identity::of(tid).ok()?, process }))
        .filter(|target| process::has_thread(process.tid, target.thread.tid))
        .collect();
    let named = if whole { Some(process) } else { targets.first().map(|target| target.thread) };
    match named {
        Some(named) if can_be_meant(named, request.start_ticks) => Ok(targets),
        _ => Err(gone()),
    }
}

/// Whether a request means this thread: the client may have rounded its start in another time
/// namespace.
fn can_be_meant(named: Identity, start_ticks: u64) -> bool {
    start_ticks == 0 || named.start_ticks.abs_diff(start_ticks) <= 1
}

/// The same for a process whose changes the kernel reports from now on. It may have executed
/// another program just before.
fn targets_to_watch(
    server: &mut Server,
    pid: i32,
    request: &Request,
    now: u64,
) -> Result<Vec<Target>> {
    let found = targets(server, pid, request)?;
    let process = found.first().map(|target| target.process);
    match process.is_some_and(|process| server.note_program(process, now)) {
        true => targets(server, pid, request),
        false => Ok(found),
    }
}

fn critical(server: &mut Server, pid: i32, request: &Request, now: u64) -> Result<u32> {
    let targets = targets_to_watch(server, pid, request, now)?;
    let ask = ask(server, pid, request, now)?;
    let is_new = |target: &&Target| {
        server.region.member(target.thread).is_none_or(|member| member.by_hand.is_none())
    };
    let new = targets.iter().filter(is_new).count();
    let more = u32::try_from(new).unwrap_or(u32::MAX);
    let there = server.region.count_by_hand(ask.uid);
    server.peer(pid)?.grant()?.terms.user_may_add(more, there)?;
    server.make_room_for(ask.uid, new)?;
    let mut entered = Vec::new();
    let mut given = 0;
    for target in targets {
        let was =
            server.region.member(target.thread).is_some_and(|member| member.by_hand.is_some());
        let result = server.region.enter(&mut server.backends, target, Reason::ByHand, ask.clone());
        match result {
            Ok(priority) => given = given.max(priority),
            // Some threads of a process may end meanwhile.
            Err(refused) if refused.errno == libc::ESRCH && request.flags != 0 => continue,
            Err(refused) => {
                for tid in entered {
                    server.region.leave(&mut server.backends, tid, Reason::ByHand);
                }
                return Err(refused);
            }
        }
        if !was {
            entered.push(target.thread.tid);
        }
    }
    server.counters.granted += 1;
    let threads = match entered.len() {
        1 => "one new thread".to_owned(),
        count => format!("{count} new threads"),
    };
    let priority = match given {
        0 => String::new(),
        given => format!(", real-time priority {given}"),
    };
    log::info(&format!(
        "{}[{pid}] of user {} made {} critical: {threads}{priority}",
        ask.name, ask.uid, request.tid,
    ));
    Ok(given)
}

fn normal(server: &mut Server, pid: i32, request: &Request) -> Result<()> {
    for target in targets(server, pid, request)? {
        if server.region.member(target.thread).is_some() {
            server.region.leave(&mut server.backends, target.thread.tid, Reason::ByHand);
        }
    }
    Ok(())
}

fn thread_id(request: &Request) -> Result<i32> {
    match i32::try_from(request.tid) {
        Ok(tid) if tid > 0 => Ok(tid),
        _ => Err(Refused::new(libc::EINVAL, format!("{} is no thread's id", request.tid))),
    }
}

fn budget_ns(budget: Budget) -> u64 {
    match budget {
        Budget::Off => 0,
        Budget::Limit { cpu, .. } => u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
    }
}
