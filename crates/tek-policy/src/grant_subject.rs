// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subjects of a grant: users, groups, and patterns of paths.
use crate::cut::is_cut_from;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::Deserialize;
use std::ffi::{CStr, CString};
use std::fmt;
use std::path::Path;

/// A user that a grant is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// `*`.
    Everybody,
    /// `@active`: the user that sits at the device.
    Active,
    /// By number.
    Id(u32),
    /// By a name that is not resolved yet, or that no user has.
    Name(String),
}

impl User {
    /// Whether it is this user. A name that is not resolved matches no user.
    pub fn is(&self, uid: u32, active: bool) -> bool {
        match self {
            Self::Everybody => true,
            Self::Active => active,
            Self::Id(id) => *id == uid,
            Self::Name(_) => false,
        }
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("*"),
            Self::Active => f.write_str("@active"),
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A group that a grant is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// By number.
    Id(u32),
    /// By a name that is not resolved yet, or that no group has.
    Name(String),
}

impl Group {
    /// Whether it is one of these. A name that is not resolved matches no group.
    pub fn is_among(&self, gids: &[u32]) -> bool {
        matches!(self, Self::Id(id) if gids.contains(id))
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A name or a number.
enum Named {
    Id(u32),
    Name(String),
}

struct NamedVisitor(&'static str);

impl Visitor<'_> for NamedVisitor {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<Named, E> {
        // The last number means "no change" to the kernel.
        match u32::try_from(id) {
            Ok(id) if id != u32::MAX => Ok(Named::Id(id)),
            _ => Err(E::invalid_value(Unexpected::Signed(id), &self)),
        }
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Named, E> {
        match name.is_empty() || name.chars().any(char::is_control) {
            true => Err(E::invalid_value(Unexpected::Str(name), &self)),
            false => Ok(Named::Name(name.to_owned())),
        }
    }
}

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let what = "a user's name or number, \"@active\" or \"*\"";
        Ok(match from.deserialize_any(NamedVisitor(what))? {
            Named::Id(id) => Self::Id(id),
            Named::Name(name) if name == "*" => Self::Everybody,
            Named::Name(name) if name == "@active" => Self::Active,
            Named::Name(name) if name.starts_with('@') => {
                return Err(D::Error::invalid_value(Unexpected::Str(&name), &what))
            }
            Named::Name(name) => Self::Name(name),
        })
    }
}

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match from.deserialize_any(NamedVisitor("a group's name or number"))? {
            Named::Id(id) => Self::Id(id),
            Named::Name(name) => Self::Name(name),
        })
    }
}

/// A shell pattern for a path, which begins with a slash, or for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(CString);

impl Pattern {
    /// Takes a pattern; `None` where it holds a NUL.
    pub fn new(text: &str) -> Option<Self> {
        CString::new(text).ok().map(Self)
    }

    /// The pattern that only this path fits; `None` where it is not UTF-8, which no pattern is.
    pub fn of_path(path: &Path) -> Option<Self> {
        let mut text = String::new();
        for character in path.to_str()?.chars() {
            if matches!(character, '*' | '?' | '[' | '\\') {
                text.push('\\');
            }
            text.push(character);
        }
        Self::new(&text)
    }

    /// The pattern, as fnmatch(3) and glob(3) take it.
    pub fn as_c_str(&self) -> &CStr {
        &self.0
    }

    /// Whether a text fits it; `*` stands for slashes, too.
    pub fn matches(&self, text: &str) -> bool {
        self.fits(text, 0)
    }

    /// Whether the name of a process fits it, of which the kernel keeps 15 bytes.
    pub fn matches_process(&self, name: &str) -> bool {
        self.matches(name) || is_cut_from(name.as_bytes(), &self.0.to_string_lossy())
    }

    /// Whether the path of a file fits it; `*` and `?` are no slashes.
    pub fn is_path_of(&self, path: &str) -> bool {
        self.fits(path, libc::FNM_PATHNAME)
    }

    fn fits(&self, text: &str, flags: i32) -> bool {
        let Ok(text) = CString::new(text) else { return false };
        // SAFETY: both are NUL-terminated strings that outlive the call.
        unsafe { libc::fnmatch(self.0.as_ptr(), text.as_ptr(), flags) == 0 }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_string_lossy().fmt(f)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match Self::new(&text) {
            Some(pattern) if !text.is_empty() => Ok(pattern),
            _ => Err(D::Error::custom("the pattern is empty: write a shell pattern, as in /usr/*")),
        }
    }
}

/// A list of patterns for paths.
pub(crate) fn paths<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Pattern>, D::Error> {
    let patterns = Vec::<Pattern>::deserialize(from)?;
    for pattern in &patterns {
        let text = pattern.0.to_string_lossy();
        if !text.starts_with(['/', '*']) {
            let wrong = format!("`{text}` is no path: begin it with a slash");
            return Err(D::Error::custom(wrong));
        }
    }
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_the_characters_of_patterns_fits_its_own_pattern_alone() {
        let pattern = Pattern::of_path(Path::new(r"/opt/a*[b]?\c")).unwrap();
        assert!(pattern.is_path_of(r"/opt/a*[b]?\c"));
        assert!(!pattern.is_path_of(r"/opt/axb?\c") && !pattern.is_path_of(r"/opt/a*bx\c"));
    }
}
