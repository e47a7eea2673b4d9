// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use tek_abi::{
    EVENT_HOLDER, EVENT_INVERSION, EVENT_INVERSIONS, EVENT_INVERSION_PLACE, WAITS_JOIN, WAITS_MUTEX,
};
use zerocopy::FromZeros;

fn event(kind: u16, pid: u32, thread: &str, value: [u64; 4]) -> Event {
    let mut event = Event { pid, tid: pid + 1, value, ..Event::blank(kind) };
    event.thread[..thread.len()].copy_from_slice(thread.as_bytes());
    event
}

fn inversion(pid: u32, wait_ns: u64) -> Event {
    let error = WAITS_MUTEX.into();
    Event { error, ..event(EVENT_INVERSION, pid, "touch", [3, 9000, wait_ns, 2 * wait_ns]) }
}

#[test]
fn the_events_of_processes_are_put_together_also_where_they_mix() {
    let mut gathered = Gathered::default();
    for pid in [5, 7] {
        gathered.add_sums(&event(EVENT_INVERSIONS, pid, "", [3, 9000, 2, 800]));
        gathered.add_one(&inversion(pid, 1000 * u64::from(pid)));
    }
    for pid in [5, 7] {
        gathered.add_holder(&event(EVENT_HOLDER, pid, &format!("of{pid}"), [600, 500, 0, 0]));
        let place = event(EVENT_INVERSION_PLACE, pid, "", [0, 0x1234, 0, 0]);
        gathered.add_place(&Event { error: AT_OBJECT, ..place });
    }
    let all = gathered.finish();
    assert_eq!((all.inversions, all.waited_ns, all.lifts, all.lifted_ns), (6, 18_000, 4, 1600));
    assert_eq!(all.worst.iter().map(|row| row.pid).collect::<Vec<_>>(), [7, 5]);
    let row = &all.worst[1];
    assert_eq!((row.waiter.name.as_str(), row.holder.name.as_str()), ("touch", "of5"));
    assert_eq!((row.wait_ns, row.cost_ns, row.lifted_ns), (5000, Some(10_000), 600));
    assert_eq!((row.kind, row.object.as_deref()), ("mutex", Some("0x1234")));
    let text = all.text();
    assert!(text.contains("waited 6 times") && text.contains("mutex 0x1234"), "{text}");
}

#[test]
fn the_ten_longest_waits_are_named_however_many_there_were() {
    let mut gathered = Gathered::default();
    for pid in 1..=3000 {
        gathered.add_one(&inversion(pid, u64::from(pid * 7919 % 3001)));
    }
    let all = gathered.finish();
    let waits: Vec<_> = all.worst.iter().map(|row| row.wait_ns).collect();
    assert_eq!(waits, (2991..=3000).rev().collect::<Vec<_>>());
}

#[test]
fn a_killed_process_has_them_in_its_table_with_names_of_functions() {
    let exe = std::env::current_exe().unwrap();
    let path = std::os::unix::ffi::OsStrExt::as_bytes(exe.as_os_str());
    let mut module = Module::new_zeroed();
    (module.start, module.end) = (0, u64::MAX);
    module.path[..path.len()].copy_from_slice(path);
    let mut header = TableHeader::new_zeroed();
    (header.pid, header.inversions, header.lifts) = (5, 1, 1);
    let mut one = Inversion::new_zeroed();
    (one.kind, one.waits, one.wait_ns, one.object) = (WAITS_JOIN.into(), 1, 700, 0);
    (one.call, one.waiter_tid) = (1, 9);
    let mut gathered = Gathered::default();
    gathered.add_table(&header, &[one], &[module]);
    let all = gathered.finish();
    let row = &all.worst[0];
    assert_eq!((row.pid, row.waiter.tid, row.kind, row.cost_ns), (5, 9, "join", None));
    assert!(row.call.as_deref().unwrap().starts_with("tek-"), "{row:?}");
    assert_eq!((row.release.as_ref(), row.object.as_ref()), (None, None));
}

#[test]
fn the_text_is_empty_where_no_thread_waited() {
    assert_eq!(Gathered::default().finish().text(), "");
}
