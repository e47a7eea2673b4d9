// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that messages advise, written so that they work when pasted into the user's shell.
//!
//! `tek` and the kernel lab call it while they write a message. It keeps no state, takes no lock
//! and never fails. Where it cannot know how the reader becomes root it writes `as root: COMMAND`.
mod capability;
mod package;
mod root;

pub use capability::{root_has, with_capabilities};
pub use package::{install, Package};
pub use root::{
    again_as_root, as_root, only_owner_writes, program, tool_as_root, write_as_root, Person,
};

/// Quotes a word for a shell, if it needs that.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_is_quoted_only_if_a_shell_would_read_more_into_it() {
        assert_eq!(quoted("/sys/fs/cgroup/cpu,cpuacct/x.rt"), "/sys/fs/cgroup/cpu,cpuacct/x.rt");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
