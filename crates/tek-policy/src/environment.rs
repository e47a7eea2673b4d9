// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variable TEK_RULES, by which libtek.so receives the rules (libtek(7)).
use crate::glob::{Glob, Subject};
use crate::rule::{Match, Rule, Set, MOST_RULES};
use percent_encoding::{percent_decode_str, utf8_percent_encode, AsciiSet, CONTROLS};
use std::fmt::Display;

/// The characters that separate rules and fields, and that escape them.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%').add(b',').add(b';');

/// The environment of a program has room for other things too; one variable may have 128 KiB.
const MOST_BYTES: usize = 100 * 1024;

/// Why rules cannot be written into, or read from, the environment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// More rules than libtek.so takes.
    #[error(
        "there are {0} rules, at most {MOST_RULES} can be used: let a pattern stand for several \
         names, as in ui*"
    )]
    TooMany(usize),
    /// They would fill the environment.
    #[error("the rules take {0} bytes, at most {MOST_BYTES} can be used: shorten patterns with *")]
    TooLong(usize),
    /// Not in the form of libtek(7).
    #[error("rule {rule} of TEK_RULES: {reason}")]
    Rule {
        /// Its number, from 1.
        rule: usize,
        /// The mistake.
        reason: String,
    },
}

/// Rules as libtek.so reads them.
pub fn to_environment(rules: &[Rule]) -> Result<String, EnvironmentError> {
    if rules.len() > MOST_RULES {
        return Err(EnvironmentError::TooMany(rules.len()));
    }
    let text = rules.iter().map(write_rule).collect::<Vec<_>>().join(";");
    if text.len() > MOST_BYTES {
        return Err(EnvironmentError::TooLong(text.len()));
    }
    Ok(text)
}

fn write_rule(rule: &Rule) -> String {
    fn field(name: &str, value: Option<impl Display>) -> Option<String> {
        let value = value?.to_string();
        Some(format!("{name}={}", utf8_percent_encode(&value, ESCAPED)))
    }
    let Rule { matches, set, source } = rule;
    let source = (!source.is_empty()).then_some(source);
    let fields = [
        field("program", matches.program.as_ref()),
        field("thread", matches.thread.as_ref()),
        field("role-is", matches.role.as_ref()),
        field("function", matches.function.as_ref()),
        field("role", set.role.as_ref()),
        field("group", set.group),
        field("critical", set.critical.map(u8::from)),
        field("mark", set.mark.map(u8::from)),
        field("priority", set.priority),
        field("budget", set.budget),
        field("source", source),
    ];
    fields.into_iter().flatten().collect::<Vec<_>>().join(",")
}

/// Reads rules as libtek.so does, but for patterns that no name can fit (`[a`, one that is too
/// long): libtek.so takes them, and they match nothing there; here they are refused. `tek run`
/// never writes one.
pub fn from_environment(text: &str) -> Result<Vec<Rule>, EnvironmentError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let rules: Vec<&str> = text.split(';').collect();
    if rules.len() > MOST_RULES {
        return Err(EnvironmentError::TooMany(rules.len()));
    }
    let numbered = rules.into_iter().zip(1..);
    numbered
        .map(|(text, rule)| {
            read_rule(text).map_err(|reason| EnvironmentError::Rule { rule, reason })
        })
        .collect()
}

fn read_rule(text: &str) -> Result<Rule, String> {
    let mut rule = Rule { matches: Match::default(), set: Set::default(), source: String::new() };
    let mut seen = Vec::new();
    for field in text.split(',') {
        let (name, value) =
            field.split_once('=').ok_or_else(|| format!("`{field}` is no FIELD=VALUE"))?;
        if seen.contains(&name) {
            return Err(format!("`{name}` is given twice"));
        }
        seen.push(name);
        if name == "source" {
            // It decides nothing, so the library does not read it.
            rule.source = unescape(value).unwrap_or_else(|_| value.to_owned());
            continue;
        }
        read_field(&mut rule, name, &unescape(value)?)
            .map_err(|reason| format!("{name}: {reason}"))?;
    }
    if rule.matches == Match::default() || rule.set == Set::default() {
        return Err("it needs something to match and something to set".to_owned());
    }
    Ok(rule)
}

fn read_field(rule: &mut Rule, name: &str, value: &str) -> Result<(), String> {
    fn parsed<T: std::str::FromStr<Err: Display>>(value: &str) -> Result<Option<T>, String> {
        value.parse().map(Some).map_err(|error: T::Err| error.to_string())
    }
    let glob = |subject| Glob::new(value, subject).map(Some).map_err(|error| error.to_string());
    let Rule { matches, set, .. } = rule;
    match name {
        "program" => matches.program = glob(Subject::Program)?,
        "thread" => matches.thread = glob(Subject::Thread)?,
        "role-is" => matches.role = glob(Subject::Role)?,
        "function" => matches.function = glob(Subject::Function)?,
        "role" => set.role = parsed(value)?,
        "group" => set.group = parsed(value)?,
        "critical" => set.critical = Some(switch(value)?),
        "mark" => set.mark = Some(switch(value)?),
        "priority" => set.priority = parsed(value)?,
        "budget" => set.budget = parsed(value)?,
        _ => return Err("there is no such field".to_owned()),
    }
    Ok(())
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("write 0 or 1".to_owned()),
    }
}

/// `%XX` back into bytes.
fn unescape(value: &str) -> Result<String, String> {
    let two_digits = |after: &str| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !value.split('%').skip(1).all(two_digits) {
        return Err(format!("`{value}` has a % without two hexadecimal digits"));
    }
    match percent_decode_str(value).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(format!("`{value}` is not UTF-8")),
    }
}
