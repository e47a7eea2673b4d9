// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of processes and their children that tekd may change, at one moment.

use super::groups;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// One thread. After its process has executed a program it counts as another one: the first stack
/// has another address then.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pid: i32,
    tid: i32,
    start_ticks: u64,
    stack: u64,
}

/// The scheduling attributes of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Has {
    /// With the flag for children.
    policy: i32,
    priority: i32,
    nice: i32,
    /// As text: a list.
    cpus: String,
    /// As text, of its process.
    limits: String,
    /// As text: one line a hierarchy.
    groups: String,
}

/// The attributes of a process at its start.
pub type Base = Has;

impl Has {
    /// Of a thread; `None`: it ended.
    pub fn of(tid: i32) -> Option<Has> {
        let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        let (policy, priority) = scheduler(tid)?;
        Some(Has {
            policy,
            priority,
            nice: nice(tid)?,
            cpus: cpus.trim().to_owned(),
            limits: fs::read_to_string(format!("/proc/{tid}/limits")).ok()?,
            groups: fs::read_to_string(format!("/proc/{tid}/cgroup")).ok()?,
        })
    }

    /// The differences from before, in words.
    fn differences(&self, was: &Has) -> String {
        let fields = |it: &Has| {
            let Has { policy, priority, nice, cpus, limits, groups } = it;
            [
                ("policy", policy.to_string()),
                ("priority", priority.to_string()),
                ("nice", nice.to_string()),
                ("CPUs", cpus.clone()),
                ("limits", limits.clone()),
                ("groups", groups.clone()),
            ]
        };
        let pairs = fields(self).into_iter().zip(fields(was)).filter(|(is, was)| is != was);
        let lines = |text: &str, other: &str| -> String {
            let only = text.lines().filter(|line| !other.lines().any(|it| it == *line));
            only.collect::<Vec<_>>().join(", ")
        };
        let reported = pairs.map(|((name, is), (_, was))| {
            format!("{name} {}, was {}", lines(&is, &was), lines(&was, &is))
        });
        reported.collect::<Vec<_>>().join("; ")
    }

    /// The attributes of a new thread of a real-time thread with reset-on-fork.
    fn born(&self) -> Has {
        Has { policy: libc::SCHED_OTHER, priority: 0, nice: 0, ..self.clone() }
    }
}

/// All threads of some processes and of their children, and the control groups.
pub struct Snapshot {
    threads: BTreeMap<Key, (Has, i32)>,
    files: BTreeMap<PathBuf, String>,
}

impl Snapshot {
    /// Of these processes and their children, as they are now.
    pub fn of(pids: &[i32]) -> Snapshot {
        let mut threads = BTreeMap::new();
        let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for pid in ids {
            threads.extend(threads_of(pid, pids).unwrap_or_default());
        }
        Snapshot { threads, files: groups::read() }
    }

    /// The differences of a later snapshot from this one, and the attributes of new threads that
    /// only tekd can have set. `bases` are the attributes with which the processes began.
    pub fn differences(&self, later: &Snapshot, bases: &[(i32, Base)]) -> Vec<String> {
        let base_of =
            |owner: i32| bases.iter().find(|(pid, _)| *pid == owner).map(|(_, base)| base);
        let mut reported = Vec::new();
        for (key, (has, owner)) in &later.threads {
            let expected: Vec<Has> = match (self.threads.get(key), base_of(*owner)) {
                (Some((had, _)), _) => vec![had.clone()],
                (None, Some(base)) => vec![base.clone(), base.born()],
                (None, None) => continue,
            };
            if !expected.contains(has) {
                let what = has.differences(&expected[0]);
                reported.push(format!("thread {} of process {}: {what}", key.tid, key.pid));
            }
        }
        let files: BTreeSet<&PathBuf> = self.files.keys().chain(later.files.keys()).collect();
        for file in files {
            let (was, is) = (self.files.get(file), later.files.get(file));
            if was != is {
                let text =
                    |it: Option<&String>| it.map_or("none".to_owned(), |it| format!("{it:?}"));
                reported.push(format!("{}: {}, was {}", file.display(), text(is), text(was)));
            }
        }
        reported
    }

    /// How many threads of a later one have another program than they had.
    pub fn executed(&self, later: &Snapshot) -> usize {
        let programs = |it: &Snapshot| -> BTreeSet<(i32, u64)> {
            it.threads.keys().map(|key| (key.pid, key.stack)).collect()
        };
        programs(later).difference(&programs(self)).count()
    }
}

