// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of kinds of kernel threads.
use super::*;
use proptest::prelude::*;

#[test]
fn threads_of_a_kernel_of_today_have_their_classes() {
    let table: &[(Class, &[&str])] = &[
        (Class::Irq, &["irq/24-ACPI:Ged", "irq/9-acpi", "irq/128-s-ahci[0"]),
        (
            Class::Softirq,
            &["ksoftirqd/0", "ksoftirqd/127", "ktimers/1", "backlog_napi/0", "napi/eth0-8193"],
        ),
        (Class::Reclaim, &["kswapd0", "kswapd1"]),
        (Class::Compaction, &["kcompactd0", "khugepaged"]),
        (
            Class::Worker,
            &[
                "kworker/0:1",
                "kworker/0:1H-kblockd",
                "kworker/u8:1-flush-254:0",
                "kworker/u8:2+writeback",
                "kworker/R-writeback",
                "jbd2/vda1-8",
                "btrfs-transaction",
                "btrfs-transacti",
                "md127_raid1",
                "loop0",
                "usb-storage",
            ],
        ),
        (Class::IoUring, &["iou-wrk-812", "iou-sqp-7", "io_wqe_worker-0", "io_uring-sq"]),
        (Class::Creator, &["kthreadd"]),
        (
            Class::Untouchable,
            &[
                "rcu_preempt",
                "rcuc/0",
                "rcub/1",
                "rcuog/0",
                "rcuop/3",
                "rcu_tasks_kthread",
                "irq_work/0",
                "migration/0",
                "cpuhp/1",
                "watchdogd",
                "idle_inject/0",
                "sugov:0",
            ],
        ),
        (Class::Unknown, &["kauditd", "ksmd", "oom_reaper", "hwrng", "", "mdx_raid1", "kswapdx"]),
    ];
    for (class, names) in table {
        for name in *names {
            assert_eq!(Class::of_name(name), *class, "{name}");
        }
    }
}

#[test]
fn the_class_of_a_worker_follows_from_its_work() {
    assert_eq!(Class::of_work("wb_workfn"), Class::Writeback);
    assert_eq!(Class::of_work("wb_workfn.llvm.17"), Class::Writeback);
    assert_eq!(Class::of_work("wb_workfnx"), Class::Worker);
    assert_eq!(Class::of_work("blk_mq_run_work_fn"), Class::Worker);
}

#[test]
fn every_class_that_has_a_name_in_the_file_is_of_a_group_of_the_paper() {
    assert!(Class::NAMED.iter().all(|class| class.group().is_some()));
    assert!(Class::NAMED.iter().all(|class| class.default_policy().is_some()));
    assert_eq!((Class::Untouchable.group(), Class::Unknown.group()), (None, None));
}

proptest! {
    #[test]
    fn every_name_has_a_class(name in ".{0,20}") {
        let _ = (Class::of_name(&name), Class::of_work(&name));
    }
}
