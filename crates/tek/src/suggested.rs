// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options whose values have names, and a form beyond them: `--sort cpu:desc`, `--alloc pool=64M`.
//! The names are what shells complete, and what clap tells of an option without a value.
use clap::builder::{PossibleValue, TypedValueParser};
use std::ffi::OsStr;

/// A parser that knows names.
#[derive(Clone)]
pub struct Suggested<T> {
    /// Reads a value, a name or not.
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
