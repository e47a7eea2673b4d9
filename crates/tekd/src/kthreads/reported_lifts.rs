// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report about threads of programs that are lifted for their waiters.
use super::relations::Relations;
use super::served::{Served, Why};
use super::{Stage, State};
use crate::process::{self, Status};
use crate::sys;
use serde_json::{json, Value};
use std::collections::HashMap;
use tek_bpf::{Kind, State as Works};
use tek_policy::dependency::{Because, RtPriority};

/// At most this many threads are reported, and this many waiters of each: a reply has its limit.
const MOST_THREADS: usize = 256;
const MOST_WAITERS: usize = 16;

/// The whole report, without names. Fast.
pub fn of(state: &State) -> Value {
    let why = why_not(state);
    let relations = &state.relations;
    let (settings, counts) = (relations.inherit(), relations.counts());
    let refused = relations.refused();
    let now = sys::monotonic_ns();
    let mut lifted_ns = counts.lifted_ns;
    let lifted = relations.all().filter(|it| it.is_user() && it.boost.now.is_some());
    lifted.for_each(|it| lifted_ns += now.saturating_sub(it.boost.since_ns));
    let is_on = |kind: Kind| {
        works_of(state, kind).map(|its| match its {
            Works::On { .. } => Value::Bool(true),
            Works::Off(why) => json!(why),
        })
    };
    json!({
        "on": why.is_none(),
        "starting": matches!(state.stage, Stage::Starting),
        "why": why,
        "locks": if settings.locks { is_on(Kind::Locks) } else { Some(Value::Bool(false)) },
        "answers": if settings.answers { is_on(Kind::Answers) } else { Some(Value::Bool(false)) },
        "max_wait_ms": settings.max_wait.as_millis() as u64,
        "budget": settings.budget.to_string(),
        "counts": {
            "lifts": counts.lifts,
            "lifted_ns": lifted_ns,
            "not_allowed": counts.not_allowed,
            "too_many": counts.too_many,
            "too_long": counts.too_long,
            "exhausted": counts.exhausted,
            "too_many_waits": refused.too_many,
            "too_deep": refused.too_deep,
        },
        "reaction_ns": state.lift_reactions.reported(),
        "circles": relations.circles().into_iter().take(MOST_WAITERS).collect::<Vec<_>>(),
        "threads": threads(relations, now),
    })
}

/// Why no thread is lifted; `None`: threads are.
fn why_not(state: &State) -> Option<String> {
    match &state.stage {
        Stage::Starting => return Some("its programs are being loaded".to_owned()),
        Stage::Failed(why) => return Some(why.clone()),
        Stage::Ended => return Some("its thread has ended".to_owned()),
        Stage::Running => {}
    }
    let settings = state.relations.inherit();
    let wanted = [(settings.locks, Kind::Locks), (settings.answers, Kind::Answers)];
    let mut off = Vec::new();
    for (_, kind) in wanted.into_iter().filter(|(is_wanted, _)| *is_wanted) {
        match works_of(state, kind) {
            Some(Works::Off(why)) => off.push(format!("{kind}: {why}")),
            Some(Works::On { .. }) | None => return None,
        }
    }
    Some(if off.is_empty() { "tekd.toml switches lifts off".to_owned() } else { off.join("; ") })
}

/// Whether the programs report waits of this kind; `None`: that is not known.
fn works_of(state: &State, kind: Kind) -> Option<&Works> {
    state.dependencies.iter().find(|its| its.kind == kind).map(|its| &its.state)
}

/// Adds names and processes.
pub fn add_names(reported: &mut Value) {
    let tid = |thread: &Value| thread["tid"].as_i64().and_then(|tid| i32::try_from(tid).ok());
    let threads = reported.get_mut("threads").and_then(Value::as_array_mut);
    for thread in threads.into_iter().flatten() {
        let Some(its) = tid(thread) else { continue };
        thread["name"] = json!(name(its));
        thread["pid"] = json!(process::of_thread(its).map(|process| process.tid));
        let waiters = thread.get_mut("waiters").and_then(Value::as_array_mut);
        for waiter in waiters.into_iter().flatten() {
            waiter["name"] = json!(tid(waiter).map(name));
        }
    }
}

