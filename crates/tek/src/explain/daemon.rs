// SPDX-License-Identifier: MIT OR Apache-2.0
//! The knowledge of tekd about a thread, and that in sentences.
use super::amounts::time;
use crate::daemon::{text_of, Connection, Error};
use crate::status::lifts::{Holder, Link};
use serde::{Deserialize, Serialize};
use std::fs::File;
use tek_abi::{Request, ASK_EXPLAIN};

/// More than tekd can report of one thread.
const MOST_BYTES: u64 = 1 << 20;

/// As tekd reports it, and so in our JSON. Fields may be added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Known {
    /// `fast` or `lazy`.
    pub region: String,
    /// Its grant; `null` if it is not Fast by tekd.
    pub fast: Option<Fast>,
    /// Why tekd may not touch it; `null`: it may.
    pub outside_domain: Option<String>,
    /// Why it cannot be Fast for now.
    pub barred: Option<String>,
    /// Whether its process is connected.
    pub connected: bool,
    /// The grant of its process, or why it has none; `null`: it never asked.
    pub grant: Option<String>,
    /// The group that tekd has it in.
    pub group: Option<String>,
    /// The reason for the group.
    pub group_by: Option<String>,
    /// Its policy for as long as critical threads come before it.
    pub lowered: Option<Lowered>,
    /// The waits that it is part of.
    pub inherit: Option<Inherit>,
}

/// The waits that a thread is part of, as far as tekd watches them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Inherit {
    /// Its lift.
    pub lifted: Option<Holder>,
    /// Why it is not lifted although a time-critical thread waits for it.
    pub held: Option<String>,
    /// Its most urgent waiter, the waiter of that, and so on.
    pub lifted_by: Vec<Link>,
    /// The thread that it waits for, the thread for which that waits, and so on.
    pub waits_for: Vec<Link>,
    /// It waits, through others, for itself.
    pub in_circle: bool,
}

/// A thread that is Fast by tekd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Fast {
    /// Of SCHED_TEK.
    pub priority: Option<i32>,
    /// In force; 0: tekd gave it none.
    pub rt_priority: u32,
    /// CPU time in the present window.
    pub used_ms: Option<u64>,
    /// Its values before.
    pub had: Option<Had>,
    /// The requests for it.
    pub asked: Vec<Ask>,
}

/// The scheduling values of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Had {
    /// SCHED_*.
    pub policy: String,
    /// Real-time priority.
    pub priority: u32,
    /// Nice value.
    pub nice: i32,
}

/// A request that was granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Ask {
    /// `its process`, or `by hand`.
    pub why: String,
    /// The process that asked.
    pub pid: u32,
    /// The user of that.
    pub uid: u32,
    /// The name of that.
    pub program: String,
    /// Of SCHED_TEK.
    pub priority: i32,
    /// By which grant.
    pub grant: String,
    /// CPU time in a window.
    pub budget: String,
    /// The age of the request, in ms.
    pub since_ms: u64,
    /// The remaining time; `null`: until it leaves.
    pub until_ms: Option<u64>,
    /// The priority after that; `null`: it leaves then.
    pub then_priority: Option<i32>,
}

/// A real-time thread that waits below the Fast Region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Lowered {
    /// SCHED_*, its own, which is restored.
    pub policy: String,
    /// The priority of that.
    pub priority: u32,
    /// Its priority for now.
    pub lowered_to: u32,
}

/// The report of tekd; `None` where tekd does not run. `Err` is why that is not known.
pub fn ask(tid: u32) -> Result<Option<Known>, String> {
    let answer = Connection::open()
        .and_then(|mut tekd| tekd.ask(Request { tid, ..Request::new(ASK_EXPLAIN, 0) }));
    match answer {
        Ok((_, Some(file))) => parse(file).map(Some),
        Ok((_, None)) => Err("what tekd knows of it: it answered without telling anything".into()),
        Err(Error::NotThere(_)) => Ok(None),
        // It ends.
        Err(Error::Refused { error: libc::ESRCH, .. }) => Ok(None),
        Err(error) => Err(format!("what tekd knows of it: {error}")),
    }
}

fn parse(file: File) -> Result<Known, String> {
    let text = text_of(file, MOST_BYTES)
        .map_err(|error| format!("what tekd knows of it: it cannot be read: {error}"))?;
    serde_json::from_str(&text).map_err(|error| {
        format!(
            "what tekd knows of it is in another format: use tek and tekd of one version: {error}"
        )
    })
}

