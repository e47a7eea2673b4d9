// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of tekd on kernel threads, as metrics. The number of series does not depend on the
//! number of threads.
use super::page::{flag, Page};
use crate::status::kthreads::Reported;
use tek_abi::printable;
use tek_policy::kthread::Class;

/// Most dependencies that are reported. tekd has eight.
const MOST_DEPENDENCIES: usize = 16;

/// Writes it.
pub fn write(page: &mut Page, reported: &Reported) {
    let on = "Whether kernel threads follow the tasks that wait for them.";
    page.gauge("tek_kthreads_on", on).is(flag(reported.on));
    if !reported.on {
        return;
    }
    let boosted = "Kernel threads that have the priority of tasks that wait for them, by class.";
    let mut metric = page.gauge("tek_kthreads_boosted", boosted);
    for class in Class::NAMED.map(Class::name) {
        let has_it = |it: &&_| is_boosted(it) && it.class == class;
        metric.with(&[("class", class)], reported.threads.iter().filter(has_it).count() as f64);
    }
    let changes = "Priorities of threads of the kernel that tekd changed.";
    page.counter("tek_kthread_changes_total", changes).is(reported.counts.changes as f64);
    let dropped = "Changes that tekd did not make because there were too many in a second.";
    page.counter("tek_kthread_changes_dropped_total", dropped).is(reported.counts.dropped as f64);
    let events = "Events that reported which task waits for which kernel thread.";
    page.counter("tek_kthread_events_total", events).is(reported.counts.events as f64);
    let lost = "Such events that were lost.";
    page.counter("tek_kthread_events_lost_total", lost).is(reported.counts.lost as f64);
    let reaction = &reported.reaction_ns;
    if reaction.n > 0 {
        let time = "Time from the event to the changed priority, since tekd began.";
        let mut metric = page.summary("tek_kthread_reaction_seconds", time);
        for (quantile, ns) in [("0.5", reaction.p50), ("0.99", reaction.p99), ("1", reaction.max)] {
            metric.with(&[("quantile", quantile)], ns as f64 / 1e9);
        }
    }
    let dependency = "Whether this kernel reports waits of this kind.";
    let mut metric = page.gauge("tek_kthread_dependency", dependency);
    for one in reported.dependencies.iter().take(MOST_DEPENDENCIES) {
        metric.with(&[("dependency", &printable(one.name.as_bytes()))], flag(one.on));
    }
}

fn is_boosted(thread: &crate::status::kthreads::Kthread) -> bool {
    thread.priority.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::kthreads::tests::reported;

    fn page(reported: &Reported) -> String {
        let mut page = Page::default();
        write(&mut page, reported);
        page.into_text()
    }

    #[test]
    fn the_kernels_threads_are_reported_by_class_and_the_reaction_by_quantile() {
        let text = page(&reported());
        for line in [
            "tek_kthreads_on 1",
            "tek_kthreads_boosted{class=\"writeback\"} 1",
            "tek_kthreads_boosted{class=\"kswapd\"} 0",
            "tek_kthread_changes_total 14",
            "tek_kthread_changes_dropped_total 2",
            "tek_kthread_events_total 4000",
            "tek_kthread_events_lost_total 0",
            "# TYPE tek_kthread_reaction_seconds summary",
            "tek_kthread_reaction_seconds{quantile=\"0.99\"} 0.000048",
            "tek_kthread_dependency{dependency=\"page cache\"} 0",
        ] {
            assert!(text.lines().any(|one| one == line), "no {line} in {text}");
        }
    }

    #[test]
    fn if_none_follows_only_that_is_reported() {
        assert_eq!(page(&Reported::default()).lines().last(), Some("tek_kthreads_on 0"));
    }
}
