// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `tek run` as its tests parse them.
use clap::error::Error;
use clap::{Args, Parser};

#[derive(Parser)]
struct Line<T: Args> {
    #[command(flatten)]
    options: T,
}

pub fn tried<T: Args>(words: impl IntoIterator<Item = impl Into<String>>) -> Result<T, Error> {
    let words = words.into_iter().map(Into::into);
    let line: Line<T> = Line::try_parse_from(["tek".to_owned()].into_iter().chain(words))?;
    Ok(line.options)
}

/// The options in a text, with blanks between its words.
pub fn parsed<T: Args>(text: &str) -> T {
    tried(text.split_whitespace()).unwrap_or_else(|error| panic!("{text}: {error}"))
}
