// SPDX-License-Identifier: MIT OR Apache-2.0
//! What TEK did: the reasons why the thread is time-critical, its lifts, its budget and its rules.
use crate::explain::amounts::{time, times};
use crate::explain::facts::{HeldUp, Kernel, Other, RuleFact, Tek};

/// The budget of a process without TEK_BUDGET.
const BUDGET: &str = "800ms/1s";

pub fn tek(tek: &Tek, kernel: &Kernel) -> Vec<String> {
    let mut reported = vec![if tek.overridden { overridden(kernel) } else { fast(tek) }];
    let ends = (1..=tek.reasons.len()).map(|n| if n == tek.reasons.len() { "." } else { ";" });
    let reasons = tek.reasons.iter().zip(ends);
    reported.extend(reasons.map(|(reason, end)| format!("- {}{end}", why(reason, tek))));
    if tek.fast {
        reported.extend(tek.base.as_ref().map(|base| given_back(base, tek.base_reset_on_fork)));
        reported.push(budget(tek));
    }
    reported.extend(held_up(tek).or_else(|| deadlock(tek)));
    if tek.overruns > 0 {
        reported.push(format!(
            "The guard sent it back {}, because it used up its budget.",
            times(tek.overruns.into())
        ));
    }
    reported.push(format!("Its group is {}, as its program or a rule has it.", tek.group));
    if tek.marked {
        reported.push(
            "It is marked: it becomes time-critical while another thread of its group in the \
             process asks to be."
                .into(),
        );
    }
    reported
        .extend(tek.rules.iter().filter_map(|rule| comes_from(rule, tek.fast || tek.overridden)));
    reported
}

/// Only the environment of a process at its start is known.
fn budget(tek: &Tek) -> String {
    let budget = tek.budget.as_deref().unwrap_or(BUDGET);
    match tek.rules.iter().any(|rule| rule.sets.contains(&"budget")) {
        true => format!("Its budget is {budget}: CPU time in each window of that length."),
        false => format!(
            "Its budget is that of its process, which was started with {budget}: CPU time in any \
             window of that length. The program may have changed it (tek_set_budget)."
        ),
    }
}

/// The further decisions of a rule; that it made the thread Fast is among the reasons for it.
fn comes_from(rule: &RuleFact, fast: bool) -> Option<String> {
    let remaining = rule.sets.iter().filter(|what| !(fast && **what == "critical"));
    let words: Vec<_> = remaining
        .map(|what| match *what {
            "critical" => "place in the Fast Region (or out of it)",
            what => what,
        })
        .collect();
    let come = if words.len() == 1 { "comes" } else { "come" };
    let what = match words.split_last() {
        Some((last, remaining)) if !remaining.is_empty() => {
            format!("{} and {last}", remaining.join(", "))
        }
        _ => words.concat(),
    };
    // The reason contains its text already.
    let rule = match fast && rule.sets.contains(&"critical") {
        true => format!("rule {}", rule.number),
        false => called(rule),
    };
    (!words.is_empty()).then(|| format!("Its {what} {come} from {rule}."))
}

fn fast(tek: &Tek) -> String {
    let priority =
        tek.priority.map(|nice| format!(" with SCHED_TEK priority {nice}")).unwrap_or_default();
    match (tek.fast, tek.stays) {
        (true, stays) => {
            let before = match stays {
                0 | 1 => String::new(),
                stays => format!("; in all {} and {}", times(stays.into()), time(tek.fast_ns)),
            };
            let now = time(tek.fast_now_ns);
            format!("It is time-critical{priority}, for {now}{before}, because")
        }
        (false, 0) => "It was never time-critical.".into(),
        (false, stays) => {
            let (times, time) = (times(stays.into()), time(tek.fast_ns));
            format!("It is not time-critical now; it was {times}, for {time} in all.")
        }
    }
}

fn overridden(kernel: &Kernel) -> String {
    let priority = match kernel.rt_priority {
        0 => String::new(),
        priority => format!(" with real-time priority {priority}"),
    };
    format!(
        "TEK made it time-critical, but another process set its policy to {}{priority} since, by \
         other means (chrt, sched_setscheduler): it does not run as time-critical, and stays as it \
         is when it leaves. TEK made it so because",
        kernel.policy
    )
}

