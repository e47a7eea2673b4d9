// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the process that made a child of its own parent: clone(2) with CLONE_PARENT.
//!
//! The kernel reports only the parent. A maker is one of the few processes whose children inherit a
//! change of tekd. A child can be a maker's sibling only if both have the same parent, so the
//! parent of each maker is read beforehand. Its pidfd becomes readable when it ends and the maker
//! gets another parent. Other children cost nothing.
//!
//! A maker is removed when its children inherit no change any more, or when it has ended, once all
//! events of births until then were read. The pidfd of a parent is closed with its last maker.
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use tek_effect::{parent_of, stack_of, Error, Identity};

/// A parent may end while it is read; then it is read again, this many times at most.
const TRIES: usize = 3;
/// Stands for an unknown parent where descriptors are lacking.
const ANY: i32 = 0;
/// Ended makers are searched when there are more makers.
const MANY: usize = 64;

struct Maker {
    process: Identity,
    /// The address of its first stack.
    stack: u64,
    /// Its parents: the event of a birth may be older than the end of an earlier parent.
    parents: HashSet<i32>,
}

/// The processes that may have made a child.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Makers {
    pub processes: Vec<i32>,
    /// The stack shows that one of them made it, and not its parent.
    pub are_known: bool,
}

impl Makers {
    /// Whether this process may have made the child, instead of their common parent.
    pub fn may_include(&self, process: i32) -> bool {
        !self.are_known && self.processes.contains(&process)
    }
}

/// The makers.
#[derive(Default)]
pub struct Siblings {
    makers: HashMap<i32, Maker>,
    /// Makers that are removed when all events of births until now were read.
    leaving: HashSet<i32>,
    /// Ended makers are searched when there are more makers.
    most: usize,
    of_parent: HashMap<i32, HashSet<i32>>,
    parents: HashMap<i32, OwnedFd>,
    ends: Option<Epoll>,
}

impl Siblings {
    /// Children of this process inherit a change from now on.
    pub fn add(&mut self, maker: i32) {
        let (Ok(process), Some(stack)) = (Identity::of_process(maker), stack_of(maker)) else {
            return;
        };
        match self.makers.get(&maker) {
            Some(known) if known.process == process && known.stack == stack => {
                self.leaving.remove(&maker);
                return;
            }
            // An earlier process with its id, or an earlier program.
            Some(_) => self.remove(maker),
            None => self.find_ended(),
        }
        self.makers.insert(maker, Maker { process, stack, parents: HashSet::new() });
        self.find_parent(maker);
    }

    /// Children that this process makes from now on inherit no change; it may have ended.
    pub fn leave(&mut self, maker: i32) {
        if self.makers.contains_key(&maker) {
            self.leaving.insert(maker);
        }
    }

    /// All events of births until now were read and handled.
    pub fn all_news_were_read(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        std::mem::take(&mut self.leaving).into_iter().for_each(|maker| self.remove(maker));
        self.most = MANY.max(2 * self.makers.len());
    }

    /// No child inherits a change any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes which parents have ended. The caller calls it after reading events and before handling
    /// them.
    pub fn keep_up(&mut self) {
        let mut events = [EpollEvent::empty(); 16];
        while let Some(Ok(count @ 1..)) =
            self.ends.as_ref().map(|ends| ends.wait(&mut events, EpollTimeout::ZERO))
        {
            for event in &events[..count] {
                let parent = i32::try_from(event.data()).unwrap_or(ANY);
                // Closing the pidfd removes it from epoll.
                drop(self.parents.remove(&parent));
                let makers = self.of_parent.get(&parent).cloned().unwrap_or_default();
                makers.into_iter().for_each(|maker| self.find_parent(maker));
            }
        }
    }

