// SPDX-License-Identifier: MIT OR Apache-2.0
//! The waiters of a kernel thread, the kernel threads that a task waits for, and both in sentences.
use super::amounts::{time, times};
use crate::kthreads::describe::what_to_do;
use crate::status::kthreads::{Dependency, Kthread, Member, Reported, Usual};
use crate::words;
use serde::Serialize;
use tek_policy::kthread::Class;
use tek_policy::Pattern;

/// The known facts of a kernel thread: in our JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Follows {
    /// Why no kernel thread follows; `null`: they do.
    pub why_not: Option<String>,
    /// As tekd.toml calls it.
    pub class: String,
    /// Why this one is left alone; `null`: it is not.
    pub left_alone: Option<String>,
    /// Why the waiters cannot be known on this kernel.
    pub blind: Option<String>,
    /// Whether it was raised because it must come before another.
    pub raised_along: bool,
    /// `weighted` or `plain`.
    pub method: Option<String>,
    /// How long a waiter still counts after its wait has ended, in ms.
    pub linger_ms: u64,
    /// The report of tekd; `null`: no critical thread has waited for it.
    #[serde(serialize_with = "as_json")]
    pub thread: Option<Kthread>,
}

/// A thread of the kernel that a task waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WaitsFor {
    /// Kernel thread id.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// The real-time priority that tekd gave it; `null`: it has its own.
    pub priority: Option<u32>,
    /// Why its priority differs from the computed one.
    pub held: Option<String>,
    /// Once for each file, work or request.
    pub times: u64,
    /// The object of its wait.
    pub what: Option<String>,
}

/// The part that is not reported elsewhere.
fn as_json<S: serde::Serializer>(thread: &Option<Kthread>, to: S) -> Result<S::Ok, S::Error> {
    let part = thread.as_ref().map(|it| {
        serde_json::json!({
            "priority": it.priority, "weight": it.weight, "ratio": it.ratio, "mean": it.mean,
            "highest": it.highest, "usual": it.usual, "held": it.held, "since_ms": it.since_ms,
            "boosts": it.boosts, "boosted_ms": it.boosted_ms, "work": it.work,
            "members": it.members,
        })
    });
    part.serialize(to)
}

/// The known facts of a kernel thread. `Err` in `reported` is why tekd reports nothing.
pub fn of(tid: u32, name: &str, reported: &Result<Reported, String>) -> Follows {
    let reported = match reported {
        Ok(reported) => reported,
        Err(why) => {
            let class = Class::of_name(name).name().into();
            return Follows { why_not: Some(why.clone()), class, ..Follows::default() };
        }
    };
    let thread = reported.threads.iter().find(|thread| thread.tid == tid).cloned();
    let class = match &thread {
        Some(thread) => thread.class.clone(),
        None => Class::of_name(name).name().to_owned(),
    };
    let unknown = || "tekd does not say why".to_owned();
    Follows {
        why_not: (!reported.on).then(|| reported.why.clone().unwrap_or_else(unknown)),
        left_alone: left_alone(&class, name, reported),
        blind: blind(&class, reported),
        raised_along: reported.raised_along.contains(&tid),
        method: reported.method.clone(),
        linger_ms: reported.linger_ms,
        class,
        thread,
    }
}

/// By the configuration.
fn left_alone(class: &str, name: &str, reported: &Reported) -> Option<String> {
    if reported.off.iter().any(|off| off == class) {
        return Some(format!("its class, {class}, is off in tekd.toml"));
    }
    let patterns = reported.protected.iter().filter_map(|text| Pattern::new(text));
    let fits = patterns.into_iter().find(|pattern| pattern.matches_process(name));
    fits.map(|pattern| format!("its name is protected in tekd.toml ({pattern})"))
}

/// The reason, by the dependencies that this kernel lacks.
fn blind(class: &str, reported: &Reported) -> Option<String> {
    let needed: &[&str] = match class {
        "irq" => &["block devices"],
        "softirq" => &["block devices", "network"],
        "writeback" => &["writeback"],
        "kswapd" | "kcompactd" => &["reclaim"],
        "worker" => &["workers"],
        "io_uring" => &["io_uring"],
        "kthreadd" => &["creation of kernel threads"],
        _ => return None,
    };
    let missing = |one: &&Dependency| needed.contains(&one.name.as_str()) && !one.on;
    let missing = reported.dependencies.iter().find(missing)?;
    Some(format!("{} cannot be followed on this kernel: {}", missing.name, missing.why))
}

/// The kernel threads for which a task waits.
pub fn of_task(tid: u32, reported: &Reported) -> Vec<WaitsFor> {
    let one = |thread: &Kthread| {
        let member = thread.members.iter().find(|member| member.tid == tid)?;
        Some(WaitsFor {
            tid: thread.tid,
            name: thread.name.clone(),
            priority: thread.priority,
            held: thread.held.clone(),
            times: member.times,
            what: member.waits_for.clone(),
        })
    };
    reported.threads.iter().filter_map(one).collect()
}