/// All of it, a paragraph each.
pub fn describe(known: &Known, is_kernel: bool) -> Vec<String> {
    let mut reported = Vec::new();
    if let Some(outside) = &known.outside_domain {
        reported.push(format!("tekd leaves it alone: {outside}."));
    }
    match &known.fast {
        Some(fast) => reported.extend(fast_by(fast)),
        None if known.outside_domain.is_none() => {
            reported.push("It is not time-critical by tekd.".into());
        }
        None => {}
    }
    reported.extend(known.lowered.as_ref().map(lowered));
    reported.extend(known.inherit.iter().flat_map(inherited));
    if let Some(why) = &known.barred {
        reported.push(format!("It cannot be time-critical for now: {why}."));
    }
    if let Some(group) = &known.group {
        let by = known.group_by.as_deref().unwrap_or("tekd does not say by what");
        reported.push(format!("tekd has it in the group {group}: {by}."));
    }
    reported.extend(grant(known, is_kernel));
    reported
}

fn fast_by(fast: &Fast) -> Vec<String> {
    let mut reported = vec![match fast.rt_priority {
        0 => "It is time-critical by tekd, which leaves its policy and priority as they are:"
            .to_owned(),
        priority => format!("It is time-critical by tekd, with real-time priority {priority}:"),
    }];
    reported.extend(fast.asked.iter().map(|ask| {
        let Ask { why, pid, program, priority, grant, budget, .. } = ask;
        let identity = match why.as_str() {
            "its process" => "its own program".to_owned(),
            _ => format!("{program} [{pid}] of user {}", ask.uid),
        };
        let until = match (ask.until_ms, ask.then_priority) {
            (Some(left), None) => format!("for {} more", ms(left)),
            (Some(left), Some(then)) => {
                format!("for {} more, then with priority {then} until it is taken back", ms(left))
            }
            (None, _) => "until it is taken back".into(),
        };
        format!(
            "- {identity} asked for it {} ago, with SCHED_TEK priority {priority}, {until}; \
             granted by {grant}, with a budget of {budget}.",
            ms(ask.since_ms)
        )
    }));
    if let Some(used) = fast.used_ms {
        reported.push(format!("Of its budget it has used {} in this window.", ms(used)));
    }
    if let Some(Had { policy, priority, nice }) = &fast.had {
        let level = match priority {
            0 => format!("nice {nice}"),
            priority => format!("real-time priority {priority}"),
        };
        reported.push(format!("Before, it had {policy}, {level}, and gets that back."));
    }
    reported
}

fn lowered(lowered: &Lowered) -> String {
    let Lowered { policy, priority, lowered_to } = lowered;
    format!(
        "It is real-time, but not time-critical, and waits beneath the time-critical threads: tekd \
         lowered it from {policy} {priority} to {lowered_to}, and gives that back when there are \
         none."
    )
}

/// The chains that it is part of.
fn inherited(known: &Inherit) -> Vec<String> {
    let named = |link: &Link| {
        let name = if link.name.is_empty() { "a thread that has ended" } else { &link.name };
        format!("{name} [{}]", link.tid)
    };
    let what = |link: &Link, holder: &str| match (link.because.as_str(), &link.lock) {
        ("answer", _) => format!("an answer of {holder}"),
        (_, Some(lock)) => format!("the lock at {lock} that {holder} holds"),
        _ => format!("a lock that {holder} holds"),
    };
    let mut reported = Vec::new();
    let waiters = || {
        let mut holder = "it".to_owned();
        let waits = known.lifted_by.iter().map(|link| {
            let text = format!("{} waits for {}", named(link), what(link, &holder));
            holder = named(link);
            text
        });
        waits.collect::<Vec<_>>().join("; ")
    };
    match &known.lifted {
        Some(Holder { priority: Some(priority), since_ns, .. }) => reported.push(format!(
            "tekd has lifted it to real-time priority {priority} for {}: {}.",
            time(since_ns.unwrap_or(0)),
            waiters()
        )),
        _ if !known.lifted_by.is_empty() => {
            let why = known.held.as_ref().map(|why| format!(", because {why}"));
            reported.push(format!(
                "It is not lifted{}, although {}.",
                why.unwrap_or_default(),
                waiters()
            ));
        }
        _ => {}
    }
    if let Some((first, rest)) = known.waits_for.split_first() {
        let mut text = format!("It waits for {}", what(first, &named(first)));
        if let Some(priority) = first.priority {
            text += &format!(", which tekd has lifted to {priority}");
        }
        let links =
            rest.iter().map(|link| format!("; that waits for {}", what(link, &named(link))));
        text.extend(links);
        reported.push(text + ".");
    }
    if known.in_circle {
        reported.push(
            "This is a deadlock: these threads wait for each other in a circle, and none of them \
             is lifted."
                .into(),
        );
    }
    reported
}

