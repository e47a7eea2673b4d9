// SPDX-License-Identifier: MIT OR Apache-2.0
//! R(k) after events; the expected priorities are computed by hand.
use super::Relations;
use std::collections::HashMap;
use tek_bpf::{Device, Event, Member, Name, Thread, What, Work};
use tek_policy::dependency::{InheritSettings, Ratio};
use tek_policy::kthread::KthreadSettings;
use tek_policy::read_configuration;

const MS: u64 = 1_000_000;
const PLAYER: Member = Member { tid: 812, process: 812, priority: 20, via: false };
const NET: Member = Member { tid: 77, process: 70, priority: 50, via: false };
const WB: u64 = 0xb0;
const DISK: Device = Device { major: 254, minor: 0 };

fn settings(more: &str) -> KthreadSettings {
    let text = format!("[kthreads]\n{more}");
    read_configuration(&text, "tekd.toml").unwrap().kthreads.unwrap()
}

fn worker(tid: i32) -> Thread {
    Thread { tid, name: Name::new(&format!("kworker/0:{tid}")) }
}

fn kswapd() -> Thread {
    Thread { tid: 45, name: Name::new("kswapd0") }
}

struct Kernel {
    relations: Relations,
    now: u64,
}

impl Kernel {
    fn new(more: &str) -> Self {
        let inherit = InheritSettings::default();
        let relations = Relations::new(settings(more), inherit, vec![kswapd()], HashMap::new());
        Self { relations, now: 1000 * MS }
    }

    fn notify(&mut self, what: What) -> &mut Self {
        self.relations.take(&Event { time: self.now, woke: true, lost: false, what });
        self
    }

    fn wait(&mut self, ms: u64) -> &mut Self {
        self.now += ms * MS;
        self.relations.expire(self.now);
        self
    }

    fn wanted(&self, thread: i32) -> Option<u8> {
        self.relations.wanted(thread).map(|priority| priority.get())
    }

    fn queue(&mut self, member: Member, address: u64, worker: Option<Thread>) -> &mut Self {
        self.notify(What::WorkQueued { member, work: work(address), worker })
    }

    fn start(&mut self, member: Member, address: u64, worker: Thread) -> &mut Self {
        self.notify(What::WorkStarted { member, work: work(address), worker })
    }

    fn end(&mut self, member: Member, address: u64, worker: Thread) -> &mut Self {
        self.notify(What::WorkEnded { member, work: work(address), worker })
    }

    fn dirty(&mut self, member: Member, inode: u64) -> &mut Self {
        self.notify(What::InodeDirtied { member, inode, wb: WB, device: DISK, worker: None })
    }
}

fn work(address: u64) -> Work {
    Work { address, function: 0xf0 }
}

#[test]
fn a_worker_follows_from_the_moment_that_the_work_is_queued_until_it_has_lingered() {
    let mut kernel = Kernel::new("");
    kernel.queue(PLAYER, 1, Some(worker(9)));
    assert_eq!(kernel.wanted(9), Some(16)); // 0.8 x 20
    kernel.start(PLAYER, 1, worker(9)).wait(100);
    assert_eq!(kernel.wanted(9), Some(16));
    kernel.end(PLAYER, 1, worker(9)).wait(19);
    assert_eq!(kernel.wanted(9), Some(16));
    kernel.wait(1);
    assert_eq!(kernel.wanted(9), None);
    assert!(kernel.relations.is_empty());
}

#[test]
fn the_worker_that_runs_the_work_follows_and_the_one_that_was_to_does_not() {
    let mut kernel = Kernel::new("");
    kernel.queue(PLAYER, 1, Some(worker(9))).start(PLAYER, 1, worker(10));
    assert_eq!((kernel.wanted(9), kernel.wanted(10)), (None, Some(16)));
}

#[test]
fn a_worker_that_is_busy_with_something_else_follows_until_the_work_begins() {
    let mut kernel = Kernel::new("");
    let ahead = What::WorkAhead { member: PLAYER, work: work(1), worker: worker(9) };
    kernel.queue(PLAYER, 1, None).notify(ahead);
    assert_eq!(kernel.wanted(9), Some(16));
    kernel.start(PLAYER, 1, worker(10));
    assert_eq!((kernel.wanted(9), kernel.wanted(10)), (None, Some(16)));
}

