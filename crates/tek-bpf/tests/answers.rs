// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events for critical threads that send something and then sleep.
#![cfg(loads)]
mod common;

use common::objects::{Connection, RemovedAtEnd};
use common::{
    at_priority, events_for_a_while, events_until, events_within, gettid, of_task, set_priority,
    wait_until_asleep, watch, watching, PATIENCE,
};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tek_bpf::{Event, Evidence, Kind, Kthreads, State, What};

/// The threads that a task waits for, with what is known of them.
fn servers(events: &[Event], tid: i32) -> Vec<(i32, Option<i32>, Evidence)> {
    let server = |what: &What| match what {
        What::AnswerAwaited { server, owner, evidence, .. } => {
            Some((server.tid, *owner, *evidence))
        }
        _ => None,
    };
    of_task(events, tid).iter().filter_map(server).collect()
}

/// The number of relations of the task with this server that have begun and not ended.
fn unended(events: &[Event], tid: i32) -> i32 {
    let change = |what: &What| match what {
        What::AnswerAwaited { .. } => 1,
        What::AnswerEnded { .. } => -1,
        _ => 0,
    };
    of_task(events, tid).iter().map(change).sum()
}

fn has_ended(events: &[Event], tid: i32) -> bool {
    of_task(events, tid).iter().any(|what| matches!(what, What::AnswerEnded { .. }))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> (i32, JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        sender.send(gettid()).unwrap();
        work();
    });
    (receiver.recv().unwrap(), thread)
}

/// A critical thread.
fn critical(work: impl FnOnce() + Send + 'static) -> (i32, JoinHandle<()>) {
    spawn(move || {
        set_priority(30);
        work();
        set_priority(0);
    })
}

/// Uses the CPU until the flag is set.
fn compute_until(flag: &AtomicBool) {
    let limit = Instant::now() + PATIENCE;
    while !flag.load(Ordering::Relaxed) {
        assert!(Instant::now() < limit);
        std::hint::spin_loop();
    }
}

/// A thread that sleeps already.
fn asleep(work: impl FnOnce() + Send + 'static) -> (i32, JoinHandle<()>) {
    let (tid, thread) = spawn(work);
    wait_until_asleep(tid);
    (tid, thread)
}

/// A server that sleeps, and computes before it answers until the flag is set.
fn computing_server(connection: Connection) -> (i32, JoinHandle<()>, Arc<AtomicBool>) {
    let done = Arc::new(AtomicBool::new(false));
    let its = done.clone();
    let (tid, server) = asleep(move || {
        connection.receive_request();
        compute_until(&its);
        connection.send_answer();
    });
    (tid, server, done)
}

/// The server sleeps when the request comes, and computes before it answers.
fn check_sleeping_server(connection: Connection) {
    let _removed = RemovedAtEnd::of(connection);
    let (mut kthreads, _watcher) = watching();
    let (server_tid, server, done) = computing_server(connection);
    let (tid, client) = critical(move || connection.call());
    let mut events = events_until(&mut kthreads, |events| !servers(events, tid).is_empty());
    // The server may wake its client when it takes the request. Then the client sleeps again.
    events.extend(events_within(&mut kthreads, Duration::from_millis(200), |_| false));
    let expected = (server_tid, Some(process::id() as i32), Evidence::Found);
    assert!(servers(&events, tid).iter().all(|server| *server == expected), "{events:?}");
    assert_eq!(unended(&events, tid), 1, "{events:?}");
    done.store(true, Ordering::Relaxed);
    client.join().unwrap();
    server.join().unwrap();
    events.extend(events_until(&mut kthreads, |new| has_ended(new, tid)));
    assert_eq!(unended(&events, tid), 0, "{events:?}");
    let back = servers(&events, server_tid);
    assert_eq!(back, [], "an answer is no request: {events:?}");
}

/// Whether this kernel shows which thread receives from such objects while it is awake.
fn knows_receivers(kthreads: &Kthreads, objects: &str) -> bool {
    let answers = kthreads.dependencies().iter().find(|d| d.kind == Kind::Answers).unwrap();
    match &answers.state {
        State::On { but } => !but
            .iter()
            .any(|text| text.starts_with(&format!("the receiver of a {objects} is known only"))),
        State::Off(_) => false,
    }
}

