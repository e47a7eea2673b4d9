// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel threads: the report of tekd, beside /proc.
use crate::status;
use crate::status::kthreads::{Counts, Dependency, Kthread, Member, Reaction, Reported, Usual};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use tek_model::{Process, Stat};
use tek_policy::kthread::Class;

/// A stable format, to which fields may be added.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// Whether kernel threads follow the priorities of their waiters.
    pub following: bool,
    /// If not, why: the end of a sentence.
    pub why_not: Option<String>,
    /// `weighted` or `plain`.
    pub method: Option<String>,
    /// How long a waiter still counts after its wait has ended, in ms.
    pub linger_ms: Option<u64>,
    /// The threads, by the time for which each had a priority of its waiters, longest first.
    pub threads: Vec<Row>,
    /// The dependencies that can be known on this kernel.
    pub dependencies: Vec<Dependency>,
    /// Since tekd began; `null`: no kernel thread follows.
    pub counts: Option<Counts>,
    /// Since tekd began; `null`: no kernel thread follows.
    pub reaction_ns: Option<Reaction>,
}

/// A thread of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Kernel thread id.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// As tekd.toml calls it.
    pub class: String,
    /// R(k): its waiters.
    pub members: Vec<Member>,
    /// The function of the work that a thread waits for.
    pub work: Option<String>,
    /// `null`: it is left alone, or no thread asked for it.
    pub weight: Option<f64>,
    /// The share of the memory that belongs to the waiters.
    pub ratio: Option<f64>,
    /// The mean of the waiters' priorities.
    pub mean: Option<f64>,
    /// The highest of them.
    pub highest: Option<u32>,
    /// The real-time priority that tekd gave it; `null`: it has its own.
    pub priority: Option<u32>,
    /// How it is scheduled now; `null`: it has ended.
    pub now: Option<Usual>,
    /// Its own policy; `null`: not known.
    pub usual: Option<Usual>,
    /// Why its priority differs from the computed one.
    pub held: Option<String>,
    /// Whether it was raised because it must come before another.
    pub raised_along: bool,
    /// How often it got a priority of its waiters.
    pub boosts: u64,
    /// Boosts a second, since the previous sample.
    pub boosts_per_second: Option<f64>,
    /// The total time with such a priority.
    pub boosted_ms: u64,
}

/// The chosen threads.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Also the threads that never had a priority of a waiter.
    pub all: bool,
    /// Of these classes; empty: of all.
    pub classes: Vec<String>,
}

/// Collects them. `Err`: /proc cannot be read.
pub fn report(choice: &Choice) -> io::Result<Report> {
    Ok(of(reported(), of_kernel()?, choice))
}

