// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of tekd, and the reasons for a thread's priority, as JSON.
use crate::history::ms;
use crate::lift_chains;
use crate::member::{Ask, Member};
use crate::noncritical::Lowered;
use crate::peer::Peer;
use crate::placement::Shown;
use crate::process::{self, Status};
use crate::region::Refused;
use crate::server::Server;
use crate::sys;
use crate::viewer::Viewer;
use nix::fcntl::{fcntl, FcntlArg, SealFlag};
use nix::sys::memfd::{memfd_create, MFdFlags};
use serde_json::{json, Value};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tek_effect::{Identity, Scheduling};
use tek_policy::{Group, Priority};

/// The version of the meaning of `of_all`.
const SCHEMA: u32 = 1;

/// A sealed file without a name.
pub fn file(value: &Value) -> Result<OwnedFd, Refused> {
    let failed = |error: String| Refused::new(libc::ENOMEM, error);
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = memfd_create(c"tekd", flags).map_err(|error| failed(error.to_string()))?;
    let mut file = File::from(file);
    writeln!(file, "{value:#}").map_err(|error| failed(error.to_string()))?;
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(|error| failed(error.to_string()))?;
    Ok(file.into())
}

/// The state, for the processes that the client may see. A new field leaves `schema` as it is; a
/// changed meaning of a field increases it.
pub fn of_all(server: &Server, viewer: Viewer) -> Value {
    let now = sys::monotonic_ns();
    let mut clients: Vec<Value> =
        server.peers.values().filter_map(|peer| client(server, peer, viewer)).collect();
    tek_sort::by_key(&mut clients, |client| client["pid"].as_i64());
    let mut fast: Vec<Value> = server
        .region
        .members()
        .filter(|member| viewer.sees_id(member.target.process.tid))
        .map(|member| thread(member, now))
        .collect();
    tek_sort::by_key(&mut fast, |thread| thread["tid"].as_i64());
    let lowered =
        server.backends.noncritical.lowered().filter(|(_, its)| viewer.sees_id(its.process.tid));
    let configuration = &server.configuration;
    let canary = json!({
        "limit_ms": u64::from(configuration.canary_seconds) * 1000,
        "demoted": server.counters.alarms,
    });
    json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "since": rfc_3339(server.started),
        "mode": if server.region.is_empty() { "normal" } else { "responsiveness" },
        "backend": server.backends.backend.name(),
        "backend_why": server.backends.backend_why,
        "groups": server.backends.placement.shown().map(|shown| groups(&shown)),
        "kthreads": kthreads(server, viewer),
        "inherit": inherit(server, viewer),
        "groups_why": server.backends.placement.why_not(),
        "domain": server.domain.parts().collect::<Vec<_>>(),
        "configuration": server.source,
        "real_time": [configuration.real_time.low, configuration.real_time.high],
        "hears_of_exec": server.exec_watch.is_some(),
        "fast": fast,
        "lowered": lowered.map(|(thread_id, its)| of_lowered(thread_id, its)).collect::<Vec<_>>(),
        "clients": clients,
        "refused": server.history.refusals(now, |uid| viewer.sees_user(uid)),
        "overran": server.history.overruns(now, |pid| viewer.sees_id(pid)),
        "canary": (configuration.canary_seconds > 0).then_some(canary),
        "counts": {
            "changes": server.backends.effect.count(),
            "connections": server.connections.len(),
            "granted": server.counters.granted,
            "refused": server.counters.refused,
            "expelled": server.counters.expelled,
            "responsive_ms": ms(server.region.responsive_ns(now)),
        },
    })
}

/// The kernel threads, and the threads that wait for them.
fn kthreads(server: &Server, viewer: Viewer) -> Value {
    let mut reported = server.backends.kthreads.reported();
    let is_seen = |member: &Value| {
        let tid = member["tid"].as_i64().and_then(|tid| i32::try_from(tid).ok());
        tid.is_some_and(|tid| viewer.sees_id(tid))
    };
    let threads = reported.get_mut("threads").and_then(Value::as_array_mut);
    for thread in threads.into_iter().flatten() {
        if let Some(members) = thread.get_mut("members").and_then(Value::as_array_mut) {
            members.retain(is_seen);
        }
    }
    reported
}

