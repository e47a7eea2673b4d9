// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts in plain sentences: a pure function.
use super::amounts::{time, times};
use super::daemon;
use super::facts::{Facts, HeldUp, Kernel, Other, RuleFact, Tek};
use super::kthread;
use crate::system::library;

/// The budget of a process without TEK_BUDGET.
const BUDGET: &str = "800ms/1s";

/// A headline and its paragraphs.
pub type Section = (&'static str, Vec<String>);

/// The whole report.
pub fn describe(facts: &Facts) -> Vec<Section> {
    let mut sections = vec![
        ("Who it is", identity(facts)),
        ("What the kernel has for it", kernel(facts)),
        (
            "What TEK did",
            facts.tek.as_ref().map(|known| tek(known, &facts.kernel)).unwrap_or_default(),
        ),
        ("What tekd did", tekd(facts)),
        ("Who waits for it", waiters(facts)),
        ("Which threads of the kernel it waits for", kthread::describe_task(&facts.waits_for)),
        ("What it waited for", waits(facts)),
        ("What is not known", facts.not_known.clone()),
    ];
    sections.retain(|(_, paragraphs)| !paragraphs.is_empty());
    sections
}

fn identity(facts: &Facts) -> Vec<String> {
    let Facts { tid, pid, program, name, .. } = facts;
    let age = time(facts.age_ns);
    if let Some(what) = &facts.kernel_thread {
        return vec![format!("{name} [{tid}] is a thread of the kernel, {age} old: {what}.")];
    }
    let which = match tid == pid {
        true => format!("the first thread of {program}"),
        false => format!("a thread of {program} [{pid}]"),
    };
    let mut reported = vec![format!("{name} [{tid}] is {which}, {age} old.")];
    if facts.guard {
        reported.push(match name.as_str() {
            library::WATCH => "It is TEK's own: it looks at the stacks of this process.".into(),
            _ => "It is TEK's own guard of the budgets in this process.".into(),
        });
    }
    if let Some(described) = below_uthreads(facts) {
        reported.push(described);
    }
    if facts.named == Some(false) && tid != pid {
        reported.push(
            "It has no name of its own: this one is inherited, and no rule goes by it.".into(),
        );
    }
    let Some(tek) = &facts.tek else { return reported };
    if let Some(role) = &tek.role {
        reported.push(format!("Its role: {role}."));
    }
    if let Some(function) = &tek.function {
        reported.push(format!("It runs {function}."));
    }
    if let Some(creator) = tek.creator_tid {
        let name = tek.creator.as_deref().unwrap_or("a thread that has ended");
        let site = tek.call_site.as_ref().map(|site| format!(", at {site}")).unwrap_or_default();
        reported.push(format!("It was created by {name} [{creator}]{site}."));
    }
    if tek.adopted && tid != pid {
        reported.push(
            "It was not created through TEK: it was there before, or came by clone(2).".into(),
        );
    }
    reported
}

/// The purpose of a kernel thread in a program on user-level threads.
fn below_uthreads(facts: &Facts) -> Option<String> {
    let Facts { pid, .. } = facts;
    Some(match (facts.carries, facts.uthreads) {
        (_, None) => return None,
        (Some(worker), Some(count)) => format!(
            "It carries worker {worker} of its program's {count} user-level threads: \
             tek ps --pid {pid} --uthreads shows them."
        ),
        (None, Some(_)) => "Its program is on user-level threads, and it carries no worker now: a \
            spare one, or one that looks after the others."
            .into(),
    })
}

fn kernel(facts: &Facts) -> Vec<String> {
    let kernel = &facts.kernel;
    let by_tekd = |what: fn(&daemon::Known) -> bool| facts.daemon.as_ref().is_some_and(what);
    let mut reported = vec![scheduling(kernel), format!("It is {}.", state(kernel.state))];
    if !kernel.cpus.is_empty() {
        reported.push(format!("It may run on CPU {}.", kernel.cpus));
    }
    if let Some(group) = &kernel.cgroup {
        reported.push(match kernel.cgroup_rt_runtime_us {
            // This needs no cure: tekd moves the threads that it makes Fast.
            Some(0) if by_tekd(|known| known.fast.is_some()) => {
                format!("Its cpu control group is {group}, without real-time run-time.")
            }
            Some(0) if by_tekd(|known| known.group.is_some()) => format!(
                "Its cpu control group, {group}, has no real-time run-time, as all of tekd's: its \
                 threads become time-critical through tekd, which moves them to another."
            ),
            Some(0) => format!(
                "Its cpu control group, {group}, has no real-time run-time: in there no thread can \
                 become time-critical (`tek doctor` has the cure)."
            ),
            Some(us) => {
                format!(
                    "Its cpu control group is {group}, with {us} us of real-time run-time a period."
                )
            }
            None => format!("Its cpu control group is {group}."),
        });
    }
    if let (Some(autogroup), 0) = (&kernel.autogroup, kernel.rt_priority) {
        reported.push(format!(
            "Autogroup is on: it shares the CPU with its session ({autogroup}) first, and its nice \
             value counts only there."
        ));
    }
    if facts.kernel_thread.is_none() {
        reported.push(privilege(kernel));
    }
    reported
}

/// Without tekd the control group of a thread still shows its group.
fn tekd(facts: &Facts) -> Vec<String> {
    // tekd cannot move kernel threads, but they follow: a later section has that.
    if facts.follows.as_ref().is_some_and(|follows| follows.why_not.is_none()) {
        return Vec::new();
    }
    match (&facts.daemon, &facts.group) {
        (Some(known), _) => daemon::describe(known, facts.kernel_thread.is_some()),
        (None, Some(group)) => vec![format!("Its control group is that of the group {group}.")],
        (None, None) => Vec::new(),
    }
}

fn waiters(facts: &Facts) -> Vec<String> {
    let reported = facts.follows.as_ref().map(|known| kthread::describe(&facts.name, known));
    reported.unwrap_or_default()
}

fn scheduling(kernel: &Kernel) -> String {
    let Kernel { policy, rt_priority, nice, .. } = kernel;
    match policy.as_str() {
        "SCHED_FIFO" | "SCHED_RR" => format!(
            "It is scheduled as {policy} with real-time priority {rt_priority}: before every \
             thread of the fair classes, behind those of a higher one. Its nice value, {nice}, \
             does not count meanwhile."
        ),
        "SCHED_DEADLINE" => format!("It is scheduled as {policy}: before every other class."),
        "SCHED_IDLE" => format!("It is scheduled as {policy}: it gets what all others leave."),
        _ => {
            format!("It is scheduled as {policy}, nice {nice}: fairly, by weight, with all others.")
        }
    }
}

fn privilege(kernel: &Kernel) -> String {
    match (kernel.sys_nice, kernel.rtprio_limit) {
        (true, _) => "Its process may use every real-time priority (CAP_SYS_NICE).".into(),
        (false, Some(0)) => "Its process may not use real-time priorities: it has neither \
            CAP_SYS_NICE nor RLIMIT_RTPRIO (`tek doctor` has the cure)."
            .into(),
        (false, Some(limit)) => {
            format!("Its process may use real-time priorities up to {limit} (RLIMIT_RTPRIO).")
        }
        (false, None) => "Whether its process may use real-time priorities is not told.".into(),
    }
}

fn state(letter: char) -> &'static str {
    match letter {
        'R' => "running, or ready to run and waiting for a CPU",
        'S' => "asleep, waiting for something to happen",
        'D' => "waiting for storage or the kernel, and cannot be interrupted",
        'T' => "stopped by a signal",
        't' => "stopped by a debugger",
        'I' => "idle",
        'Z' | 'X' => "dead",
        _ => "in a state that tek does not know",
    }
}

