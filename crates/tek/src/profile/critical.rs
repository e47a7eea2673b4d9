// SPDX-License-Identifier: MIT OR Apache-2.0
//! The critical path: the longest chain of things that had to happen one after the other.
//!
//! It is walked backwards from the end of the run. A thread is on it until its last wait. From
//! there its waker is on it, at the moment of the wake-up. At the beginning of a thread the path
//! goes to its creator. Where the waker is unknown, the wait itself is on the path.

/// A wait for another thread, in ns from the start of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    pub begin: u64,
    pub end: u64,
    /// Its waker (an index of threads) and the time of the wake-up.
    pub waker: Option<(usize, u64)>,
    /// For a time or for something outside the process, and not for a thread.
    pub is_idle: bool,
    /// The time that the thread had spent in files and the allocator until then.
    pub file: u64,
    pub alloc: u64,
}

/// A thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    pub begin: u64,
    pub end: u64,
    /// Its creator, and the time of its creation.
    pub creator: Option<(usize, u64)>,
    /// By their ends.
    pub waits: Vec<Wait>,
    /// The time that it spent in files and the allocator in all.
    pub file: u64,
    pub alloc: u64,
}

/// The kind of a step of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The thread worked; so much of it was in files and the allocator.
    Does { file: u64, alloc: u64 },
    /// It waited for an unknown waker, or was about to go on.
    Waits,
    /// It waited for a time, or for something outside the process.
    Idle,
    /// It was created, and did not run yet.
    Starts,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub thread: usize,
    pub from: u64,
    pub to: u64,
    pub what: What,
}

/// The path that ends with `last`, from its beginning. Its steps do not overlap and leave no gap.
pub fn path(threads: &[Thread], last: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let Some(mut thread) = threads.get(last) else { return steps };
    let (mut number, mut now) = (last, thread.end);
    loop {
        let behind = thread.waits.partition_point(|wait| wait.end <= now);
        let wait = behind.checked_sub(1).map(|at| &thread.waits[at]);
        let wait =
            wait.filter(|wait| (thread.begin..now).contains(&wait.begin) && wait.begin <= wait.end);
        let Some(wait) = wait else {
            if now > thread.begin {
                let what = does(thread, behind, thread.begin, now);
                steps.push(Step { thread: number, from: thread.begin, to: now, what });
                now = thread.begin;
            }
            let creator = thread.creator.filter(|&(creator, when)| {
                creator != number && creator < threads.len() && when < now
            });
            let Some((creator, when)) = creator else { break };
            steps.push(Step { thread: number, from: when, to: now, what: What::Starts });
            (number, now) = (creator, when);
            thread = &threads[number];
            continue;
        };
        if wait.end < now {
            let what = does(thread, behind, wait.end, now);
            steps.push(Step { thread: number, from: wait.end, to: now, what });
        }
        // A waker counts only if it lived then and woke before the end of the wait: so the walk
        // ends.
        let waker = wait.waker.filter(|&(waker, when)| {
            let lived = |thread: &Thread| thread.begin <= when && when <= thread.end;
            let is_other = waker != number && threads.get(waker).is_some_and(lived);
            is_other && wait.begin <= when && when < wait.end
        });
        let from = waker.map_or(wait.begin, |(_, when)| when);
        let what = if wait.is_idle { What::Idle } else { What::Waits };
        // Rounding of ticks to ns may make a wait of 0 ns.
        if from < wait.end {
            steps.push(Step { thread: number, from, to: wait.end, what });
        }
        now = from;
        if let Some((waker, _)) = waker {
            number = waker;
            thread = &threads[waker];
        }
    }
    steps.reverse();
    steps
}