/// All of it, a paragraph each. /proc appends a worker's present work to its name.
pub fn describe(name: &str, known: &Follows) -> Vec<String> {
    let named = known.thread.as_ref().map(|thread| thread.name.as_str());
    let name = named.filter(|name| !name.is_empty()).unwrap_or(name);
    if let Some(why) = &known.why_not {
        let mut reported =
            vec![format!("No kernel thread follows the tasks that wait for it: {why}.")];
        reported.extend(what_to_do(why));
        return reported;
    }
    match known.class.as_str() {
        "untouchable" if !known.raised_along => {
            return vec![
                "It is one that the other kernel threads depend on, and TEK never changes it."
                    .into(),
            ];
        }
        "unknown" => return vec!["It is of a kind whose waiters TEK does not know.".into()],
        _ => {}
    }
    let mut reported = Vec::new();
    if known.raised_along {
        reported.push("It was raised because it must come before a thread that follows.".into());
    }
    let (thread, members) = match &known.thread {
        Some(thread) => (thread.clone(), thread.members.as_slice()),
        None => (Kthread::default(), [].as_slice()),
    };
    match (thread.priority, members) {
        (Some(priority), []) => {
            reported.push(format!("{name} is at {priority}, and no task waits."))
        }
        (Some(priority), _) => {
            reported.push(format!("{name} is at {priority} because {}.", reasons(members)));
            reported.extend(computed(&thread, known));
        }
        (None, []) if !known.raised_along => {
            reported.push("No critical task waits for it, and it has its own priority.".into());
        }
        (None, []) => {}
        (None, _) => {
            let why = match (&thread.held, &known.left_alone) {
                (Some(held), _) => held.clone(),
                (None, Some(why)) => why.clone(),
                (None, None) => "what was computed is below 1".into(),
            };
            reported.push(format!("It has its own priority although {}: {why}.", reasons(members)));
        }
    }
    if let (Some(_), Some(held)) = (thread.priority, &thread.held) {
        reported.push(format!("It is held there: {held}."));
    }
    if members.is_empty() {
        reported.extend(known.left_alone.as_ref().map(|why| format!("It is left alone: {why}.")));
        reported
            .extend(known.blind.as_ref().map(|why| format!("Its waiters are not known: {why}.")));
    }
    reported.extend(itself(&thread, known.linger_ms));
    reported.extend(so_far(&thread));
    reported
}

/// `player[812] waits for its write to vda (2 files), and net[77] for its work x`.
fn reasons(members: &[Member]) -> String {
    let one = |(at, member): (usize, &Member)| {
        let name = match member.name.as_str() {
            "" => "a thread that has ended",
            name => name,
        };
        let waits = if at == 0 { "waits for" } else { "for" };
        let what = member.waits_for.as_deref().unwrap_or("it");
        format!("{name}[{}] {waits} {what}{}", member.tid, often(what, member.times))
    };
    let all: Vec<String> = members.iter().enumerate().map(one).collect();
    match all.split_last() {
        Some((last, remaining)) if !remaining.is_empty() => {
            format!("{}, and {last}", remaining.join(", "))
        }
        _ => all.concat(),
    }
}

/// The text for a count.
fn often(what: &str, times: u64) -> String {
    let things = match times {
        0 | 1 => return String::new(),
        _ if what.starts_with("its write") => "files",
        _ if what.starts_with("its work") => "works",
        _ if what.starts_with("its request") => "requests",
        _ => "times",
    };
    format!(" ({times} {things})")
}

fn computed(thread: &Kthread, known: &Follows) -> Option<String> {
    let Kthread { mean, highest, weight, ratio, .. } = thread;
    let highest = (*highest)?;
    if known.method.as_deref() == Some("plain") {
        return Some(format!("{highest} is the highest priority of the tasks that wait."));
    }
    let (mean, weight) = ((*mean)?, (*weight)?);
    let product = mean * weight * ratio;
    // Thousandths of each factor: their product has no more significant digits.
    let product = (product * 1000.0).round() / 1000.0;
    let share = match known.class.as_str() {
        "kswapd" => format!(" x {ratio}, the share of memory that the waiting tasks have"),
        _ => String::new(),
    };
    Some(format!(
        "That is weight {weight} x mean {mean}{share} = {product}, rounded, and at most {highest}, \
         the highest of the waiting tasks."
    ))
}

fn itself(thread: &Kthread, linger_ms: u64) -> Option<String> {
    let own = thread.usual.map(level)?;
    Some(match thread.priority {
        Some(_) => format!(
            "By itself it has {own}, and gets that back {linger_ms} ms after the last wait for it \
             has ended."
        ),
        None => format!("By itself it has {own}."),
    })
}

fn level(usual: Usual) -> String {
    let Usual { policy, priority, nice } = usual;
    let name = match words::policy(policy) {
        Some(name) => format!("SCHED_{}", name.to_uppercase()),
        None => format!("policy {policy}"),
    };
    match priority {
        0 => format!("{name}, nice {nice}"),
        priority => format!("{name}, real-time priority {priority}"),
    }
}

fn so_far(thread: &Kthread) -> Option<String> {
    let ms = |ms: u64| time(ms.saturating_mul(1_000_000));
    let all = format!("{}, for {} in all", times(thread.boosts), ms(thread.boosted_ms));
    match (thread.priority, thread.since_ms, thread.boosts) {
        (_, _, 0) => None,
        (Some(_), Some(since), _) => {
            Some(format!("It has had the priority of waiting tasks for {}; {all}.", ms(since)))
        }
        _ => Some(format!("It had the priority of waiting tasks {all}.")),
    }
}

/// The waits of a task, a paragraph each.
pub fn describe_task(all: &[WaitsFor]) -> Vec<String> {
    let one = |it: &WaitsFor| {
        let WaitsFor { tid, name, what, times, .. } = it;
        let what = what.as_deref().unwrap_or("it");
        let often = often(what, *times);
        let follows = match (it.priority, &it.held) {
            (Some(priority), _) => format!("follows it and is at {priority}"),
            (None, Some(held)) => format!("has its own priority ({held})"),
            (None, None) => "has its own priority".into(),
        };
        format!("{name} [{tid}] {follows}: it waits there for {what}{often}.")
    };
    all.iter().map(one).collect()
}

#[cfg(test)]
#[path = "kthread_tests.rs"]
mod tests;
