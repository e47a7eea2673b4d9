// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting a program of this benchmark: as it is, or by `tek run` with the setting's options.

use super::setting::Setting;
use crate::programs;
use anyhow::{bail, Context};
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::time::Duration;

/// The command; its arguments are to be added. `directory` is below bench/ in a build tree.
/// `around`: a command that runs the program, such as [`profiled`].
pub fn command(
    directory: &str,
    program: &str,
    setting: &Setting,
    cpus: usize,
    around: &[OsString],
) -> anyhow::Result<Command> {
    let program = programs::find(directory, program)?;
    let options = setting.options(cpus);
    let mut words: Vec<&OsStr> = Vec::new();
    let own = programs::tek()?;
    if !options.is_empty() {
        words.extend([own.as_os_str(), "run".as_ref(), "--no-rules".as_ref()]);
        words.extend(options.iter().map(OsStr::new));
        words.push("--".as_ref());
    }
    words.extend(around.iter().map(OsString::as_os_str));
    words.push(program.as_os_str());
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_remove("LD_PRELOAD");
    for (variable, _) in std::env::vars_os() {
        // The path of the library is no setting.
        if variable.to_string_lossy().starts_with("TEK_") && variable != "TEK_LIBRARY" {
            command.env_remove(variable);
        }
    }
    Ok(command)
}

/// `tek profile` with these options, to be `around` a program.
pub fn profiled(options: &[&OsStr]) -> anyhow::Result<Vec<OsString>> {
    let mut words = vec![programs::tek()?.into(), "profile".into()];
    words.extend(options.iter().map(OsString::from));
    words.push("--".into());
    Ok(words)
}

/// Runs a program that prints lines of JSON, and reads them. One that hangs is ended after `limit`.
pub fn run_lines<T: DeserializeOwned>(command: Command, limit: Duration) -> anyhow::Result<Vec<T>> {
    let printed = programs::output_within(command, limit)?;
    let printed = String::from_utf8(printed).context("it printed something else than text")?;
    let lines = printed.lines().map(serde_json::from_str::<T>);
    let lines: Vec<T> =
        lines.collect::<Result<_, _>>().context("it printed something else than JSON")?;
    if lines.is_empty() {
        bail!("it printed nothing");
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_document() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let limit = Duration::from_secs(9);
        assert_eq!(run_lines::<u32>(shell("echo 7; echo 8"), limit).unwrap(), [7, 8]);
        let error = run_lines::<u32>(shell("true"), limit).unwrap_err();
        assert!(error.to_string().contains("nothing"), "{error}");
    }
}
