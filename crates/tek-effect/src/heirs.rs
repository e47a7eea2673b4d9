// SPDX-License-Identifier: MIT OR Apache-2.0
//! Children of a thread with a changed policy, or of a process with a changed limit: they inherit
//! the changed value. Undoing gives them the previous value, which they would have inherited
//! without the change.
//!
//! The parents show which processes are children. A child whose parent has ended has another
//! process as parent. It is known by the address of its first stack: a copy of a process has that
//! of the process, and each program that is executed has another one.
use crate::identity::{parent_of, process_of, stack_of};
use crate::policy::set_rule;
use crate::rule::Rule;
use crate::sys;
use crate::{Error, Identity};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use tek_procfs::path;

/// Highest number of generations in which descendants are searched.
const MOST_GENERATIONS: usize = 32;
/// Ids show which thread is younger for this many seconds: the kernel assigns them in ascending
/// order, and starts again only after at least 32,768.
const IN_ORDER: u64 = 10;

/// The moment at which a thread was changed, to find the threads that started since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Births {
    process: Identity,
    /// The last id that the kernel had given away.
    last_id: i32,
    /// In clock ticks since boot.
    at_ticks: u64,
    /// Where the first stack of the process began then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stack: Option<u64>,
}

impl Births {
    /// From now on, of a thread of this process.
    pub(crate) fn since_now(tid: i32) -> Result<Self, Error> {
        let process = Identity::of_process(process_of(tid)?)?;
        let stack = stack_of(process.tid);
        Ok(Self { process, last_id: last_id(), at_ticks: sys::boot_ticks(), stack })
    }

    /// Gives `was`, with this slice, to each thread of the process and its descendants that started
    /// since and has one of `ours`. It finds the children that [`Births::each_process`] finds.
    pub(crate) fn give(&self, ours: &[Rule], was: Rule, slice_ns: Option<u64>) {
        self.each_process(|process, may_be_born| {
            self.give_to_threads(process.tid, may_be_born, ours, |tid, present| {
                // It ends just now, or its process may not be touched any more.
                let _ = set_rule(tid, present, was).and_then(|()| sys::give_slice(tid, slice_ns));
            });
        });
    }

    /// Calls `visit` for the process and for its descendants that started since, with a filter of
    /// the ids that new threads can have. It makes no call if no thread of the device started. It
    /// does not find a child that has executed a program, after its parent has ended.
    pub(crate) fn each_process(&self, mut visit: impl FnMut(Identity, &dyn Fn(&i32) -> bool)) {
        let last_id = last_id();
        if last_id == self.last_id {
            return; // no thread started on the whole device
        }
        let may_be_born = self.ids_since(last_id);
        let mut processes = HashSet::from([self.process.tid]);
        let mut youngest = vec![self.process];
        for _ in 0..MOST_GENERATIONS {
            youngest.iter().for_each(|process| visit(*process, &may_be_born));
            youngest = LISTED.with_borrow_mut(|listed| {
                listed.renew(last_id, sys::boot_ticks());
                self.children(listed, &processes, &may_be_born)
            });
            if youngest.is_empty() {
                return;
            }
            processes.extend(youngest.iter().map(|process| process.tid));
        }
    }

    /// All processes that started since.
    pub(crate) fn all_processes(&self) -> Vec<Identity> {
        let last_id = last_id();
        let is_born = |process: &Identity| process.start_ticks >= self.at_ticks;
        let all = LISTED.with_borrow_mut(|listed| {
            listed.renew(last_id, sys::boot_ticks());
            listed.processes(self.ids_since(last_id))
        });
        all.into_iter().filter(is_born).collect()
    }

    /// The ids that threads started since can have.
    fn ids_since(&self, last_id: i32) -> impl Fn(&i32) -> bool + '_ {
        let is_soon = sys::boot_ticks() < self.at_ticks + IN_ORDER * sys::ticks_a_second();
        move |id: &i32| !is_soon || is_between(*id, self.last_id, last_id)
    }

    fn give_to_threads(
        &self,
        process: i32,
        may_be_born: impl Fn(&i32) -> bool,
        ours: &[Rule],
        give: impl Fn(i32, Rule),
    ) {
        for tid in tids_of(process).into_iter().filter(may_be_born) {
            let Ok(present) = sys::rule(tid) else { continue };
            if !ours.contains(&present) {
                continue;
            }
            let is_heir = |thread_id: &Identity| thread_id.start_ticks >= self.at_ticks;
            if Identity::of(tid).ok().filter(is_heir).is_some() {
                give(tid, present);
            }
        }
    }

    /// Threads of a process that started since.
    pub(crate) fn threads_of(
        &self,
        process: i32,
        may_be_born: &dyn Fn(&i32) -> bool,
    ) -> Vec<Identity> {
        let born =
            |tid| Identity::of(tid).ok().filter(|thread_id| thread_id.start_ticks >= self.at_ticks);
        let tids = tids_of(process);
        tids.into_iter().filter(may_be_born).filter_map(born).collect()
    }

    fn stack_now(&self) -> Option<u64> {
        self.process.check_process().ok().and_then(|()| stack_of(self.process.tid))
    }

    /// Processes that were born since of some.
    fn children(
        &self,
        listed: &mut Listed,
        of: &HashSet<i32>,
        may_be_born: impl Fn(&i32) -> bool,
    ) -> Vec<Identity> {
        let stacks = [self.stack, self.stack_now()].map(|stack| stack.filter(|&at| at != 0));
        let is_child = |process: &Identity| {
            process.start_ticks >= self.at_ticks
                && !of.contains(&process.tid)
                && parent_of(process.tid).is_ok_and(|parent| {
                    of.contains(&parent) || is_orphan(process.tid, parent, stacks)
                })
        };
        listed.processes(may_be_born).into_iter().filter(is_child).collect()
    }
}

