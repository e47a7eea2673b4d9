// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of tekd on threads that it lifts for their waiters, as metrics. The number of series
//! does not depend on the number of threads.
use super::page::{flag, Page};
use crate::status::lifts::Reported;

/// Writes it.
pub fn write(page: &mut Page, reported: &Reported) {
    let on = "Whether tekd lifts threads for which time-critical threads wait.";
    page.gauge("tek_inherit_on", on).is(flag(reported.on || reported.waiting));
    let now = "Threads that are lifted for their waiters.";
    page.gauge("tek_lifted_threads", now).is(reported.lifted() as f64);
    let counts = &reported.counts;
    let lifts = "Times that tekd lifted a thread for its waiters.";
    page.counter("tek_lifts_total", lifts).is(counts.lifts as f64);
    let time = "Time that threads were lifted for their waiters.";
    page.counter("tek_lifted_seconds_total", time).is(counts.lifted_ns as f64 / 1e9);
    let refused =
        "Waits of time-critical threads whose lift was refused or ended early, by reason.";
    let mut metric = page.counter("tek_lift_refusals_total", refused);
    for (reason, count) in [
        ("not allowed", counts.not_allowed),
        ("too many", counts.too_many),
        ("too long", counts.too_long),
        ("over budget", counts.exhausted),
        ("too many waits", counts.too_many_waits),
        ("too deep", counts.too_deep),
    ] {
        metric.with(&[("reason", reason)], count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::lifts::tests::at_work;

    fn page(reported: serde_json::Value) -> String {
        let mut page = Page::default();
        write(&mut page, &serde_json::from_value(reported).unwrap());
        page.into_text()
    }

    #[test]
    fn lifts_their_time_and_refusals_are_counted() {
        let text = page(at_work());
        for line in [
            "tek_inherit_on 1",
            "tek_lifted_threads 2",
            "tek_lifts_total 7",
            "tek_lifted_seconds_total 2.5",
            "tek_lift_refusals_total{reason=\"not allowed\"} 3",
            "tek_lift_refusals_total{reason=\"too long\"} 1",
            "tek_lift_refusals_total{reason=\"too many waits\"} 2",
            "tek_lift_refusals_total{reason=\"too deep\"} 4",
        ] {
            assert!(text.lines().any(|its| its == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn it_is_on_while_no_thread_is_fast_yet() {
        let text = page(serde_json::json!({"on": false, "waiting": true}));
        assert!(text.contains("tek_inherit_on 1"), "{text}");
    }
}
