// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that accept names and other values: `--sort cpu:desc`, `--alloc pool=64M`. Shells
//! complete the names, and clap lists them for an option without a value.
use clap::builder::{PossibleValue, TypedValueParser};
use std::ffi::OsStr;

/// A parser of such an option.
#[derive(Clone)]
pub struct Suggested<T> {
    /// Parses any value.
    pub parse: fn(&str) -> Result<T, String>,
    /// The names.
    pub names: fn() -> Vec<PossibleValue>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Suggested<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter()))
    }
}
