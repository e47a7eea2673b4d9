// SPDX-License-Identifier: MIT OR Apache-2.0
//! The changes in force that a journal's lines amount to. No I/O.
use super::line::{Line, VERSION};
use super::what::{Thing, What};
use crate::limits::Resource;
use crate::member::MemberChange;
use crate::rule::Rule;
use crate::scheduling::SchedulingChange;
use crate::Identity;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// The changes in force, by their numbers, which rise.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Held {
    changes: BTreeMap<u64, What>,
    /// The changes of each thing, so that thousands of changes of other things cost nothing.
    of_things: HashMap<Thing, BTreeSet<u64>>,
    /// The changes of threads' scheduling.
    schedulings: BTreeSet<u64>,
    last: u64,
}

impl Held {
    /// The number that the next change gets.
    pub(crate) fn next(&self) -> u64 {
        self.last + 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(crate) fn get(&self, change: u64) -> Option<&What> {
        self.changes.get(&change)
    }

    pub(crate) fn get_mut(&mut self, change: u64) -> Option<&mut What> {
        self.changes.get_mut(&change)
    }

    /// The first first.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = (u64, &What)> {
        self.changes.iter().map(|(&change, what)| (change, what))
    }

    /// Whether a directory was made below this one that has not been removed yet.
    pub(crate) fn has_below(&self, path: &Path) -> bool {
        let is_below = |what: &What| match what {
            What::Directory(made) => made.path != path && made.path.starts_with(path),
            _ => false,
        };
        self.changes.values().any(is_below)
    }

    /// Changes of what threads run under, the first first.
    pub(crate) fn schedulings(&self) -> impl Iterator<Item = &SchedulingChange> {
        self.schedulings.iter().filter_map(|change| match self.changes.get(change) {
            Some(What::Scheduling(change)) => Some(change),
            _ => None,
        })
    }

    /// Whether a thread has this rule by one of the changes.
    pub(crate) fn gave(&self, tid: i32, rule: Rule) -> bool {
        self.schedulings().any(|change| change.gave(tid, rule))
    }

    /// Whether a thread is in a group of this change by a change of its own.
    pub(crate) fn moved(&self, thread_id: Identity, by: &MemberChange) -> bool {
        let thing = Thing::Member(thread_id, by.hierarchy.clone());
        let changes = self.of_things.get(&thing).into_iter().flatten();
        changes.filter_map(|change| self.get(*change)).any(|what| match what {
            What::Member(own) => own.ours.iter().any(|group| by.ours.contains(group)),
            _ => false,
        })
    }

    /// Whether a process has a limit by a change of its own.
    pub(crate) fn limited(&self, thread_id: Identity, resource: Resource) -> bool {
        let changes = self.of_things.get(&Thing::Limit(thread_id, resource));
        changes.is_some_and(|changes| !changes.is_empty())
    }

    /// Takes a line in. `false`: it makes no sense here, and nothing was taken.
    #[must_use]
    pub(crate) fn take(&mut self, line: Line) -> bool {
        match line {
            Line::Journal { .. } => false,
            Line::Note { change, what } => self.note(change, what),
            Line::Again { change, value } => {
                self.changes.get_mut(&change).is_some_and(|what| what.add(value))
            }
            Line::Done { change } => self.done(change),
        }
    }

    fn note(&mut self, change: u64, what: What) -> bool {
        let makes_sense = change > self.last && change < u64::MAX && what.is_sensible();
        if makes_sense {
            self.last = change;
            if let Some(thing) = what.thing() {
                if matches!(thing, Thing::Scheduling(_)) {
                    self.schedulings.insert(change);
                }
                self.of_things.entry(thing).or_default().insert(change);
            }
            self.changes.insert(change, what);
        }
        makes_sense
    }

    fn done(&mut self, change: u64) -> bool {
        let later = self.next_of_same_thing(change);
        let Some(before) = self.changes.remove(&change) else { return false };
        self.schedulings.remove(&change);
        if let Some(thing) = before.thing() {
            let none_is_left = self.of_things.get_mut(&thing).is_some_and(|changes| {
                changes.remove(&change);
                changes.is_empty()
            });
            if none_is_left {
                self.of_things.remove(&thing);
            }
        }
        // That one found our value there; what was there before ours is what it now gives back.
        if let Some(later) = later.and_then(|later| self.changes.get_mut(&later)) {
            later.take_over(before);
        }
        true
    }

    /// The next change after this one that changed the same thing once more.
    pub(crate) fn next_of_same_thing(&self, change: u64) -> Option<u64> {
        let changes = self.of_things.get(&self.get(change)?.thing()?)?;
        changes.range(change + 1..).next().copied()
    }
}

/// The content that was read from a journal.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Content {
    /// Which boot of the machine it is about; "" if it has no beginning.
    pub(crate) boot: String,
    pub(crate) held: Held,
    /// Lines that are none, counted from 1. Without a beginning, none counts.
    pub(crate) damaged: Vec<usize>,
    /// Bytes of all lines that have an end.
    pub(crate) length: usize,
}

/// Reads a journal. A last line without an end was being written when its owner was killed, so the
/// change was not made yet.
pub(crate) fn read(bytes: &[u8]) -> Content {
    let mut content = Content::default();
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    for (number, line) in lines.map_while(|line| line.strip_suffix(b"\n")).enumerate() {
        content.length += line.len() + 1;
        let line = Line::decode(line);
        if !line.is_some_and(|line| content.take(number, line)) {
            content.damaged.push(number + 1);
        }
    }
    content
}

impl Content {
    fn take(&mut self, number: usize, line: Line) -> bool {
        match line {
            Line::Journal { version: VERSION, boot } if number == 0 && !boot.is_empty() => {
                self.boot = boot;
                true
            }
            line => !self.boot.is_empty() && self.held.take(line),
        }
    }
}
