// SPDX-License-Identifier: MIT OR Apache-2.0
//! The moments and spans of a raw profile, in ns from its start on.
use super::clock::Scale;
use super::read::Raw;
use super::report::Known;
use tek_abi::{ProfileThread, PROFILE_CLOCK_COUNTER};

/// A raw profile with its clock.
pub struct Times<'a> {
    pub raw: &'a Raw,
    pub scale: Scale,
    /// Its end, from its start on.
    pub end: u64,
}

impl<'a> Times<'a> {
    pub fn of(raw: &'a Raw, known: &Known) -> Self {
        let header = &raw.header;
        let pair = header.last_ticks.saturating_sub(header.start_ticks);
        let from_file =
            header.last_ns.saturating_sub(header.start_ns) as f64 / (pair as f64).max(1.0);
        let counts = header.clock == PROFILE_CLOCK_COUNTER;
        let rate = known.ns_per_tick.unwrap_or(if counts { from_file } else { 1.0 });
        let scale = Scale::of(header, rate);
        let last =
            raw.threads.iter().map(|thread| thread.thread.end_ticks.max(thread.thread.begin_ticks));
        let seen = scale.moment(last.max().unwrap_or(0));
        let end = match (header.end_ticks, known.end_ns) {
            // The program after exec is not counted here.
            (0, Some(ns)) if header.replaced == 0 => scale.moment_of_ns(ns),
            (0, _) => scale.moment(last_sign(raw)),
            (ticks, _) => scale.moment(ticks),
        };
        Self { raw, scale, end: end.max(seen) }
    }

    pub fn end_of(&self, thread: &ProfileThread) -> u64 {
        if thread.end_ticks == 0 {
            self.end
        } else {
            self.scale.moment(thread.end_ticks)
        }
    }

    /// The ticks that a thread spent in a part, including its present call.
    pub fn in_part(&self, thread: &ProfileThread, part: u32) -> u64 {
        let whole = self.scale.span(thread.ticks[part as usize]);
        whole.saturating_add(self.in_last(thread, part))
    }

    /// How long it has been in a call of that part; 0: it is in none, or its begin was not
    /// recorded.
    pub fn in_last(&self, thread: &ProfileThread, part: u32) -> u64 {
        let is_in = thread.inside == part && thread.end_ticks == 0 && thread.since_ticks != 0;
        let since = self.scale.moment(thread.since_ticks);
        if is_in {
            self.end.saturating_sub(since)
        } else {
            0
        }
    }
}

/// The last moment of any record.
fn last_sign(raw: &Raw) -> u64 {
    let threads = raw.threads.iter().map(|thread| {
        let ProfileThread { since_ticks, scheduler_ticks, active_ticks, .. } = thread.thread;
        let waits = thread.waits.last().map_or(0, |wait| wait.end_ticks);
        since_ticks.max(scheduler_ticks).max(active_ticks).max(waits)
    });
    threads.max().unwrap_or(0).max(raw.header.last_ticks)
}