/// The server has received a request before. It computes when the next request comes.
fn check_awake_server(connection: Connection, objects: &str) {
    let _removed = RemovedAtEnd::of(connection);
    let mut kthreads = Kthreads::open().unwrap();
    if !knows_receivers(&kthreads, objects) {
        println!("skipped: {:?}", kthreads.dependencies());
        return;
    }
    let _watcher = watch(&mut kthreads);
    let (done, computes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (its_done, its_computes, computed) = (done.clone(), computes.clone(), computes.clone());
    let (server_tid, server) = asleep(move || {
        for _ in 0..2 {
            connection.receive_request();
            connection.send_answer();
        }
        its_computes.store(true, Ordering::Relaxed);
        compute_until(&its_done);
        connection.receive_request();
        connection.send_answer();
    });
    let (tid, client) = critical(move || {
        connection.call();
        connection.call();
        while !computes.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        connection.call();
    });
    let mut events = events_until(&mut kthreads, |_| computed.load(Ordering::Relaxed));
    let already = unended(&events, tid);
    let third = |new: &[Event]| already + unended(new, tid) == 1;
    events.extend(events_until(&mut kthreads, third));
    assert_eq!(unended(&events, tid), 1, "{events:?}");
    let own = Some(process::id() as i32);
    let of_this = |(tid, owner, evidence): &(i32, Option<i32>, Evidence)| {
        (*tid, *owner) == (server_tid, own) && *evidence != Evidence::Foreign
    };
    assert!(servers(&events, tid).iter().all(of_this), "{events:?}");
    done.store(true, Ordering::Relaxed);
    client.join().unwrap();
    server.join().unwrap();
    events.extend(events_until(&mut kthreads, |new| has_ended(new, tid)));
    assert_eq!(unended(&events, tid), 0, "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn the_reader_of_a_pipe_is_reported_until_it_has_answered() {
    check_sleeping_server(Connection::pipes());
}

#[test]
#[ignore = "needs root"]
fn the_reader_of_a_fifo_is_reported() {
    check_sleeping_server(Connection::fifos());
}

#[test]
#[ignore = "needs root"]
fn the_receiver_of_a_stream_socket_is_reported() {
    check_sleeping_server(Connection::sockets(libc::SOCK_STREAM));
}

#[test]
#[ignore = "needs root"]
fn the_receiver_of_a_seqpacket_socket_is_reported() {
    check_sleeping_server(Connection::sockets(libc::SOCK_SEQPACKET));
}

#[test]
#[ignore = "needs root"]
fn the_receiver_of_a_datagram_is_reported() {
    check_sleeping_server(Connection::datagrams());
}

#[test]
#[ignore = "needs root"]
fn the_reader_of_an_eventfd_is_reported() {
    check_sleeping_server(Connection::eventfds());
}

#[test]
#[ignore = "needs root"]
fn the_receiver_of_a_system_v_queue_is_reported() {
    check_sleeping_server(Connection::system_v_queues());
}

#[test]
#[ignore = "needs root"]
fn the_receiver_of_a_posix_queue_is_reported() {
    check_sleeping_server(Connection::posix_queues());
}

#[test]
#[ignore = "needs root"]
fn a_server_that_polls_is_reported() {
    let connection = Connection::sockets(libc::SOCK_STREAM);
    let (mut kthreads, _watcher) = watching();
    let poll = |fd: i32| {
        let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: the kernel writes one pollfd.
        assert_eq!(unsafe { libc::poll(&raw mut one, 1, -1) }, 1);
    };
    let [request, answer] = connection.descriptors();
    let (server_tid, server) = asleep(move || {
        poll(request);
        connection.receive_request();
        thread::sleep(Duration::from_millis(20));
        connection.send_answer();
    });
    let (tid, client) = critical(move || {
        connection.send_request();
        poll(answer);
        connection.receive_answer();
    });
    client.join().unwrap();
    server.join().unwrap();
    let events = events_until(&mut kthreads, |events| has_ended(events, tid));
    let expected = (server_tid, Some(process::id() as i32), Evidence::Found);
    assert!(servers(&events, tid).contains(&expected), "{events:?}");
    assert!(servers(&events, tid).iter().all(|server| *server == expected), "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_reader_of_a_pipe_that_is_awake_is_the_last_one() {
    check_awake_server(Connection::pipes(), "pipe");
}

#[test]
#[ignore = "needs root"]
fn a_reader_of_a_fifo_that_is_awake_is_the_last_one() {
    check_awake_server(Connection::fifos(), "pipe");
}

#[test]
#[ignore = "needs root"]
fn a_receiver_of_a_stream_socket_that_is_awake_is_the_last_one() {
    check_awake_server(Connection::sockets(libc::SOCK_STREAM), "UNIX socket");
}

#[test]
#[ignore = "needs root"]
fn a_receiver_of_a_seqpacket_socket_that_is_awake_is_the_last_one() {
    check_awake_server(Connection::sockets(libc::SOCK_SEQPACKET), "UNIX socket");
}

#[test]
#[ignore = "needs root"]
fn a_receiver_of_datagrams_that_is_awake_is_the_last_one() {
    check_awake_server(Connection::datagrams(), "UNIX socket");
}

#[test]
#[ignore = "needs root"]
fn a_reader_of_an_eventfd_that_is_awake_is_the_last_one() {
    check_awake_server(Connection::eventfds(), "pipe");
}

#[test]
#[ignore = "needs root"]
fn a_receiver_of_a_system_v_queue_that_is_awake_is_the_last_one() {
    check_awake_server(Connection::system_v_queues(), "System V queue");
}

#[test]
#[ignore = "needs root"]
fn a_receiver_of_a_posix_queue_that_is_awake_is_the_last_one() {
    check_awake_server(Connection::posix_queues(), "POSIX queue");
}

#[test]
#[ignore = "needs root"]
fn a_request_is_followed_through_a_broker_to_the_service() {
    let (front, back) =
        (Connection::sockets(libc::SOCK_STREAM), Connection::sockets(libc::SOCK_STREAM));
    let (mut kthreads, _watcher) = watching();
    let (service_tid, service, done) = computing_server(back);
    let (broker_tid, broker) = asleep(move || {
        front.receive_request();
        back.call();
        front.send_answer();
    });
    let (tid, client) = critical(move || front.call());
    let mut events = events_until(&mut kthreads, |events| !servers(events, broker_tid).is_empty());
    events.extend(events_within(&mut kthreads, Duration::from_millis(200), |_| false));
    let own = Some(process::id() as i32);
    let of = |tid: i32| servers(&events, tid).last().copied();
    assert_eq!(of(tid), Some((broker_tid, own, Evidence::Found)), "{events:?}");
    assert_eq!(of(broker_tid), Some((service_tid, own, Evidence::Found)), "{events:?}");
    assert_eq!((unended(&events, tid), unended(&events, broker_tid)), (1, 1), "{events:?}");
    let member = of_task(&events, broker_tid)[0].member().unwrap();
    assert_eq!((member.via, member.priority), (true, 30), "{events:?}");
    done.store(true, Ordering::Relaxed);
    client.join().unwrap();
    broker.join().unwrap();
    service.join().unwrap();
    events.extend(events_until(&mut kthreads, |new| has_ended(new, tid)));
    assert_eq!((unended(&events, tid), unended(&events, broker_tid)), (0, 0), "{events:?}");
    assert_eq!(servers(&events, service_tid), [], "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_pause_after_a_send_is_no_wait_for_an_answer() {
    let connection = Connection::pipes();
    let (mut kthreads, _watcher) = watching();
    let (_, server) = asleep(move || connection.receive_request());
    let tid = at_priority(30, move || {
        connection.send_request();
        thread::sleep(Duration::from_millis(20));
    });
    server.join().unwrap();
    let events = events_for_a_while(&mut kthreads);
    assert_eq!(servers(&events, tid), [], "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_call_of_an_ordinary_thread_is_not_reported() {
    let connection = Connection::pipes();
    let (mut kthreads, _watcher) = watching();
    let (_, server) = asleep(move || {
        connection.receive_request();
        thread::sleep(Duration::from_millis(20));
        connection.send_answer();
    });
    let (tid, client) = spawn(move || connection.call());
    client.join().unwrap();
    server.join().unwrap();
    let events = events_for_a_while(&mut kthreads);
    assert_eq!(of_task(&events, tid), [], "{events:?}");
}

#[test]
#[ignore = "needs root"]
fn a_server_that_ends_without_an_answer_is_reported_as_ended() {
    let connection = Connection::pipes();
    let (mut kthreads, _watcher) = watching();
    let (server_tid, server) = asleep(move || {
        connection.receive_request();
        thread::sleep(Duration::from_millis(50));
    });
    let (tid, client) = critical(move || connection.call());
    let exited = |events: &[Event]| {
        events.iter().any(|e| matches!(e.what, What::TaskExited { tid, .. } if tid == server_tid))
    };
    let mut events = events_until(&mut kthreads, exited);
    assert!(exited(&events), "{events:?}");
    server.join().unwrap();
    // Any thread may end the wait.
    connection.send_answer();
    client.join().unwrap();
    events.extend(events_until(&mut kthreads, |new| has_ended(new, tid)));
    assert_eq!(unended(&events, tid), 0, "{events:?}");
}

/// A client is woken by a timer before its answer. Returns its relations, and those expected.
fn sleep_twice() -> [Vec<(i32, Option<i32>, Evidence)>; 2] {
    let connection = Connection::pipes();
    let (mut kthreads, _watcher) = watching();
    let (server_tid, server, done) = computing_server(connection);
    let [_, answer] = connection.descriptors();
    let (tid, client) = critical(move || {
        connection.send_request();
        let mut one = libc::pollfd { fd: answer, events: libc::POLLIN, revents: 0 };
        // SAFETY: the kernel writes one pollfd.
        assert_eq!(unsafe { libc::poll(&raw mut one, 1, 5) }, 0);
        connection.receive_answer();
    });
    let limit = Duration::from_secs(5);
    let events = events_within(&mut kthreads, limit, |events| servers(events, tid).len() == 2);
    done.store(true, Ordering::Relaxed);
    client.join().unwrap();
    server.join().unwrap();
    let expected = (server_tid, Some(process::id() as i32), Evidence::Found);
    [servers(&events, tid), vec![expected, expected]]
}

#[test]
#[ignore = "needs root"]
fn a_client_that_is_woken_by_a_timer_still_waits_for_the_answer() {
    // The second sleep counts only if it begins soon after the send. A slow machine needs luck.
    let two = (0..5).map(|_| sleep_twice()).find(|[reported, _]| reported.len() == 2);
    let [reported, expected] = two.expect("two sleeps are reported");
    assert_eq!(reported, expected);
}

#[test]
#[ignore = "needs root"]
fn tasks_that_have_ended_leave_no_entry() {
    const ROUNDS: i32 = 50;
    let (kthreads, _watcher) = watching();
    for _ in 0..ROUNDS {
        let connection = Connection::sockets(libc::SOCK_STREAM);
        let (_, server) = asleep(move || {
            connection.receive_request();
            connection.send_answer();
        });
        at_priority(30, move || connection.call());
        server.join().unwrap();
    }
    // Critical threads of other programs have entries, too.
    let limit = Instant::now() + PATIENCE;
    let left = |kthreads: &Kthreads| {
        let entries = kthreads.entries().unwrap().into_iter();
        let of_answers = entries.filter(|(map, _)| ["sends", "awaited"].contains(map));
        of_answers.map(|(_, count)| count).max().unwrap()
    };
    while left(&kthreads) >= ROUNDS / 2 {
        assert!(Instant::now() < limit, "{:?}", kthreads.entries());
        thread::sleep(Duration::from_millis(1));
    }
    assert!(kthreads.lost().unwrap().iter().all(|(_, lost)| *lost == 0));
}
