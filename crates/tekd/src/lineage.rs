// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is born of Fast threads that are away from their control groups: such a child begins where its
//! creator is, and belongs where its creator was.
//!
//! The kernel tells of each birth ([`crate::exec_watch`]). What is known of a process stays until
//! [`Lineage::clear`], because news may come later than its thread is back. Pure.
use crate::exec_watch::Birth;
use std::collections::HashMap;
use tek_effect::Heirs;

/// Processes that were born are forgotten when there are more: their children count as others'.
const MOST_BORN: usize = 65_536;

/// How children of a process get back.
#[derive(Clone, Debug)]
pub enum Way {
    /// Out of the group of the Fast Region.
    OutOfFast,
    /// To where the thread was.
    Home(Box<Heirs>),
}

impl Way {
    fn leads_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OutOfFast, Self::OutOfFast) => true,
            (Self::Home(heirs), Self::Home(others)) => heirs.lead_as(others),
            _ => false,
        }
    }
}

/// A process that has, or had, a thread that is away.
struct Away {
    /// Of which it is a child: that of the process's siblings, which clone(2) can make.
    parent: i32,
    way: Way,
}

/// Whose child somebody is.
#[derive(Clone, Debug)]
pub struct Descent {
    /// The process with a thread that is away.
    pub process: i32,
    pub way: Way,
    /// The parent, if that is the process's parent, too.
    pub sibling_of: Option<i32>,
}

/// All of them.
#[derive(Default)]
pub struct Lineage {
    away: HashMap<i32, Away>,
    /// Processes that were born, and of which process with a thread that is away.
    born: HashMap<i32, i32>,
}

impl Lineage {
    pub fn is_empty(&self) -> bool {
        self.away.is_empty()
    }

    /// A thread of a process is away. What leads to the same place stays: it knows earlier children.
    pub fn add(&mut self, process: i32, parent: i32, way: Way) {
        let is_known = self.away.get(&process).is_some_and(|away| away.way.leads_as(&way));
        if !is_known {
            self.away.insert(process, Away { parent, way });
        }
    }

    /// No thread is away any more, and all news were heard.
    pub fn clear(&mut self) {
        self.away.clear();
        self.born.clear();
    }

    /// The ways of all processes.
    pub fn ways(&self) -> impl Iterator<Item = &Way> {
        self.away.values().map(|away| &away.way)
    }

    /// A process is of the line of another one that has, or had, a thread that is away.
    pub fn adopt(&mut self, born: i32, of: i32) {
        if self.born.len() < MOST_BORN {
            self.born.insert(born, of);
        }
    }

    /// Somebody was born; `None`: of others.
    pub fn note(&mut self, birth: Birth) -> Option<Descent> {
        let is_thread = birth.thread != birth.process;
        if !is_thread {
            self.born.remove(&birth.process); // of an earlier one with its id
        }
        let creator = if is_thread { birth.process } else { birth.parent };
        let line = match self.away.contains_key(&creator) {
            true => Some(creator),
            false => self.born.get(&creator).copied(),
        };
        let sibling = || {
            let is_sibling = |(_, away): &(&i32, &Away)| !is_thread && away.parent == birth.parent;
            self.away.iter().find(is_sibling).map(|(process, _)| *process)
        };
        let (process, sibling_of) = match line {
            Some(process) => (process, None),
            None => (sibling()?, Some(birth.parent)),
        };
        if !is_thread && sibling_of.is_none() {
            self.adopt(birth.process, process);
        }
        let way = self.away.get(&process)?.way.clone();
        Some(Descent { process, way, sibling_of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn born(lineage: &mut Lineage, parent: i32, thread: i32, process: i32) -> Option<(i32, bool)> {
        let birth = Birth { parent_thread: parent, parent, thread, process, at_ns: 0 };
        lineage.note(birth).map(|it| (it.process, it.sibling_of.is_some()))
    }

    #[test]
    fn children_and_theirs_and_threads_and_siblings_are_of_the_line_and_others_are_not() {
        let mut lineage = Lineage::default();
        lineage.add(10, 5, Way::OutOfFast);
        assert_eq!(born(&mut lineage, 10, 20, 20), Some((10, false)));
        assert_eq!(born(&mut lineage, 20, 30, 30), Some((10, false)));
        // The parent of a new thread is that of its process.
        assert_eq!(born(&mut lineage, 5, 11, 10), Some((10, false)));
        assert_eq!(born(&mut lineage, 10, 31, 30), Some((10, false)));
        // Only who looks at a sibling knows whether it was born where the thread is.
        assert_eq!(born(&mut lineage, 5, 40, 40), Some((10, true)));
        assert_eq!(born(&mut lineage, 40, 41, 41), None);
        lineage.adopt(40, 10);
        assert_eq!(born(&mut lineage, 40, 41, 41), Some((10, false)));
        assert_eq!(born(&mut lineage, 6, 50, 50), None);
        assert_eq!(born(&mut lineage, 5, 51, 50), None);
        // Its id is another process's by now.
        assert_eq!(born(&mut lineage, 6, 20, 20), None);
        assert_eq!(born(&mut lineage, 20, 52, 52), None);
        lineage.clear();
        assert_eq!(born(&mut lineage, 10, 60, 60), None);
        assert!(lineage.is_empty());
    }
}
