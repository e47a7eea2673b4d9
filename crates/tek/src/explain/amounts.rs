// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts and times as words of a sentence.
use crate::units;

/// `never`, `once`, `3 times`.
pub fn times(count: u64) -> String {
    match count {
        0 => "never".into(),
        1 => "once".into(),
        2 => "twice".into(),
        count => format!("{count} times"),
    }
}

/// As in a table, but with a space: `2.31 s`.
pub fn time(ns: u64) -> String {
    let text = units::time(ns);
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).map(|at| text.split_at(at));
    match unit {
        Some((number, unit @ ("us" | "ms" | "s"))) => format!("{number} {unit}"),
        _ => text,
    }
}
