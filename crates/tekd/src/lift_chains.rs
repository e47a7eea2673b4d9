// SPDX-License-Identifier: MIT OR Apache-2.0
//! The chains of waits that one thread is part of, from the report about lifted threads. Pure.
use serde_json::{json, Value};
use std::collections::HashSet;

/// A longer chain is cut.
const MOST_LINKS: usize = 32;

/// Adds what the report has of one thread: `lifted`, its own entry; `lifted_by`, its most urgent
/// waiter, the waiter of that, and so on; `waits_for`, the thread that it waits for, and so on.
pub fn of(reported: &Value, tid: i32) -> Value {
    let empty = Vec::new();
    let threads = reported["threads"].as_array().unwrap_or(&empty);
    let entry = |tid: i64| threads.iter().find(|thread| thread["tid"].as_i64() == Some(tid));
    let waiter_of = |tid: i64| {
        let waiter = entry(tid)?["waiters"].as_array()?.first()?.clone();
        Some((waiter["tid"].as_i64()?, waiter))
    };
    let holder_of = |tid: i64| {
        threads.iter().find_map(|thread| {
            let waiters = thread["waiters"].as_array()?;
            let wait = waiters.iter().find(|waiter| waiter["tid"].as_i64() == Some(tid))?;
            let holder = json!({
                "tid": thread["tid"],
                "name": thread["name"],
                "priority": thread["priority"],
                "because": wait["because"],
                "lock": wait["lock"],
                "since_ns": wait["since_ns"],
            });
            Some((thread["tid"].as_i64()?, holder))
        })
    };
    json!({
        "lifted": entry(tid.into()).filter(|thread| !thread["priority"].is_null()),
        "held": entry(tid.into()).map(|thread| &thread["held"]),
        "lifted_by": chain(tid.into(), waiter_of),
        "waits_for": chain(tid.into(), holder_of),
        "in_circle": is_in_circle(reported, tid),
    })
}

fn is_in_circle(reported: &Value, tid: i32) -> bool {
    let circles = reported["circles"].as_array().into_iter().flatten();
    let mut members = circles.filter_map(Value::as_array).flatten();
    members.any(|member| member.as_i64() == Some(tid.into()))
}

/// The threads after this one. The report is of one moment, but a deadlock is a circle.
fn chain(tid: i64, next: impl Fn(i64) -> Option<(i64, Value)>) -> Vec<Value> {
    let (mut seen, mut links, mut at) = (HashSet::from([tid]), Vec::new(), tid);
    while let Some((tid, link)) = next(at).filter(|_| links.len() < MOST_LINKS) {
        if !seen.insert(tid) {
            break;
        }
        links.push(link);
        at = tid;
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Value {
        let waiter = |tid: i32| json!({"tid": tid, "name": "w", "because": "lock", "lock": "0x10"});
        json!({
            "threads": [
                {"tid": 41, "name": "logger", "priority": 39, "held": null,
                 "waiters": [waiter(40)]},
                {"tid": 40, "name": "render", "priority": 39, "held": null,
                 "waiters": [waiter(39), waiter(38)]},
                {"tid": 7, "name": "a", "priority": null, "held": "why", "waiters": [waiter(8)]},
                {"tid": 8, "name": "b", "priority": null, "held": null, "waiters": [waiter(7)]},
            ],
            "circles": [[7, 8]],
        })
    }

    fn tids(chain: &Value) -> Vec<i64> {
        chain.as_array().unwrap().iter().map(|link| link["tid"].as_i64().unwrap()).collect()
    }

    #[test]
    fn a_chain_goes_from_a_thread_to_its_waiters_and_to_what_it_waits_for() {
        let last = of(&report(), 41);
        assert_eq!((tids(&last["lifted_by"]), tids(&last["waits_for"])), (vec![40, 39], vec![]));
        assert_eq!(last["lifted"]["priority"], 39);
        let first = of(&report(), 39);
        assert_eq!((tids(&first["lifted_by"]), tids(&first["waits_for"])), (vec![], vec![40, 41]));
        assert_eq!(
            (&first["lifted"], &first["waits_for"][0]["name"]),
            (&Value::Null, &json!("render"))
        );
        assert!(tids(&of(&report(), 99)["waits_for"]).is_empty());
    }

    #[test]
    fn a_deadlock_is_named_and_its_chain_ends() {
        let one = of(&report(), 7);
        assert_eq!((tids(&one["waits_for"]), &one["in_circle"]), (vec![8], &json!(true)));
        assert_eq!((&one["held"], &one["lifted"]), (&json!("why"), &Value::Null));
        assert_eq!(of(&json!({"on": false}), 7)["in_circle"], false);
    }
}
