// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules files: TOML, read with the place of every mistake, and written.
use crate::error::{Error, Reason};
use crate::rule::{Rule, MOST_RULES};
use crate::source::Source;
use crate::stack::StackSettings;
use serde::{Deserialize, Serialize};
use toml::ser::ValueSerializer;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Spanned<Rule>>,
    #[serde(default)]
    stack: Option<Spanned<StackSettings>>,
}

/// The content of a rules file.
#[derive(Debug, PartialEq)]
pub struct Contents {
    /// Its rules, in their order.
    pub rules: Vec<Rule>,
    /// Its settings of the Stack Tuner.
    pub stack: StackSettings,
}

/// The rules of a rules file.
pub fn parse(text: impl AsRef<[u8]>, file: &str) -> Result<Vec<Rule>, Error> {
    read(text, file).map(|contents| contents.rules)
}

/// Reads the text of a rules file. `file` is for messages and the rules' source.
pub fn read(text: impl AsRef<[u8]>, file: &str) -> Result<Contents, Error> {
    let source = Source { bytes: text.as_ref(), file };
    let parsed: File = source.parse(&["rule"])?;
    if let Some(rule) = parsed.rule.get(MOST_RULES) {
        return Err(source.error(rule.span().start, Reason::TooMany));
    }
    let stack = match parsed.stack {
        Some(stack) => {
            let StackSettings { low, high, .. } = *stack.get_ref();
            if low.zip(high).is_some_and(|(low, high)| low > high) {
                return Err(source.error(stack.span().start, Reason::Zones));
            }
            stack.into_inner()
        }
        None => StackSettings::default(),
    };
    let rules = parsed
        .rule
        .into_iter()
        .map(|rule| {
            let place = source.place(rule.span().start);
            Rule { source: place, ..rule.into_inner() }
        })
        .collect();
    Ok(Contents { rules, stack })
}

/// Writes rules as a rules file has them, one `[[rule]]` after the other. A single one can so be
/// written between comments.
pub fn to_toml(rules: &[Rule]) -> String {
    let mut text = String::new();
    for rule in rules {
        if !text.is_empty() {
            text.push('\n');
        }
        let (matches, set) = (inline(&rule.matches), inline(&rule.set));
        text.push_str(&format!("[[rule]]\nmatch = {matches}\nset = {set}\n"));
    }
    text
}

/// A value as an inline table.
fn inline(value: &impl Serialize) -> String {
    let mut text = String::new();
    value
        .serialize(ValueSerializer::new(&mut text))
        .expect("strings, numbers and booleans can be written as TOML");
    text
}
