// SPDX-License-Identifier: MIT OR Apache-2.0
use super::super::read::tests::{block, switch, trace};
use super::*;
use serde_json::Value;
use std::fs::File;
use tek_abi::TRACE_IDLE;

fn converted(file: &File) -> (Reported, Vec<Value>) {
    let mut out = Vec::new();
    let reported = write(Some(&Trace::open(file).unwrap()), &mut out).unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap();
    (reported, json["traceEvents"].as_array().unwrap().clone())
}

/// Slices of a group of tracks: track, name, begin and duration in ns.
fn slices(events: &[Value], group: u64) -> Vec<(u64, &str, u64, u64)> {
    let of = events.iter().filter(|event| event["ph"] == "X" && event["pid"] == group);
    let ns = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
    of.map(|event| {
        let name = event["name"].as_str().unwrap();
        (event["tid"].as_u64().unwrap(), name, ns(&event["ts"]), ns(&event["dur"]))
    })
    .collect()
}

fn named(time_ns: u64, kind: u8, thread: u64, part: u8, bytes: &[u8; 8]) -> TraceRecord {
    let other = u64::from_ne_bytes(*bytes);
    TraceRecord { kind, ..switch(time_ns, thread, part, other) }
}

fn ready(time_ns: u64, thread: u64, by: u64) -> TraceRecord {
    TraceRecord { kind: TRACE_READY, ..switch(time_ns, thread, 0, by) }
}

#[test]
fn each_run_and_its_end_are_on_the_tracks_of_workers_and_threads() {
    let file = trace(&[(
        block(8, 0, 0),
        vec![
            ready(150, 2, 1),
            named(160, TRACE_TEXT, 1, 0, b"mutex\0\0\0"),
            switch(200, 1, TRACE_WAITS + 1, 2),
            named(210, TRACE_NAME, 2, 0, b"collecto"),
            named(220, TRACE_NAME, 2, 1, b"r\0\0\0\0\0\0\0"),
            ready(300, 1, 2),
            switch(400, 2, TRACE_PREEMPTED, 1),
            switch(1500, 1, TRACE_YIELDED, 2),
            switch(1600, 2, TRACE_ENDED, 0),
        ],
    )]);
    let (reported, events) = converted(&file);
    assert_eq!(reported, Reported { switches: 4, threads: 2, lost: 0 });
    assert_eq!(
        slices(&events, 8),
        [
            (0, "main", 0, 100),
            (0, "collector", 100, 200),
            (0, "main", 300, 1100),
            (0, "collector", 1400, 100),
        ]
    );
    assert_eq!(
        slices(&events, 8 + THREADS),
        [
            (1, "worker 0", 0, 100),
            (2, "ready", 50, 50),
            (1, "mutex", 100, 100),
            (2, "worker 0", 100, 200),
            (1, "ready", 200, 100),
            (1, "worker 0", 300, 1100),
            (2, "ready (preempted)", 300, 1100),
            (2, "worker 0", 1400, 100),
            (1, "ready (yielded)", 1400, 100),
        ]
    );
    let left: Vec<_> = events.iter().filter_map(|event| event["args"]["left"].as_str()).collect();
    assert_eq!(left, ["waits: mutex", "preempted", "yielded", "ended"]);
    let woken: Vec<_> =
        events.iter().filter_map(|event| event["args"]["woken_by"].as_str()).collect();
    assert_eq!(woken, ["main", "collector"]);
    let names: Vec<_> = events
        .iter()
        .filter(|event| event["ph"] == "M")
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    assert_eq!(
        names,
        ["fridge [8]: workers", "worker 0", "fridge [8]: threads", "main", "collector"]
    );
}

#[test]
fn what_lasts_when_the_program_is_killed_is_shown_to_the_end() {
    let file = trace(&[
        (block(8, 0, 0), vec![switch(200, 1, TRACE_WAITS, 0), switch(300, 0, TRACE_IDLE, 2)]),
        (block(8, 1, 0), vec![switch(250, 0, TRACE_IDLE, 3), switch(900, 3, TRACE_ENDED, 0)]),
    ]);
    let (_, events) = converted(&file);
    assert_eq!(
        slices(&events, 8),
        [(0, "main", 0, 100), (1, "thread 3", 150, 650), (0, "thread 2", 200, 600)]
    );
    assert!(slices(&events, 8 + THREADS).contains(&(1, "waits", 100, 700)));
}

#[test]
fn a_worker_that_was_taken_from_a_thread_in_the_kernel_leaves_it_held_up() {
    let file = trace(&[(
        block(8, 0, 0),
        vec![
            switch(200, 1, TRACE_YIELDED, 2),
            switch(400, 0, TRACE_IDLE, 1), // by another carrier
            ready(500, 2, 0),
            switch(600, 1, TRACE_YIELDED, 2),
        ],
    )]);
    let (_, events) = converted(&file);
    let threads = slices(&events, 8 + THREADS);
    assert!(threads.contains(&(2, "held up in the kernel", 300, 100)), "{threads:?}");
    assert!(threads.contains(&(2, "ready", 400, 100)), "{threads:?}");
}

#[test]
fn where_records_are_missing_no_thread_is_shown_as_running() {
    let mut first = block(8, 0, 0);
    first.lost = 3;
    let file =
        trace(&[(first, vec![switch(200, 1, TRACE_YIELDED, 2), switch(900, 5, TRACE_YIELDED, 1)])]);
    let (reported, events) = converted(&file);
    assert_eq!(reported.lost, 3);
    assert!(reported.text().contains("without 3 events that there was no room for"));
    assert_eq!(slices(&events, 8), [(0, "main", 0, 100), (0, "main", 800, 0)]);
}

#[test]
fn a_shorter_name_leaves_nothing_of_a_longer_one() {
    let file = trace(&[(
        block(8, 0, 0),
        vec![
            named(110, TRACE_NAME, 1, 0, b"a-long-n"),
            named(120, TRACE_NAME, 1, 1, b"ame\0\0\0\0\0"),
            named(130, TRACE_NAME, 1, 0, b"ui\0\0\0\0\0\0"),
            switch(200, 1, TRACE_YIELDED, 1),
        ],
    )]);
    let (_, events) = converted(&file);
    assert_eq!(slices(&events, 8), [(0, "ui", 0, 100), (0, "ui", 100, 0)]);
}

#[test]
fn no_record_makes_the_conversion_panic() {
    let any = (0..=255u8).map(|n| TraceRecord { kind: n % 6, ..switch(n.into(), n.into(), n, 1) });
    let (_, events) = converted(&trace(&[(block(8, 0, 0), any.skip(1).collect())]));
    assert!(!events.is_empty());
}
