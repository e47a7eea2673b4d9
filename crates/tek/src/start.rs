// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts `tek bench` and `tek lab`.
use crate::run::inherited;
use anyhow::{anyhow, Error};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use tek_command::companion::Companion;

/// Becomes the program of that command, which finds everything as tek's caller left it. Returns the
/// error if it cannot.
pub fn instead(companion: &Companion, words: Vec<OsString>) -> Error {
    let program = match companion.find() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let all = std::iter::once(program.clone().into_os_string()).chain(words);
    let all: Result<Vec<_>, _> = all.map(|word| CString::new(word.into_vec())).collect();
    let Ok(all) = all else { return anyhow!("a word contains a null byte") };
    inherited::restore();
    let Err(error) = nix::unistd::execv(&all[0], &all);
    anyhow!("cannot start {}: {}", program.display(), error.desc())
}
