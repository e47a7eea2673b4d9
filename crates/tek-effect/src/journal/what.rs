// SPDX-License-Identifier: MIT OR Apache-2.0
//! A change of any kind.
use crate::directory::{DirectoryChange, Place};
use crate::file::{Content, FileChange};
use crate::limit::{Keeps, LimitChange};
use crate::member::MemberChange;
use crate::scheduling::SchedulingChange;
use crate::{Error, Identity, Resource, Scheduling, Undone};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The previous values and the values that were set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum What {
    Scheduling(SchedulingChange),
    Limit(LimitChange),
    File(FileChange),
    Directory(DirectoryChange),
    Member(MemberChange),
}

/// The key that all changes of one thing share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Thing {
    Scheduling(Identity),
    Limit(Identity, Resource),
    File(PathBuf),
    Member(Identity, String),
}

/// Another value of a change that is noted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Value {
    Scheduling(Scheduling),
    Content(Content),
    Place(Place),
}

impl What {
    /// Threads keep policies that other changes gave them, as `keeps` says.
    pub(crate) fn undo(&self, keeps: &Keeps) -> Result<Undone, Error> {
        let undone = match self {
            Self::Scheduling(change) => change.undo(),
            Self::Limit(change) => change.undo(keeps),
            Self::File(change) => change.undo(),
            Self::Directory(change) => change.undo(),
            Self::Member(change) => change.undo(),
        };
        match undone {
            Err(Error::Gone { .. }) => Ok(Undone::Gone),
            undone => undone,
        }
    }

    /// Counts another value as ours, beside the one before: which of both is in force is not known
    /// until it was set. `false`: it is of another kind.
    pub(crate) fn add(&mut self, value: Value) -> bool {
        match (self, value) {
            (Self::Scheduling(change), Value::Scheduling(value)) => {
                keep_last(&mut change.ours, value);
            }
            (Self::File(change), Value::Content(value)) => {
                keep_last(&mut change.ours, value);
                change.is_unsettled = false;
            }
            (Self::Directory(change), Value::Place(place)) => change.made = Some(place),
            _ => return false,
        }
        true
    }

    /// The thing that was changed; `None`: it cannot be changed twice.
    pub(crate) fn thing(&self) -> Option<Thing> {
        match self {
            Self::Scheduling(change) => Some(Thing::Scheduling(change.thread_id)),
            Self::Limit(change) => Some(Thing::Limit(change.thread_id, change.resource)),
            Self::File(change) => Some(Thing::File(change.path.clone())),
            Self::Member(change) => Some(Thing::Member(change.thread_id, change.hierarchy.clone())),
            Self::Directory(_) => None,
        }
    }

    /// Takes over an earlier change of the same thing, which ends: this change then restores its
    /// values.
    pub(crate) fn take_over(&mut self, before: Self) {
        match (self, before) {
            (Self::Scheduling(change), Self::Scheduling(before)) => {
                change.was = before.was;
                change.right = before.right;
                put_before(&mut change.ours, before.ours);
            }
            (Self::Limit(change), Self::Limit(before)) => {
                change.was = before.was;
                put_before(&mut change.ours, before.ours);
            }
            (Self::File(change), Self::File(before)) => {
                change.was = before.was;
                put_before(&mut change.ours, before.ours);
            }
            (Self::Member(change), Self::Member(before)) => {
                change.was = before.was;
                put_before(&mut change.ours, before.ours);
            }
            _ => {}
        }
    }

    /// Whether it could have been noted by us, and is safe to undo.
    pub(crate) fn is_sensible(&self) -> bool {
        match self {
            Self::Scheduling(change) => change.is_sensible(),
            Self::Limit(change) => change.is_sensible(),
            Self::File(change) => change.is_sensible(),
            Self::Directory(change) => change.is_sensible(),
            Self::Member(change) => change.is_sensible(),
        }
    }
}

fn keep_last<T: PartialEq>(ours: &mut Vec<T>, value: T) {
    if ours.last() != Some(&value) {
        ours.drain(..ours.len().saturating_sub(1));
        ours.push(value);
    }
}

fn put_before<T: PartialEq>(ours: &mut Vec<T>, mut before: Vec<T>) {
    before.retain(|value| !ours.contains(value));
    ours.splice(0..0, before);
}