/// The report of tekd; `Err` is why it reports nothing.
pub fn reported() -> Result<Reported, String> {
    match status::understood() {
        Ok(status) => status.kthreads.ok_or_else(|| "this tekd knows nothing of it".into()),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// The kernel's own threads.
fn of_kernel() -> io::Result<Vec<Stat>> {
    let stat = |pid| Process::open(pid).ok()?.stat(pid).filter(|stat| stat.kernel);
    Ok(tek_model::processes()?.into_iter().filter_map(stat).collect())
}

/// Workers of io_uring are threads of a process.
fn of_other(tid: u32) -> Option<Stat> {
    Process::open(tid).ok()?.stat(tid)
}

fn of(reported: Result<Reported, String>, kernel: Vec<Stat>, choice: &Choice) -> Report {
    let (reported, silence) = match reported {
        Ok(reported) => (reported, None),
        Err(why) => (Reported::default(), Some(why)),
    };
    let mut stats: HashMap<u32, Stat> = kernel.into_iter().map(|stat| (stat.tid, stat)).collect();
    let mut rows: Vec<Row> = Vec::new();
    for thread in reported.threads {
        let stat = stats.remove(&thread.tid).or_else(|| of_other(thread.tid));
        rows.push(row(thread, stat.as_ref()));
    }
    rows.extend(stats.values().map(unseen));
    for row in &mut rows {
        row.raised_along = reported.raised_along.contains(&row.tid);
    }
    let has_a_story = |row: &Row| row.boosts > 0 || !row.members.is_empty() || row.raised_along;
    let is_chosen = |row: &Row| choice.classes.is_empty() || choice.classes.contains(&row.class);
    rows.retain(|row| is_chosen(row) && (choice.all || has_a_story(row)));
    tek_sort::by_key(&mut rows, |row| (Reverse(row.boosted_ms), Reverse(row.boosts), row.tid));
    Report {
        schema: 1,
        following: reported.on,
        why_not: (!reported.on)
            .then(|| silence.or(reported.why).unwrap_or_else(|| "tekd says no reason".into())),
        method: reported.method,
        linger_ms: reported.on.then_some(reported.linger_ms),
        threads: rows,
        dependencies: reported.dependencies,
        counts: reported.on.then_some(reported.counts),
        reaction_ns: reported.on.then_some(reported.reaction_ns),
    }
}

fn row(thread: Kthread, stat: Option<&Stat>) -> Row {
    let now = stat.map(level);
    // tekd never changed a thread that it never queried.
    let usual = thread.usual.or(now.filter(|_| thread.priority.is_none()));
    Row {
        tid: thread.tid,
        name: thread.name,
        class: thread.class,
        members: thread.members,
        work: thread.work,
        weight: thread.weight,
        ratio: Some(thread.ratio),
        mean: thread.mean,
        highest: thread.highest,
        priority: thread.priority,
        now,
        usual,
        held: thread.held,
        raised_along: false,
        boosts: thread.boosts,
        boosts_per_second: None,
        boosted_ms: thread.boosted_ms,
    }
}

/// A thread for which no critical thread ever waited.
fn unseen(stat: &Stat) -> Row {
    Row {
        tid: stat.tid,
        name: stat.name.clone(),
        class: Class::of_name(&stat.name).name().into(),
        now: Some(level(stat)),
        usual: Some(level(stat)),
        ..Row::default()
    }
}

fn level(stat: &Stat) -> Usual {
    Usual { policy: stat.policy, priority: stat.rt_priority, nice: stat.nice.into() }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::status::kthreads::tests::reported;

    fn stat(tid: u32, name: &str, rt_priority: u32) -> Stat {
        Stat {
            tid,
            name: name.into(),
            parent: 2,
            state: 'I',
            start_ns: 0,
            policy: u32::from(rt_priority > 0),
            nice: 0,
            rt_priority,
            cpu_ns: 0,
            kernel: true,
        }
    }

    fn kernel() -> Vec<Stat> {
        vec![
            stat(2, "kthreadd", 0),
            stat(16, "rcu_preempt", 40),
            stat(45, "kworker/0:1-events", 12),
            stat(46, "kworker/1:0", 0),
            stat(57, "kswapd0", 0),
            stat(90, "irq/24-eth0", 50),
        ]
    }

    /// The report on these with a tekd that boosts.
    pub fn by_daemon(all: bool) -> Report {
        of(Ok(reported()), kernel(), &Choice { all, classes: Vec::new() })
    }

    /// And the report without tekd.
    pub fn alone(all: bool, why: &str) -> Report {
        of(Err(why.into()), kernel(), &Choice { all, classes: Vec::new() })
    }

    fn tids(report: &Report) -> Vec<u32> {
        report.threads.iter().map(|row| row.tid).collect()
    }

    #[test]
    fn those_that_no_thread_waited_for_are_listed_only_if_all_are_wanted() {
        let report = by_daemon(false);
        assert!(report.following && report.why_not.is_none());
        assert_eq!(tids(&report), [46, 45, 16, 57]);
        assert_eq!(tids(&by_daemon(true)), [46, 45, 2, 16, 57, 90]);
        assert_eq!(report.threads[1].name, "kworker/0:1");
        assert_eq!(report.threads[1].now, Some(Usual { policy: 1, priority: 12, nice: 0 }));
        assert_eq!(report.threads[1].usual, Some(Usual::default()));
        assert!(report.threads[2].raised_along && !report.threads[3].raised_along);
    }

    #[test]
    fn without_tekd_the_report_has_the_kernels_values_and_the_reason() {
        let report = alone(true, "tekd does not run");
        assert!(!report.following && report.counts.is_none());
        assert_eq!(report.why_not.as_deref(), Some("tekd does not run"));
        assert_eq!(report.threads.len(), 6);
        let irq = report.threads.last().unwrap();
        assert_eq!((irq.class.as_str(), irq.usual.unwrap().priority), ("irq", 50));
        assert!(alone(false, "no").threads.is_empty());
    }

    #[test]
    fn a_class_can_be_chosen() {
        let choice = Choice { all: true, classes: vec!["irq".into(), "kswapd".into()] };
        assert_eq!(tids(&of(Ok(reported()), kernel(), &choice)), [57, 90]);
    }
}