#[test]
fn a_worker_that_begins_unrelated_work_follows_no_more_unless_somebody_still_waits() {
    let mut kernel = Kernel::new("");
    let unrelated = What::Unrelated { work: work(7), worker: worker(9) };
    kernel.queue(PLAYER, 1, Some(worker(9))).start(PLAYER, 1, worker(9)).notify(unrelated);
    assert_eq!(kernel.wanted(9), Some(16));
    kernel.end(PLAYER, 1, worker(9)).notify(unrelated);
    assert_eq!(kernel.wanted(9), None);
}

#[test]
fn a_work_that_is_dropped_ends_at_once() {
    let mut kernel = Kernel::new("");
    kernel.queue(PLAYER, 1, Some(worker(9))).notify(What::WorkDropped { work: 1 });
    assert_eq!(kernel.wanted(9), None);
}

#[test]
fn a_task_with_dirty_inodes_waits_for_their_worker_once_for_each() {
    let mut kernel = Kernel::new("linger_ms = 0");
    kernel.dirty(PLAYER, 1).dirty(NET, 2).dirty(NET, 3);
    assert_eq!(kernel.wanted(9), None); // no worker writes back yet
    kernel.notify(What::WbQueued { wb: WB, work: 0xa0, worker: Some(worker(9)) });
    assert_eq!(kernel.wanted(9), Some(32)); // 0.8 x (20 + 50 + 50) / 3
    kernel.notify(What::InodeCleaned { inode: 2, wb: WB, by: worker(9) });
    assert_eq!(kernel.wanted(9), Some(28)); // 0.8 x (20 + 50) / 2
    kernel.notify(What::WbStarted { wb: WB, work: 0xa0, worker: worker(10) });
    assert_eq!((kernel.wanted(9), kernel.wanted(10)), (None, Some(28)));
    kernel.notify(What::InodeGone { inode: 3, wb: WB, by: worker(10) });
    assert_eq!(kernel.wanted(10), Some(16));
    kernel.notify(What::WbEnded { wb: WB, work: 0xa0, worker: worker(10) });
    assert_eq!(kernel.wanted(10), None);
    // An inode that is still dirty counts again at its next writeback.
    kernel.notify(What::WbQueued { wb: WB, work: 0xa0, worker: Some(worker(9)) });
    assert_eq!(kernel.wanted(9), Some(16));
}

#[test]
fn the_thread_of_a_file_system_s_journal_follows_as_long_as_something_is_dirty() {
    let mut kernel = Kernel::new("linger_ms = 0");
    let journal = Thread { tid: 60, name: Name::new("jbd2/vda-8") };
    kernel.relations.set_journal(DISK, Some(journal));
    kernel.dirty(PLAYER, 1).notify(What::WbQueued { wb: WB, work: 0xa0, worker: Some(worker(9)) });
    assert_eq!((kernel.wanted(60), kernel.wanted(9)), (Some(16), Some(16)));
    kernel.notify(What::WbEnded { wb: WB, work: 0xa0, worker: worker(9) });
    assert_eq!((kernel.wanted(60), kernel.wanted(9)), (Some(16), None));
    kernel.notify(What::InodeCleaned { inode: 1, wb: WB, by: worker(9) });
    assert_eq!(kernel.wanted(60), None);
}

#[test]
fn what_a_worker_that_follows_gives_to_another_is_for_those_that_it_follows_or_followed_last() {
    let mut kernel = Kernel::new("");
    let via = Member { tid: 9, process: 9, priority: 16, via: true };
    kernel.queue(PLAYER, 1, Some(worker(9))).queue(via, 2, Some(worker(10))).dirty(via, 4);
    assert_eq!((kernel.wanted(9), kernel.wanted(10)), (Some(16), Some(16)));
    kernel.start(PLAYER, 1, worker(9)).end(PLAYER, 1, worker(9)).wait(30);
    assert_eq!(kernel.wanted(9), None);
    kernel.queue(via, 3, Some(worker(11)));
    assert_eq!(kernel.wanted(11), Some(16));
    kernel.notify(What::TaskExited { tid: 812, process: 812 }).queue(via, 5, Some(worker(12)));
    assert_eq!((kernel.wanted(11), kernel.wanted(12)), (None, None));
}

#[test]
fn a_task_that_ends_waits_for_no_thread() {
    let mut kernel = Kernel::new("");
    kernel.queue(PLAYER, 1, Some(worker(9))).queue(NET, 2, Some(worker(9))).dirty(PLAYER, 1);
    assert_eq!(kernel.wanted(9), Some(28));
    kernel.notify(What::TaskExited { tid: 812, process: 812 });
    assert_eq!(kernel.wanted(9), Some(40));
    kernel.notify(What::TaskExited { tid: 77, process: 70 });
    assert!(kernel.wanted(9).is_none() && kernel.relations.is_empty());
}

