// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of reaction times.
use hdrhistogram::Histogram;
use serde_json::{json, Value};

/// The range of the reaction times in the histogram.
const SHORTEST_NS: u64 = 100;
const LONGEST_NS: u64 = 60_000_000_000;

/// The times from the event to the changed priority.
pub struct Reactions(Option<Histogram<u64>>);

impl Reactions {
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, 2).ok())
    }

    pub fn take(&mut self, all_ns: &mut Vec<u64>) {
        let mut histogram = self.0.as_mut();
        for ns in all_ns.drain(..) {
            if let Some(histogram) = &mut histogram {
                histogram.saturating_record(ns);
            }
        }
    }

    pub fn reported(&self) -> Value {
        let Some(histogram) = &self.0 else { return Value::Null };
        let at = |quantile| histogram.value_at_quantile(quantile);
        json!({ "p50": at(0.5), "p99": at(0.99), "max": histogram.max(), "n": histogram.len() })
    }
}