thread_local! {
    static LISTED: RefCell<Listed> = RefCell::default();
}

/// The processes of the device, listed once for all threads that are restored one after the other:
/// a list is complete until a new thread starts.
#[derive(Default)]
struct Listed {
    last_id: i32,
    at_ticks: u64,
    pids: Vec<i32>,
    /// The identities that were requested so far; `None`: the process has ended.
    identities: HashMap<i32, Option<Identity>>,
}

impl Listed {
    /// Lists them, unless the list is complete up to this id. An old list is renewed, because ids
    /// may have started again.
    fn renew(&mut self, last_id: i32, now_ticks: u64) {
        let is_old = now_ticks >= self.at_ticks + sys::ticks_a_second();
        if self.last_id != last_id || is_old || self.pids.is_empty() {
            let (pids, identities) = (ids_in("/proc"), HashMap::new());
            *self = Self { last_id, at_ticks: now_ticks, pids, identities };
        }
    }

    fn processes(&mut self, among: impl Fn(&i32) -> bool) -> Vec<Identity> {
        let Self { pids, identities, .. } = self;
        let of =
            |&pid: &i32| *identities.entry(pid).or_insert_with(|| Identity::of_process(pid).ok());
        pids.iter().filter(|pid| among(pid)).filter_map(of).collect()
    }
}

/// Whether a process has one of these stacks, and its present parent has none of them and so did
/// not make it.
fn is_orphan(pid: i32, parent: i32, stacks: [Option<u64>; 2]) -> bool {
    let is_of_line = |stack: Option<u64>| stack.is_some() && stacks.contains(&stack);
    is_of_line(stack_of(pid)) && !is_of_line(stack_of(parent))
}

/// The id that was given away last, as /proc/loadavg ends with it.
fn last_id() -> i32 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.rsplit(' ').next().and_then(|id| id.trim().parse().ok()).unwrap_or(0)
}

/// Whether an id is one of those that were given away after `before` up to `last`.
fn is_between(id: i32, before: i32, last: i32) -> bool {
    match before < last {
        true => id > before && id <= last,
        false => id > before || id <= last,
    }
}

fn ids_in(directory: &str) -> Vec<i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The threads that a process has now.
pub(crate) fn tids_of(process: i32) -> Vec<i32> {
    path(process, "task").map(|task| ids_in(&task)).unwrap_or_default()
}

#[cfg(test)]
#[allow(unsafe_code)] // processes are forked
mod tests {
    use super::*;

    #[test]
    fn processes_are_listed_again_when_somebody_was_born_or_a_second_is_over() {
        let mut listed = Listed::default();
        let own = std::process::id() as i32;
        listed.renew(7, 1000);
        assert_eq!(listed.processes(|&pid| pid == own), [Identity::of_process(own).unwrap()]);
        let is_unchanged = |listed: &mut Listed, last_id, now_ticks| {
            listed.pids = vec![own];
            listed.renew(last_id, now_ticks);
            listed.pids == [own]
        };
        assert!(is_unchanged(&mut listed, 7, 1000));
        assert!(!is_unchanged(&mut listed, 8, 1000));
        assert!(!is_unchanged(&mut listed, 8, 1000 + sys::ticks_a_second()));
    }

    #[test]
    fn ids_begin_anew_after_the_greatest() {
        assert!(is_between(5, 4, 7) && is_between(7, 4, 7));
        assert!(!is_between(4, 4, 7) && !is_between(8, 4, 7));
        assert!(is_between(9, 8, 3) && is_between(2, 8, 3));
        assert!(!is_between(8, 8, 3) && !is_between(4, 8, 3));
    }

    /// A process that only waits for its end.
    struct Copy(i32);

    impl Copy {
        /// A copy of this process, made by it or by another copy that ends at once.
        fn new(is_orphan: bool) -> Self {
            let (mut reader, writer) = std::io::pipe().unwrap();
            // SAFETY: the copies make system calls only.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: as above; the numbers are those of this process.
                unsafe {
                    if is_orphan && libc::fork() != 0 {
                        libc::_exit(0);
                    }
                    let own = libc::getpid();
                    let fd = std::os::fd::AsRawFd::as_raw_fd(&writer);
                    libc::write(fd, (&raw const own).cast(), size_of::<i32>());
                    loop {
                        libc::pause();
                    }
                }
            }
            let mut own = [0; size_of::<i32>()];
            std::io::Read::read_exact(&mut reader, &mut own).unwrap();
            if is_orphan {
                nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None).unwrap();
            }
            Self(i32::from_ne_bytes(own))
        }

        fn is_found_by(&self, births: &Births) -> bool {
            let mut found = false;
            births.each_process(|process, _| found |= process.tid == self.0);
            found
        }
    }

    impl Drop for Copy {
        fn drop(&mut self) {
            let pid = nix::unistd::Pid::from_raw(self.0);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL);
            let _ = nix::sys::wait::waitpid(pid, None);
        }
    }

    #[test]
    fn a_child_whose_parent_has_ended_is_found_by_its_stack() {
        let own = std::process::id() as i32;
        let births = Births::since_now(own).unwrap();
        let (child, orphan) = (Copy::new(false), Copy::new(true));
        assert_ne!(parent_of(orphan.0).unwrap(), own);
        assert!(child.is_found_by(&births) && orphan.is_found_by(&births));
        // Its later program has another stack.
        let executed = Births { stack: births.stack.map(|stack| stack + 1), ..births };
        assert!(orphan.is_found_by(&executed));
        // A child of its own parent has the same stack, and is not its child.
        let of_child = Births::since_now(child.0).unwrap();
        let sibling = Copy::new(false);
        assert!(!sibling.is_found_by(&of_child));
    }
}
