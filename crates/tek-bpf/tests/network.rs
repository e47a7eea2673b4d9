// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events for packets that critical threads send.
#![cfg(loads)]
mod common;

use common::{at_priority, events_for_a_while, events_until, gettid, of_task, watching, PATIENCE};
use nix::sched::{sched_getaffinity, sched_setaffinity, unshare, CloneFlags, CpuSet};
use nix::unistd::Pid;
use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tek_bpf::{Event, Kthreads, What};

fn send_to_itself(many: usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = socket.local_addr().unwrap();
    for _ in 0..many {
        socket.send_to(b"text", address).unwrap();
        assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 4);
    }
}

fn packets(events: &[Event], tid: i32) -> Vec<What> {
    let of_packets =
        |what: &What| matches!(what, What::PacketBegan { .. } | What::PacketEnded { .. });
    of_task(events, tid).into_iter().filter(of_packets).collect()
}

#[test]
#[ignore = "needs root"]
fn packets_that_a_critical_thread_carries_on_itself_leave_nothing_behind() {
    let (mut kthreads, _watcher) = watching();
    let tid = at_priority(20, || send_to_itself(200));
    let mut events = events_for_a_while(&mut kthreads);
    // The end of the call may be invisible, or softirqs are off at its end (6.1). Then a ksoftirqd
    // that was woken for something else counts, and each reported packet has an end.
    let begun = |what: &&What| matches!(what, What::PacketBegan { .. });
    let unended = |reported: &[What]| {
        let begun = reported.iter().filter(begun).count();
        begun as isize - (reported.len() - begun) as isize
    };
    let before = unended(&packets(&events, tid));
    events.extend(events_until(&mut kthreads, |new| before + unended(&packets(new, tid)) == 0));
    let reported = packets(&events, tid);
    assert_eq!(unended(&reported), 0, "{reported:?}");
    let known = |what: &What| !matches!(what, What::PacketBegan { carrier: None, .. });
    assert!(reported.iter().all(known), "{reported:?}");
}

#[test]
#[ignore = "needs root"]
fn packets_of_an_ordinary_thread_are_not_reported() {
    let (mut kthreads, _watcher) = watching();
    send_to_itself(20);
    let events = events_for_a_while(&mut kthreads);
    assert!(packets(&events, gettid()).is_empty(), "{events:?}");
}

/// Two bridges with two connections: a broadcast packet circulates for ever and keeps ksoftirqd
/// busy. A packet to the sender's own network must wait.
const BUSY: &str = "set -e
    ip() { /usr/sbin/ip \"$@\"; } # not those of busybox
    tc() { /usr/sbin/tc \"$@\"; }
    # Or the kernel sends of itself, on another CPU.
    v6=/proc/sys/net/ipv6/conf/default/disable_ipv6
    [ ! -e $v6 ] || echo 1 > $v6
    ip link set lo up
    tc qdisc add dev lo root tbf rate 200kbit burst 2000 limit 100000
    ip link add a0 type veth peer name b0
    ip link add a1 type veth peer name b1
    ip link add A type bridge
    ip link add B type bridge
    for i in 0 1; do ip link set a$i master A; ip link set b$i master B; done
    for d in A B a0 a1 b0 b1; do ip link set $d up; done
    ip addr add 10.99.0.1/24 brd + dev A";
const QUIET: &str = "ip link del a0; ip link del a1";

fn run(script: &str) -> bool {
    Command::new("sh").args(["-c", script]).status().is_ok_and(|status| status.success())
}

/// The number of packets that a device of this thread's network has received.
fn received(device: &str) -> u64 {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let of =
        |line: &str| Some(line.trim_start().strip_prefix(device)?.strip_prefix(':')?.to_owned());
    let counts = devices.lines().find_map(of).unwrap();
    counts.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends broadcast packets until one circulates. The kernel enables the bridge ports some time
/// after the devices are up, and drops earlier packets. All packets stay on one CPU: packets that
/// circulate on each CPU would leave no time for the test to end them.
fn stir_up() {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::count()).find(|&cpu| allowed.is_set(cpu).unwrap()).unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(0), &one).unwrap();
    let all = UdpSocket::bind("0.0.0.0:0").unwrap();
    all.set_broadcast(true).unwrap();
    let (limit, before) = (Instant::now() + PATIENCE, received("a0"));
    while received("a0") <= before + 1000 {
        assert!(Instant::now() < limit, "no packet goes round");
        all.send_to(b"text", "10.99.0.255:9").unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    sched_setaffinity(Pid::from_raw(0), &allowed).unwrap();
}

/// Calls `send` at a real-time priority on each CPU, in a network namespace where ksoftirqd is
/// busy. Returns the id of that thread; `None`: the namespace cannot be set up here.
fn beside_packets(send: fn()) -> Option<i32> {
    let in_network = move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let made = run(BUSY);
        if made {
            stir_up();
        }
        let sent = made.then(|| {
            at_priority(20, move || {
                let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
                for cpu in (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap()).take(8)
                {
                    let mut one = CpuSet::new();
                    one.set(cpu).unwrap();
                    sched_setaffinity(Pid::from_raw(0), &one).unwrap();
                    send();
                }
            })
        });
        run(QUIET);
        sent
    };
    thread::spawn(in_network).join().unwrap()
}

/// Sends ten packets. The queue passes the first at once, and each other more than 50 ms later.
fn send_some() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..10 {
        socket.send_to(&[1; 1400], socket.local_addr().unwrap()).unwrap();
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
#[ignore = "needs root"]
fn a_packet_that_ksoftirqd_will_carry_on_is_reported_until_it_has() {
    let (mut kthreads, _watcher) = watching();
    let Some(tid) = beside_packets(send_some) else { return eprintln!("no ip, tc or tbf") };
    let first = |reported: &[What]| {
        reported.iter().find_map(|what| match what {
            What::PacketBegan { packet, carrier: Some(carrier), .. } => Some((*packet, *carrier)),
            _ => None,
        })
    };
    let has_ended = |reported: &[What], mine: u64| {
        reported
            .iter()
            .any(|what| matches!(what, What::PacketEnded { packet, .. } if *packet == mine))
    };
    let events = events_until(&mut kthreads, |events| {
        let reported = packets(events, tid);
        first(&reported).is_some_and(|(mine, _)| has_ended(&reported, mine))
    });
    let reported = packets(&events, tid);
    let (mine, carrier) = first(&reported).expect("a packet waits for ksoftirqd");
    assert!(carrier.name.as_bytes().starts_with(b"ksoftirqd/"), "{reported:?}");
    assert!(has_ended(&reported, mine), "{reported:?}");
    assert!(kthreads.lost().unwrap().iter().all(|(_, lost)| *lost == 0));
}

#[test]
#[ignore = "needs root"]
fn without_a_watch_only_the_task_is_reported() {
    let mut kthreads = Kthreads::open().unwrap();
    let Some(tid) = beside_packets(send_some) else { return eprintln!("no ip, tc or tbf") };
    let events = events_for_a_while(&mut kthreads);
    let reported = packets(&events, tid);
    assert!(!reported.is_empty());
    let alone = |what: &What| matches!(what, What::PacketBegan { carrier: None, .. });
    assert!(reported.iter().all(alone), "{reported:?}");
    let wakes = |e: &Event| common::member(e).is_some_and(|m| m.tid == tid) && e.woke;
    assert!(events.iter().any(wakes), "{events:?}");
}