#[test]
fn an_interrupt_s_thread_may_fall_beneath_its_own_priority() {
    let mut kernel = Kernel::new("");
    let irq = Thread { tid: 50, name: Name::new("irq/24-virtio0") };
    let low = Member { priority: 40, ..PLAYER };
    let began =
        |member| What::RequestBegan { member, request: 5, disk: DISK, completer: Some(irq) };
    kernel.notify(began(low));
    assert_eq!(kernel.wanted(50), Some(40)); // 1.2 x 40 is above the waiters
    let ended = What::RequestEnded { member: low, request: 5, disk: DISK, completer: Some(irq) };
    kernel.notify(ended).wait(20);
    assert_eq!(kernel.wanted(50), None);
}

#[test]
fn kswapd_follows_the_owners_of_pages_by_their_share() {
    let mut kernel = Kernel::new("");
    kernel.notify(What::KswapdWanted { member: PLAYER, node: 0, kswapd: Some(kswapd()) });
    assert_eq!(kernel.wanted(45), Some(16));
    kernel.relations.owners(&[PLAYER, NET], Ratio::of(3, 10));
    assert_eq!(kernel.wanted(45), Some(8)); // 0.8 x (20 + 50) / 2 x 0.3, to the nearest
    kernel.notify(What::KswapdSlept { node: 0, kswapd: kswapd() }).wait(20);
    assert_eq!(kernel.wanted(45), None);
}

#[test]
fn a_thread_that_is_being_made_has_to_run_before_its_waiter_goes_on() {
    let mut kernel = Kernel::new("");
    let new = Thread { tid: 99, name: Name::new("kthreadd") };
    kernel.notify(What::CreationBegan { member: PLAYER });
    assert_eq!(kernel.wanted(2), Some(16));
    kernel.notify(What::Born { thread: new });
    kernel.notify(What::CreationEnded { member: PLAYER }).wait(20);
    assert_eq!((kernel.wanted(2), kernel.wanted(99)), (None, None));
}

#[test]
fn where_no_worker_is_idle_a_new_one_has_to_be_made_and_to_begin() {
    let mut kernel = Kernel::new("");
    let new = Thread { tid: 99, name: Name::new("kthreadd") };
    kernel.queue(PLAYER, 1, None);
    assert_eq!(kernel.wanted(2), Some(16));
    kernel.notify(What::Born { thread: new });
    assert_eq!(kernel.wanted(99), Some(16));
    kernel.start(PLAYER, 1, worker(9));
    assert_eq!((kernel.wanted(2), kernel.wanted(99), kernel.wanted(9)), (None, None, Some(16)));
}

#[test]
fn a_work_that_no_worker_begins_counts_as_cancelled() {
    let mut kernel = Kernel::new("");
    kernel.queue(PLAYER, 1, Some(worker(9))).wait(1900);
    assert!(kernel.relations.drop_cancelled(kernel.now).is_empty());
    kernel.wait(200);
    assert_eq!(kernel.relations.drop_cancelled(kernel.now), [1]);
    assert_eq!(kernel.wanted(9), None);
}

fn send(packet: u64, carrier: Option<Thread>) -> What {
    What::PacketBegan { member: PLAYER, packet, carrier }
}

#[test]
fn ksoftirqd_follows_the_sender_of_a_packet_until_that_has_arrived() {
    let mut kernel = Kernel::new("");
    let softirq = Thread { tid: 14, name: Name::new("ksoftirqd/0") };
    kernel.notify(send(0, None));
    assert!(kernel.relations.is_empty());
    kernel.notify(send(7, Some(softirq)));
    assert_eq!(kernel.wanted(14), Some(20)); // 1.2 x 20 is above the waiter
    kernel.notify(What::PacketEnded { member: PLAYER, packet: 7 }).wait(20);
    assert!(kernel.wanted(14).is_none() && kernel.relations.is_empty());
}

#[test]
fn what_is_done_for_storage_while_a_task_sleeps_is_for_it_whoever_asked_for_that() {
    let mut kernel = Kernel::new("");
    let journal = Thread { tid: 60, name: Name::new("jbd2/vda-8") };
    let awaited = |member, thread| What::StorageAwaited { member, thread, owner: None };
    kernel.notify(awaited(PLAYER, worker(9))).notify(awaited(PLAYER, journal));
    kernel.notify(awaited(NET, journal));
    assert_eq!((kernel.wanted(9), kernel.wanted(60)), (Some(16), Some(28)));
    // Reported again, because the thread received more work: it is one relation.
    kernel.notify(awaited(PLAYER, worker(9))).notify(What::StorageDone { thread: 9 }).wait(20);
    assert_eq!((kernel.wanted(9), kernel.wanted(60)), (None, Some(28)));
    kernel.notify(What::StorageEnded { member: NET }).wait(20);
    assert_eq!(kernel.wanted(60), Some(16));
    kernel.notify(What::StorageEnded { member: PLAYER }).wait(20);
    assert!(kernel.wanted(60).is_none() && kernel.relations.is_empty());
}

