// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of rules on a thread: the reference for lib/mediate/rules.c, which applies them.
use crate::budget::Budget;
use crate::glob::Glob;
use crate::rule::{Group, Match, Rule};
use crate::value::{Priority, Role};

/// The properties of a thread that rules match. The bytes come from a foreign process, so they need
/// not be UTF-8. An empty name counts as no name: no pattern fits it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The name by which the program was called, without directories.
    pub program: &'a [u8],
    /// The name that was set for this very thread.
    pub thread: Option<&'a [u8]>,
    /// The role that the program gave it.
    pub role: Option<&'a [u8]>,
    /// Symbol of its start routine.
    pub function: Option<&'a [u8]>,
}

/// A value, and which rule set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// The value.
    pub value: T,
    /// The rule's number, from 1.
    pub rule: usize,
}

/// The values that the rules set; `None`: no rule sets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Its role.
    pub role: Option<Given<&'a Role>>,
    /// Its group.
    pub group: Option<Given<Group>>,
    /// Whether it is time-critical.
    pub critical: Option<Given<bool>>,
    /// Whether it is marked.
    pub mark: Option<Given<bool>>,
    /// Its SCHED_TEK priority, if it is time-critical.
    pub priority: Option<Given<Priority>>,
    /// Its budget.
    pub budget: Option<Given<Budget>>,
}

/// Tries the rules in order. For each thing the last matching rule that sets it wins, and a
/// pattern for roles sees the role as the rules before it left it.
pub fn decide<'a>(rules: &'a [Rule], facts: &Facts<'_>) -> Decision<'a> {
    let mut decision = Decision::default();
    for (rule, number) in rules.iter().zip(1..) {
        let given_role = decision.role.map(|role| role.value.as_str().as_bytes());
        let facts = Facts { role: given_role.or(facts.role), ..*facts };
        if !is_meant(&rule.matches, &facts) {
            continue;
        }
        let set = &rule.set;
        give(&mut decision.role, set.role.as_ref(), number);
        give(&mut decision.group, set.group, number);
        give(&mut decision.critical, set.critical, number);
        give(&mut decision.mark, set.mark, number);
        give(&mut decision.priority, set.priority, number);
        give(&mut decision.budget, set.budget, number);
    }
    decision
}

fn give<T>(decided: &mut Option<Given<T>>, value: Option<T>, rule: usize) {
    if let Some(value) = value {
        *decided = Some(Given { value, rule });
    }
}

fn is_meant(matches: &Match, facts: &Facts<'_>) -> bool {
    // An empty name is none: not even `*` fits it.
    fn fits(glob: &Option<Glob>, name: Option<&[u8]>) -> bool {
        let name = name.filter(|name| !name.is_empty());
        glob.as_ref().is_none_or(|glob| name.is_some_and(|name| glob.matches(name)))
    }
    fits(&matches.program, Some(facts.program))
        && fits(&matches.thread, facts.thread)
        && fits(&matches.role, facts.role)
        && fits(&matches.function, facts.function)
}