/// The work of a thread from one moment to another, in front of the wait with that index. Its time
/// in files between two waits is spread evenly.
fn does(thread: &Thread, next: usize, from: u64, to: u64) -> What {
    let before = next.checked_sub(1).map(|at| &thread.waits[at]);
    let (begin, file_before, alloc_before) =
        before.map_or((thread.begin, 0, 0), |wait| (wait.end, wait.file, wait.alloc));
    let (end, file, alloc) =
        thread.waits.get(next).map_or((thread.end, thread.file, thread.alloc), |wait| {
            (wait.begin, wait.file, wait.alloc)
        });
    let span = to.saturating_sub(from);
    let share = (span as f64 / end.saturating_sub(begin).max(1) as f64).min(1.0);
    let of = |all: u64, before: u64, most: u64| {
        ((all.saturating_sub(before) as f64 * share) as u64).min(most)
    };
    let file = of(file, file_before, span);
    What::Does { file, alloc: of(alloc, alloc_before, span - file) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn thread(begin: u64, end: u64, creator: Option<(usize, u64)>, waits: &[Wait]) -> Thread {
        Thread { begin, end, creator, waits: waits.to_vec(), ..Default::default() }
    }

    fn wait(begin: u64, end: u64, waker: Option<(usize, u64)>) -> Wait {
        Wait { begin, end, waker, ..Default::default() }
    }

    fn length(steps: &[Step]) -> u64 {
        steps.iter().map(|step| step.to - step.from).sum()
    }

    #[test]
    fn of_a_fork_and_join_the_slowest_thread_is_on_the_path() {
        let main = thread(0, 100, None, &[wait(20, 81, Some((2, 80)))]);
        let fast = thread(11, 40, Some((0, 10)), &[]);
        let slow = thread(21, 80, Some((0, 12)), &[]);
        let steps = path(&[main, fast, slow], 0);
        let seen: Vec<_> = steps.iter().map(|step| (step.thread, step.from, step.to)).collect();
        assert_eq!(seen, [(0, 0, 12), (2, 12, 21), (2, 21, 80), (0, 80, 81), (0, 81, 100)]);
        assert_eq!(steps[1].what, What::Starts);
        assert_eq!(steps[3].what, What::Waits);
    }

    #[test]
    fn a_wait_that_took_no_time_is_no_step() {
        let steps = path(&[thread(0, 97, None, &[wait(96, 96, None)])], 0);
        assert!(steps.iter().all(|step| step.from < step.to), "{steps:?}");
        assert_eq!(length(&steps), 97);
    }

    #[test]
    fn a_wait_that_no_thread_is_known_to_end_is_on_the_path_itself() {
        let steps = path(&[thread(0, 10, None, &[wait(3, 7, None)])], 0);
        assert_eq!(length(&steps), 10);
        assert_eq!(steps[1].what, What::Waits);
    }

    #[test]
    fn files_between_two_waits_are_spread_over_what_lies_there() {
        let mut main = thread(0, 100, None, &[Wait { file: 8, ..wait(40, 50, None) }]);
        main.file = 33;
        let steps = path(&[main], 0);
        assert_eq!(steps[0].what, What::Does { file: 8, alloc: 0 });
        assert_eq!(steps[2].what, What::Does { file: 25, alloc: 0 });
    }

    fn graph() -> impl Strategy<Value = Vec<Thread>> {
        let waker = proptest::option::of((0usize..5, 0u64..1000));
        let waits = proptest::collection::vec((0u64..1000, 0u64..1000, waker.clone()), 0..40);
        proptest::collection::vec((0u64..1000, 0u64..1000, waker, waits), 1..5).prop_map(|all| {
            all.into_iter()
                .map(|(begin, end, creator, waits)| {
                    let mut waits: Vec<_> =
                        waits.into_iter().map(|(from, to, waker)| wait(from, to, waker)).collect();
                    waits.sort_by_key(|wait| wait.end);
                    thread(begin, end, creator, &waits)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn a_path_has_no_gap_and_goes_forward_whatever_the_threads_recorded(threads in graph()) {
            let steps = path(&threads, 0);
            for pair in steps.windows(2) {
                prop_assert_eq!(pair[0].to, pair[1].from);
            }
            for step in &steps {
                prop_assert!(step.from < step.to, "{step:?}");
            }
            if let Some(last) = steps.last() {
                prop_assert_eq!(last.to, threads[0].end);
            }
        }
    }
}
