// SPDX-License-Identifier: MIT OR Apache-2.0
//! A rule: which threads it means, and what it sets of them.
use crate::budget::Budget;
use crate::glob::{self, Glob};
use crate::value::{Invalid, Priority, Role};
use serde::de::{Deserialize, Deserializer, Error};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use tek_abi::options::GROUP_NAMES;

/// libtek.so takes at most so many rules.
pub const MOST_RULES: usize = tek_abi::options::MAX_RULES as usize;

/// One `[[rule]]` of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Which threads it means: those that all given patterns match. At least one is given.
    #[serde(rename = "match", deserialize_with = "not_empty_match")]
    pub matches: Match,
    /// What it sets of them, at least one thing.
    #[serde(deserialize_with = "not_empty_set")]
    pub set: Set,
    /// Where it comes from, as `FILE:LINE`, for a person to find it.
    #[serde(skip)]
    pub source: String,
}

/// Patterns that a thread must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// What its program was called by (argv[0]), without directories.
    #[serde(default, deserialize_with = "glob::program", skip_serializing_if = "Option::is_none")]
    pub program: Option<Glob>,
    /// Its name, if that was set for this very thread.
    #[serde(default, deserialize_with = "glob::thread", skip_serializing_if = "Option::is_none")]
    pub thread: Option<Glob>,
    /// The symbol of its start routine, as nm(1) prints it.
    #[serde(default, deserialize_with = "glob::function", skip_serializing_if = "Option::is_none")]
    pub function: Option<Glob>,
    /// Its role, given by its program or by an earlier rule.
    #[serde(default, deserialize_with = "glob::role", skip_serializing_if = "Option::is_none")]
    pub role: Option<Glob>,
}

/// What a rule sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// Whether it is time-critical: in the Fast Region while the rule matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<bool>,
    /// Whether it is marked: it follows a request of its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<bool>,
    /// Its SCHED_TEK priority, if it is time-critical by a rule; 0 if none says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Its own budget, instead of that of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

fn not_empty_match<'de, D: Deserializer<'de>>(from: D) -> Result<Match, D::Error> {
    let matches = Match::deserialize(from)?;
    if matches == Match::default() {
        return Err(D::Error::custom(
            "the rule matches everything: give program, thread, function or role, as in \
             match = { thread = \"ui*\" }",
        ));
    }
    Ok(matches)
}

fn not_empty_set<'de, D: Deserializer<'de>>(from: D) -> Result<Set, D::Error> {
    let set = Set::deserialize(from)?;
    if set == Set::default() {
        return Err(D::Error::custom(
            "the rule sets nothing: give role, group, critical, mark, priority or budget, as in \
             set = { critical = true }",
        ));
    }
    Ok(set)
}

/// A group of threads (cpu-mediator-2019, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// On the screen; where every thread starts.
    Normal,
    /// On the screen and interacting with the user.
    Urgent,
    /// Daemons.
    Service,
    /// At work, invisible to the user.
    Background,
}

impl Group {
    /// All of them, by number.
    pub const ALL: [Self; GROUP_NAMES.len()] =
        [Self::Normal, Self::Urgent, Self::Service, Self::Background];

    /// Its name in rules.
    pub fn name(self) -> &'static str {
        // Both are in the order of the numbers.
        GROUP_NAMES[self as usize].name
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Group {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let named = Self::ALL.into_iter().find(|group| group.name() == text);
        named.ok_or_else(|| Invalid::Group(text.to_owned()))
    }
}