/// The threads of a process, if it is one of these or a child of one.
fn threads_of(pid: i32, pids: &[i32]) -> Option<Vec<(Key, (Has, i32))>> {
    let fields = stat(&format!("/proc/{pid}/stat"))?;
    let parent: i32 = fields.get(1)?.parse().ok()?;
    let owner = *pids.iter().find(|&&it| it == pid || it == parent)?;
    if fields[0] == "Z" {
        return None;
    }
    let stack = fields.get(25)?.parse().ok()?;
    let mut threads = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let tid: i32 = task.file_name().to_str()?.parse().ok()?;
        // It may end meanwhile, which removes it from its groups.
        let (Some(has), Some(start_ticks)) = (Has::of(tid), start_of(pid, tid)) else { continue };
        threads.push((Key { pid, tid, start_ticks, stack }, (has, owner)));
    }
    Some(threads)
}

/// When a thread began, in clock ticks since boot; `None`: it has ended, or is about to.
fn start_of(pid: i32, tid: i32) -> Option<u64> {
    const EXITING: u32 = 4; // the kernel's PF_EXITING
    let fields = stat(&format!("/proc/{pid}/task/{tid}/stat"))?;
    let flags: u32 = fields.get(6)?.parse().ok()?;
    let runs = !["Z", "X"].contains(&fields[0].as_str()) && flags & EXITING == 0;
    fields.get(19)?.parse().ok().filter(|_| runs)
}

/// The fields behind the name, from the state on.
fn stat(path: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Policy, with its flag, and priority.
fn scheduler(tid: i32) -> Option<(i32, i32)> {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel writes one struct.
    let read = unsafe { libc::sched_getparam(tid, &raw mut param) };
    // SAFETY: takes a number.
    let policy = unsafe { libc::sched_getscheduler(tid) };
    (read == 0 && policy >= 0).then_some((policy, param.sched_priority))
}

fn nice(tid: i32) -> Option<i32> {
    // The system call itself: it returns 20 - nice, which is never an error's number.
    // SAFETY: takes numbers.
    let printed = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid) };
    (printed > 0).then(|| 20 - printed as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(tid: i32, has: &Has) -> Snapshot {
        let key = Key { pid: 1, tid, start_ticks: 5, stack: 7 };
        let threads = BTreeMap::from([(key, (has.clone(), 1))]);
        Snapshot { threads, files: BTreeMap::new() }
    }

    fn usual() -> Has {
        Has { nice: 3, groups: "/".to_owned(), ..Has::default() }
    }

    #[test]
    fn a_thread_that_is_left_real_time_or_in_another_group_is_a_difference() {
        let before = snapshot(2, &usual());
        let bases = [(1, usual())];
        assert!(before.differences(&before, &bases).is_empty());
        for has in [
            Has { policy: libc::SCHED_RR, ..usual() },
            Has { nice: 0, ..usual() },
            Has { groups: "/tek".to_owned(), ..usual() },
            Has { cpus: "1".to_owned(), ..usual() },
        ] {
            let reported = before.differences(&snapshot(2, &has), &bases);
            assert!(reported.len() == 1 && reported[0].contains(", was "), "{has:?}: {reported:?}");
        }
    }

    #[test]
    fn a_new_thread_has_what_its_process_began_with_or_lost_by_the_flag() {
        let before = snapshot(2, &usual());
        let bases = [(1, usual())];
        let differences = |has: &Has| before.differences(&snapshot(3, has), &bases).len();
        assert_eq!(differences(&usual()), 0);
        assert_eq!(differences(&usual().born()), 0);
        assert_eq!(differences(&Has { nice: -5, ..usual() }), 1);
    }

    #[test]
    fn a_group_that_is_left_behind_is_a_difference() {
        let before = snapshot(2, &usual());
        let mut after = snapshot(2, &usual());
        after.files.insert("/sys/fs/cgroup/tek-bench".into(), String::new());
        assert_eq!(before.differences(&after, &[]).len(), 1);
    }

    #[test]
    fn a_snapshot_contains_this_process() {
        let own = std::process::id() as i32;
        let snapshot = Snapshot::of(&[own]);
        assert!(snapshot.threads.keys().any(|key| key.pid == own));
    }
}