    /// The processes that may have made a child of this parent.
    pub fn makers_of(&self, child: i32, parent: i32) -> Makers {
        let mut makers = self.with_parent(parent);
        if makers.is_empty() {
            return Makers::default();
        }
        // A new child has its maker's memory or a copy of it, so its stack lies at the maker's
        // address. At the parent's address the child counts as the parent's own; at a maker's, as
        // made by a maker with that address. A child with any other address has executed a program,
        // and one without a stack has ended: the parent or any maker may have made it.
        let its = stack_of(child).filter(|&its| its != 0);
        if its.is_some() && stack_of(parent) == its {
            return Makers::default();
        }
        let are_known = makers.iter().any(|maker| its.is_some() && self.stack(*maker) == its);
        makers.retain(|maker| !are_known || self.stack(*maker) == its);
        Makers { processes: makers, are_known }
    }

    fn with_parent(&self, parent: i32) -> Vec<i32> {
        let of = |parent| self.of_parent.get(&parent).into_iter().flatten().copied();
        of(parent).chain(of(ANY)).collect()
    }

    fn stack(&self, maker: i32) -> Option<u64> {
        self.makers.get(&maker).map(|maker| maker.stack)
    }

    /// Finds makers whose end no other event reports.
    fn find_ended(&mut self) {
        if self.makers.len() < self.most.max(MANY) {
            return;
        }
        let has_ended =
            |maker: &&Maker| matches!(maker.process.check_process(), Err(Error::Gone { .. }));
        let ended = self.makers.values().filter(has_ended).map(|maker| maker.process.tid);
        self.leaving.extend(ended);
        self.most = self.makers.len() + MANY;
    }

    fn remove(&mut self, maker: i32) {
        self.leaving.remove(&maker);
        for parent in self.makers.remove(&maker).into_iter().flat_map(|maker| maker.parents) {
            let Some(makers) = self.of_parent.get_mut(&parent) else { continue };
            makers.remove(&maker);
            if makers.is_empty() {
                self.of_parent.remove(&parent);
                self.parents.remove(&parent);
            }
        }
    }

    fn note_parent(&mut self, maker: i32, parent: i32) {
        if let Some(known) = self.makers.get_mut(&maker) {
            known.parents.insert(parent);
            self.of_parent.entry(parent).or_default().insert(maker);
        }
    }

    fn find_parent(&mut self, maker: i32) {
        for _ in 0..TRIES {
            let Ok(parent) = parent_of(maker) else { return };
            let watched = self.watch(parent);
            // The pidfd is the parent's only if that has not ended until now.
            if watched && parent_of(maker).is_ok_and(|now| now == parent) {
                self.note_parent(maker, parent);
                return;
            }
        }
        self.note_parent(maker, ANY);
    }