/// The threads that are waited for, or are lifted.
fn threads(relations: &Relations, now: u64) -> Vec<Value> {
    let since: HashMap<(i32, i32), u64> = relations
        .all_waits()
        .into_iter()
        .map(|(waiter, holder, _, since)| ((waiter, holder), since))
        .collect();
    let is_shown = |served: &&Served| {
        let tid = served.thread.tid;
        served.is_user() && (served.boost.now.is_some() || relations.is_awaited(tid))
    };
    let shown = relations.all().filter(is_shown).take(MOST_THREADS);
    shown.map(|served| one(relations, served, &since, now)).collect()
}

fn one(
    relations: &Relations,
    served: &Served,
    since: &HashMap<(i32, i32), u64>,
    now: u64,
) -> Value {
    let (tid, boost) = (served.thread.tid, &served.boost);
    let members = relations.members(tid).into_iter();
    let waits = members.filter(|(.., because)| *because != Because::Work).take(MOST_WAITERS);
    let waiter = |(priority, waiter, _, because): (RtPriority, i32, u64, Because)| {
        let lock = match served.why(waiter) {
            Some(Why::Lock(address)) if because == Because::Lock => Some(format!("{address:#x}")),
            _ => None,
        };
        json!({
            "tid": waiter,
            "priority": priority.get(),
            "because": if because == Because::Answer { "answer" } else { "lock" },
            "lock": lock,
            "since_ns": since.get(&(waiter, tid)).map(|at| now.saturating_sub(*at)),
        })
    };
    let held = match () {
        () if served.lifted.is_real_time => Some("it is real-time by itself".to_owned()),
        () if served.lifted.is_suspended() => Some("it has used its CPU time".to_owned()),
        () => boost.held.clone(),
    };
    json!({
        "tid": tid,
        "priority": boost.now.map(RtPriority::get),
        "since_ns": boost.now.map(|_| now.saturating_sub(boost.since_ns)),
        "lifts": boost.times,
        "held": held,
        "waiters": waits.map(waiter).collect::<Vec<_>>(),
    })
}

fn name(tid: i32) -> String {
    Status::of(tid).map_or_else(|_| String::new(), |status| status.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tek_bpf::Dependency;
    use tek_policy::dependency::InheritSettings;
    use tek_policy::kthread::KthreadSettings;

    const ON: Works = Works::On { but: Vec::new() };

    fn reported(locks: (bool, Works), answers: (bool, Works)) -> Value {
        let inherit =
            InheritSettings { locks: locks.0, answers: answers.0, ..InheritSettings::default() };
        let relations =
            Relations::new(KthreadSettings::default(), inherit, Vec::new(), HashMap::new());
        let mut state = State::new(relations, false);
        state.stage = Stage::Running;
        state.dependencies = vec![
            Dependency { kind: Kind::Locks, state: locks.1 },
            Dependency { kind: Kind::Answers, state: answers.1 },
        ];
        of(&state)
    }

    #[test]
    fn it_is_on_if_one_wanted_kind_works() {
        let off = || Works::Off("no x".to_owned());
        for (locks, answers) in
            [((true, ON), (true, ON)), ((true, off()), (true, ON)), ((true, ON), (false, off()))]
        {
            let reported = reported(locks, answers);
            assert_eq!((&reported["on"], &reported["why"]), (&json!(true), &Value::Null));
        }
    }

    #[test]
    fn it_is_off_with_the_reason_if_no_kind_is_wanted_or_no_wanted_kind_works() {
        let off = |why: &str| Works::Off(why.to_owned());
        let why = |locks, answers| {
            let reported = reported(locks, answers);
            assert_eq!(reported["on"], false, "{reported}");
            reported["why"].as_str().unwrap().to_owned()
        };
        assert_eq!(why((false, ON), (false, ON)), "tekd.toml switches lifts off");
        let text = "locks of programs: no x; answers of programs: no y";
        assert_eq!(why((true, off("no x")), (true, off("no y"))), text);
        assert_eq!(why((true, off("no x")), (false, ON)), "locks of programs: no x");
    }
}
