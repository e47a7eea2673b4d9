// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shell patterns, as fnmatch(3) takes them and libtek.so does too.
use std::ffi::CString;
use std::str::FromStr;

/// A pattern.
#[derive(Clone, Debug)]
pub struct Glob(CString);

impl Glob {
    /// Whether all of a text fits it; a text with a NUL never does.
    pub fn matches(&self, text: &[u8]) -> bool {
        let Ok(text) = CString::new(text) else { return false };
        // SAFETY: both are NUL-terminated strings that outlive the call.
        unsafe { libc::fnmatch(self.0.as_ptr(), text.as_ptr(), 0) == 0 }
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        CString::new(text).map(Self).map_err(|_| "a pattern cannot hold a NUL byte".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_the_whole_text_or_not_at_all() {
        let glob: Glob = "gas*[0-9]".parse().unwrap();
        assert!(glob.matches(b"gas-sensor7"));
        assert!(!glob.matches(b"gas-sensor"));
        assert!(!glob.matches(b"gas\x007"));
        assert!("a\0b".parse::<Glob>().is_err());
    }
}