    /// Opens the pidfd of a parent; `false`: its end will not be known.
    fn watch(&mut self, parent: i32) -> bool {
        if self.parents.contains_key(&parent) {
            return true;
        }
        if self.ends.is_none() {
            self.ends = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok();
        }
        let Some(ends) = &self.ends else { return false };
        let Ok(pidfd) = crate::sys::pidfd_open(parent) else { return false };
        let number = u64::try_from(parent).unwrap_or(0);
        let is_watched = ends.add(&pidfd, EpollEvent::new(EpollFlags::EPOLLIN, number)).is_ok();
        if is_watched {
            self.parents.insert(parent, pidfd);
        }
        is_watched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    fn shell(script: &str) -> (Child, i32) {
        let mut shell = Command::new("sh");
        let mut child = shell
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        (child, line.trim().parse().unwrap())
    }

    fn known(maker: i32) -> Makers {
        Makers { processes: vec![maker], are_known: true }
    }

    #[test]
    fn the_makers_are_those_with_this_parent_and_the_same_stack() {
        let own = i32::try_from(std::process::id()).unwrap();
        let (mut maker, pid) = shell("echo $$; read x");
        // A copy of the maker has the same memory as a child of it.
        let mut siblings = Siblings::default();
        siblings.add(pid);
        assert_eq!(siblings.makers_of(pid, own), known(pid));
        assert!(siblings.makers_of(pid, 1).processes.is_empty(), "another parent");
        assert!(siblings.makers_of(own, own).processes.is_empty(), "the parent's stack");
        siblings.clear();
        assert!(siblings.makers_of(pid, own).processes.is_empty());
        drop(maker.stdin.take());
        maker.wait().unwrap();
    }

    #[test]
    fn a_sibling_that_has_executed_a_program_or_has_ended_may_be_of_each_maker_of_its_parent() {
        let own = i32::try_from(std::process::id()).unwrap();
        let (mut maker, pid) = shell("echo $$; read x");
        let (mut child, executed) = shell("echo $$; read x");
        let mut siblings = Siblings::default();
        siblings.add(pid);
        let possible = Makers { processes: vec![pid], are_known: false };
        assert_eq!(siblings.makers_of(executed, own), possible);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(siblings.makers_of(executed, own), possible);
        drop(maker.stdin.take());
        maker.wait().unwrap();
    }

    #[test]
    fn a_maker_whose_parent_ends_has_another_one() {
        let (mut parent, maker) = shell("sh -c 'echo $$; read x; exec sleep 20' <&0 & read x");
        let pid = i32::try_from(parent.id()).unwrap();
        let mut siblings = Siblings::default();
        siblings.add(maker);
        assert!(siblings.of_parent[&pid].contains(&maker));
        parent.kill().unwrap();
        parent.wait().unwrap();
        siblings.keep_up();
        let now = parent_of(maker).unwrap();
        assert_ne!(now, pid);
        assert!(siblings.of_parent[&now].contains(&maker));
        assert!(siblings.of_parent[&pid].contains(&maker), "an earlier birth may be told late");
        assert!(!siblings.parents.contains_key(&pid));
    }

    #[test]
    fn a_maker_that_left_is_known_until_all_news_were_read_and_its_parent_no_longer() {
        let own = i32::try_from(std::process::id()).unwrap();
        let (mut maker, pid) = shell("echo $$; read x");
        let mut siblings = Siblings::default();
        siblings.add(pid);
        siblings.leave(pid);
        assert_eq!(siblings.makers_of(pid, own), known(pid), "news may be unread");
        siblings.add(pid);
        siblings.all_news_were_read();
        assert_eq!(siblings.makers_of(pid, own), known(pid), "it makes children again");
        siblings.leave(pid);
        siblings.all_news_were_read();
        assert!(siblings.makers.is_empty() && siblings.of_parent.is_empty());
        assert!(siblings.parents.is_empty(), "a descriptor is open");
        drop(maker.stdin.take());
        maker.wait().unwrap();
    }

    #[test]
    fn makers_that_have_ended_take_no_descriptors() {
        let mut siblings = Siblings::default();
        for _ in 0..3 * MANY {
            // Each has a parent of its own.
            let (mut parent, maker) = shell("sh -c 'echo $$; exec cat' <&0 & wait");
            siblings.add(maker);
            drop(parent.stdin.take());
            parent.wait().unwrap();
            siblings.all_news_were_read();
        }
        assert!(siblings.makers.len() <= MANY, "{} makers", siblings.makers.len());
        assert!(siblings.parents.len() <= MANY, "{} descriptors", siblings.parents.len());
    }

    #[test]
    fn a_maker_that_executes_a_program_has_another_stack() {
        let own = i32::try_from(std::process::id()).unwrap();
        let (mut maker, pid) = shell("echo $$; read x; echo; exec cat");
        let mut siblings = Siblings::default();
        siblings.add(pid);
        let before = siblings.stack(pid);
        writeln!(maker.stdin.as_mut().unwrap()).unwrap();
        while stack_of(pid).is_none_or(|stack| stack == 0 || Some(stack) == before) {
            std::thread::yield_now();
        }
        siblings.add(pid);
        assert_eq!(siblings.makers_of(pid, own), known(pid));
        drop(maker.stdin.take());
        maker.wait().unwrap();
    }
}
