// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding and running the benchmark programs.

use anyhow::{bail, Context};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `tek` itself is: variants that run under TEK start it again.
pub fn own_executable() -> anyhow::Result<PathBuf> {
    let link = std::env::current_exe().context("cannot tell where tek itself is")?;
    link.canonicalize().with_context(|| format!("cannot resolve {}", link.display()))
}

/// The program NAME of the benchmark BENCH, in a build tree or as installed.
pub fn find(bench: &str, name: &str) -> anyhow::Result<PathBuf> {
    let own = own_executable()?;
    let bin = own.parent().unwrap_or(Path::new("/"));
    let places =
        [bin.join("../bench").join(bench).join(name), bin.join("../libexec/tek").join(name)];
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.canonicalize()?),
        None => bail!(
            "the benchmark program {name} is missing: neither {} nor {} exists; build it with \
             `make build`, or install TEK again",
            places[0].display(),
            places[1].display()
        ),
    }
}

/// Runs a program that prints one JSON document, and reads it.
pub fn run_json<T: serde::de::DeserializeOwned>(command: &mut Command) -> anyhow::Result<T> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!("{:?} failed: {}", command.get_program(), output.status);
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{:?} printed something else than JSON", command.get_program()))
}
