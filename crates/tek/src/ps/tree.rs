// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads as a tree: below the first thread of each process its other threads, each below its
//! creator where that is known.
use super::thread::Thread;
use std::borrow::Borrow;
use std::collections::HashMap;

/// Deeper threads are drawn as if they were this deep. A table may contain any depth.
const DEEPEST: usize = 16;

/// The threads in the order of the tree, each with the branch before its name. Siblings keep their
/// order.
pub fn arrange<T: Borrow<Thread>>(threads: Vec<T>) -> Vec<(T, String)> {
    let parents = parents(&threads);
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (index, parent) in parents.into_iter().enumerate() {
        children.entry(parent).or_default().push(index);
    }
    let mut threads: Vec<Option<T>> = threads.into_iter().map(Some).collect();
    let mut arranged = Vec::with_capacity(threads.len());
    // A stack of the threads that are not drawn yet, the next one on top.
    let mut waiting: Vec<(usize, Vec<bool>)> = Vec::new();
    let push = |waiting: &mut Vec<_>, below: &[usize], lasts: &[bool]| {
        for (position, &index) in below.iter().enumerate().rev() {
            let mut lasts = lasts.to_vec();
            if lasts.len() < DEEPEST {
                lasts.push(position + 1 == below.len());
            }
            waiting.push((index, lasts));
        }
    };
    push(&mut waiting, children.get(&None).map_or(&[], Vec::as_slice), &[]);
    while let Some((index, lasts)) = waiting.pop() {
        let Some(thread) = threads[index].take() else { continue };
        arranged.push((thread, branch(&lasts[1..])));
        push(&mut waiting, children.get(&Some(index)).map_or(&[], Vec::as_slice), &lasts);
    }
    arranged
}

/// The place of each thread's parent: its creator, else the first thread of its process.
fn parents<T: Borrow<Thread>>(threads: &[T]) -> Vec<Option<usize>> {
    let threads: Vec<&Thread> = threads.iter().map(Borrow::borrow).collect();
    let number = |thread: &Thread| thread.user.map_or(0, |user| user.number);
    let key = |thread: &Thread| (thread.pid, thread.task.stat.tid, number(thread));
    let places: HashMap<(u32, u32, u32), usize> =
        threads.iter().enumerate().map(|(at, thread)| (key(thread), at)).collect();
    let parent = |&thread: &&Thread| {
        let own = thread.task.stat.tid;
        if own == thread.pid {
            return None;
        }
        // A thread is younger than its creator: a contradiction could make a cycle.
        let older = |&at: &usize| {
            // User-level threads are numbered in the order of creation; their times are imprecise.
            let start_ns = |thread: &Thread| match thread.user {
                Some(_) => 0,
                None => thread.task.stat.start_ns,
            };
            let age = |thread: &Thread| (start_ns(thread), key(thread));
            age(threads[at]) < age(thread)
        };
        let creator = thread.creator().map(|id| match thread.user {
            Some(_) => (thread.pid, 0, id),
            None => (thread.pid, id, 0),
        });
        let creator = creator.and_then(|key| places.get(&key).copied()).filter(older);
        creator.or_else(|| places.get(&(thread.pid, thread.pid, 0)).copied())
    };
    threads.iter().map(parent).collect()
}

/// The branch before a name, given for each level whether the branch is the last there.
fn branch(lasts: &[bool]) -> String {
    let Some((own, above)) = lasts.split_last() else { return String::new() };
    let lines: String = above.iter().map(|&last| if last { "   " } else { "|  " }).collect();
    lines + if *own { "`- " } else { "|- " }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ps::thread::User;
    use crate::top::sample::tests::thread;
    use tek_abi::{Record, Side};

    fn user(number: u32, creator: u32, start_ns: u64) -> Thread {
        let mut made = thread(100, 0, "fridge", "fridge", 0);
        made.user = Some(User { number, worker: None });
        made.task.stat.start_ns = start_ns;
        let side = Side { creator_tid: creator, ..Side::default() };
        made.task.record = Some(tek_model::Thread { slot: 0, record: Record::default(), side });
        made
    }

    #[test]
    fn user_level_threads_stand_below_their_creators_however_rough_their_times_are() {
        let kernel = thread(100, 100, "fridge", "fridge", 0);
        let other = thread(100, 2, "fridge", "another", 0);
        let threads = vec![kernel, other, user(1, 0, 10), user(2, 1, 9), user(3, 2, 12)];
        let drawn: Vec<_> = arrange(threads)
            .into_iter()
            .map(|(thread, branch)| {
                let number = thread.user.map(|user| user.number);
                format!("{branch}{}", number.unwrap_or(thread.task.stat.tid + 1000))
            })
            .collect();
        assert_eq!(drawn, ["1100", "|- 1002", "`- 1", "   `- 2", "      `- 3"]);
    }
}
