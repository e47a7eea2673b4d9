// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to be in a group, for a process itself or by hand for another one.
use super::{targets, thread_id, unknown, Result};
use crate::log;
use crate::member::Target;
use crate::process;
use crate::region::Refused;
use crate::server::Server;
use tek_abi::{Request, ASK_PROCESS};
use tek_effect::Identity;
use tek_policy::Group;

/// Does a request for a group.
pub fn place(server: &mut Server, pid: i32, request: &Request) -> Result<()> {
    if let Some(why) = server.backends.placement.why_not() {
        return Err(Refused::new(libc::EOPNOTSUPP, format!("groups are not in force: {why}")));
    }
    let group = usize::try_from(request.group).ok().and_then(|number| Group::ALL.get(number));
    let Some(&group) = group else {
        let why = format!("there is no group {}", request.group);
        return Err(Refused::new(libc::EINVAL, why));
    };
    let process = server.peer(pid)?.process;
    let is_own = request.tid == 0 || process::has_thread(pid, thread_id(request)?);
    if !is_own {
        return place_one(server, pid, request, group);
    }
    let checked = server.peer(pid)?.checked.as_ref().ok_or_else(unknown)?;
    checked.domain.map_err(|outside| Refused::new(libc::EPERM, outside.to_string()))?;
    let given = checked.grant.is_err().then(|| server.backends.placement.given_to(process));
    if let Some(given) = given {
        may_choose(server, group, given)?;
    }
    if request.tid == 0 || request.flags & ASK_PROCESS != 0 {
        place_process(server, process, group, "its program")?;
    } else {
        let thread = Identity::of(thread_id(request)?)?;
        place_thread(server, Target { thread, process }, group, "its program")?;
    }
    if let Some(given) = given {
        server.backends.placement.note_chosen(process, given);
    }
    Ok(())
}

/// A process without a grant gets no better group than the one that it was given.
fn may_choose(server: &Server, group: Group, given: Group) -> Result<()> {
    match server.backends.placement.is_better(group, given) {
        false => Ok(()),
        true => Err(Refused::new(
            libc::EPERM,
            format!("{group} is better than {given}, and no [[grant]] is for this process"),
        )),
    }
}

fn place_one(server: &mut Server, pid: i32, request: &Request, group: Group) -> Result<()> {
    let targets = targets(server, pid, request)?;
    let checked = server.peer(pid)?.checked.as_ref().ok_or_else(unknown)?;
    let (name, uid) = (checked.name.clone(), checked.person.uid);
    let by = format!("by hand: {name}[{pid}] of user {uid}");
    match targets.first() {
        Some(target) if request.flags & ASK_PROCESS != 0 => {
            place_process(server, target.process, group, &by)?;
        }
        Some(&target) => place_thread(server, target, group, &by)?,
        None => return Err(Refused::new(libc::ESRCH, format!("{} has ended", request.tid))),
    }
    log::info(&format!("{name}[{pid}] of user {uid} put {} into {group}", request.tid));
    Ok(())
}

fn place_process(server: &mut Server, process: Identity, group: Group, by: &str) -> Result<()> {
    let backends = &mut server.backends;
    Ok(backends.placement.place_process(&mut backends.effect, process, group, by)?)
}

fn place_thread(server: &mut Server, target: Target, group: Group, by: &str) -> Result<()> {
    let backends = &mut server.backends;
    let Target { thread, process } = target;
    Ok(backends.placement.place_thread(&mut backends.effect, thread, process, group, by)?)
}