/// The grant that its process could have.
fn grant(known: &Known, is_kernel: bool) -> Option<String> {
    match (&known.grant, known.connected) {
        (Some(grant), _) => Some(format!("What tekd grants its process: {grant}.")),
        (None, true) => Some("Its process is connected to tekd, and asked for no grant.".into()),
        (None, false) if is_kernel || known.fast.is_some() => None,
        (None, false) => Some("Its process has not asked tekd for anything.".into()),
    }
}

fn ms(ms: u64) -> String {
    time(ms.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reported(printed: serde_json::Value, is_kernel: bool) -> String {
        describe(&serde_json::from_value(printed).unwrap(), is_kernel).join("\n")
    }

    #[test]
    fn the_requester_of_a_critical_thread_the_time_and_the_base_are_reported() {
        let ask = |why: &str, pid: u32| {
            json!({"why": why, "pid": pid, "uid": 7, "program": "tek", "priority": -3,
                   "grant": "tekd.toml:4", "budget": "800ms/1s", "since_ms": 1500,
                   "until_ms": if why == "by hand" { Some(4000) } else { None },
                   "then_priority": (pid == 100).then_some(7)})
        };
        let asked = [ask("its process", 12), ask("by hand", 99), ask("by hand", 100)];
        let text = reported(
            json!({"tid": 13, "region": "fast", "later": {}, "connected": true,
                "fast": {"priority": -3, "rt_priority": 32, "used_ms": 120,
                         "had": {"policy": "SCHED_OTHER", "priority": 0, "nice": 5},
                         "asked": asked},
                "group": "urgent", "group_by": "its program", "grant": "tekd.toml:4"}),
            false,
        );
        for part in [
            "by tekd, with real-time priority 32:",
            "- its own program asked for it 1.50 s ago, with SCHED_TEK priority -3, until",
            "granted by tekd.toml:4, with a budget of 800ms/1s",
            "- tek [99] of user 7 asked for it 1.50 s ago, with SCHED_TEK priority -3, for 4.00 s \
             more; granted",
            "-3, for 4.00 s more, then with priority 7 until it is taken back; granted",
            "it has used 120 ms in this window",
            "Before, it had SCHED_OTHER, nice 5, and gets that back",
            "in the group urgent: its program.",
            "What tekd grants its process: tekd.toml:4.",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn a_thread_that_was_lowered_and_one_that_is_barred_have_the_reason() {
        let text = reported(
            json!({"lowered": {"policy": "SCHED_FIFO", "priority": 60, "lowered_to": 9},
                   "barred": "it used up its budget", "group": null, "connected": false}),
            false,
        );
        assert!(text.contains("from SCHED_FIFO 60 to 9, and gives that back"), "{text}");
        assert!(text.contains("for now: it used up its budget."), "{text}");
        assert!(text.contains("has not asked tekd for anything"), "{text}");
    }

    #[test]
    fn the_chain_of_waits_behind_a_lift_is_reported() {
        let link = |tid: u32, name: &str, because: &str| {
            let lock = serde_json::Value::Null;
            json!({"tid": tid, "name": name, "because": because, "lock": lock, "priority": 39})
        };
        let lock = json!({"tid": 40, "name": "render", "because": "lock", "lock": "0x7f10"});
        let text = reported(
            json!({"inherit": {
                "lifted": {"tid": 41, "priority": 39, "since_ns": 1_200_000},
                "lifted_by": [lock, link(39, "touch", "answer")],
                "waits_for": [link(42, "disk", "lock"), link(43, "", "answer")],
                "in_circle": true,
            }}),
            false,
        );
        for part in [
            "lifted it to real-time priority 39 for 1.2 ms: render [40] waits for the lock at \
             0x7f10 that it holds; touch [39] waits for an answer of render [40].",
            "It waits for a lock that disk [42] holds, which tekd has lifted to 39; that waits for \
             an answer of a thread that has ended [43].",
            "This is a deadlock",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let held = json!({"inherit": {
            "held": "it is real-time by itself", "lifted_by": [link(39, "touch", "lock")],
        }});
        let text = reported(held, false);
        let wanted = "not lifted, because it is real-time by itself, although touch [39] waits";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn what_tekd_never_touches_has_the_reason() {
        let outside = "tekd does not touch threads of the kernel";
        let text = reported(json!({"outside_domain": outside}), true);
        assert_eq!(text, format!("tekd leaves it alone: {outside}."));
    }
}
