// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tekd is at, and why a thread runs as it does, as JSON.
use crate::member::{Ask, Member};
use crate::process::{self, Status};
use crate::region::Refused;
use crate::server::Server;
use crate::sys;
use nix::fcntl::{fcntl, FcntlArg, SealFlag};
use nix::sys::memfd::{memfd_create, MFdFlags};
use serde_json::{json, Value};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use tek_effect::{Identity, Scheduling};

/// A file without a name that nobody can change.
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

/// All of it. Times are CLOCK_MONOTONIC in ns.
pub fn of_all(server: &Server) -> Value {
    let now = sys::monotonic_ns();
    let mut clients: Vec<Value> = server
        .peers
        .values()
        .map(|peer| {
            let checked = peer.checked.as_ref();
            let grant = checked.and_then(|checked| checked.grant.as_ref().ok());
            json!({
                "pid": peer.process.tid,
                "name": checked.map(|checked| &checked.name),
                "user": checked.map(|checked| checked.person.uid),
                "connections": peer.connections.len(),
                "grant": grant.map(|grant| &grant.source),
                "limit": peer.limit.is_some(),
            })
        })
        .collect();
    clients.sort_by_key(|client| client["pid"].as_i64());
    let mut fast: Vec<Value> = server.region.members().map(|member| thread(member, now)).collect();
    fast.sort_by_key(|thread| thread["tid"].as_i64());
    let configuration = &server.configuration;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "now_ns": now,
        "since_ns": server.since_ns,
        "responsive": !server.region.is_empty(),
        "backend": "rt",
        "domain": server.domain.parts().collect::<Vec<_>>(),
        "configuration": server.source,
        "real_time": [configuration.real_time.low, configuration.real_time.high],
        "canary_seconds": configuration.canary_seconds,
        "hears_of_exec": server.exec_watch.is_some(),
        "fast": fast,
        "clients": clients,
        "counts": {
            "changes": server.effect.count(),
            "connections": server.connections.len(),
            "granted": server.counters.granted,
            "refused": server.counters.refused,
            "expelled": server.counters.expelled,
            "alarms": server.counters.alarms,
        },
    })
}

fn ask(ask: &Ask, by: &str) -> Value {
    json!({
        "by": by,
        "pid": ask.pid,
        "user": ask.uid,
        "name": ask.name,
        "priority": ask.priority.nice(),
        "grant": ask.grant,
        "budget": ask.budget.to_string(),
        "since_ns": ask.since_ns,
        "until_ns": (ask.until_ns > 0).then_some(ask.until_ns),
    })
}

/// A Fast thread.
fn thread(member: &Member, now: u64) -> Value {
    let target = member.target;
    let own = member.own.as_ref().map(|own| ask(own, "its process"));
    let others = member.others.as_ref().map(|others| ask(others, "another process"));
    let asks: Vec<Value> = own.into_iter().chain(others).collect();
    let since = member.asks().map(|ask| ask.since_ns).min();
    json!({
        "tid": target.thread.tid,
        "pid": target.process.tid,
        "name": Status::of(target.thread.tid).ok().map(|status| status.name().to_owned()),
        "priority": member.best().map(|ask| ask.priority.nice()),
        "rt_priority": member.rt_priority,
        "since_ns": since,
        "for_ns": since.map(|since| now.saturating_sub(since)),
        "used_ns": member.cpu_ns().map(|cpu| member.account.used(cpu)),
        "had": scheduling(member.base),
        "asked": asks,
    })
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

/// What tekd knows of any thread of the device.
pub fn of_thread(server: &Server, tid: i32) -> Result<Value, Refused> {
    let now = sys::monotonic_ns();
    let gone = || Refused::new(libc::ESRCH, format!("there is no thread {tid}"));
    let identity = Identity::of(tid)?;
    let process = process::of_thread(tid).ok_or_else(gone)?;
    let status = Status::of(tid).map_err(|_| gone())?;
    let member = server.region.member(identity);
    let outside = server.domain.check(process.tid, &server.configuration.protected).err();
    let peer = server.peers.get(&process.tid).filter(|peer| peer.process == process);
    let grant = peer.and_then(|peer| peer.checked.as_ref()).map(|checked| match &checked.grant {
        Ok(grant) => grant.source.clone(),
        Err(refusal) => refusal.to_string(),
    });
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
        "connected": peer.is_some(),
        "grant": grant,
    }))
}
