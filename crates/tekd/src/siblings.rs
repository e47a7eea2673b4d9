// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which process made a child of its own parent: clone(2) with CLONE_PARENT.
//!
//! The kernel tells of the parent only. A maker is one of a few processes whose children inherit
//! something. A child can be a maker's sibling only if both have the same parent, so that of a
//! maker is known beforehand; a descriptor of it becomes readable when it ends and the maker gets
//! another one. Nothing is read of any other child.
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use tek_effect::{parent_of, stack_of};

/// A parent may end while it is looked at; so often it is looked again.
const TRIES: usize = 3;
/// Where descriptors are wanting: any process may be the parent.
const ANY: i32 = 0;

/// The makers.
#[derive(Default)]
pub struct Siblings {
    /// Where their first stacks begin.
    stacks: HashMap<i32, u64>,
    /// The makers of each parent, earlier parents among them: news of a birth may be older than
    /// the parent's end.
    of_parent: HashMap<i32, HashSet<i32>>,
    parents: HashMap<i32, OwnedFd>,
    ends: Option<Epoll>,
}

impl Siblings {
    /// Children of this process inherit something from now on.
    pub fn add(&mut self, maker: i32) {
        if self.stacks.contains_key(&maker) {
            return;
        }
        if let Some(stack) = stack_of(maker) {
            self.stacks.insert(maker, stack);
            self.find_parent(maker);
        }
    }

    /// Nothing is inherited any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes in which parents have ended. To be called after news were read, and before they are
    /// looked into.
    pub fn keep_up(&mut self) {
        let mut events = [EpollEvent::empty(); 16];
        while let Some(Ok(count @ 1..)) =
            self.ends.as_ref().map(|ends| ends.wait(&mut events, EpollTimeout::ZERO))
        {
            for event in &events[..count] {
                let parent = i32::try_from(event.data()).unwrap_or(ANY);
                // The descriptor leaves epoll with this.
                drop(self.parents.remove(&parent));
                let makers = self.of_parent.get(&parent).cloned().unwrap_or_default();
                makers.into_iter().for_each(|maker| self.find_parent(maker));
            }
        }
    }

    /// The processes that may have made a child of this parent.
    pub fn makers_of(&self, child: i32, parent: i32) -> Vec<i32> {
        let of = |parent| self.of_parent.get(&parent).into_iter().flatten().copied();
        let mut makers: Vec<i32> = of(parent).chain(of(ANY)).collect();
        if makers.is_empty() {
            return makers;
        }
        // It runs in the memory of its maker, or in a copy. Where the parent's stack is at the same
        // address, and where the child has executed a program, it counts as the parent's own.
        let its = stack_of(child).filter(|&its| its != 0);
        makers.retain(|maker| its.is_some() && self.stacks.get(maker).copied() == its);
        if !makers.is_empty() && stack_of(parent) == its {
            makers.clear();
        }
        makers
    }

    fn find_parent(&mut self, maker: i32) {
        for _ in 0..TRIES {
            let Ok(parent) = parent_of(maker) else { return };
            let watched = self.watch(parent);
            // What was opened is the parent's only if that has not ended until now.
            if watched && parent_of(maker).is_ok_and(|now| now == parent) {
                self.of_parent.entry(parent).or_default().insert(maker);
                return;
            }
        }
        self.of_parent.entry(ANY).or_default().insert(maker);
    }

    /// Whether the end of this process will be known.
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
    use std::io::{BufRead, BufReader};
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

    #[test]
    fn the_makers_are_those_with_this_parent_and_the_same_stack() {
        let own = i32::try_from(std::process::id()).unwrap();
        let (mut maker, pid) = shell("echo $$; read x");
        // A copy of the maker is as a child of it would be.
        let mut siblings = Siblings::default();
        siblings.add(pid);
        assert_eq!(siblings.makers_of(pid, own), [pid]);
        assert!(siblings.makers_of(pid, 1).is_empty(), "another parent");
        assert!(siblings.makers_of(own, own).is_empty(), "another stack");
        siblings.clear();
        assert!(siblings.makers_of(pid, own).is_empty());
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
}