fn tek(tek: &Tek, kernel: &Kernel) -> Vec<String> {
    let mut reported = vec![if tek.overridden { overridden(kernel) } else { fast(tek) }];
    let ends = (1..=tek.reasons.len()).map(|n| if n == tek.reasons.len() { "." } else { ";" });
    let reasons = tek.reasons.iter().zip(ends);
    reported.extend(reasons.map(|(reason, end)| format!("- {}{end}", why(reason, tek))));
    if tek.fast {
        reported.extend(tek.base.as_ref().map(|base| given_back(base, tek.base_reset_on_fork)));
        reported.push(budget(tek));
    }
    reported.extend(held_up(tek));
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

fn why(reason: &str, tek: &Tek) -> String {
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

fn waits(facts: &Facts) -> Vec<String> {
    let kernel = &facts.kernel;
    let mut reported = Vec::new();
    let share = 100.0 * kernel.cpu_ns as f64 / facts.age_ns.max(1) as f64;
    let mut ran = format!("In its life it ran for {}, {share:.1}% of a CPU", time(kernel.cpu_ns));
    match kernel.run_delay_ns {
        Some(delay) => {
            ran += &format!(", and was ready but had to wait for a CPU for {}.", time(delay));
            if delay > kernel.cpu_ns {
                ran += " It waits for a CPU longer than it runs.";
            }
        }
        None => ran += "; how long it waited for a CPU this kernel does not count.",
    }
    reported.push(ran);
    if let (Some(voluntary), Some(involuntary)) =
        (kernel.voluntary_switches, kernel.involuntary_switches)
    {
        let left = match voluntary {
            0 => "never left its CPU".into(),
            count => format!("left its CPU {}", times(count)),
        };
        let driven_out = times(involuntary);
        reported.push(format!(
            "It {left} to wait for something, and {driven_out} because another thread was to run."
        ));
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch() -> Facts {
        Facts {
            tid: 13,
            pid: 12,
            program: "fridge".into(),
            name: "touch".into(),
            named: Some(true),
            age_ns: 10_000_000_000,
            kernel: Kernel {
                policy: "SCHED_RR".into(),
                rt_priority: 29,
                state: 'S',
                cpus: "0-1".into(),
                cpu_ns: 1_000_000,
                run_delay_ns: Some(2_000_000),
                voluntary_switches: Some(40),
                involuntary_switches: Some(2),
                ..Kernel::default()
            },
            tek: Some(Tek {
                function: Some("touch_run".into()),
                role: Some("touch input".into()),
                creator_tid: Some(12),
                creator: Some("fridge".into()),
                group: "urgent".into(),
                fast: true,
                fast_now_ns: 9_000_000_000,
                fast_ns: 9_000_000_000,
                stays: 1,
                priority: Some(-5),
                reasons: vec!["policy", "rule"],
                rule: 2,
                base: Some(("SCHED_OTHER".into(), 0)),
                rules: vec![RuleFact {
                    number: 2,
                    source: "fridge.toml:4".into(),
                    text: "match = { thread = \"touch\" }".into(),
                    sets: vec!["role", "critical"],
                }],
                ..Tek::default()
            }),
            ..Facts::default()
        }
    }

    fn text(facts: &Facts) -> String {
        describe(facts)
            .into_iter()
            .flat_map(|(_, reported)| reported)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn a_fast_thread_has_its_reasons_its_rule_and_what_it_gets_back() {
        let text = text(&touch());
        for part in [
            "touch [13] is a thread of fridge [12], 10.00 s old.",
            "Its role: touch input.",
            "It runs touch_run.",
            "created by fridge [12]",
            "SCHED_RR with real-time priority 29",
            "time-critical with SCHED_TEK priority -5, for 9.00 s, because",
            "- it was given the policy SCHED_TEK;",
            "- rule 2, fridge.toml:4 (match = { thread = \"touch\" }) makes it so.",
            "gets back SCHED_OTHER,",
            "its process, which was started with 800ms/1s: CPU time in any window",
            "Its role comes from rule 2.",
            "waits for a CPU longer than it runs",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn a_budget_of_a_rule_holds_in_each_window_and_is_no_other() {
        let mut facts = touch();
        let tek = facts.tek.as_mut().unwrap();
        tek.budget = Some("20ms/100ms".into());
        tek.rules[0].sets.push("budget");
        let text = text(&facts);
        assert!(text.contains("Its budget is 20ms/100ms: CPU time in each window"), "{text}");
        assert!(!text.contains("started with"), "{text}");
    }

    #[test]
    fn sentences_read_as_sentences() {
        let mut facts = touch();
        facts.kernel.voluntary_switches = Some(0);
        let rule = &mut facts.tek.as_mut().unwrap().rules[0];
        rule.sets = vec!["role", "group", "critical", "priority"];
        let text = text(&facts);
        assert!(text.contains("It never left its CPU to wait for something, and twice"), "{text}");
        assert!(text.contains("Its role, group and priority come from rule 2."), "{text}");
        assert_eq!([time(2_310_000_000), time(25_920_000_000_000)], ["2.31 s", "7h12m"]);
    }

    #[test]
    fn a_thread_that_was_sent_back_is_described_as_such() {
        let mut facts = touch();
        let tek = facts.tek.as_mut().unwrap();
        (tek.fast, tek.stays, tek.overruns, tek.reasons) = (false, 3, 2, Vec::new());
        let text = text(&facts);
        assert!(
            text.contains("not time-critical now; it was 3 times, for 9.00 s in all"),
            "{text}"
        );
        assert!(text.contains("The guard sent it back twice"), "{text}");
        assert!(!text.contains("gets back"), "{text}");
    }

    #[test]
    fn a_thread_whose_policy_somebody_else_set_is_not_called_time_critical() {
        let mut facts = touch();
        let tek = facts.tek.as_mut().unwrap();
        (tek.fast, tek.overridden, tek.priority) = (false, true, None);
        facts.kernel.rt_priority = 5;
        let text = text(&facts);
        assert!(text.contains("set its policy to SCHED_RR with real-time priority 5"), "{text}");
        assert!(text.contains("stays as it is when it leaves"), "{text}");
        assert!(!text.contains("It is time-critical") && !text.contains("gets back"), "{text}");
    }

    #[test]
    fn a_rule_that_cannot_be_read_has_its_number_and_a_pattern_is_named() {
        let mut tek = Tek::default();
        assert!(why("rule", &tek).contains("TEK_CRITICAL"));
        tek.critical_pattern = Some("mc-lru*".into());
        assert_eq!(why("rule", &tek), "its name fits `mc-lru*` of TEK_CRITICAL");
        tek.rule = 3;
        assert_eq!(why("rule", &tek), "rule 3 makes it so");
        tek.rules.push(RuleFact {
            number: 3,
            source: "--critical mc-lru*".into(),
            text: String::new(),
            sets: vec!["critical", "priority"],
        });
        assert_eq!(why("rule", &tek), "its name fits `--critical mc-lru*`");
    }

    #[test]
    fn no_privilege_is_described_for_a_thread_of_the_kernel() {
        let mut facts = Facts { kernel_thread: Some("it moves threads".into()), ..touch() };
        facts.tek = None;
        let text = text(&facts);
        assert!(text.contains("is a thread of the kernel"), "{text}");
        assert!(!text.contains("RLIMIT_RTPRIO"), "{text}");
    }

    #[test]
    fn in_a_group_of_tekds_no_cure_for_real_time_run_time_is_named() {
        let mut facts = touch();
        facts.kernel.cgroup = Some("/sys/fs/cgroup/cpu/x".into());
        facts.kernel.cgroup_rt_runtime_us = Some(0);
        assert!(text(&facts).contains("`tek doctor` has the cure"));
        let mut known = daemon::Known { group: Some("normal".into()), ..daemon::Known::default() };
        facts.daemon = Some(known.clone());
        let placed = text(&facts);
        assert!(placed.contains("through tekd, which moves them"), "{placed}");
        known.fast = Some(daemon::Fast::default());
        facts.daemon = Some(known);
        let fast = text(&facts);
        assert!(!fast.contains("`tek doctor`") && !fast.contains("which moves"), "{fast}");
    }

    #[test]
    fn a_section_without_content_is_left_out() {
        let titles =
            |facts: &Facts| describe(facts).iter().map(|(title, _)| *title).collect::<Vec<_>>();
        assert!(!titles(&touch()).contains(&"What is not known"));
        let without = Facts { tek: None, not_known: vec!["x".into()], ..touch() };
        assert!(!titles(&without).contains(&"What TEK did"));
        assert!(titles(&without).contains(&"What is not known"));
    }
}
