// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recent events for status requests: the last few refusals and overruns.
use crate::guard::Overrun;
use crate::region::{Left, Refused};
use serde_json::{json, Value};
use std::collections::VecDeque;

/// The most entries of each kind.
const MOST: usize = 16;

/// The last of each, the newest first. Times are CLOCK_MONOTONIC.
#[derive(Default)]
pub struct History {
    refused: VecDeque<(u64, Asker, String)>,
    overran: VecDeque<(u64, Left, Overrun)>,
}

/// The process that asked.
pub struct Asker {
    pub pid: i32,
    pub uid: u32,
    pub name: String,
}

impl History {
    /// A request was refused.
    pub fn refused(&mut self, now_ns: u64, asker: Asker, refused: &Refused) {
        self.refused.truncate(MOST - 1);
        self.refused.push_front((now_ns, asker, refused.why.clone()));
    }

    /// A thread overran its budget.
    pub fn overran(&mut self, now_ns: u64, left: &Left, over: Overrun) {
        self.overran.truncate(MOST - 1);
        self.overran.push_front((now_ns, left.clone(), over));
    }

    /// The refusals of the users that `is_seen` accepts, as JSON.
    pub fn refusals(&self, now_ns: u64, is_seen: impl Fn(u32) -> bool) -> Vec<Value> {
        let reported = |(at, asker, why): &(u64, Asker, String)| {
            json!({
                "pid": asker.pid,
                "uid": asker.uid,
                "program": asker.name,
                "ago_ms": ms(now_ns.saturating_sub(*at)),
                "why": why,
            })
        };
        self.refused.iter().filter(|(_, asker, _)| is_seen(asker.uid)).map(reported).collect()
    }

    /// The overruns of the processes that `is_seen` accepts, as JSON.
    pub fn overruns(&self, now_ns: u64, is_seen: impl Fn(i32) -> bool) -> Vec<Value> {
        let reported = |(at, left, over): &(u64, Left, Overrun)| {
            json!({
                "tid": left.tid,
                "pid": left.to.first(),
                "ago_ms": ms(now_ns.saturating_sub(*at)),
                "used_ms": ms(over.used_ns),
                "window_ms": ms(over.window_ns),
                "banned_ms": ms(over.banned_ns),
            })
        };
        let of_seen =
            |(_, left, _): &&(u64, Left, Overrun)| left.to.first().is_some_and(|&pid| is_seen(pid));
        self.overran.iter().filter(of_seen).map(reported).collect()
    }
}

/// Whole milliseconds.
pub fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}
