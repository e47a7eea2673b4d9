// SPDX-License-Identifier: MIT OR Apache-2.0
//! One check: its answer, its finding and its cure.
use serde::Serialize;
use tek_advice::tool_as_root;

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It exists, or can be done.
    Yes,
    /// It does not exist, or cannot be done.
    No,
    /// Neither good nor bad.
    Info,
    /// The answer could not be determined.
    Unknown,
}

/// One check.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Name for scripts; it never changes.
    pub id: &'static str,
    /// Answer.
    pub answer: Answer,
    /// The finding, in words.
    pub found: String,
    /// The cure for a `no`.
    pub cure: Option<String>,
}

/// The answer yes.
pub fn yes(id: &'static str, found: impl Into<String>) -> Check {
    Check { id, answer: Answer::Yes, found: found.into(), cure: None }
}

/// A finding that is neither good nor bad.
pub fn info(id: &'static str, found: impl Into<String>) -> Check {
    Check { answer: Answer::Info, ..yes(id, found) }
}

/// The answer no, with its cure.
pub fn no(id: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Check {
    Check { id, answer: Answer::No, found: found.into(), cure: Some(cure.into()) }
}

/// No answer.
pub fn unknown(id: &'static str, found: impl Into<String>) -> Check {
    Check { answer: Answer::Unknown, ..yes(id, found) }
}

/// The cure for a check that only root passes: run it as root, or get these capabilities.
pub fn root_or(capabilities: &[&str]) -> String {
    let ways = tek_advice::with_capabilities(capabilities).replace('\n', "\nor ");
    match nix::unistd::geteuid().is_root() {
        true => ways,
        false => {
            format!("root has it, and so tekd: {}\nor {ways}", tool_as_root("tek", "doctor"))
        }
    }
}
