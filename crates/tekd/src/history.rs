// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened lately and somebody may ask about: the last few refusals and overruns.
use crate::guard::Overrun;
use crate::region::{Left, Refused};
use serde_json::{json, Value};
use std::collections::VecDeque;

/// So many of each.
const MOST: usize = 16;

/// The last of each, the newest first. Times are CLOCK_MONOTONIC.
#[derive(Default)]
pub struct History {
    refused: VecDeque<(u64, Asker, String)>,
    overran: VecDeque<(u64, Left, Overrun)>,
}

/// Who asked.
pub struct Asker {
    pub pid: i32,
    pub uid: u32,
    pub name: String,
}

impl History {
    /// Somebody got nothing.
    pub fn refused(&mut self, now_ns: u64, asker: Asker, refused: &Refused) {
        self.refused.truncate(MOST - 1);
        self.refused.push_front((now_ns, asker, refused.why.clone()));
    }

    /// A thread was sent back.
    pub fn overran(&mut self, now_ns: u64, left: &Left, over: Overrun) {
        self.overran.truncate(MOST - 1);
        self.overran.push_front((now_ns, left.clone(), over));
    }

    /// The refusals of users that may be told of, for people.
    pub fn refusals(&self, now_ns: u64, is_seen: impl Fn(u32) -> bool) -> Vec<Value> {
        let told = |(at, asker, why): &(u64, Asker, String)| {
            json!({
                "pid": asker.pid,
                "uid": asker.uid,
                "program": asker.name,
                "ago_ms": ms(now_ns.saturating_sub(*at)),
                "why": why,
            })
        };
        self.refused.iter().filter(|(_, asker, _)| is_seen(asker.uid)).map(told).collect()
    }

    /// The overruns of processes that may be told of, for people.
    pub fn overruns(&self, now_ns: u64, is_seen: impl Fn(i32) -> bool) -> Vec<Value> {
        let told = |(at, left, over): &(u64, Left, Overrun)| {
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
        self.overran.iter().filter(of_seen).map(told).collect()
    }
}

/// Whole milliseconds.
pub fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}
