// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mistakes in files that people write.
use crate::rule::MOST_RULES;

/// A mistake in a rules file, with its place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {reason}")]
pub struct Error {
    /// The file's name, as it was given to [`crate::parse`].
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
    /// The kind of the mistake.
    pub reason: Reason,
}

/// A mistake in a rules file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A byte that begins no character.
    #[error("this is not UTF-8")]
    NotUtf8,
    /// Not TOML, an unknown key, or a value that makes no sense.
    #[error("{0}")]
    Toml(String),
    /// A table where a list of tables is wanted.
    #[error("write [[{0}]], in double brackets, above each {0}")]
    SingleBrackets(&'static str),
    /// More rules than libtek.so takes.
    #[error("this is rule {n}, at most {MOST_RULES} can be used", n = MOST_RULES + 1)]
    TooMany,
    /// Zones of a stack that overlap.
    #[error("low is above high: a stack cannot be in both zones")]
    Zones,
}