/// The threads of programs that are lifted, and the threads that wait for them.
fn inherit(server: &Server, viewer: Viewer) -> Value {
    let mut reported = server.backends.kthreads.reported_lifts();
    let is_seen = |thread: &Value| {
        let tid = thread["tid"].as_i64().and_then(|tid| i32::try_from(tid).ok());
        tid.is_some_and(|tid| viewer.sees_id(tid))
    };
    if let Some(threads) = reported.get_mut("threads").and_then(Value::as_array_mut) {
        threads.retain(is_seen);
        for thread in threads {
            if let Some(waiters) = thread.get_mut("waiters").and_then(Value::as_array_mut) {
                waiters.retain(is_seen);
            }
        }
    }
    let is_seen = |tid: &Value| {
        tid.as_i64().and_then(|tid| i32::try_from(tid).ok()).is_some_and(|it| viewer.sees_id(it))
    };
    if let Some(circles) = reported.get_mut("circles").and_then(Value::as_array_mut) {
        circles.retain(|circle| circle.as_array().is_some_and(|all| all.iter().all(is_seen)));
    }
    reported
}

/// A noncritical RT thread that is lowered.
fn of_lowered(thread: Identity, its: &Lowered) -> Value {
    let name = |id: i32| Status::of(id).map_or(String::new(), |status| status.name().to_owned());
    json!({
        "tid": thread.tid,
        "pid": its.process.tid,
        "program": name(its.process.tid),
        "name": name(thread.tid),
        "policy": policy(its.had.policy),
        "priority": its.had.priority,
        "lowered_to": its.has.priority,
    })
}

/// The groups, and the number of their processes and threads.
fn groups(shown: &Shown) -> Value {
    let count = |directory: &Path, file: &str| {
        fs::read(directory.join(file))
            .ok()
            .map(|text| text.split(|&byte| byte == b'\n').count() - 1)
    };
    // The kernel does not report the processes of a threaded group of version 2.
    let threads =
        |path: &Path| count(path, "tasks").or_else(|| count(path, "cgroup.threads")).unwrap_or(0);
    let group = |(group, path): &(Group, PathBuf)| {
        json!({
            "name": group.name(),
            "weight": shown.weights.of(*group).weight(),
            "path": path,
            "threads": threads(path),
            "processes": count(path, "cgroup.procs"),
        })
    };
    json!({
        "place": shown.place,
        "top": shown.top,
        "floor_percent": shown.weights.floor.percent(),
        "entered": shown.entered,
        "fast": { "path": shown.fast, "threads": threads(&shown.fast) },
        "groups": shown.groups.iter().map(group).collect::<Vec<_>>(),
        "left": shown.left,
    })
}

/// A process that has a grant.
fn client(server: &Server, peer: &Peer, viewer: Viewer) -> Option<Value> {
    let checked = peer.checked.as_ref().filter(|checked| viewer.sees_user(checked.person.uid))?;
    let grant = checked.grant.as_ref().ok()?;
    let own = |member: &&Member| member.target.process == peer.process && member.own.is_some();
    Some(json!({
        "pid": peer.process.tid,
        "program": checked.name,
        "uid": checked.person.uid,
        "grant": if peer.limit.is_some() { "limit" } else { "switch" },
        "by": grant.source,
        "fast": server.region.members().filter(own).count(),
        "quota": grant.terms.threads,
        "connections": peer.connections.len(),
    }))
}

/// A Fast thread.
fn thread(member: &Member, now: u64) -> Value {
    let target = member.target;
    let process = Status::of(target.process.tid).ok();
    let own = member.own.as_ref().map(|own| ask(own, "its process", now));
    let by_hand = member.by_hand.as_ref().map(|request| ask(request, "by hand", now));
    let asks: Vec<Value> = own.into_iter().chain(by_hand).collect();
    let best = member.best();
    let since = member.asks().map(|ask| ask.since_ns).min();
    let until = member.asks().map(|ask| left(ask, now).filter(|_| ask.then.is_none()));
    let until = until.max_by_key(|left| left.unwrap_or(u64::MAX));
    json!({
        "tid": target.thread.tid,
        "pid": target.process.tid,
        "program": process.as_ref().map_or("", |status| status.name()),
        "name": Status::of(target.thread.tid).map_or(String::new(), |own| own.name().to_owned()),
        "uid": process.as_ref().and_then(Status::user_and_groups).map_or(u32::MAX, |(uid, _)| uid),
        "priority": best.map(|ask| ask.priority.nice()),
        "rt_priority": member.rt_priority(),
        "since_ms": since.map(|since| ms(now.saturating_sub(since))),
        "until_ms": until.flatten(),
        "asked_by": best.map(|ask| ask.pid),
        "why": best.map(|ask| ask.grant.as_str()),
        "used_ms": member.cpu_ns().map(|cpu| ms(member.account.used_by_thread(cpu))),
        "had": scheduling(member.base),
        "asked": asks,
    })
}

