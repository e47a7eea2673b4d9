// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for `tek kthreads` and `tek explain`.
use super::names::Names;
use super::relations::Relations;
use super::served::{Served, Why};
use super::system;
use crate::process::Status;
use crate::sys;
use serde_json::{json, Value};
use std::collections::HashMap;
use tek_bpf::Device;
use tek_policy::dependency::{Because, RtPriority, Summary, Weight};

const MS: u64 = 1_000_000;

/// One kernel thread that a task waits for, or waited for.
pub struct Reported {
    value: Value,
    tid: i32,
    function: Option<u64>,
    members: Vec<Member>,
}

/// A task that waits: priority, id, number of its waits, and the reason.
struct Member(RtPriority, i32, u64, Option<Why>);

/// All kernel threads. Fast: names are added later.
pub fn collect(relations: &Relations) -> Vec<Reported> {
    let now = sys::monotonic_ns();
    // Threads of programs are in the report about lifts, unless a task waits for their work.
    let is_shown = |served: &&Served| {
        !served.is_user() || served.whys.values().any(|why| why.because() == Because::Work)
    };
    relations.all().filter(is_shown).map(|served| one(relations, served, now)).collect()
}

fn one(relations: &Relations, served: &Served, now: u64) -> Reported {
    let boost = &served.boost;
    let summary = relations.summary(served.thread.tid);
    let (tid, function) = (served.thread.tid, served.function());
    let present = boost.now.map_or(0, |_| now.saturating_sub(boost.since_ns));
    let thousandths = |number: u64| number as f64 / 1000.0;
    let value = json!({
        "tid": tid,
        "name": served.thread.name.to_string(),
        "class": served.class().name(),
        "weight": relations.weight(served).map(|it: Weight| thousandths(it.thousandths().into())),
        "ratio": thousandths(served.ratio_for_equation().thousandths().into()),
        "mean": summary.map(|it: Summary| thousandths(it.mean_thousandths())),
        "highest": summary.map(|it| it.highest.get()),
        "priority": boost.now.map(RtPriority::get),
        "usual": boost.usual.map(|usual| {
            json!({ "policy": usual.policy, "priority": usual.priority, "nice": usual.nice })
        }),
        "held": boost.held,
        "since_ms": boost.now.map(|_| present / MS),
        "boosts": boost.times,
        "boosted_ms": (boost.total_ns + present) / MS,
    });
    let members = relations.members(tid).into_iter();
    let members = members
        .filter(|(.., because)| *because == Because::Work)
        .map(|(priority, tid, times, _)| Member(priority, tid, times, served.why(tid)))
        .collect();
    Reported { value, tid, function, members }
}

/// The report with all known names.
pub fn threads(all: Vec<Reported>, names: &Names) -> Value {
    let of_members = |reported: &Reported| -> Vec<u64> {
        let whys = reported.members.iter().filter_map(|member| member.3);
        let functions = whys.filter_map(|why| match why {
            Why::Work(function) => Some(function),
            _ => None,
        });
        functions.chain(reported.function).collect()
    };
    let addresses: Vec<u64> = all.iter().flat_map(of_members).collect();
    let functions = names.of(&addresses);
    all.into_iter().map(|reported| named(reported, &functions)).collect()
}

fn named(reported: Reported, functions: &HashMap<u64, String>) -> Value {
    let Reported { mut value, tid, function, members } = reported;
    let member = |Member(priority, tid, times, why): &Member| {
        json!({
            "tid": tid,
            "name": name(*tid),
            "priority": priority.get(),
            "times": times,
            "waits_for": why.map(|why| words(why, functions)),
        })
    };
    value["members"] = members.iter().map(member).collect();
    value["work"] = json!(function.and_then(|address| functions.get(&address)));
    if value["name"] == "" {
        value["name"] = json!(name(tid));
    }
    value
}

/// The thing that a task waits for.
fn words(why: Why, functions: &HashMap<u64, String>) -> String {
    let disk = |device: Device| system::disk(device.major, device.minor);
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
        Why::Packet => "its network packet".to_owned(),
        Why::Held => "a lock or transaction that the thread holds in a file system".to_owned(),
        Why::Storage => "what the kernel does for storage".to_owned(),
        Why::Lock(_) => "a lock that the thread holds".to_owned(),
        Why::Answer => "its answer".to_owned(),
        Why::Timer => "the timer that lets it write on".to_owned(),
    }
}

fn name(tid: i32) -> String {
    Status::of(tid).map_or_else(|_| String::new(), |status| status.name().to_owned())
}