#[test]
fn a_task_that_goes_on_leaves_no_thread_behind_that_has_still_something_to_do() {
    let mut kernel = Kernel::new("");
    kernel.notify(What::StorageAwaited { member: PLAYER, thread: worker(9), owner: None });
    kernel.notify(What::StorageEnded { member: PLAYER }).wait(19);
    assert_eq!(kernel.wanted(9), Some(16));
    kernel.notify(What::Unrelated { work: work(7), worker: worker(9) });
    assert_eq!(kernel.wanted(9), None);
}

#[test]
fn all_waits_for_storage_end_together_where_their_ends_are_not_reported() {
    let mut kernel = Kernel::new("");
    for member in [PLAYER, NET] {
        kernel.notify(What::StorageAwaited { member, thread: worker(9), owner: None });
    }
    assert_eq!(kernel.wanted(9), Some(28));
    let now = kernel.now;
    kernel.relations.end_all_for_storage(now);
    kernel.wait(20);
    assert!(kernel.wanted(9).is_none() && kernel.relations.is_empty());
}

#[test]
fn an_ordinary_thread_that_holds_something_is_helped_only_until_it_is_waited_for_no_more() {
    let mut kernel = Kernel::new("");
    let holder = Thread { tid: 300, name: Name::new("kswapd0") };
    let awaited = What::StorageAwaited { member: PLAYER, thread: holder, owner: Some(299) };
    kernel.notify(awaited);
    assert_eq!(kernel.wanted(300), Some(16));
    kernel.notify(What::StorageDone { thread: 300 });
    assert_eq!(kernel.wanted(300), None);
    kernel.notify(awaited).notify(What::StorageEnded { member: PLAYER });
    assert_eq!(kernel.wanted(300), None);
    let mut kernel = Kernel::new("off = [\"holder\"]");
    assert_eq!(kernel.notify(awaited).wanted(300), None);
}

#[test]
fn an_inode_that_is_reported_dirty_again_counts_once() {
    let mut kernel = Kernel::new("linger_ms = 0");
    kernel.dirty(PLAYER, 1).dirty(PLAYER, 1).dirty(NET, 2);
    kernel.notify(What::WbQueued { wb: WB, work: 0xa0, worker: Some(worker(9)) });
    assert_eq!(kernel.wanted(9), Some(28)); // 0.8 x (20 + 50) / 2
}

#[test]
fn a_packet_whose_end_is_not_seen_has_arrived_after_two_seconds() {
    let mut kernel = Kernel::new("");
    let softirq = Thread { tid: 14, name: Name::new("ksoftirqd/0") };
    kernel.notify(send(7, Some(softirq))).wait(2100);
    assert_eq!(kernel.wanted(14), Some(20));
    assert!(kernel.relations.drop_cancelled(kernel.now).is_empty());
    assert_eq!(kernel.wanted(14), None);
}

#[test]
fn after_lost_events_no_boost_is_left_behind() {
    let mut kernel = Kernel::new("");
    kernel.queue(PLAYER, 1, Some(worker(9))).dirty(NET, 4);
    let now = kernel.now;
    kernel.relations.forget_all(now);
    kernel.wait(20);
    assert!(kernel.wanted(9).is_none() && kernel.relations.is_empty());
}

#[test]
fn a_thread_with_the_id_of_another_one_begins_anew() {
    let mut kernel = Kernel::new("");
    kernel.queue(PLAYER, 1, Some(worker(9)));
    let other = Thread { tid: 9, name: Name::new("kworker/1:3") };
    kernel.queue(NET, 2, Some(other));
    assert_eq!(kernel.wanted(9), Some(40));
}

#[test]
fn what_the_configuration_leaves_alone_does_not_follow() {
    for more in ["off = [\"worker\"]", "protected = [\"kworker*\"]"] {
        let mut kernel = Kernel::new(more);
        kernel.queue(PLAYER, 1, Some(worker(9)));
        assert_eq!(kernel.wanted(9), None, "{more}");
    }
}
