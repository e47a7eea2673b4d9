// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of a file that people write, and where in it something is wrong.
use crate::error::{Error, Reason};
use serde::de::DeserializeOwned;
use toml::Spanned;

/// The bytes of a file, and its name for messages.
pub(crate) struct Source<'a> {
    pub bytes: &'a [u8],
    pub file: &'a str,
}

impl Source<'_> {
    /// What is wrong at a byte.
    pub fn error(&self, offset: usize, reason: Reason) -> Error {
        let (line, column) = position(self.bytes, offset);
        Error { file: self.file.to_owned(), line, column, reason }
    }

    /// File name and line of a byte, for later messages.
    pub fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.file, position(self.bytes, offset).0)
    }

    /// Reads it as TOML that holds lists of tables, which are named.
    pub fn parse<T: DeserializeOwned>(&self, tables: &[&'static str]) -> Result<T, Error> {
        let text = std::str::from_utf8(self.bytes)
            .map_err(|error| self.error(error.valid_up_to(), Reason::NotUtf8))?;
        toml::from_str(text).map_err(|error| {
            let single = |table| Some((single_brackets(text, table)?, table));
            match tables.iter().copied().find_map(single) {
                Some((start, table)) => self.error(start, Reason::SingleBrackets(table)),
                None => {
                    let start = error.span().map_or(0, |span| span.start);
                    self.error(start, Reason::Toml(error.message().replace('\n', ", ")))
                }
            }
        })
    }

    /// Makes something of each of several tables, which gets to know where it is written.
    pub fn each<T, U>(
        &self,
        tables: Vec<Spanned<T>>,
        make: impl Fn(T, String) -> Result<U, String>,
    ) -> Result<Vec<U>, Error> {
        let made = tables.into_iter().map(|table| {
            let start = table.span().start;
            make(table.into_inner(), self.place(start))
                .map_err(|wrong| self.error(start, Reason::Toml(wrong)))
        });
        made.collect()
    }
}

/// Where a line `[table]` begins. It is the commonest mistake: the parser speaks of a sequence, or,
/// of two such lines, of a duplicate key.
fn single_brackets(text: &str, table: &str) -> Option<usize> {
    let header = format!("[{table}]");
    let mut start = 0;
    text.split_inclusive('\n').find_map(|line| {
        let this = start;
        start += line.len();
        line.trim_start().starts_with(&header).then_some(this)
    })
}

/// Line and column, from 1, of a byte.
fn position(text: &[u8], offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    (line, String::from_utf8_lossy(&before[line_start..]).chars().count() + 1)
}
