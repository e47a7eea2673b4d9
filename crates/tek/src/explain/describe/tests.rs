// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts and their sentences.
use super::critical::why;
use super::*;
use crate::explain::facts::{Kernel, RuleFact, Tek};

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
    describe(facts).into_iter().flat_map(|(_, reported)| reported).collect::<Vec<_>>().join("\n")
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
    assert!(text.contains("not time-critical now; it was 3 times, for 9.00 s in all"), "{text}");
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
