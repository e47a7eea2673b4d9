// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of the kernel in sentences.
use super::*;
use crate::status::kthreads::tests::reported;

fn text(tid: u32, name: &str) -> String {
    describe(name, &of(tid, name, &Ok(reported()))).join("\n")
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn the_beneficiary_of_a_boosted_thread_and_its_computation_are_reported() {
    let mut reported = reported();
    reported.threads[0].members[1].name = "net".into();
    let all =
        describe("kworker/0:1-events", &of(45, "kworker/0:1-events", &Ok(reported))).join("\n");
    has(
        &all,
        &[
            "kworker/0:1 is at 12 because player[812] waits for its write to vda (2 files), and \
             net[77] for its work flush_to_ldisc.",
            "That is weight 0.8 x mean 15 = 12, rounded, and at most 15, the highest of the \
             waiting tasks.",
            "By itself it has SCHED_OTHER, nice 0, and gets that back 20 ms after",
            "for 1.50 s; 7 times, for 4.20 s in all.",
        ],
    );
}

#[test]
fn of_kswapd_the_share_of_the_memory_is_shown_and_by_plain_there_is_no_product() {
    let mut reported = reported();
    (reported.threads[1].priority, reported.threads[1].held) = (Some(12), None);
    let all = describe("kswapd0", &of(57, "kswapd0", &Ok(reported.clone()))).join("\n");
    has(&all, &["weight 0.8 x mean 50 x 0.3, the share of memory", "= 12, rounded"]);
    reported.method = Some("plain".into());
    let all = describe("kswapd0", &of(57, "kswapd0", &Ok(reported))).join("\n");
    has(&all, &["50 is the highest priority of the tasks that wait."]);
}

#[test]
fn the_reason_for_its_own_priority_is_shown() {
    has(
        &text(57, "kswapd0"),
        &["its own priority although player[812] waits for free memory: too many changes a second"],
    );
    has(
        &text(46, "kworker/1:0"),
        &[
            "No critical task waits for it",
            "protected in tekd.toml (kworker/1:*)",
            "By itself it has SCHED_OTHER, nice -20.",
            "It had the priority of waiting tasks 3 times, for 9.00 s in all.",
        ],
    );
    has(&text(90, "irq/24-eth0"), &["It is left alone: its class, irq, is off in tekd.toml."]);
    let mut reported = reported();
    reported.dependencies[0] = crate::status::kthreads::Dependency {
        name: "workers".into(),
        on: false,
        why: "this kernel has not z".into(),
    };
    let all = describe("kworker/3:0", &of(91, "kworker/3:0", &Ok(reported))).join("\n");
    has(
        &all,
        &["Its waiters are not known: workers cannot be followed on this kernel: this kernel"],
    );
}

#[test]
fn one_that_tekd_never_saw_is_described_too() {
    assert_eq!(text(2, "kthreadd"), "No critical task waits for it, and it has its own priority.");
    has(&text(19, "migration/0"), &["never changes it"]);
    has(&text(300, "psimon"), &["whose waiters TEK does not know"]);
    has(&text(16, "rcu_preempt"), &["raised because it must come before"]);
}

#[test]
fn if_none_follows_the_reason_and_the_cure_are_shown() {
    let off = Reported { why: Some("tekd.toml has no [kthreads]".into()), ..Reported::default() };
    let all = describe("kthreadd", &of(2, "kthreadd", &Ok(off))).join("\n");
    has(
        &all,
        &[
            "tekd.toml has no [kthreads].",
            "To have them follow: ",
            "echo \"[kthreads]\" >> /etc/tek/tekd.toml",
        ],
    );
    let all = describe("kthreadd", &of(2, "kthreadd", &Err("tekd does not run".into())));
    assert_eq!(all, ["No kernel thread follows the tasks that wait for it: tekd does not run."]);
}

#[test]
fn the_kernel_threads_that_a_task_waits_for_are_shown() {
    let all = describe_task(&of_task(812, &reported())).join("\n");
    has(
        &all,
        &[
            "kworker/0:1 [45] follows it and is at 12: it waits there for its write to vda (2 \
             files).",
            "kswapd0 [57] has its own priority (too many changes a second): it waits there for \
             free",
        ],
    );
    assert!(of_task(5, &reported()).is_empty());
}