/// How long a request has its priority; `None`: until it is taken back.
fn left(ask: &Ask, now: u64) -> Option<u64> {
    (ask.until_ns > 0).then(|| ms(ask.until_ns.saturating_sub(now)))
}

fn ask(ask: &Ask, why: &str, now: u64) -> Value {
    json!({
        "why": why,
        "pid": ask.pid,
        "uid": ask.uid,
        "program": ask.name,
        "priority": ask.priority.nice(),
        "grant": ask.grant,
        "budget": ask.budget.to_string(),
        "since_ms": ms(now.saturating_sub(ask.since_ns)),
        "until_ms": left(ask, now),
        "then_priority": ask.then.map(Priority::nice),
    })
}

/// Seconds since 1970 as a date and time in UTC.
fn rfc_3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that a leap day is the last day. Eras are the 400 years after
    // which the calendar repeats itself.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn scheduling(of: Scheduling) -> Value {
    json!({
        "policy": policy(of.policy),
        "priority": of.priority,
        "nice": of.nice,
        "reset_on_fork": of.reset_on_fork,
    })
}

fn policy(number: u32) -> String {
    const NAMES: [&str; 8] = ["OTHER", "FIFO", "RR", "BATCH", "ISO", "IDLE", "DEADLINE", "EXT"];
    let name = usize::try_from(number).ok().and_then(|number| NAMES.get(number));
    name.map_or_else(|| number.to_string(), |name| format!("SCHED_{name}"))
}

/// The state of any thread of the device. A thread outside the client's view counts as missing.
pub fn of_thread(server: &Server, tid: i32, viewer: Viewer) -> Result<Value, Refused> {
    if viewer == Viewer::Nobody {
        let why = "the process is in a pid namespace: tekd does not know its threads' ids";
        return Err(Refused::new(libc::EOPNOTSUPP, why));
    }
    let now = sys::monotonic_ns();
    let gone = || Refused::new(libc::ESRCH, format!("there is no thread {tid}"));
    let status = Status::of(tid).map_err(|_| gone())?;
    if !viewer.sees(&status) {
        return Err(gone());
    }
    let identity = Identity::of(tid).map_err(|_| gone())?;
    let process = process::of_thread(tid).ok_or_else(gone)?;
    let member = server.region.member(identity);
    let outside = server
        .domain
        .check(process.tid, &server.configuration.protected, &server.backends.placement.originals)
        .err();
    let peer = server.peers.get(&process.tid).filter(|peer| peer.process == process);
    let grant = peer.and_then(|peer| peer.checked.as_ref()).map(|checked| match &checked.grant {
        Ok(grant) => grant.source.clone(),
        Err(refusal) => refusal.to_string(),
    });
    let group = server.backends.placement.group_of(identity, process);
    let lowered = server.backends.noncritical.lowered_one(identity);
    Ok(json!({
        "tid": tid,
        "pid": process.tid,
        "start_ticks": identity.start_ticks,
        "name": status.name(),
        "has": scheduling(Scheduling::of(tid)?),
        "fast": member.map(|member| thread(member, now)),
        "region": if member.is_some() { "fast" } else { "lazy" },
        "outside_domain": outside.map(|outside| outside.to_string()),
        "barred": server.region.is_closed_to(identity, now).map(|refused| refused.why),
        "lowered": lowered.map(|its| of_lowered(identity, its)),
        "inherit": lift_chains::of(&inherit(server, viewer), tid),
        "group": group.map(|(group, _)| group.name()),
        "group_by": group.map(|(_, by)| by),
        "connected": peer.is_some(),
        "grant": grant,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn times_are_written_as_dates() {
        for (seconds, wanted) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_339_931, "2026-11-22T09:32:11Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc_3339(seconds), wanted);
        }
    }

    #[test]
    fn the_file_of_a_status_cannot_be_changed() {
        let mut file = File::from(super::file(&json!({"a": 1})).unwrap());
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["a"], 1);
        assert!(file.write_all(b"x").is_err() && file.set_len(0).is_err());
    }
}
