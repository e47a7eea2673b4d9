// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tek kthreads` and `tek explain` get to know.
use super::relations::Relations;
use super::served::{Served, Why};
use super::system;
use crate::process::Status;
use crate::sys;
use serde_json::{json, Value};
use std::collections::HashMap;

const MS: u64 = 1_000_000;

/// All kernel threads that somebody waits for, or waited for.
pub fn threads(relations: &Relations) -> Vec<Value> {
    let addresses: Vec<u64> = relations.all().filter_map(Served::function).collect();
    let functions = match addresses.is_empty() {
        true => HashMap::new(),
        false => system::functions(|address, _| addresses.contains(&address)),
    };
    relations.all().map(|served| thread(relations, served, &functions)).collect()
}

fn thread(relations: &Relations, served: &Served, functions: &HashMap<u64, String>) -> Value {
    let (boost, summary) = (&served.boost, served.summary());
    let function = served.function().and_then(|address| functions.get(&address));
    let weight = relations.settings.weight_of(served.class, function.map(String::as_str));
    let members: Vec<Value> = (served.dependants().in_order().into_iter())
        .map(|member| {
            json!({
                "tid": member.who,
                "name": name(member.who),
                "priority": member.priority.get(),
                "times": member.times,
                "waits_for": served.why(member.who).map(|why| words(why, functions)),
            })
        })
        .collect();
    let present = boost.now.map_or(0, |_| sys::monotonic_ns().saturating_sub(boost.since_ns));
    let name = match served.thread.name.is_empty() {
        true => name(served.thread.tid),
        false => served.thread.name.to_string(),
    };
    json!({
        "tid": served.thread.tid,
        "name": name,
        "class": served.class.name(),
        "group": served.class.group().map(|group| format!("{group:?}")),
        "work": function,
        "members": members,
        "weight": weight.map(|weight| f64::from(weight.thousandths()) / 1000.0),
        "ratio": f64::from(served.ratio_for_equation().thousandths()) / 1000.0,
        "mean": summary.map(|summary| summary.mean_thousandths() as f64 / 1000.0),
        "highest": summary.map(|summary| summary.highest.get()),
        "priority": boost.now.map(|now| now.get()),
        "usual": boost.usual.map(|usual| {
            json!({ "policy": usual.policy, "priority": usual.priority, "nice": usual.nice })
        }),
        "held": boost.held,
        "boosts": boost.times,
        "boosted_ms": (boost.total_ns + present) / MS,
    })
}

/// What somebody waits for.
fn words(why: Why, functions: &HashMap<u64, String>) -> String {
    let disk = |device: tek_bpf::Device| system::disk(device.major, device.minor);
    match why {
        Why::Work(function) => match functions.get(&function) {
            Some(name) => format!("its work {name}"),
            None => "its work".to_owned(),
        },
        Why::Write(device) => format!("its write to {}", disk(device)),
        Why::Request(device) => format!("its request to {}", disk(device)),
        Why::Memory => "free memory".to_owned(),
        Why::Blocks => "free memory in large blocks".to_owned(),
        Why::Thread => "a new kernel thread".to_owned(),
        Why::Uring => "its request of io_uring".to_owned(),
    }
}

fn name(tid: i32) -> String {
    Status::of(tid).map_or_else(|_| String::new(), |status| status.name().to_owned())
}