pub fn why(reason: &str, tek: &Tek) -> String {
    match reason {
        "policy" => "it was given the policy SCHED_TEK".into(),
        "enter" => "it is between tek_critical_enter() and tek_critical_leave()".into(),
        "timed" => "its tek_critical_for() has not run out".into(),
        "follow" => "it is marked, and a thread of its group asks to be time-critical".into(),
        "lift" => lifted(&tek.lifted_by),
        _ => by_rule(tek),
    }
}

fn named(other: &Other) -> String {
    let name = other.name.as_deref().unwrap_or("a thread that has ended");
    format!("{name} [{}]", other.tid)
}

/// `A [1], which holds up B [2], which ...`
fn listed(threads: &[Other], link: &str) -> String {
    threads.iter().map(named).collect::<Vec<_>>().join(link)
}

/// `for the mutex queue_lock in draw (queue.c:88), for 1.2ms so far`
fn waited(wait: &HeldUp) -> String {
    let object = wait.object.as_deref().unwrap_or("that is not known");
    let what = match wait.kind {
        "mutex" => format!("for the mutex {object}"),
        "rwlock" => format!("for the read-write lock {object}"),
        "condition" => format!("for the mutex {object}, after a condition variable,"),
        _ => "for the end of a thread".into(),
    };
    let call = wait.call.as_ref().map_or(String::new(), |call| format!(" in {call}"));
    format!("{what}{call}, for {} so far", time(wait.for_ns))
}

fn lifted(waiters: &[Other]) -> String {
    if waiters.is_empty() {
        return "it holds what a time-critical thread waits for".into();
    }
    let chain = listed(waiters, ", which holds up ");
    let known = waiters.iter().find_map(|other| Some((other, other.wait.as_ref()?)));
    let place = known.map_or(String::new(), |(other, wait)| {
        format!("; {} waits {}", named(other), waited(wait))
    });
    format!("it holds up {chain}: they wait for a lock, or for the end of a thread{place}")
}

fn held_up(tek: &Tek) -> Option<String> {
    let chain = listed(&tek.waits_for, ", which waits for ");
    if tek.waits_for.is_empty() {
        return None;
    }
    let place =
        tek.wait.as_ref().map_or(String::new(), |wait| format!(" It waits {}.", waited(wait)));
    Some(format!("It waits for {chain}: that is time-critical until this wait is over.{place}"))
}

fn deadlock(tek: &Tek) -> Option<String> {
    let waits = tek.deadlock.windows(2).map(|pair| {
        let what =
            pair[0].wait.as_ref().map_or(String::new(), |wait| format!(" ({})", waited(wait)));
        format!("{} waits for {}{what}", named(&pair[0]), named(&pair[1]))
    });
    let listed = waits.collect::<Vec<_>>().join("; ");
    let (last, before) = tek.deadlock.split_last()?;
    let what = match before.iter().position(|it| it.tid == last.tid) {
        Some(0) => "in a deadlock",
        Some(_) => "for threads in a deadlock",
        None => "in a long deadlock, or for threads in one, of which the first are listed",
    };
    Some(format!(
        "It waits {what}, and TEK lifts no thread for it: {listed}. They go on when a thread of \
         the circle gives up its wait."
    ))
}

fn by_rule(tek: &Tek) -> String {
    match (tek.rule, &tek.critical_pattern) {
        (0, Some(pattern)) => format!("its name fits `{pattern}` of TEK_CRITICAL"),
        (0, None) => "its name is in TEK_CRITICAL".into(),
        (number, _) => match tek.rules.iter().find(|rule| rule.sets.contains(&"critical")) {
            Some(rule) if rule.source.starts_with("--critical ") => {
                format!("its name fits `{}`", rule.source)
            }
            Some(rule) => format!("{} makes it so", called(rule)),
            None => format!("rule {number} makes it so"),
        },
    }
}

fn called(rule: &RuleFact) -> String {
    let RuleFact { number, source, text, .. } = rule;
    let from = if source.is_empty() { "TEK_RULES" } else { source };
    format!("rule {number}, {from} ({text})")
}

fn given_back((policy, priority): &(String, u8), reset_on_fork: bool) -> String {
    let priority = match priority {
        0 => String::new(),
        priority => format!(" with real-time priority {priority}"),
    };
    let flag = if reset_on_fork { " and its reset-on-fork flag" } else { "" };
    format!("When it leaves it gets back {policy}{priority}{flag}, at the nice value it has then.")
}
