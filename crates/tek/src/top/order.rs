// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of a sample that are shown, and their order. The work grows with their number as
//! sorting does; only the sorted column is made into text.
use super::sample::Sample;
use crate::ps::thread::Thread;
use crate::ps::{tree, Sorting};
use std::borrow::Borrow;
use tek_abi::printable;

/// The choice.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The order.
    pub sort: Sorting,
    /// Text that must be in a thread's program, name or role.
    pub filter: String,
    /// Threads below their creators and processes.
    pub tree: bool,
    /// The kernel's too.
    pub kernel: bool,
    /// Threads in the Fast Region only.
    pub fast: bool,
}

/// A thread that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its place in the sample.
    pub index: usize,
    /// The branch before its name.
    pub branch: String,
}

struct Placed<'a>(usize, &'a Thread);

impl Borrow<Thread> for Placed<'_> {
    fn borrow(&self) -> &Thread {
        self.1
    }
}

/// The threads to show. Equal ones are in the order of their tids.
pub fn rows(sample: &Sample, choice: &Choice) -> Vec<Row> {
    let needle = choice.filter.to_lowercase();
    let fits = |thread: &Thread| {
        (choice.kernel || !thread.task.stat.kernel)
            && (!choice.fast || sample.is_fast(thread))
            && (needle.is_empty() || has_text(thread, &needle))
    };
    let Sorting { column, down } = choice.sort;
    let chosen = sample.threads.iter().enumerate().filter(|(_, thread)| fits(thread));
    let mut keyed: Vec<_> =
        chosen.map(|(at, thread)| (sample.value(column, thread), Placed(at, thread))).collect();
    tek_sort::by(&mut keyed, |(a, one), (b, other)| {
        let order = if down { b.order(a) } else { a.order(b) };
        order.then_with(|| one.1.task.stat.tid.cmp(&other.1.task.stat.tid))
    });
    let sorted = keyed.into_iter().map(|(_, placed)| placed);
    if !choice.tree {
        return sorted.map(|placed| Row { index: placed.0, branch: String::new() }).collect();
    }
    let arranged = tree::arrange(sorted.collect());
    arranged.into_iter().map(|(placed, branch)| Row { index: placed.0, branch }).collect()
}

/// Where no thread is shown: the reasons, each with the key that shows more.
pub fn why_none(sample: &Sample, choice: &Choice) -> Vec<String> {
    let mut why = Vec::new();
    let any = |choice: &Choice| !rows(sample, choice).is_empty();
    if !choice.filter.is_empty() {
        let filter = printable(choice.filter.as_bytes());
        why.push(format!(
            "No thread that is shown has \"{filter}\" in its program, name or role: Esc clears the \
             filter."
        ));
    }
    if choice.fast && any(&Choice { fast: false, ..choice.clone() }) {
        why.push("None is in the Fast Region: f shows the others too.".to_owned());
    }
    if !choice.kernel && any(&Choice { kernel: true, ..choice.clone() }) {
        why.push("Threads of the kernel fit: k shows them too.".to_owned());
    }
    if why.is_empty() {
        why.push("No thread can be seen: /proc may hide those of others.".to_owned());
    }
    why
}

fn has_text(thread: &Thread, needle: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(needle);
    has(&thread.program)
        || has(&thread.task.stat.name)
        || thread.role().is_some_and(|role| has(&role))
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::{sample, sample_of};
    use super::*;
    use crate::ps::column::Column;
    use nix::time::{clock_gettime, ClockId};
    use std::time::Duration;

    fn choice(sort: &str) -> Choice {
        let sort = super::super::sorting(sort).unwrap();
        Choice { sort, filter: String::new(), tree: false, kernel: false, fast: false }
    }

    fn tids(choice: &Choice) -> Vec<u32> {
        let sample = sample();
        rows(&sample, choice).iter().map(|row| sample.threads[row.index].task.stat.tid).collect()
    }

    #[test]
    fn threads_are_sorted_and_the_kernels_shown_on_demand() {
        assert_eq!(tids(&choice("cpu%")), [101, 100, 102, 200]);
        assert_eq!(tids(&choice("cpu%:asc")), [200, 102, 100, 101]);
        assert_eq!(tids(&choice("name")), [100, 101, 200, 102]);
        assert_eq!(tids(&Choice { kernel: true, ..choice("tid:asc") }), [2, 100, 101, 102, 200]);
    }

    #[test]
    fn a_filter_matches_program_and_name_whatever_the_case() {
        let with = |filter: &str| tids(&Choice { filter: filter.into(), ..choice("tid:asc") });
        assert_eq!(with("FRIDGE"), [100, 101, 102]);
        assert_eq!(with("ga"), [101]);
        assert!(with("oven").is_empty());
    }

    #[test]
    fn what_the_daemon_calls_fast_is_fast() {
        assert_eq!(tids(&Choice { fast: true, ..choice("tid") }), [102]);
        let sample = sample();
        assert_eq!(sample.human(Column::Region, &sample.threads[3]), "fast");
    }

    #[test]
    fn where_no_thread_is_shown_the_reason_and_the_key_are() {
        let why = |choice: Choice| why_none(&sample(), &choice).join(" ");
        let of = |filter: &str| Choice { filter: filter.into(), ..choice("tid") };
        let reported = why(of("ov\x1ben"));
        assert!(
            reported.contains(r#""ov\u{1b}en""#) && reported.contains("Esc clears"),
            "{reported}"
        );
        assert!(!reported.contains("f shows") && !reported.contains("k shows"), "{reported}");
        assert!(why(of("kthreadd")).contains("k shows them too"));
        assert!(why(Choice { fast: true, ..of("gas") }).contains("f shows the others"));
        assert!(why_none(&Sample::default(), &of("")).join("").contains("/proc"));
    }

    #[test]
    fn in_a_tree_threads_stand_below_the_first_of_their_process() {
        let sample = sample();
        let rows = rows(&sample, &Choice { tree: true, ..choice("cpu%") });
        let drawn: Vec<_> = rows
            .iter()
            .map(|row| format!("{}{}", row.branch, sample.threads[row.index].task.stat.tid))
            .collect();
        assert_eq!(drawn, ["100", "|- 101", "`- 102", "200"]);
    }

    #[test]
    fn ten_thousand_threads_are_put_in_order_at_once() {
        let sample = sample_of(10_000);
        // Of this thread: the CPU use of other threads does not count.
        let cpu_time =
            || -> Duration { clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into() };
        let before = cpu_time();
        for sort in ["cpu%", "name", "program:desc"] {
            let chosen = Choice { filter: "T".into(), tree: true, ..choice(sort) };
            assert_eq!(rows(&sample, &chosen).len(), 10_000);
        }
        // Work that grows with the square of their number would take minutes.
        let took = cpu_time() - before;
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}
