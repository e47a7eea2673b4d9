// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that are more than a word: roles and priorities, and what can be wrong with any value.
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The mistake in a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A pattern without a character.
    #[error("the pattern is empty: write a shell pattern, as in ui* or touch")]
    EmptyGlob,
    /// A pattern that no name can match.
    #[error("a pattern cannot contain control characters")]
    ControlInGlob,
    /// A name that is not UTF-8.
    #[error("the name is not UTF-8, so no pattern can be it alone")]
    NotText,
    /// A pattern that libtek.so has no room for.
    #[error("the pattern is longer than {most} bytes: shorten it with *")]
    LongGlob {
        /// Bytes that a pattern of this kind may have.
        most: usize,
    },
    /// A pattern for longer names than there can be.
    #[error("nothing can match: the pattern needs {least} bytes, and {what} has at most {most}")]
    Unmatchable {
        /// Bytes of the shortest name that matches.
        least: usize,
        /// Bytes of the longest name that there can be.
        most: usize,
        /// The kind of the name.
        what: &'static str,
    },
    /// A backslash that escapes nothing.
    #[error("the pattern ends in a backslash: write \\\\")]
    Backslash,
    /// A bracket expression without its end.
    #[error("the bracket `[` is not closed: write [abc], or \\[ for the character")]
    Bracket,
    /// No SCHED_TEK priority.
    #[error("`{0}` is no priority: it is a nice value from -20 to 19")]
    Priority(String),
    /// There is no group of that name.
    #[error("`{0}` is no group: there are normal, urgent, service and background")]
    Group(String),
    /// Not in the form of a budget.
    #[error("write CPU/WINDOW with units ns, us, ms or s, as in 800ms/1s, or off")]
    BudgetForm,
    /// A window that the guard cannot watch.
    #[error("the window must be from 10ms to 3600s")]
    Window,
    /// More than all.
    #[error("a thread cannot use more CPU time than the window is long")]
    MoreThanTheWindow,
    /// A budget of 0.
    #[error("a budget of nothing; to switch the guard off write off")]
    NoBudget,
    /// A role without a character.
    #[error("the role is empty: say in a few words what the thread is for")]
    EmptyRole,
    /// A role that the table has no room for.
    #[error("the role is {0} bytes long, at most {most} fit", most = Role::MOST_BYTES)]
    LongRole(usize),
    /// A role that would spoil the terminal it is shown on.
    #[error("a role cannot contain control characters")]
    ControlInRole,
}

/// The purpose of a thread, as a person writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Role(String);

impl Role {
    /// The thread table has room for so many bytes.
    pub const MOST_BYTES: usize = tek_abi::ROLE_BYTES - 1;

    /// The role as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Role {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Err(Invalid::EmptyRole);
        }
        if text.len() > Self::MOST_BYTES {
            return Err(Invalid::LongRole(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(Invalid::ControlInRole);
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Role {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A SCHED_TEK priority: a nice value, -20 (first) to 19 (last).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub struct Priority(i8);

impl Priority {
    /// The nice value.
    pub fn nice(self) -> i32 {
        self.0.into()
    }
}

impl TryFrom<i64> for Priority {
    type Error = Invalid;

    fn try_from(number: i64) -> Result<Self, Invalid> {
        match i8::try_from(number) {
            Ok(nice @ -20..=19) => Ok(Self(nice)),
            _ => Err(Invalid::Priority(number.to_string())),
        }
    }
}

impl FromStr for Priority {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        text.parse::<i64>()
            .ok()
            .filter(|_| !text.starts_with('+')) // libtek.so takes none
            .and_then(|number| number.try_into().ok())
            .ok_or_else(|| Invalid::Priority(text.to_owned()))
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_a_few_words() {
        assert_eq!("gas detection".parse::<Role>().unwrap().as_str(), "gas detection");
        assert!("ä".repeat(31).parse::<Role>().is_ok());
        assert_eq!("ä".repeat(32).parse::<Role>(), Err(Invalid::LongRole(64)));
        assert_eq!("".parse::<Role>(), Err(Invalid::EmptyRole));
        assert_eq!("a\x1b[31m".parse::<Role>(), Err(Invalid::ControlInRole));
    }

    #[test]
    fn a_priority_is_a_nice_value() {
        for nice in -20..=19 {
            assert_eq!(nice.to_string().parse::<Priority>().unwrap().nice(), nice);
        }
        for bad in ["-21", "20", "", "x", "+1", " 1", "1.5", "99999999999999999999"] {
            assert!(bad.parse::<Priority>().is_err(), "{bad:?} was taken");
        }
    }
}
