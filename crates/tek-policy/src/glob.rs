// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shell patterns as fnmatch(3) takes them, refused where they cannot be meant.
use crate::cut::is_cut_from;
use crate::value::Invalid;
use serde::{Deserialize, Deserializer, Serialize};
use std::ffi::CString;
use std::fmt;
use tek_abi::options::{FUNCTION_PATTERN_BYTES, PATTERN_BYTES};

/// The kind of names that a pattern is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The name by which a program was called, without directories.
    Program,
    /// The name of a thread.
    Thread,
    /// The role of a thread.
    Role,
    /// The symbol of a start routine.
    Function,
}

impl Subject {
    /// libtek.so takes patterns of at most so many bytes.
    fn pattern_bytes(self) -> usize {
        match self {
            Self::Function => FUNCTION_PATTERN_BYTES as usize,
            _ => PATTERN_BYTES as usize,
        }
    }

    /// A name is at most so many bytes long.
    fn name_bytes(self) -> usize {
        match self {
            Self::Program | Self::Function => 255,
            Self::Thread => 15,
            Self::Role => 63,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Program => "the name of a program",
            Self::Thread => "the name of a thread",
            Self::Role => "a role",
            Self::Function => "the name of a function",
        }
    }
}

/// A pattern that something can match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Glob(String);

impl Glob {
    /// Takes a pattern for names of that kind.
    pub fn new(text: &str, subject: Subject) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Err(Invalid::EmptyGlob);
        }
        if text.chars().any(char::is_control) {
            return Err(Invalid::ControlInGlob);
        }
        if text.len() > subject.pattern_bytes() {
            return Err(Invalid::LongGlob { most: subject.pattern_bytes() });
        }
        let (least, most) = (shortest_match(text)?, subject.name_bytes());
        if least > most {
            return Err(Invalid::Unmatchable { least, most, what: subject.what() });
        }
        Ok(Self(text.to_owned()))
    }

    /// The pattern that only this name matches. U+FFFD in `name` stands for bytes that are no
    /// UTF-8.
    pub fn exactly(name: &str, subject: Subject) -> Result<Self, Invalid> {
        if name.contains(char::REPLACEMENT_CHARACTER) {
            return Err(Invalid::NotText);
        }
        let special = |c| matches!(c, '*' | '?' | '[' | '\\');
        let escaped: String =
            name.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect();
        Self::new(&escaped, subject)
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name of a process or thread fits the pattern, of which the kernel keeps 15
    /// bytes.
    pub fn matches_task(&self, name: &[u8]) -> bool {
        self.matches(name) || is_cut_from(name, &self.0)
    }

    /// Whether a name fits the pattern, as libtek.so sees it.
    pub fn matches(&self, name: &[u8]) -> bool {
        let (Ok(glob), Ok(name)) = (CString::new(self.0.as_str()), CString::new(name)) else {
            return false;
        };
        // SAFETY: both are NUL-terminated strings that outlive the call.
        unsafe { libc::fnmatch(glob.as_ptr(), name.as_ptr(), 0) == 0 }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fields of `match`, for serde: each has the kind of its names.
macro_rules! deserialize {
    ($($name:ident: $subject:expr;)*) => {$(
        pub(crate) fn $name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Glob>, D::Error> {
            let text = String::deserialize(from)?;
            Glob::new(&text, $subject).map(Some).map_err(serde::de::Error::custom)
        }
    )*};
}

deserialize! {
    program: Subject::Program;
    thread: Subject::Thread;
    role: Subject::Role;
    function: Subject::Function;
}

/// Length in bytes of the shortest name that a pattern of fnmatch(3) can match.
fn shortest_match(glob: &str) -> Result<usize, Invalid> {
    let mut rest = glob.as_bytes();
    let mut least = 0;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'*' => continue,
            b'\\' => rest = rest.split_first().ok_or(Invalid::Backslash)?.1,
            b'[' => rest = after_bracket(rest).ok_or(Invalid::Bracket)?,
            _ => {}
        }
        least += 1;
    }
    Ok(least)
}

/// The text behind a bracket expression; `inside` is the text behind its `[`.
fn after_bracket(inside: &[u8]) -> Option<&[u8]> {
    let mut at = usize::from(matches!(inside.first(), Some(b'!' | b'^')));
    // A `]` in first place stands for itself.
    if inside.get(at) == Some(&b']') {
        at += 1;
    }
    loop {
        match (inside.get(at)?, inside.get(at + 1)) {
            (b']', _) => return Some(&inside[at + 1..]),
            (b'\\', Some(_)) => at += 2,
            (b'[', Some(&kind @ (b':' | b'.' | b'='))) => {
                let end = inside[at + 2..].windows(2).position(|pair| pair == [kind, b']'])?;
                at += 2 + end + 2;
            }
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn thread(text: &str) -> Result<Glob, Invalid> {
        Glob::new(text, Subject::Thread)
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused() {
        for bad in ["", "[ab", "[", "[]", "[!]", "x\\", "[[:alpha:]", "a\nb"] {
            assert!(thread(bad).is_err(), "{bad:?} was taken");
        }
        for good in ["ui*", "[]x]", "[!]]*", "[[:alpha:]]", "a\\[b", "a,b;c%="] {
            assert!(thread(good).is_ok(), "{good:?} was refused");
        }
    }

    #[test]
    fn a_pattern_for_longer_names_than_there_are_is_refused() {
        for bad in ["a-name-of-16-byte", "??????????????[ab]x"] {
            assert!(matches!(thread(bad), Err(Invalid::Unmatchable { .. })), "{bad:?} was taken");
            assert!(Glob::new(bad, Subject::Program).is_ok());
        }
    }

    #[test]
    fn a_pattern_longer_than_the_library_takes_is_refused() {
        assert!(thread(&"*".repeat(63)).is_ok());
        assert!(thread(&"*".repeat(64)).is_err());
        assert!(Glob::new(&"*".repeat(255), Subject::Function).is_ok());
        assert!(Glob::new(&"*".repeat(256), Subject::Function).is_err());
    }

    #[test]
    fn patterns_match_as_fnmatch_does() {
        let glob = thread("crit-[a-c]*").unwrap();
        assert!(glob.matches(b"crit-a"));
        assert!(glob.matches(b"crit-b/2"));
        assert!(!glob.matches(b"crit-d"));
    }

    #[test]
    fn a_name_can_be_meant_exactly() {
        let glob = Glob::exactly("a*[b]?\\", Subject::Thread).unwrap();
        assert!(glob.matches(b"a*[b]?\\"));
        assert!(!glob.matches(b"ax[b]?\\"));
    }

    #[test]
    fn a_name_that_is_no_text_cannot_be_meant() {
        let name = String::from_utf8_lossy(b"\xff\xfe");
        assert_eq!(Glob::exactly(&name, Subject::Thread), Err(Invalid::NotText));
    }

    proptest! {
        #[test]
        fn a_bracket_is_closed_exactly_when_fnmatch_takes_it_for_a_set(
            inside in r"[\]!^a\\]{0,5}",
        ) {
            // An unclosed bracket is an ordinary character to fnmatch; then "[" + inside matches
            // a name that begins with "[".
            let glob = Glob(format!("[{inside}*"));
            let closed = after_bracket(inside.as_bytes()).is_some();
            if !closed && !inside.contains('\\') {
                let name = format!("[{inside}");
                prop_assert!(glob.matches(name.as_bytes()));
            }
        }
    }
}
