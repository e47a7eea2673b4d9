// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds programs of this machine.
use std::path::PathBuf;

/// A program in PATH, or in the directories of root's programs, which the PATH of a user may lack.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    tek_advice::program(program, &["/usr/sbin", "/sbin"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_root_has_its_own() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("no-such-program"), None);
    }
}
