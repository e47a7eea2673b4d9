// SPDX-License-Identifier: MIT OR Apache-2.0
//! The content of a cell: in units for people, unchanged for programs.
use crate::units::{size, time};
use serde_json::json;
use std::cmp::Ordering;
use tek_abi::{printable, printable_lines};

/// A value of a thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not known, not measured, or it has none.
    None,
    /// A name: any text, which [`Value::human`] makes fit for a terminal.
    Text(String),
    /// A yes or no.
    Flag(bool),
    /// A number of something.
    Count(u64),
    /// A number on a scale that goes below 0.
    Level(i64),
    /// A size.
    Bytes(u64),
    /// A time in ns.
    Time(u64),
    /// A share of a CPU, or of the time.
    Percent(f64),
    /// A number of something in a second.
    Rate(f64),
}

impl Value {
    /// The value of an option.
    pub fn of<T>(value: Option<T>, kind: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::None, kind)
    }

    /// As text for people.
    pub fn human(&self) -> String {
        match self {
            Self::None | Self::Flag(false) => "-".into(),
            Self::Text(text) => printable(text.as_bytes()),
            Self::Flag(true) => "yes".into(),
            Self::Count(count) => count.to_string(),
            Self::Level(level) => level.to_string(),
            Self::Bytes(bytes) => size(*bytes),
            Self::Time(ns) => time(*ns),
            Self::Percent(percent) => format!("{percent:.1}"),
            Self::Rate(rate) if *rate >= 100.0 => format!("{rate:.0}"),
            Self::Rate(rate) => format!("{rate:.1}"),
        }
    }

    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::None => serde_json::Value::Null,
            Self::Text(text) => json!(text),
            Self::Flag(flag) => json!(flag),
            Self::Count(number) | Self::Bytes(number) | Self::Time(number) => json!(number),
            Self::Level(level) => json!(level),
            Self::Percent(number) | Self::Rate(number) => {
                json!((number * 1000.0).round() / 1000.0)
            }
        }
    }

    /// As a field of CSV (RFC 4180), for a terminal or for programs; empty if unknown.
    pub fn csv(&self, for_terminal: bool) -> String {
        match self {
            Self::None => String::new(),
            Self::Text(text) => {
                // A line end has a meaning of its own in CSV: it stays, quoted.
                let text = if for_terminal { printable_lines(text) } else { text.clone() };
                match text.contains(|c: char| ",\"".contains(c) || c.is_control()) {
                    true => format!("\"{}\"", text.replace('"', "\"\"")),
                    false => text,
                }
            }
            other => other.json().to_string(),
        }
    }

    /// The order of two values of one column; unknown values come first.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Flag(a), Self::Flag(b)) => a.cmp(b),
            (Self::Count(a), Self::Count(b))
            | (Self::Bytes(a), Self::Bytes(b))
            | (Self::Time(a), Self::Time(b)) => a.cmp(b),
            (Self::Level(a), Self::Level(b)) => a.cmp(b),
            (Self::Percent(a), Self::Percent(b)) | (Self::Rate(a), Self::Rate(b)) => a.total_cmp(b),
            (Self::None, Self::None) => Ordering::Equal,
            (Self::None, _) => Ordering::Less,
            (_, Self::None) => Ordering::Greater,
            _ => Ordering::Equal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_units_and_programs_plain_numbers() {
        assert_eq!(Value::Time(12_000_000).human(), "12ms");
        assert_eq!(Value::Bytes(4096).human(), "4.0K");
        assert_eq!(Value::Time(12_000_000).json(), json!(12_000_000));
        assert_eq!([2.04, 1234.5].map(|rate| Value::Rate(rate).human()), ["2.0", "1234"]);
        assert_eq!(Value::Rate(1234.5).json(), json!(1234.5));
        assert_eq!(Value::None.human(), "-");
        assert_eq!(Value::None.json(), json!(null));
    }

    #[test]
    fn a_name_cannot_break_out_of_its_field_of_csv() {
        assert_eq!(Value::Text("a,\"b\"".into()).csv(false), "\"a,\"\"b\"\"\"");
        assert_eq!(Value::Text("a\nb".into()).csv(false), "\"a\nb\"");
        assert_eq!(Value::Level(-5).csv(false), "-5");
        assert_eq!(Value::None.csv(false), "");
    }

    #[test]
    fn text_is_escaped_for_people_alone() {
        let name = Value::Text("\x1b[2J\u{202e}".into());
        assert_eq!(name.csv(true), "\\u{1b}[2J\\u{202e}");
        assert_eq!(name.csv(false), "\"\x1b[2J\u{202e}\"");
        assert_eq!(name.human(), "\\u{1b}[2J\\u{202e}");
        assert_eq!(name.json(), json!("\x1b[2J\u{202e}"));
    }

    #[test]
    fn what_is_not_known_comes_before_everything_known() {
        assert_eq!(Value::None.order(&Value::Count(0)), Ordering::Less);
        assert_eq!(Value::Level(-1).order(&Value::Level(1)), Ordering::Less);
        assert_eq!(Value::Text("b".into()).order(&Value::Text("a".into())), Ordering::Greater);
    }
}
